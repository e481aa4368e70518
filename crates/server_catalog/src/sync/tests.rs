use serde_json::{Value, json};

use super::*;

const BASE: &str = "https://registry.example";
/// In 2027: after all that is published here.
const NOW: u64 = 1_800_000_000;

fn item(name: &str, version: &str, status: &str, updated: &str, is_latest: bool) -> Value {
    json!({
        "server": {"name": name, "version": version, "description": "d"},
        "_meta": {"io.modelcontextprotocol.registry/official": {"status": status, "updatedAt": updated, "isLatest": is_latest}},
    })
}

fn page(items: &[Value], next: Option<&str>) -> Vec<u8> {
    json!({"servers": items, "metadata": {"nextCursor": next, "count": items.len()}}).to_string().into_bytes()
}

/// What is known after a reading.
fn applied(known: &RegistryCopy, step: CopyStep) -> RegistryCopy {
    let mut items = if step.is_whole { BTreeMap::new() } else { known.items.clone() };
    items.extend(step.items);
    RegistryCopy { state: Some(step.state), items }
}

// reach 5
#[test]
fn the_first_reading_goes_by_pages_and_the_next_asks_what_is_new() {
    let none = RegistryCopy::default();
    let mut sync = RegistrySync::new(BASE, &none);
    assert_eq!(sync.address(), format!("{BASE}/v0.1/servers?limit=100&version=latest"));
    let one = item("a/one", "1.0.0", "active", "2026-01-01T00:00:00Z", true);
    assert_eq!(sync.take(&page(&[one], Some("a/one:1 &x=ü")), &none), Ok(false));
    let cursor = "a%2Fone%3A1%20%26x%3D%C3%BC";
    assert_eq!(sync.address(), format!("{BASE}/v0.1/servers?limit=100&version=latest&cursor={cursor}"));
    let two = item("a/two", "1.0.0", "active", "2026-02-01T12:00:00Z", true);
    assert_eq!(sync.take(&page(&[two, json!({"server": 3})], None), &none), Ok(true));
    let (step, skipped) = sync.finish(NOW);
    assert_eq!((step.items.len(), step.is_whole, skipped), (2, true, 1));
    let known = applied(&none, step);

    let mut sync = RegistrySync::new(BASE, &known);
    let since = "2026%2D02%2D01T11%3A55%3A00Z";
    assert_eq!(sync.address(), format!("{BASE}/v0.1/servers?limit=100&updated_since={since}"));
    let items = [
        item("a/two", "1.0.0", "deleted", "2026-02-02T00:00:00Z", true),
        item("a/one", "0.9.0", "deleted", "2026-02-03T00:00:00Z", false),
        item("a/one", "1.1.0", "active", "2026-02-03T00:00:00Z", true),
        item("a/one", "1.0.0", "active", "2026-02-03T00:00:00Z", false),
    ];
    // An empty cursor ends the reading, as an absent one does.
    assert_eq!(sync.take(&page(&items, Some("")), &known), Ok(true));
    let known = applied(&known, sync.finish(NOW).0);
    let read = |name: &str| RegistryItem::read(&known.items[name]).expect("an item");
    assert_eq!((read("a/one").server.version.as_str(), read("a/two").state.status), ("1.1.0", ReleaseStatus::Deleted));

    // A copy of another registry is no beginning.
    assert!(RegistrySync::new("https://other.example", &known).address().contains("version=latest"));
}

// reach 5
#[test]
fn a_hostile_answer_ends_the_reading() {
    let none = RegistryCopy::default();
    for body in [&b"<html>"[..], b"[]", b"{}", b"{\"servers\": 3}", b"{\"servers\": [], \"metadata\": 3}", b"\xff\xfe"]
    {
        let fault = RegistrySync::new(BASE, &none).take(body, &none).unwrap_err();
        assert!(matches!(fault, SyncFault::Malformed(_)), "{fault}");
    }
    let mut sync = RegistrySync::new(BASE, &none);
    assert_eq!(sync.take(&page(&[], Some("x")), &none), Ok(false));
    assert_eq!(sync.take(&page(&[], Some("x")), &none), Err(SyncFault::Circle));
    let mut sync = RegistrySync::new(BASE, &none);
    let endless = (0..).map(|n: u32| sync.take(&page(&[], Some(&n.to_string())), &none)).find(Result::is_err);
    assert_eq!(endless, Some(Err(SyncFault::TooMuch)));
    // An item that is too long costs itself.
    let long = json!({"server": {"name": "a/b", "version": "1", "description": "x".repeat(ITEM_BYTES)}});
    let mut sync = RegistrySync::new(BASE, &none);
    assert_eq!(sync.take(&page(&[long], None), &none), Ok(true));
    assert_eq!(sync.finish(1).1, 1);
}

// reach 5: one item must not cost the others
#[test]
fn an_item_from_the_future_does_not_end_all_updates() {
    let none = RegistryCopy::default();
    let mut sync = RegistrySync::new(BASE, &none);
    let items = [
        item("a/late", "1.0.0", "active", "9999-01-01T00:00:00Z", true),
        item("a/one", "1.0.0", "active", "2026-01-01T00:00:00Z", true),
    ];
    assert_eq!(sync.take(&page(&items, None), &none), Ok(true));
    let known = applied(&none, sync.finish(NOW).0);
    let address = RegistrySync::new(BASE, &known).address();
    assert!(address.ends_with("&updated_since=2027%2D01%2D15T07%3A55%3A00Z"), "{address}");
}
