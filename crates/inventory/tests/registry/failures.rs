//! Changes that are refused: nobody is told, and nothing is left.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tidings_inventory::{RefusalClass, RegistryChange, RegistryRefusal};
use tidings_testkit::{Server, Tool, eventually};

use crate::house::{House, KINDS, Rules, all_expect, full, keys, put, shell};

/// A house with one server in its file, which gives up after a short time.
async fn strict(server: &Server) -> House {
    let rules = Rules { start_timeout: Duration::from_secs(3), ..Rules::default() };
    House::open_with(&format!("[servers.old]\n{}", server.toml()), rules).await
}

async fn refusal(house: &House, changes: Vec<RegistryChange>) -> RegistryRefusal {
    house.registry.apply(changes.clone()).await.expect_err(&format!("{changes:?}"))
}

/// A script that leaves its process id in a file before it goes on.
fn marked(file: &Path, then: &str) -> serde_json::Value {
    shell(&format!("echo $$ > {}; {then}", file.display()))
}

/// Waits until the process that was marked is gone.
async fn gone(file: &Path) {
    let pid: u32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
    eventually("the end of the process", || (!Path::new(&format!("/proc/{pid}/exe")).exists()).then_some(())).await;
}

// S4.2, bridging 15
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_start_is_told_to_nobody_but_whoever_asked_with_its_last_words() {
    let old = full("old").http().await;
    let house = strict(&old).await;
    let mut followers = house.followers().await;
    let mark = house.directory().join("pid");

    let missing = refusal(&house, vec![put("new", json!({"command": "/no/such/program"}))]).await;
    assert_eq!(missing.kind(), RefusalClass::Failed);
    assert!(missing.to_string().contains("command not found"), "{missing}");

    let script = marked(&mark, "echo I can not find my licence >&2; exit 3");
    let exits = refusal(&house, vec![put("new", script)]).await;
    assert_eq!(exits.kind(), RefusalClass::Failed);
    assert!(exits.to_string().contains("exit status: 3"), "{exits}");
    assert!(exits.to_string().contains("I can not find my licence"), "{exits}");
    gone(&mark).await;

    let script = marked(&mark, "echo waiting for the moon >&2; exec sleep 600");
    let hangs = refusal(&house, vec![put("new", script)]).await;
    assert_eq!(hangs.kind(), RefusalClass::Late, "{hangs:?}");
    assert!(hangs.to_string().contains("waiting for the moon"), "{hangs}");
    gone(&mark).await;

    let script = marked(&mark, "while read line; do echo '<html>hello</html>'; done");
    let garbage = refusal(&house, vec![put("new", script)]).await;
    assert!(matches!(garbage.kind(), RefusalClass::Late | RefusalClass::Failed), "{garbage:?}");
    assert!(garbage.to_string().contains("<html>hello"), "{garbage}");
    gone(&mark).await;

    let listless =
        full("new").on_raw("prompts/list", |call| async move { call.error(-32603, "no prompts today", None) });
    let listless = listless.stdio().await;
    let fails = refusal(&house, vec![put("new", keys(&listless))]).await;
    assert_eq!(fails.kind(), RefusalClass::Failed);
    assert!(fails.to_string().contains("no prompts today"), "{fails}");
    listless.wait_all_exited().await;

    assert_eq!(house.servers(), ["old"]);
    assert!(house.registry.state().server("new").is_none());
    assert!(house.feed.all().is_empty());
    let good = full("new").http().await;
    house.add(&[("new", &good)]).await;
    all_expect(&mut followers, &KINDS).await;
    house.close().await;
}

