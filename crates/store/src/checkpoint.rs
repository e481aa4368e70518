//! Checkpoints: how far both logs had come at a moment, signed. A copy that is kept elsewhere proves later that nothing before it was
//! changed since, even to somebody who does not trust the machine.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::chain::{ChainPlace, is_signed};
use crate::chain_key::ChainKey;

/// What is signed at a moment. It is a record of the audit log itself, so it can not be taken out unseen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// When it was made.
    pub time: Timestamp,
    /// Always `checkpoint`.
    pub kind: String,
    /// The last audit record before it.
    pub audit: ChainPlace,
    /// The last change.
    pub changes: ChainPlace,
    /// The public key of the data directory; empty where there is none.
    pub key: String,
    /// The signature of all of this by it.
    pub signature: String,
}

impl Checkpoint {
    pub(crate) fn new(audit: ChainPlace, changes: ChainPlace, now: u64, key: Option<&ChainKey>) -> Self {
        let time = Timestamp::from_millisecond(i64::try_from(now).unwrap_or(i64::MAX)).unwrap_or(Timestamp::UNIX_EPOCH);
        let unsigned = Self {
            time,
            kind: "checkpoint".to_owned(),
            audit,
            changes,
            key: key.map(ChainKey::public).unwrap_or_default(),
            signature: String::new(),
        };
        let signature = key.map(|key| key.sign(&unsigned.text())).unwrap_or_default();
        Self { signature, ..unsigned }
    }

    /// The checkpoint in a line of JSON, if it is one.
    pub fn read(line: &[u8]) -> Option<Self> {
        let read: Self = serde_json::from_slice(line).ok()?;
        (read.kind == "checkpoint").then_some(read)
    }

    /// Whether it is as it was signed, by the key that it names.
    pub fn holds(&self) -> bool {
        is_signed(&self.text(), &self.key, &self.signature)
    }

    fn text(&self) -> String {
        let Self { time, audit, changes, .. } = self;
        format!(
            "tidings checkpoint 1\n{time}\naudit {} {}\nchanges {} {}\n",
            audit.seq, audit.hash, changes.seq, changes.hash
        )
    }

    /// Its members, as a record has them.
    pub(crate) fn write(&self, line: &mut Vec<u8>) {
        if let Ok(json) = serde_json::to_vec(self) {
            line.extend_from_slice(
                json.strip_prefix(b"{").and_then(|json| json.strip_suffix(b"}")).unwrap_or_default(),
            );
        }
    }
}
