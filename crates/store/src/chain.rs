//! The chain over the records of a log, and who signs for it.
//!
//! Every record carries, as its member `prev`, the hash of the record before it, as text of 64 hexadecimal digits; the hash of a
//! record is BLAKE3 of its line. A *seal* says where the kept part of a log begins and ends. It is signed with the key of the data
//! directory and written in the same transaction as the records, so that a process that is killed leaves both or neither: a tail
//! that is missing, or a beginning that nobody compacted, is told from that.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use redb::{TableDefinition, TableError, WriteTransaction};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use tidings_wire::hex;

/// The file of the key in the data directory.
const FILE: &str = "chain.key";
/// By the name of the log: its seal, as JSON.
const SEALS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("seals");

/// The hash of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHash(pub(crate) [u8; 32]);

impl RecordHash {
    /// Before the first record of all.
    pub(crate) const NONE: Self = Self([0; 32]);

    pub(crate) fn of(line: &[u8]) -> Self {
        Self(*blake3::hash(line).as_bytes())
    }

    pub(crate) fn to_text(self) -> String {
        hex(&self.0)
    }

    /// Appends the text.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(blake3::Hash::from_bytes(self.0).to_hex().as_bytes());
    }
}

/// A record of a log: its number and its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainPlace {
    /// Its number.
    pub seq: u64,
    /// Its hash, as hexadecimal digits.
    pub hash: String,
}

impl ChainPlace {
    pub(crate) fn new(seq: u64, hash: RecordHash) -> Self {
        Self { seq, hash: hash.to_text() }
    }

    /// Before the first record of all.
    pub(crate) fn start() -> Self {
        Self::new(0, RecordHash::NONE)
    }

    pub(crate) fn hash(&self) -> RecordHash {
        RecordHash(unhex(&self.hash).unwrap_or_default())
    }
}

/// Where the kept part of a log begins and ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seal {
    /// Records up to this number were written before there was a chain, and carry no hash.
    pub(crate) began: u64,
    /// The record before the first that is kept: what a compacted range leaves.
    pub(crate) from: ChainPlace,
    /// The last record.
    pub(crate) to: ChainPlace,
    /// The public key, and the signature of all of this by it. Empty where there is no key.
    pub(crate) key: String,
    pub(crate) signature: String,
}

impl Seal {
    /// The seal to write on with. `last` is the last record that is there.
    pub(crate) fn go_on(
        write: &WriteTransaction,
        log: &str,
        key: Option<&ChainKey>,
        last: Option<(u64, &[u8])>,
    ) -> Result<Self, redb::Error> {
        let at = |place: ChainPlace| Self {
            began: place.seq,
            from: place.clone(),
            to: place,
            key: String::new(),
            signature: String::new(),
        };
        // The next record carries a hash that no record has, so that what happened can be seen for as long as it is kept.
        let broken = |mut seal: Self| {
            tracing::error!(log, "the seal of this log is not the one that was written; `tidings verify` says more");
            seal.to.hash = RecordHash::of(b"broken seal").to_text();
            seal
        };
        Ok(match (Self::read_for_write(write, log)?, last) {
            (Some(seal), _) if seal.is_of(log, key) => seal,
            (Some(seal), _) => broken(seal),
            (None, None) => at(ChainPlace::start()),
            (None, Some((seq, line))) => match RecordHead::read(line) {
                // Records of a chain have a seal.
                Some(RecordHead { prev: Some(_), .. }) => {
                    broken(Self { to: ChainPlace { seq, hash: String::new() }, ..at(ChainPlace::start()) })
                }
                // The chain begins after what an earlier version wrote, whose last record it goes on from.
                _ => at(ChainPlace::new(seq, RecordHash::of(line))),
            },
        })
    }

    /// Whether this is what the holder of the key wrote.
    fn is_of(&self, log: &str, key: Option<&ChainKey>) -> bool {
        match key {
            Some(key) => self.key == key.public() && self.holds(log),
            None => self.signature.is_empty() || self.holds(log),
        }
    }

    fn text(&self, log: &str) -> String {
        let Self { began, from, to, .. } = self;
        format!("tidings seal 1\n{log}\n{began}\n{} {}\n{} {}\n", from.seq, from.hash, to.seq, to.hash)
    }

