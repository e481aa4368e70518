//! What of a legacy session outlives the gateway. How a session goes on after a restart is in `gateway/resume.rs`.
//!
//! Only what the client can not tell again is kept. What it follows is followed anew; the hashes of what it was told decide
//! whether it is owed a notice, so that nothing is lost and nothing is told that did not change. Where they are kept is no matter
//! of the engine.

use bytes::Bytes;
use serde_json::{Value, json};
use tidings_proto::{LogLevel, Revision};
use tidings_wire::Digest;

/// What of a legacy session is written to the store, so that it goes on after a restart (ADR 26).
#[derive(Clone, Debug, PartialEq)]
pub struct KeptSession {
    /// The revision that was agreed on.
    pub revision: Revision,
    /// The name of its owner, who alone may go on with it.
    pub principal: String,
    /// The server that it asked for alone, if it did.
    pub alone: Option<String>,
    /// What the client said about itself, as JSON.
    pub info: Option<Bytes>,
    /// What the client declared that it can do.
    pub capabilities: Value,
    /// The log messages it asked for.
    pub level: Option<LogLevel>,
    /// Whether it said that it is ready for notifications.
    pub initialized: bool,
    /// The hash of each list that it needs no notice of.
    pub told: [Option<Digest>; 3],
    /// The resources it follows.
    pub follows: Vec<KeptFollow>,
}

/// A resource that a kept session follows.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptFollow {
    /// As the client spells it.
    pub uri: String,
    /// The hash of the content that it needs no notice of.
    pub content: Option<Digest>,
}

impl KeptSession {
    /// The text that is kept.
    pub fn to_json(&self) -> Value {
        // The client's own JSON was accepted once; if it can not be read, the session is kept without it.
        let info: Option<Value> = self.info.as_deref().and_then(|info| serde_json::from_slice(info).ok());
        let follows = self.follows.iter().map(|follow| json!([follow.uri, follow.content.map(hex)]));
        json!({
            "revision": self.revision.as_str(),
            "principal": self.principal,
            "alone": self.alone,
            "info": info,
            "capabilities": self.capabilities,
            "level": self.level.map(LogLevel::as_str),
            "initialized": self.initialized,
            "told": self.told.map(|told| told.map(hex)),
            "follows": follows.collect::<Vec<Value>>(),
        })
    }

    /// Reads what was kept; `None` where it is not what this version of the gateway writes.
    pub fn from_json(kept: &Value) -> Option<Self> {
        let told: Vec<Option<Digest>> = kept["told"].as_array()?.iter().map(digest).collect();
        let follows = kept["follows"]
            .as_array()?
            .iter()
            .map(|follow| Some(KeptFollow { uri: follow[0].as_str()?.to_owned(), content: digest(&follow[1]) }));
        Some(Self {
            revision: Revision::parse(kept["revision"].as_str()?)?,
            principal: kept["principal"].as_str()?.to_owned(),
            // Absent in what earlier versions wrote.
            alone: kept["alone"].as_str().map(str::to_owned),
            info: kept.get("info").filter(|info| !info.is_null()).map(|info| Bytes::from(info.to_string())),
            capabilities: kept["capabilities"].clone(),
            level: kept["level"].as_str().and_then(LogLevel::parse),
            initialized: kept["initialized"].as_bool()?,
            told: told.try_into().ok()?,
            follows: follows.collect::<Option<_>>()?,
        })
    }
}

fn hex(digest: Digest) -> String {
    tidings_wire::hex(&digest.0)
}

fn digest(text: &Value) -> Option<Digest> {
    Some(Digest(*blake3::Hash::from_hex(text.as_str()?).ok()?.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // edges F19
    #[test]
    fn what_is_kept_is_read_again_as_it_was() {
        let kept = KeptSession {
            revision: Revision::V2025_06_18,
            principal: "laptop".to_owned(),
            alone: Some("apps".to_owned()),
            info: Some(Bytes::from_static(br#"{"name":"c","version":"1"}"#)),
            capabilities: json!({"roots": {}}),
            level: LogLevel::parse("warning"),
            initialized: true,
            told: [Some(Digest::of_bytes(b"a")), None, Some(Digest::NONE)],
            follows: vec![
                KeptFollow { uri: "a+file:///x".to_owned(), content: Some(Digest::of_bytes(b"x")) },
                KeptFollow { uri: "test://y".to_owned(), content: None },
            ],
        };
        assert_eq!(KeptSession::from_json(&kept.to_json()), Some(kept));
        for strange in [json!(null), json!({}), json!({"revision": "2025-06-18", "told": []})] {
            assert_eq!(KeptSession::from_json(&strange), None, "{strange}");
        }
    }
}
