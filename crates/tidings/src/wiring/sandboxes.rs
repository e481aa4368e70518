//! From `sandbox` of a server to what its command may do.

use std::path::{Path, PathBuf};

use tidings_config::{SandboxLevel, ServerConfig};
use tidings_upstream::SandboxSpec;

/// The sandbox of a server, with a folder of its own in the data directory.
pub(super) fn of(server: &ServerConfig, data: &Path) -> Option<SandboxSpec> {
    let settings = &server.sandbox;
    let strict = match settings.level {
        SandboxLevel::Off => return None,
        SandboxLevel::Files => false,
        SandboxLevel::Strict => true,
    };
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute() && home.parent().is_some());
    Some(SandboxSpec {
        strict,
        folder: data.join("sandbox").join(folder_name(&server.name)),
        writable: settings.writable.clone(),
        readable: settings.readable.clone(),
        hidden: home.into_iter().chain([data.to_path_buf()]).collect(),
    })
}

/// A name that is one part of a path, and no other server's.
fn folder_name(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    let plain: String = name.chars().filter(|letter| is_plain(*letter)).collect();
    // A dot is in no plain name.
    format!("{plain}.{}", tidings_wire::hex(&tidings_identity::sha256(name)[..4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_part_of_a_path_and_no_other_servers() {
        assert_eq!(folder_name("notes-1"), "notes-1");
        let odd = ["..", "../x", "x/y", "a b", "a.b", ""].map(folder_name);
        for name in &odd {
            assert!(!name.contains(['/', ' ']) && name != ".." && name.len() > 8, "{name}");
        }
        assert_eq!(odd.iter().collect::<std::collections::BTreeSet<_>>().len(), odd.len());
    }
}
