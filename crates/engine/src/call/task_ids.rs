//! The ids under which clients know tasks: each leads back to the server that works on the task, and opens for one principal alone.
//!
//! They are sealed under the key of the data directory, so that a task can be asked for after a restart of the gateway too. Clients
//! compare ids, and so one task has one id: the nonce is a keyed hash of what is sealed, and two ids are equal exactly when what is
//! inside is.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde_json::json;
use tidings_hub::tasks::TaskHome;
use tidings_proto::task::TaskSpelling;

use crate::plan::seal_key::SealKey;

const MARK: &str = "t1.";
/// What the keys are derived for.
const SEAL_PURPOSE: &str = "tidings 2026-11 id of a task";
const NONCE_PURPOSE: &str = "tidings 2026-11 nonce of the id of a task";

pub(crate) struct TaskIdSealer {
    key: LessSafeKey,
    nonces: [u8; 32],
}

/// What is inside an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenedTaskId {
    /// The name of the server that works on it.
    pub(crate) server: String,
    /// What that server calls it.
    pub(crate) id: String,
    /// Who can be asked about it.
    pub(crate) home: TaskHome,
}

impl TaskIdSealer {
    pub(crate) fn new(key: &SealKey) -> Self {
        let secret = blake3::derive_key(SEAL_PURPOSE, key.secret());
        Self {
            key: LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &secret).expect("the key has the right length")),
            nonces: blake3::derive_key(NONCE_PURPOSE, key.secret()),
        }
    }

    pub(crate) fn seal(&self, server: &str, id: &str, home: TaskHome, principal: &str) -> String {
        let kind = match home {
            TaskHome::Server(TaskSpelling::Core) => "c",
            TaskHome::Server(TaskSpelling::Extension) => "e",
            TaskHome::Gateway => "k",
        };
        let mut payload = json!([kind, server, id]).to_string().into_bytes();
        let mut hash = blake3::Hasher::new_keyed(&self.nonces);
        // The length first, so that what follows can not be read as part of the name.
        hash.update(&(principal.len() as u64).to_le_bytes()).update(principal.as_bytes()).update(&payload);
        let mut nonce = [0; NONCE_LEN];
        hash.finalize_xof().fill(&mut nonce);
        // The same nonce is used again only for the same bytes, which tells nobody more than the first time.
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(principal.as_bytes()),
                &mut payload,
            )
            .expect("the payload is far below the cipher's limit");
        format!("{MARK}{}", URL_SAFE_NO_PAD.encode([&nonce[..], &payload].concat()))
    }

    pub(crate) fn open(&self, sealed: &str, principal: &str) -> Option<OpenedTaskId> {
        let raw = URL_SAFE_NO_PAD.decode(sealed.strip_prefix(MARK)?).ok()?;
        let (nonce, payload) = raw.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut payload = payload.to_vec();
        let opened = self.key.open_in_place(nonce, Aad::from(principal.as_bytes()), &mut payload).ok()?;
        let (kind, server, id): (String, String, String) = serde_json::from_slice(opened).ok()?;
        let home = match &*kind {
            "c" => TaskHome::Server(TaskSpelling::Core),
            "e" => TaskHome::Server(TaskSpelling::Extension),
            _ => TaskHome::Gateway,
        };
        Some(OpenedTaskId { server, id, home })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: TaskHome = TaskHome::Server(TaskSpelling::Core);

    // bridging B7
    #[test]
    fn an_id_is_the_same_each_time_and_opens_for_its_principal_alone() {
        let key = SealKey::default();
        let (before, after) = (TaskIdSealer::new(&key), TaskIdSealer::new(&key));
        let sealed = before.seal("a", "task 1", CORE, "p");
        assert_eq!(sealed, after.seal("a", "task 1", CORE, "p"), "also after a restart");
        let opened = OpenedTaskId { server: "a".into(), id: "task 1".into(), home: CORE };
        assert_eq!(after.open(&sealed, "p"), Some(opened));
        assert_eq!(after.open(&sealed, "q"), None);
        assert_eq!(TaskIdSealer::new(&SealKey::default()).open(&sealed, "p"), None);
        for other in [
            before.seal("b", "task 1", CORE, "p"),
            before.seal("a", "task 2", CORE, "p"),
            before.seal("a", "task 1", TaskHome::Server(TaskSpelling::Extension), "p"),
            before.seal("a", "task 1", TaskHome::Gateway, "p"),
            before.seal("a", "task 1", CORE, "q"),
        ] {
            assert_ne!(sealed, other);
        }
        for made_up in ["", "t1.", "t1.AAAA", "task 1", &sealed[..sealed.len() - 1]] {
            assert_eq!(before.open(made_up, "p"), None, "{made_up}");
        }
    }
}
