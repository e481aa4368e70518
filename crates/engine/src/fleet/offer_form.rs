//! What a server lists, as content beside the log.

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tidings_hub::catalogue::{OfferItem, OfferList};
use tidings_hub::fleet::BlobHash;
use tidings_hub::fleet::entry::OfferRecord;
use tidings_proto::{ListKind, Revision};
use tidings_upstream::ServerHello;

/// What the owner of a server found.
#[derive(Clone, Debug)]
pub(crate) struct OfferContent {
    pub(crate) hello: ServerHello,
    pub(crate) lists: [OfferList; 4],
}

#[derive(serde::Serialize, serde::Deserialize)]
struct OfferText<'a> {
    revision: String,
    capabilities: Value,
    info: Value,
    instructions: Option<String>,
    #[serde(borrow)]
    lists: Vec<WrittenList<'a>>,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct WrittenList<'a> {
    ttl: u64,
    public: bool,
    details: bool,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// The content, and the record that names it. `None`: an item is no JSON, which can not be listed in the first place.
pub(crate) fn write(hello: &ServerHello, lists: &[OfferList; 4]) -> Option<(OfferRecord, Bytes)> {
    let mut written = Vec::new();
    for list in lists {
        let items: Option<Vec<&RawValue>> =
            list.in_order().map(|(_, item)| serde_json::from_slice(&item.raw).ok()).collect();
        let details = list.items.iter().any(|item| item.has_details);
        written.push(WrittenList { ttl: list.ttl_ms, public: list.public, details, items: items? });
    }
    let offer = OfferText {
        revision: hello.revision.as_str().to_owned(),
        capabilities: hello.capabilities.clone(),
        info: hello.info.clone(),
        instructions: hello.instructions.clone(),
        lists: written,
    };
    let content = Bytes::from(serde_json::to_vec(&offer).ok()?);
    let hash = BlobHash::of(&content);
    let seen = BlobHash::of(seen(hello, lists).to_string().as_bytes());
    Some((OfferRecord { content: seen, blobs: vec![hash], record: Vec::new() }, content))
}

/// What clients can see of it: two that say the same in other words are equal, and details of content are left out.
fn seen(hello: &ServerHello, lists: &[OfferList; 4]) -> Value {
    let list = |list: &OfferList| {
        let items: Vec<String> = list.in_order().map(|(_, item)| format!("{:?}", item.digest)).collect();
        json!([list.ttl_ms, list.public, items])
    };
    json!([
        hello.revision.as_str(),
        hello.capabilities,
        hello.info,
        hello.instructions,
        lists.iter().map(list).collect::<Vec<_>>()
    ])
}

/// What was written. `None`: a newer version wrote it, or it is damaged.
pub(crate) fn read(content: &[u8]) -> Option<OfferContent> {
    let offer: OfferText<'_> = serde_json::from_slice(content).ok()?;
    let mut lists: [OfferList; 4] = Default::default();
    for (kind, written) in ListKind::ALL.into_iter().zip(offer.lists) {
        let read = |item: &RawValue| {
            // The owner listed it, and left out what can not be.
            let item = OfferItem::read(kind, Bytes::copy_from_slice(item.get().as_bytes()), false).ok()?;
            Some(if written.details { item.with_details() } else { item })
        };
        let items: Option<Vec<OfferItem>> = written.items.into_iter().map(read).collect();
        lists[kind as usize] = OfferList::new(items?, written.ttl, written.public);
    }
    let hello = ServerHello {
        revision: Revision::parse(&offer.revision)?,
        capabilities: offer.capabilities,
        info: offer.info,
        instructions: offer.instructions,
        gateways: Vec::new(),
    };
    Some(OfferContent { hello, lists })
}

#[cfg(test)]
mod tests {
    use super::*;

    // cluster
    #[test]
    fn an_offer_is_read_as_it_was_written() {
        let raw = |text: &'static str| OfferItem::read(ListKind::Tools, Bytes::from_static(text.as_bytes()), false);
        let items =
            [r#"{"name":"b","x":1}"#, r#"{"name":"a"}"#].map(|text| raw(text).unwrap_or_else(|e| panic!("{e}")));
        let mut lists: [OfferList; 4] = Default::default();
        lists[ListKind::Tools as usize] = OfferList::new(items.into(), 5, true);
        let hello = ServerHello {
            revision: Revision::LATEST_LEGACY,
            capabilities: json!({ "tools": {} }),
            info: json!({ "name": "s" }),
            instructions: Some("words".into()),
            gateways: Vec::new(),
        };
        let (record, content) = write(&hello, &lists).unwrap_or_else(|| panic!("it is written"));
        let read = read(&content).unwrap_or_else(|| panic!("it is read"));
        assert!(read.lists.iter().zip(&lists).all(|(read, wrote)| read.says_the_same(wrote)));
        let order = |list: &OfferList| list.in_order().map(|(_, item)| item.raw.clone()).collect::<Vec<_>>();
        assert_eq!(order(&read.lists[ListKind::Tools as usize]), order(&lists[ListKind::Tools as usize]));
        assert_eq!(read.hello.instructions.as_deref(), Some("words"));
        let again = write(&read.hello, &read.lists).unwrap_or_else(|| panic!("it is written again"));
        assert_eq!(again.0, record, "a move with equal lists is no change");
    }
}
