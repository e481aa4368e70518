//! What scripts find at `MCP_SDK`: shell helpers, and a `jq` for machines that have none.
//!
//! The files are part of the program. They are unpacked into the data directory, read-only, into a folder named after
//! their content: a newer Tidings beside a running one does not change what that one's scripts source.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::run::ScriptKit;

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

/// Our `jq`, likewise.
const JQ: &str = "bin/jq";

/// The helpers that scripts source, unpacked below the data directory under the hash of their text: an update makes a new folder, and
/// scripts that run keep the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptSdk {
    folder: PathBuf,
}

impl ScriptSdk {
    /// Unpacks the helpers below `data`, unless they are there. `program` is the Tidings that answers as `jq`.
    pub fn unpack(data: &Path, program: &Path) -> io::Result<Self> {
        let wrapper = wrapper(program)?;
        let mut hasher = blake3::Hasher::new();
        for (path, text) in FILES.iter().copied().chain([(JQ, &*wrapper)]) {
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
        place(&folder.join(JQ), &wrapper, 0o555)?;
        Ok(Self { folder })
    }

    /// What a runner gives to scripts.
    pub fn kit(&self) -> ScriptKit {
        ScriptKit { sdk: Some(self.folder.clone()), json: Some(self.jq()) }
    }

    /// For `MCP_SDK`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Our `jq`. Its folder at the end of a script's `PATH` helps those who call `jq` by name, and gives way to one that
    /// is installed.
    pub fn jq(&self) -> PathBuf {
        self.folder.join(JQ)
    }
}

/// `MCPBASH_JSON_TOOL_BIN` is one word, so `tidings json` needs a file of its own.
fn wrapper(program: &Path) -> io::Result<String> {
    let program = std::path::absolute(program)?;
    let program = program.to_str().ok_or_else(|| io::Error::other("the path of this program is not UTF-8"))?;
    Ok(format!("#!/bin/sh\nexec '{}' json \"$@\"\n", program.replace('\'', "'\\''")))
}

/// Puts a file in its place at once, if it is not there with this content.
fn place(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    // Another process may have unpacked the same files; replacing them under a running script is not needed.
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
    use tidings_testkit::TempDir;

    use super::*;

    fn sdk(data: &TempDir) -> ScriptSdk {
        ScriptSdk::unpack(data.path(), Path::new("/opt/it's here/tidings")).unwrap()
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
        let text = std::fs::read_to_string(sdk(&data).jq()).unwrap();
        assert_eq!(text, "#!/bin/sh\nexec '/opt/it'\\''s here/tidings' json \"$@\"\n");
    }
}
