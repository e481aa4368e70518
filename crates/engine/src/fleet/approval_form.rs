//! What replicas agreed on about one server, as it is written beside the log.
//!
//! A member is only ever added with a default. The definitions are written too, because every replica shows the same differences and, with
//! `held = "old"`, the same lists; where they are too large together, all of them are left out.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidings_hub::approvals::{ApprovalDecision, ApprovalVerdict, Approvals, SCREENED};
use tidings_hub::catalogue::OfferItem;
use tidings_proto::{ListKind, LocalName};
use tidings_wire::{Digest, hex};

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct ApprovalsText {
    approved: Vec<ItemText>,
    rejected: Vec<ItemText>,
}

#[derive(Serialize, Deserialize)]
struct ItemText {
    list: String,
    name: String,
    /// In hexadecimal digits.
    hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<String>,
}

/// The content; of one that would be larger than `most` without its definitions.
pub(crate) fn write(approvals: &Approvals, most: usize) -> Bytes {
    let whole = text(approvals, true);
    if whole.len() <= most { whole } else { text(approvals, false) }
}

fn text(approvals: &Approvals, with_definitions: bool) -> Bytes {
    let item = |kind: ListKind, name: &LocalName, digest: Digest, definition: Option<&Bytes>| ItemText {
        list: kind.member().to_owned(),
        name: name.to_string(),
        hash: hex(&digest.0),
        definition: definition.filter(|_| with_definitions).map(|raw| String::from_utf8_lossy(raw).into_owned()),
    };
    let approved = SCREENED.into_iter().flat_map(|kind| {
        approvals.approved(kind).map(move |(name, known)| item(kind, name, known.digest, known.definition.as_ref()))
    });
    let rejected = approvals.rejected().map(|((kind, name), digest)| item(*kind, name, digest, None));
    let text = ApprovalsText { approved: approved.collect(), rejected: rejected.collect() };
    // Texts alone, which can always be written.
    serde_json::to_vec(&text).unwrap_or_default().into()
}

/// What was written. `None`: a newer version wrote it, or it is damaged.
pub(crate) fn read(content: &[u8]) -> Option<Approvals> {
    let text: ApprovalsText = serde_json::from_slice(content).ok()?;
    let approved = text.approved.into_iter().map(|item| decision(item, ApprovalVerdict::Approve));
    let rejected = text.rejected.into_iter().map(|item| decision(item, ApprovalVerdict::Reject));
    let decisions: Option<Vec<ApprovalDecision>> = approved.chain(rejected).collect();
    Some(Approvals::known(true, decisions?))
}

fn decision(item: ItemText, verdict: ApprovalVerdict) -> Option<ApprovalDecision> {
    let kind = SCREENED.into_iter().find(|kind| kind.member() == item.list)?;
    let (name, digest) = (LocalName::new(item.name), digest(&item.hash)?);
    // One of another content is not what was approved: the hash alone says what that is.
    let is_it = |raw: &Bytes| OfferItem::read(kind, raw.clone(), false).is_ok_and(|item| item.digest == digest);
    let definition = item.definition.map(Bytes::from).filter(is_it);
    Some(ApprovalDecision { kind, name, digest, definition, verdict })
}

fn digest(text: &str) -> Option<Digest> {
    let mut bytes = [0; 32];
    let digits = Some(text).filter(|text| text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(Digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(name: &str, raw: &'static str, verdict: ApprovalVerdict, is_known: bool) -> ApprovalDecision {
        let kind = if raw.contains("inputSchema") { ListKind::Tools } else { ListKind::Prompts };
        let item = OfferItem::read(kind, Bytes::from_static(raw.as_bytes()), false).unwrap_or_else(|e| panic!("{e}"));
        let definition = is_known.then(|| item.raw.clone());
        ApprovalDecision { kind, name: LocalName::new(name), digest: item.digest, definition, verdict }
    }

    // cluster: approvals
    #[test]
    fn what_was_agreed_on_is_read_as_it_was_written() {
        let tool = r#"{"name":"add","description":"A \"b\" \u202e","inputSchema":{}}"#;
        let approvals = Approvals::known(
            true,
            [
                decided("add", tool, ApprovalVerdict::Approve, true),
                decided("p", r#"{"name":"p"}"#, ApprovalVerdict::Approve, false),
                decided("p", r#"{"name":"p","title":"x"}"#, ApprovalVerdict::Reject, false),
            ],
        );
        let content = write(&approvals, 1 << 20);
        assert_eq!(read(&content), Some(approvals.clone()), "{}", String::from_utf8_lossy(&content));
        // Too large: the hashes are what counts.
        let small = write(&approvals, content.len() - 1);
        let read_again = read(&small).unwrap_or_else(|| panic!("it is read"));
        let definitions = |approvals: &Approvals| {
            let of = |kind| approvals.approved(kind).filter(|(_, known)| known.definition.is_some()).count();
            SCREENED.into_iter().map(of).sum::<usize>()
        };
        assert_eq!((definitions(&approvals), definitions(&read_again)), (1, 0));
        assert_eq!(read(&write(&read_again, 1 << 20)), Some(read_again));
        // A newer version may say more, and nothing means that nothing is approved.
        assert_eq!(read(br#"{"approved":[],"since":3}"#), Some(Approvals::known(true, [])));
    }

    // cluster: approvals
    #[test]
    fn what_is_not_understood_approves_nothing() {
        let hash = "0".repeat(64);
        for wrong in [
            "",
            "[]x",
            r#"{"approved":[{"list":"roots","name":"a","hash":"HASH"}]}"#,
            r#"{"approved":[{"list":"tools","name":"a","hash":"00"}]}"#,
            r#"{"approved":[{"list":"tools","name":"a","hash":"+HASH"}]}"#,
        ] {
            let wrong = wrong.replace("+HASH", &format!("+{}", &hash[1..])).replace("HASH", &hash);
            assert_eq!(read(wrong.as_bytes()), None, "{wrong}");
        }
        let forged = format!(r#"{{"approved":[{{"list":"prompts","name":"a","hash":"{hash}","definition":"{{}}"}}]}}"#);
        let read = read(forged.as_bytes()).unwrap_or_else(|| panic!("the hash counts"));
        assert!(read.approved(ListKind::Prompts).all(|(_, known)| known.definition.is_none()));
    }
}
