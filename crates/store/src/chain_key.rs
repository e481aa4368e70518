//! The key of a data directory, which signs for the records in it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use tidings_wire::hex;

use crate::hex_digits::unhex;

/// The file of the key in the data directory.
pub(crate) const FILE: &str = "chain.key";
/// What it is called until the seals that it signed are on disk. Whoever finds it goes on from there.
const FRESH: &str = "chain.key.new";

/// The key that signs what is recorded in a data directory.
#[derive(Debug)]
pub struct ChainKey(Ed25519KeyPair);

impl ChainKey {
    /// The key of a data directory, if it has one.
    pub(crate) fn of(directory: &Path) -> io::Result<Option<Self>> {
        Self::read(&directory.join(FILE))
    }

    /// A new key. It gets its name after `seal` has written what exists for as long as the key does. Only whoever has the store of the
    /// directory open may call this.
    pub(crate) fn make(directory: &Path, seal: impl FnOnce(&Self) -> Result<(), redb::Error>) -> io::Result<Self> {
        let fresh = directory.join(FRESH);
        // One that is there was left by a process that ended before it was kept; it may have sealed already.
        let key = match Self::read(&fresh)? {
            Some(key) => key,
            None => {
                let mut seed = [0; 32];
                SystemRandom::new().fill(&mut seed).map_err(|_| io::Error::other("no random numbers"))?;
                write_whole(directory, &fresh, hex(&seed).as_bytes())?;
                // Read back from the file: what signs has to be what the next process will find.
                Self::read(&fresh)?.ok_or_else(|| io::Error::other("the key that was written is not there"))?
            }
        };
        seal(&key).map_err(io::Error::other)?;
        std::fs::rename(&fresh, directory.join(FILE))?;
        // A rename is on disk only with its folder; a key that is lost after it has signed would make the logs look forged.
        File::open(directory)?.sync_all()?;
        Ok(key)
    }

    fn read(path: &Path) -> io::Result<Option<Self>> {
        let mut text = String::new();
        let opened = OpenOptions::new().read(true).open(path);
        let naming = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        // A key has 64 digits. Whatever else the file may be, it is not read as a whole.
        match opened.and_then(|file| file.take(1 << 10).read_to_string(&mut text)) {
            // An empty file was left by a disk that was full, and has signed nothing.
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(naming(error)),
        }
        let broken = || io::Error::new(io::ErrorKind::InvalidData, format!("{} is not a key", path.display()));
        let seed: [u8; 32] = unhex(text.trim()).ok_or_else(broken)?;
        // Unchecked: only the seed is kept, so there is no public key to compare it with.
        Ed25519KeyPair::from_seed_unchecked(&seed).map(|pair| Some(Self(pair))).map_err(|_| broken())
    }

    /// The public key, as hexadecimal digits.
    pub(crate) fn public(&self) -> String {
        hex(self.0.public_key().as_ref())
    }

    pub(crate) fn sign(&self, text: &str) -> String {
        hex(self.0.sign(text.as_bytes()).as_ref())
    }
}

/// Writes a file that only its owner may read. After a crash all of it is there or none.
fn write_whole(directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&partial, path))
        .and_then(|()| File::open(directory)?.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written
}
