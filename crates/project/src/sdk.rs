//! What scripts find at `MCP_SDK`: shell helpers, and a `jq` for machines that have none.
//!
//! The files are part of the program. They are unpacked into the data directory, read-only, into a folder named after
//! their content: a newer Tidings beside a running one does not change what that one's scripts source.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::settings::Environment;

/// The helpers, by their path inside the folder.
const FILES: &[(&str, &str)] = &[
    ("tool-sdk.sh", include_str!("../sdk/tool-sdk.sh")),
    ("parts/ask.sh", include_str!("../sdk/parts/ask.sh")),
    ("parts/commands.sh", include_str!("../sdk/parts/commands.sh")),
    ("parts/config.sh", include_str!("../sdk/parts/config.sh")),
    ("parts/download.sh", include_str!("../sdk/parts/download.sh")),
    ("parts/paths.sh", include_str!("../sdk/parts/paths.sh")),
    ("parts/results.sh", include_str!("../sdk/parts/results.sh")),
];

/// The unpacked helpers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sdk {
    folder: PathBuf,
}

/// The program that scripts use to read and make JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonTool {
    /// `MCPBASH_JSON_TOOL`: whose options and language it understands, `jq` or `gojq`.
    pub name: String,
    /// `MCPBASH_JSON_TOOL_BIN`: where it is.
    pub path: PathBuf,
}

/// Unpacks the helpers below `data` and returns the folder for `MCP_SDK`.
pub fn unpack(data: &Path, program: &Path) -> io::Result<PathBuf> {
    Sdk::unpack(data, program).map(|sdk| sdk.folder)
}

impl Sdk {
    /// Unpacks the helpers below `data`, unless they are there. `program` is the Tidings that answers as `jq`.
    pub fn unpack(data: &Path, program: &Path) -> io::Result<Self> {
        let wrapper = wrapper(program)?;
        let mut hasher = blake3::Hasher::new();
        for (path, text) in FILES.iter().copied().chain([("bin/jq", &*wrapper)]) {
            hasher.update(&(path.len() as u64).to_le_bytes()).update(path.as_bytes());
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        let folder = data.join("sdk").join(&hasher.finalize().to_hex()[..16]);
        for part in ["parts", "bin"] {
            std::fs::create_dir_all(folder.join(part))?;
        }
        for (path, text) in FILES {
            place(&folder.join(path), text, 0o444)?;
        }
        place(&folder.join("bin/jq"), &wrapper, 0o555)?;
        Ok(Self { folder })
    }

    /// For `MCP_SDK`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A folder with a `jq` in it. At the end of a script's `PATH` it helps those who call `jq` by name, and gives way
    /// to one that is installed.
    pub fn commands(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// The JSON tool: what the environment names, else an installed `jq` or `gojq`, else ours.
    pub fn json_tool(&self, environment: &Environment) -> JsonTool {
        let ours = || JsonTool { name: "jq".into(), path: self.commands().join("jq") };
        let named = environment.get("MCPBASH_JSON_TOOL").unwrap_or_default();
        if let Some(path) = environment.get("MCPBASH_JSON_TOOL_BIN").map(Path::new).filter(|path| is_program(path)) {
            let base = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let name = if named == "gojq" || base == "gojq" { "gojq" } else { "jq" };
            return JsonTool { name: name.into(), path: path.into() };
        }
        let wanted: &[&str] = match named {
            "jq" => &["jq"],
            "gojq" => &["gojq"],
            "none" => &[],
            _ => &["jq", "gojq"],
        };
        let folders = environment.raw("PATH").unwrap_or_default();
        let installed = wanted.iter().find_map(|name| {
            let path = std::env::split_paths(folders).map(|folder| folder.join(name)).find(|path| is_program(path))?;
            Some(JsonTool { name: (*name).into(), path })
        });
        installed.unwrap_or_else(ours)
    }
}

fn is_program(path: &Path) -> bool {
    path.is_absolute() && path.metadata().is_ok_and(|is| is.is_file() && is.permissions().mode() & 0o111 != 0)
}

/// `MCPBASH_JSON_TOOL_BIN` is one word, so `tidings json` needs a file of its own.
fn wrapper(program: &Path) -> io::Result<String> {
    let program = std::path::absolute(program)?;
    let program = program.to_str().ok_or_else(|| io::Error::other("the path of this program is not UTF-8"))?;
    Ok(format!("#!/bin/sh\nexec '{}' json \"$@\"\n", program.replace('\'', "'\\''")))
}

/// Puts a file in its place at once, if it is not there with this content.
fn place(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    // Several processes may unpack at the same time; each has its own file to rename.
    let part = path.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&part, text)?;
    std::fs::set_permissions(&part, std::fs::Permissions::from_mode(mode))?;
    std::fs::rename(&part, path)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use tidings_testkit::TempDir;

    use super::*;

    fn sdk(data: &TempDir) -> Sdk {
        Sdk::unpack(data.path(), Path::new("/opt/it's here/tidings")).unwrap()
    }

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::new(variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))))
    }

    #[test]
    fn helpers_are_unpacked_once_and_healed() {
        // S0.9
        let data = TempDir::new();
        let first = sdk(&data);
        let script = first.folder().join("tool-sdk.sh");
        let before = std::fs::metadata(&script).unwrap();
        assert_eq!(before.permissions().mode() & 0o777, 0o444);
        assert_eq!(sdk(&data), first);
        assert_eq!(std::fs::metadata(&script).unwrap().modified().unwrap(), before.modified().unwrap());
        std::fs::remove_file(&script).unwrap();
        std::fs::write(&script, "half").unwrap();
        assert_eq!(sdk(&data), first);
        assert!(std::fs::read_to_string(&script).unwrap().contains("mcp_args_get"));
    }

    #[test]
    fn the_jq_of_last_resort_runs_this_program() {
        let data = TempDir::new();
        let text = std::fs::read_to_string(sdk(&data).commands().join("jq")).unwrap();
        assert_eq!(text, "#!/bin/sh\nexec '/opt/it'\\''s here/tidings' json \"$@\"\n");
    }

    #[test]
    fn an_installed_json_tool_is_preferred() {
        let data = TempDir::new();
        let sdk = sdk(&data);
        let folder = data.path().join("programs");
        std::fs::create_dir(&folder).unwrap();
        let path = folder.to_str().unwrap();
        assert_eq!(sdk.json_tool(&environment(&[("PATH", path)])).path, sdk.commands().join("jq"));
        for name in ["gojq", "jq"] {
            std::fs::write(folder.join(name), "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
            let found = sdk.json_tool(&environment(&[("PATH", path)]));
            assert_eq!((&*found.name, found.path), (name, folder.join(name)));
        }
        let gojq = sdk.json_tool(&environment(&[("PATH", path), ("MCPBASH_JSON_TOOL", "gojq")]));
        assert_eq!(gojq.path, folder.join("gojq"));
        let none = sdk.json_tool(&environment(&[("PATH", path), ("MCPBASH_JSON_TOOL", "none")]));
        assert_eq!(none.path, sdk.commands().join("jq"));
        let named = format!("{path}/gojq");
        let named = sdk.json_tool(&environment(&[("MCPBASH_JSON_TOOL_BIN", &named)]));
        assert_eq!((&*named.name, named.path), ("gojq", folder.join("gojq")));
    }
}
