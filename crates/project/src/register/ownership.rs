//! Whether a file can be trusted with being run by itself.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::problem::ProjectFault;

/// Only we may change it, its folder and the project.
pub(crate) fn check(file: &Path, root: &Path) -> Result<(), ProjectFault> {
    let folder = file.parent().unwrap_or(root);
    // Whoever may write to a folder can replace what lies in it.
    for path in [file, folder, root] {
        let fault = |reason| ProjectFault::Unsafe { path: path.display().to_string(), reason };
        let about = std::fs::symlink_metadata(path).map_err(|error| ProjectFault::Unreadable(error.to_string()))?;
        if about.is_symlink() {
            return Err(fault("is a symbolic link"));
        }
        if about.permissions().mode() & 0o022 != 0 {
            return Err(fault("can be written by others"));
        }
        if about.uid() != rustix::process::geteuid().as_raw() {
            return Err(fault("belongs to somebody else"));
        }
    }
    Ok(())
}
