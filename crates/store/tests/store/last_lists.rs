//! What servers listed last is known to the next process.

use tidings_store::{ListDelta, ListOwner, ListedItem, Listing};
use tidings_testkit::TempDir;

use super::*;

fn owner(server: &str) -> ListOwner {
    ListOwner { server: server.into(), built_in: false }
}

fn listing(server: &str, tools: &[(&str, u8)]) -> Listing {
    let items: Vec<ListedItem> =
        tools.iter().map(|(name, says)| ((*name).into(), [*says; 32], vec![*says].into())).collect();
    let lists = vec![("tools".into(), items), ("prompts".into(), Vec::new())];
    Listing { time: Timestamp::now(), commit: None, owner: owner(server), at_start: true, lists }
}

fn records(rows: &[ChangeRow]) -> Vec<ChangeRecord> {
    rows.iter().map(|row| serde_json::from_slice(&row.json).unwrap()).collect()
}

// edges F11
#[tokio::test]
async fn the_next_process_compares_with_what_was_written_with_the_last_record() {
    let directory = TempDir::new();
    let log = |_: ()| super::log(directory.path(), LogLimits::default());
    let first = log(());
    first.began(vec![owner("one"), owner("two")]);
    first.listed(listing("one", &[("a", 1)]));
    first.listed(listing("two", &[("x", 1)]));
    let delta =
        ListDelta { owner: owner("one"), put: vec![("b".into(), [1; 32], vec![1].into())], removed: Vec::new() };
    first.append(added("b"), Some(delta));
    first.close().await;
    drop(first);
    let second = log(());
    second.began(vec![owner("one"), owner("two")]);
    second.listed(listing("two", &[("x", 1)]));
    second.listed(listing("one", &[("a", 1), ("b", 2)]));
    let rows = wait_written(&second, 1, 1).await;
    let changed = &records(&rows)[0];
    assert!(changed.while_down && changed.added.is_empty() && changed.removed.is_empty(), "{changed:?}");
    assert_eq!((changed.server.as_str(), changed.changed[0].name.as_str()), ("one", "b"));
    second.close().await;
    drop(second);
    let third = log(());
    third.began(vec![owner("one")]);
    third.listed(listing("one", &[("a", 1), ("b", 2)]));
    third.append(added("c"), None);
    let rows = wait_written(&third, 2, 2).await;
    let gone = &records(&rows)[0];
    assert!(gone.while_down, "a server that is no longer configured: {gone:?}");
    assert_eq!((gone.server.as_str(), &gone.removed[..]), ("two", &["x".to_owned()][..]));
    assert_eq!(records(&rows)[1].added, ["c"], "a list that is the same makes no record");
}
