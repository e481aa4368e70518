//! Reading and replacing files whole. A link stays a link, the mode stays, and nobody ever reads half of a file.

use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// Only its owner may read what was made here: clients' files hold keys.
const PRIVATE: u32 = 0o600;

/// What stands in a file; `None` when there is none.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file that a path leads to, also through a link to a file that is not there yet.
pub(crate) fn destination(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match std::fs::read_link(path) {
        Ok(target) if target.is_absolute() => target,
        Ok(target) => path.parent().unwrap_or(Path::new("")).join(target),
        Err(_) => path.to_owned(),
    }
}

/// The folders above `path` that are not there, the outermost first.
pub(crate) fn missing_folders(path: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> =
        path.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
    missing.retain(|folder| !folder.as_os_str().is_empty());
    missing.reverse();
    missing
}

/// Puts `bytes` into the place of what `path` leads to.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let real = destination(path);
    if let Some(folder) = real.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // A file that is replaced keeps the rights it had.
    let mode = std::fs::metadata(&real).map_or(PRIVATE, |known| known.permissions().mode() & 0o7777);
    let mut partial = real.clone().into_os_string();
    partial.push(format!(".tidings-{}", std::process::id()));
    let partial = PathBuf::from(partial);
    let written = write_private(&partial, bytes)
        // Set before the rename, so that nobody can read the new file with other rights.
        .and_then(|()| std::fs::set_permissions(&partial, std::fs::Permissions::from_mode(mode)))
        .and_then(|()| std::fs::rename(&partial, &real));
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written?;
    // The name is on the disk only when its folder is.
    match real.parent().map(std::fs::File::open) {
        Some(Ok(folder)) => folder.sync_all(),
        _ => Ok(()),
    }
}

/// A new file that only its owner may read, on the disk when this returns.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(PRIVATE).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