// S4.2
#[tokio::test(flavor = "multi_thread")]
async fn one_bad_server_of_a_batch_undoes_all_of_it() {
    let (old, good) = (full("old").http().await, full("good").stdio().await);
    let house = strict(&old).await;
    house.add(&[("leaves", &old)]).await;
    let mut followers = house.followers().await;
    let changes =
        vec![put("good", keys(&good)), put("bad", shell("exit 1")), RegistryChange::Delete { name: "leaves".into() }];
    let refused = refusal(&house, changes).await;
    assert!(matches!(&refused, RegistryRefusal::Failed { name, .. } if name == "bad"), "{refused:?}");
    good.wait_all_exited().await;
    assert_eq!(house.servers(), ["old", "leaves"]);
    house.remove("leaves").await;
    all_expect(&mut followers, &KINDS).await;
    house.close().await;
}

// S4.2
#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_before_anything_is_started() {
    let old = full("old").stdio().await;
    let house = strict(&old).await;
    let add = |name: &str| RegistryChange::Add { name: name.into(), server: keys(&old) };
    let delete = |name: &str| RegistryChange::Delete { name: name.into() };
    let table = [
        (vec![add("old")], RefusalClass::Conflict, "already"),
        (vec![put("old", keys(&old))], RefusalClass::Conflict, "configuration file"),
        (vec![delete("old")], RefusalClass::Conflict, "configuration file"),
        (vec![delete("nobody")], RefusalClass::Unknown, "nobody"),
        (vec![add("a"), add("a")], RefusalClass::Invalid, "twice"),
        (vec![add("o ld"), add("o_ld")], RefusalClass::Conflict, "prefix"),
        (vec![put("x", json!({"prefix": "old", "command": "true"}))], RefusalClass::Conflict, "prefix"),
        (vec![put("x", json!({}))], RefusalClass::Invalid, "command"),
        (vec![put("x", json!({"comand": "true"}))], RefusalClass::Invalid, "command"),
        (vec![put("", keys(&old))], RefusalClass::Invalid, "empty"),
    ];
    for (changes, kind, word) in table {
        let refused = refusal(&house, changes.clone()).await;
        assert_eq!(refused.kind(), kind, "{changes:?} {refused}");
        assert!(refused.to_string().contains(word), "{refused}");
    }
    assert_eq!(house.registry.restart("nobody").await.unwrap_err().kind(), RefusalClass::Unknown);
    assert_eq!(house.registry.set_enabled("nobody", true).await.unwrap_err().kind(), RefusalClass::Unknown);
    assert_eq!(old.processes().len(), 1, "nothing else was started");
    house.close().await;
}

// S4.2: out of disk
#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_kept_does_not_happen() {
    let old = full("old").http().await;
    let house = strict(&old).await;
    let mut followers = house.followers().await;
    let new = full("new").stdio().await;
    let mut server = keys(&new);
    server["tools"] = json!({ "deny": ["x".repeat(8 << 20)] });
    let refused = {
        let _full = FullDisk::just_above(&house.directory().join("tidings.redb"));
        refusal(&house, vec![put("new", server)]).await
    };
    assert_eq!(refused.kind(), RefusalClass::NotKept, "{refused:?}");
    new.wait_all_exited().await;
    assert_eq!(house.servers(), ["old"]);
    assert!(house.registry.state().server("new").is_none());
    old.put_tool(Tool::text_tool("more", "more"));
    old.list_changed("tools");
    all_expect(&mut followers, &["tools"]).await;
    let house = house.close().await.open().await;
    assert_eq!(house.servers(), ["old"]);
    house.add(&[("new", &new)]).await;
    house.close().await;
}

/// No file can grow beyond this size, until it is dropped.
struct FullDisk {
    before: rustix::process::Rlimit,
    // With a handler the signal does not kill, and the write fails.
    _signal: tokio::signal::unix::Signal,
}

impl FullDisk {
    fn just_above(file: &Path) -> Self {
        let _signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(25)).unwrap();
        let before = rustix::process::getrlimit(rustix::process::Resource::Fsize);
        let size = std::fs::metadata(file).unwrap().len();
        let limit = rustix::process::Rlimit { current: Some(size + 4096), maximum: before.maximum };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
        Self { before, _signal }
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        let _ = rustix::process::setrlimit(rustix::process::Resource::Fsize, self.before);
    }
}