    pub(crate) fn sign(&mut self, log: &str, key: Option<&ChainKey>) {
        self.key = key.map(ChainKey::public).unwrap_or_default();
        self.signature = key.map(|key| key.sign(&self.text(log))).unwrap_or_default();
    }

    /// Whether it is as it was signed, by its own key.
    pub(crate) fn holds(&self, log: &str) -> bool {
        is_signed(&self.text(log), &self.key, &self.signature)
    }

    pub(crate) fn keep(&self, write: &WriteTransaction, log: &str) -> Result<(), redb::Error> {
        let json = serde_json::to_vec(self).map_err(io::Error::from)?;
        write.open_table(SEALS)?.insert(log, &json[..])?;
        Ok(())
    }

    pub(crate) fn read_for_write(write: &WriteTransaction, log: &str) -> Result<Option<Self>, redb::Error> {
        use redb::ReadableTable as _;
        let table = write.open_table(SEALS)?;
        let json = table.get(log)?.map(|json| json.value().to_vec());
        Ok(json.and_then(|json| serde_json::from_slice(&json).ok()))
    }

    /// `Ok(None)` where there is none; a seal that can not be read counts as none.
    pub(crate) fn read(read: &redb::ReadTransaction, log: &str) -> Result<Option<Self>, redb::Error> {
        match read.open_table(SEALS) {
            Ok(table) => Ok(table.get(log)?.and_then(|json| serde_json::from_slice(json.value()).ok())),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The key that signs what is recorded in a data directory.
#[derive(Debug)]
pub struct ChainKey(Ed25519KeyPair);

impl ChainKey {
    /// The key of a data directory; made if there is none and `create` says so.
    pub(crate) fn of(directory: &Path, create: bool) -> io::Result<Option<Self>> {
        let path = directory.join(FILE);
        if create {
            let mut seed = [0; 32];
            SystemRandom::new().fill(&mut seed).map_err(|_| io::Error::other("no random numbers"))?;
            // Never over one that is there, however broken: everything that it signed would be lost with it.
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => file.write_all(hex(&seed).as_bytes()).and_then(|()| file.sync_all())?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        let mut text = String::new();
        match OpenOptions::new().read(true).open(&path) {
            Ok(file) => file.take(1 << 10).read_to_string(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let broken = || io::Error::new(io::ErrorKind::InvalidData, format!("{} is not a key", path.display()));
        let seed: [u8; 32] = unhex(text.trim()).ok_or_else(broken)?;
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

/// Whether a text was signed by a key.
pub(crate) fn is_signed(text: &str, key: &str, signature: &str) -> bool {
    let (Some(key), Some(signature)) = (unhex::<32>(key), unhex::<64>(signature)) else { return false };
    UnparsedPublicKey::new(&ED25519, key).verify(text.as_bytes(), &signature).is_ok()
}

/// Bytes from hexadecimal digits, if there are as many as there should be.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let mut out = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (at, pair) in digits.chunks_exact(2).enumerate() {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        out[at] = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(out)
}

/// Where a record says its number and the hash before it: both stand at its beginning.
pub(crate) struct RecordHead {
    pub(crate) seq: u64,
    /// `None` for a record from before there was a chain.
    pub(crate) prev: Option<RecordHash>,
}

impl RecordHead {
    /// What a record begins with.
    pub(crate) fn write(out: &mut Vec<u8>, seq: u64, prev: RecordHash) {
        out.extend_from_slice(b"{\"seq\":");
        out.extend_from_slice(seq.to_string().as_bytes());
        out.extend_from_slice(b",\"prev\":\"");
        prev.write(out);
        out.push(b'"');
    }

    pub(crate) fn read(line: &[u8]) -> Option<Self> {
        let rest = line.strip_prefix(b"{\"seq\":")?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let seq = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        let prev = rest[digits..].strip_prefix(b",\"prev\":\"").and_then(|rest| {
            let text = std::str::from_utf8(rest.get(..64)?).ok()?;
            Some(RecordHash(unhex(text)?))
        });
        Some(Self { seq, prev })
    }
}
