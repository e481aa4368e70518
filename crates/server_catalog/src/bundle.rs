//! MCP bundles (`.mcpb`): a zip file with a manifest that says how the server in it is run.
//!
//! The file is unpacked only when it has the hash that its publisher gave, and nothing in it may lie anywhere but in its folder.

mod manifest;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Cursor, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};
use zip::ZipArchive;
use zip::result::ZipError;

pub(crate) use manifest::{BundleManifest, manifest_keys};

/// How long a bundle may be.
pub(crate) const BUNDLE_BYTES: usize = 256 << 20;
/// How much it may become when it is unpacked.
const UNPACKED_BYTES: u64 = 1 << 30;
/// How many files it may hold.
const FILES: usize = 50_000;
/// How long its manifest may be.
const MANIFEST_BYTES: u64 = 1 << 20;

/// Tells places apart where something is being unpacked.
static NEXT_PLACE: AtomicU64 = AtomicU64::new(0);

/// Why a bundle is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BundleFault {
    /// It is another file than the one that was published.
    #[error("its SHA-256 is {found}, and the registry says {expected}: it is not the file that was published")]
    OtherFile {
        /// The hash of what was fetched.
        found: String,
        /// The hash that the registry has.
        expected: String,
    },
    /// A name in it leads out of its folder, or to a link.
    #[error("it holds {name:?}, which {why}; nothing of it was used")]
    BadEntry {
        /// The name in the archive.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// More than a bundle can be.
    #[error("it holds more than {FILES} files or {UNPACKED_BYTES} bytes")]
    TooLarge,
    /// It is no zip file.
    #[error("it is no zip file: {0}")]
    NoArchive(String),
    /// Its manifest can not be used.
    #[error("its manifest.json can not be used: {0}")]
    Manifest(String),
    /// It can not be written here.
    #[error("it can not be unpacked: {0}")]
    NotWritten(String),
}

impl From<io::Error> for BundleFault {
    fn from(error: io::Error) -> Self {
        Self::NotWritten(error.to_string())
    }
}

impl From<ZipError> for BundleFault {
    fn from(error: ZipError) -> Self {
        Self::NoArchive(error.to_string())
    }
}

/// The folder of a bundle with this hash, below `bundles`.
pub(crate) fn folder_of(bundles: &Path, sha256: &str) -> PathBuf {
    bundles.join(sha256.to_ascii_lowercase())
}

/// Checks a file and unpacks it into the folder of its hash. Blocks.
pub(crate) fn unpack(bytes: &[u8], sha256: &str, bundles: &Path) -> Result<PathBuf, BundleFault> {
    let found: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = sha256.to_ascii_lowercase();
    if found != expected {
        return Err(BundleFault::OtherFile { found, expected });
    }
    let folder = folder_of(bundles, sha256);
    // Whole, because only a rename makes it; the hash was checked by whoever unpacked it.
    if folder.is_dir() {
        return Ok(folder);
    }
    private_folder(bundles)?;
    // Several may unpack the same at once, each in a place of its own.
    let turn = NEXT_PLACE.fetch_add(1, Ordering::Relaxed);
    let partial = bundles.join(format!(".{expected}.{}.{turn}", std::process::id()));
    // Left behind by a process that was killed.
    let _ = fs::remove_dir_all(&partial);
    private_folder(&partial)?;
    let done = extract(bytes, &partial).and_then(|()| {
        // Renamed when it is complete: a folder with the name of a hash is always whole.
        match fs::rename(&partial, &folder) {
            Ok(()) => Ok(()),
            // Somebody else was faster, with the same content.
            Err(_) if folder.is_dir() => Ok(()),
            Err(error) => Err(error.into()),
        }
    });
    // After the rename there is none; after a failure nothing of it may stay.
    let _ = fs::remove_dir_all(&partial);
    done.map(|()| folder)
}

fn extract(bytes: &[u8], folder: &Path) -> Result<(), BundleFault> {
    let mut archive = ZipArchive::new(Cursor::new(bytes))?;
    if archive.len() > FILES {
        return Err(BundleFault::TooLarge);
    }
    let (mut room, mut names) = (UNPACKED_BYTES, BTreeSet::new());
    for index in 0..archive.len() {
        let mut file = archive.by_index(index)?;
        let name = file.name()?.into_owned();
        let path = safe_path(&name, file.unix_mode())?;
        if !names.insert(path.clone()) {
            return Err(BundleFault::BadEntry { name, why: "is there twice" });
        }
        let target = folder.join(&path);
        if file.is_dir() {
            private_folder(&target)?;
            continue;
        }
        if let Some(parent) = target.parent() {
            private_folder(parent)?;
        }
        let is_program = file.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
        let mut out = new_file(&target, is_program)?;
        // Counted while it is written: the size that the archive names is its maker's word.
        // One byte more than there is room for, so that the subtraction below notices.
        let written = io::copy(&mut file.by_ref().take(room + 1), &mut out).map_err(ZipError::from)?;
        room = room.checked_sub(written).ok_or(BundleFault::TooLarge)?;
    }
    Ok(())
}

/// Where an entry lies in the folder; fails if that is outside, or if it is no file and no folder.
fn safe_path(name: &str, mode: Option<u32>) -> Result<PathBuf, BundleFault> {
    let bad = |why| BundleFault::BadEntry { name: name.to_owned(), why };
    let kind = mode.unwrap_or_default() & 0o170_000;
    // A link to elsewhere would let a later entry be written through it.
    if kind == 0o120_000 {
        return Err(bad("is a symbolic link"));
    }
    if !matches!(kind, 0 | 0o040_000 | 0o100_000) {
        return Err(bad("is neither a file nor a folder"));
    }
    // A backslash or a colon parts paths on Windows.
    if name.contains(['\\', '\0', ':']) {
        return Err(bad("has a character that paths must not have"));
    }
    let path = Path::new(name);
    if path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(bad("leads out of the folder"));
    }
    Ok(path.components().filter(|part| matches!(part, Component::Normal(_))).collect())
}

/// A folder for the user of the gateway only.
fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn new_file(path: &Path, is_program: bool) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    // `create_new`: on a disk that does not tell cases apart, two names of the archive may be one file.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if is_program { 0o700 } else { 0o600 });
    #[cfg(not(unix))]
    let _ = is_program;
    options.open(path)
}

/// The manifest of an unpacked bundle. Blocks.
pub(crate) fn manifest(folder: &Path) -> Result<BundleManifest, BundleFault> {
    let unusable = |error: &dyn std::fmt::Display| BundleFault::Manifest(error.to_string());
    let file = fs::File::open(folder.join("manifest.json")).map_err(|error| unusable(&error))?;
    let mut text = String::new();
    file.take(MANIFEST_BYTES).read_to_string(&mut text).map_err(|error| unusable(&error))?;
    serde_json::from_str(&text).map_err(|error| unusable(&error))
}

#[cfg(test)]
mod tests;
