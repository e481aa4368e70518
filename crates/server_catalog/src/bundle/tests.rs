use std::io::Write as _;

use serde_json::{Value, json};
use tidings_testkit::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::*;
use crate::published::InputSet;

/// A zip file with these entries: name, Unix mode, content.
fn archive(entries: &[(&str, u32, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, mode, content) in entries {
        let options =
            SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).unix_permissions(*mode);
        if mode & 0o170_000 == 0o120_000 {
            zip.add_symlink(*name, *content, SimpleFileOptions::default()).unwrap();
        } else {
            zip.start_file(*name, options).unwrap();
            zip.write_all(content.as_bytes()).unwrap();
        }
    }
    zip.finish().unwrap().into_inner()
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

// reach 5
#[test]
fn a_bundle_is_unpacked_when_it_is_the_one_that_was_published() {
    let folder = TempDir::new();
    let bytes =
        archive(&[("manifest.json", 0o644, "{}"), ("server/run", 0o755, "#!"), ("server/data.txt", 0o644, "x")]);
    let wrong = unpack(&bytes, &"0".repeat(64), folder.path()).unwrap_err();
    assert!(matches!(&wrong, BundleFault::OtherFile { found, .. } if *found == hash(&bytes)), "{wrong}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let to = unpack(&bytes, &hash(&bytes).to_uppercase(), folder.path()).unwrap();
    assert_eq!(fs::read_to_string(to.join("server/data.txt")).unwrap(), "x");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |name: &str| fs::metadata(to.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("server/run"), mode("server/data.txt"), mode("server")), (0o700, 0o600, 0o700));
    }
    // The second time it is there.
    assert_eq!(unpack(&bytes, &hash(&bytes), folder.path()).unwrap(), to);
}

// reach 5: a folder with the name of a hash is always whole
#[test]
fn those_who_unpack_the_same_bundle_at_once_all_find_the_whole_of_it() {
    let names: Vec<String> = (0..30).map(|number| format!("server/{number}.txt")).collect();
    let entries: Vec<(&str, u32, &str)> = names.iter().map(|name| (name.as_str(), 0o644, "x")).collect();
    let bytes = archive(&entries);
    for round in 0..5 {
        let folder = TempDir::new();
        let unpacked: Vec<_> = std::thread::scope(|scope| {
            let begun: Vec<_> = (0..4).map(|_| scope.spawn(|| unpack(&bytes, &hash(&bytes), folder.path()))).collect();
            begun.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for to in unpacked {
            let found = fs::read_dir(to.unwrap().join("server")).unwrap().count();
            assert_eq!(found, names.len(), "{round}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left of those that were not first");
    }
}

// reach 5
#[test]
fn nothing_of_a_bundle_may_lie_elsewhere() {
    let folder = TempDir::new();
    for (name, mode, content, why) in [
        ("../evil", 0o644, "x", "out of the folder"),
        ("a/../../evil", 0o644, "x", "out of the folder"),
        ("/etc/evil", 0o644, "x", "out of the folder"),
        ("a\\..\\evil", 0o644, "x", "character"),
        ("c:evil", 0o644, "x", "character"),
        ("link", 0o120_777, "/etc/passwd", "symbolic link"),
    ] {
        let bytes = archive(&[("manifest.json", 0o644, "{}"), (name, mode, content)]);
        let refused = unpack(&bytes, &hash(&bytes), folder.path()).unwrap_err().to_string();
        assert!(refused.contains(why), "{name}: {refused}");
    }
    let bytes = b"no zip file".as_slice();
    assert!(matches!(unpack(bytes, &hash(bytes), folder.path()), Err(BundleFault::NoArchive(_))));
    // Not even a part of one is left.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(!folder.path().parent().unwrap().join("evil").exists());
}

fn keys(manifest: Value, inputs: &[(&str, &str)]) -> Result<Value, String> {
    let manifest: BundleManifest = serde_json::from_value(manifest).map_err(|error| error.to_string())?;
    let given: Vec<(String, String)> = inputs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let inputs = InputSet::new("a/b", &given);
    let keys = manifest_keys(&manifest, Path::new("/bundles/x"), "a/b", &inputs).map_err(|error| error.to_string())?;
    inputs.complete().map_err(|error| error.to_string())?;
    Ok(keys.into())
}

// reach 5
#[test]
fn a_manifest_says_how_the_bundle_is_run() {
    let manifest = json!({
        "manifest_version": "0.3", "name": "b", "version": "1.0.0",
        "server": {"type": "node", "entry_point": "server/index.js", "mcp_config": {
            "command": "node", "args": ["${__dirname}/server/index.js", "${user_config.folders}", "--k=${user_config.level}", "${env:HOME}"],
            "env": {"KEY": "${user_config.key}", "ABSENT": "${user_config.absent}"},
        }},
        "user_config": {
            "folders": {"type": "directory", "multiple": true, "required": true, "description": "Which."},
            "level": {"type": "number", "default": 3},
            "key": {"type": "string", "sensitive": true, "required": true},
            "absent": {"type": "string"},
        },
    });
    let made = keys(manifest.clone(), &[("folders", "/a\n/b c"), ("key", "${env:KEY}")]).unwrap();
    let args = json!(["/bundles/x/server/index.js", "/a", "/b c", "--k=3", "$${env:HOME}"]);
    assert_eq!(made, json!({"command": "node", "args": args, "env": {"KEY": "${env:KEY}"}}));
    assert!(keys(manifest.clone(), &[]).unwrap_err().contains("folders (Which.) and key"));
    assert!(keys(manifest, &[("folders", "/a"), ("key", "plain")]).unwrap_err().contains("is a secret"));

    let of = |kind: &str| keys(json!({"server": {"type": kind, "entry_point": "server/run"}}), &[]);
    assert_eq!(of("binary").unwrap(), json!({"command": "/bundles/x/server/run"}));
    assert_eq!(of("python").unwrap()["command"], "python3");
    assert_eq!(of("uv").unwrap()["args"], json!(["run", "--directory", "/bundles/x", "/bundles/x/server/run"]));
    assert!(of("wasm").unwrap_err().contains("no kind of server"));
}

// reach 5
#[test]
fn what_a_manifest_says_never_refers_to_the_gateways_own_secrets() {
    let manifest = |arg: &str| {
        json!({
            "server": {"type": "node", "mcp_config": {"command": "node", "args": [arg]}},
            "user_config": {"empty": {"default": ""}, "braces": {"default": "{env:SECRET}"}},
        })
    };
    for arg in ["$${user_config.braces}", "$${user_config.empty}{env:SECRET}", "x${user_config.empty}${env:SECRET}"] {
        let made = keys(manifest(arg), &[]).unwrap();
        let made = made["args"][0].as_str().unwrap().trim_start_matches('x');
        assert_eq!(made, "$${env:SECRET}", "{arg}");
    }
    let lines = json!({
        "server": {"type": "binary", "mcp_config": {"command": "${user_config.lines}"}},
        "user_config": {"lines": {"default": "$\n{env:SECRET}"}},
    });
    assert_eq!(keys(lines, &[]).unwrap()["command"], "$${env:SECRET}");
}
