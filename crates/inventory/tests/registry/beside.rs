//! Changes beside a server that is slow to start, and changes that whoever asked for them no longer wants.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tidings_engine::Origin;
use tidings_inventory::{RegistryChange, RegistryRefusal, ReloadFault, ReloadOutcome};
use tidings_testkit::{Gate, Server, eventually, within};
use tokio::task::JoinHandle;

use crate::house::{House, full, keys, put, shell};

/// Begins to add a server that never says a word, and waits until its process is there.
async fn hanging(house: &House, name: &str) -> (JoinHandle<Result<(), RegistryRefusal>>, u32) {
    let mark = house.directory().join(format!("{name}.pid"));
    let server = shell(&format!("echo $$ > {}; exec sleep 600", mark.display()));
    let (registry, change) = (house.registry.clone(), put(name, server));
    let adding = tokio::spawn(async move { registry.apply(vec![change]).await });
    let pid = || std::fs::read_to_string(&mark).ok()?.trim().parse().ok();
    let pid = eventually("the process of the server that hangs", pid).await;
    std::fs::remove_file(&mark).unwrap();
    (adding, pid)
}

async fn wait_gone(pid: u32) {
    eventually("the end of the process", || (!Path::new(&format!("/proc/{pid}/exe")).exists()).then_some(())).await;
}

// edges F4
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_slow_to_start_holds_up_no_change_of_another() {
    let (old, good, more) = (full("old").http().await, full("good").http().await, full("more").stdio().await);
    let house = House::open(&format!("[servers.old]\n{}", old.toml())).await;
    let (adding, pid) = hanging(&house, "hang").await;
    within("changes of others", async {
        house.add(&[("good", &good)]).await;
        house.registry.set_enabled("good", false).await.unwrap();
        house.registry.set_enabled("good", true).await.unwrap();
        house.rewrite(&format!("[servers.old]\n{}\n[servers.more]\n{}", old.toml(), more.toml()));
        house.registry.reload().await.unwrap();
        house.remove("good").await;
        house.registry.restart("old").await.unwrap();
    })
    .await;
    assert!(!adding.is_finished(), "it still waits for its server");
    assert_eq!(house.servers(), ["old", "more"]);
    adding.abort();
    wait_gone(pid).await;
    house.close().await;
}

// edges F4
#[tokio::test(flavor = "multi_thread")]
async fn whoever_goes_away_has_cancelled_and_nothing_stays() {
    let good = full("good").http().await;
    let house = House::open("").await;
    let (adding, pid) = hanging(&house, "hang").await;
    // Another change of the same server waits for the first one, and is not lost with it.
    let (registry, change) = (house.registry.clone(), RegistryChange::Add { name: "hang".into(), server: keys(&good) });
    let next = tokio::spawn(async move { registry.apply(vec![change]).await });
    // A third one that goes away while it waits is in nobody's way either.
    let registry = house.registry.clone();
    let third = tokio::spawn(async move {
        registry.apply(vec![RegistryChange::Put { name: "hang".into(), server: json!({"command": "true"}) }]).await
    });
    house.add(&[("other", &good)]).await;
    assert!(!next.is_finished(), "one change of a server at a time");
    assert_eq!(house.servers(), ["other"]);
    assert!(house.registry.state().server("hang").is_none());
    third.abort();
    adding.abort();
    wait_gone(pid).await;
    within("the change that waited", next).await.unwrap().unwrap();
    assert_eq!(house.servers(), ["other", "hang"]);
    assert_eq!(house.registry.kept("hang").await, Some(keys(&good)));
    // Nothing was kept of what was cancelled, and nobody was told.
    let (adding, pid) = hanging(&house, "again").await;
    adding.abort();
    wait_gone(pid).await;
    assert!(house.registry.kept("again").await.is_none());
    assert!(house.feed.all().iter().all(|change| ["other", "hang"].contains(&&*change.server.name)));
    let house = house.close().await.open().await;
    let mut servers = house.servers();
    servers.sort();
    assert_eq!(servers, ["hang", "other"]);
    house.close().await;
}

// edges F4
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_taken_meanwhile_is_refused_before_the_commit() {
    let gate = Gate::new();
    let slow = full("slow").hold("tools/list", &gate).stdio().await;
    let quick = full("quick").http().await;
    let house = House::open("").await;
    let with_prefix = |server: &Server| {
        let mut keys = keys(server);
        keys["prefix"] = json!("same");
        keys
    };
    let (registry, change) = (house.registry.clone(), put("slow", with_prefix(&slow)));
    let adding = tokio::spawn(async move { registry.apply(vec![change]).await });
    slow.wait_for_method("tools/list", 1).await;
    house.registry.apply(vec![put("quick", with_prefix(&quick))]).await.unwrap();
    gate.open();
    let refused = within("the refusal", adding).await.unwrap().unwrap_err();
    assert!(
        matches!(&refused, RegistryRefusal::PrefixClash { name, other, .. } if name == "slow" && other == "quick"),
        "{refused}"
    );
    slow.wait_all_exited().await;
    assert_eq!(house.servers(), ["quick"]);
    assert!(house.registry.kept("slow").await.is_none());
    house.close().await;
}

/// Begins to switch on server `f`, which is slow to list what it has.
async fn enabling(house: &House, slow: &Server) -> JoinHandle<Result<(), RegistryRefusal>> {
    let registry = house.registry.clone();
    let enabling = tokio::spawn(async move { registry.set_enabled("f", true).await });
    slow.wait_for_method("tools/list", 1).await;
    enabling
}

/// Begins to read the file again, and gives it the time to be over if it waits for nobody: then it is overtaken. One that waits is right
/// whatever the time.
async fn reloading(house: &House) -> JoinHandle<Result<ReloadOutcome, ReloadFault>> {
    let registry = house.registry.clone();
    let reloading = tokio::spawn(async move { registry.reload().await });
    let over = async {
        while !reloading.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(300), over).await;
    reloading
}

// edges F4
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_being_enabled_gets_what_the_file_says_meanwhile() {
    let gate = Gate::new();
    let old = Server::builder("old").echo("old").hold("tools/list", &gate).stdio().await;
    let new = Server::builder("new").echo("new").http().await;
    let off = |server: &Server| format!("[servers.f]\nenabled = false\n{}", server.toml());
    let house = House::open(&off(&old)).await;
    let enabling = enabling(&house, &old).await;
    house.rewrite(&off(&new));
    let reloading = reloading(&house).await;
    gate.open();
    within("the switch", enabling).await.unwrap().unwrap();
    within("the reading", reloading).await.unwrap().unwrap();
    assert_eq!(house.servers(), ["f"]);
    let client = house.client().connect().await;
    assert_eq!(client.call_tool("f__new", json!({"a": 1})).await.text(), r#"{"a":1}"#);
    old.wait_all_exited().await;
    house.close().await;
}

// edges F4
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_leaves_the_file_while_it_is_being_enabled_is_gone() {
    let gate = Gate::new();
    let slow = full("slow").hold("tools/list", &gate).stdio().await;
    let house = House::open(&format!("[servers.f]\nenabled = false\n{}", slow.toml())).await;
    let enabling = enabling(&house, &slow).await;
    house.rewrite("");
    let reloading = reloading(&house).await;
    gate.open();
    within("the switch", enabling).await.unwrap().unwrap();
    within("the reading", reloading).await.unwrap().unwrap();
    assert_eq!(house.servers(), [""; 0], "what is in no list of servers does not run");
    assert!(house.registry.state().server("f").is_none());
    slow.wait_all_exited().await;
    house.close().await;
}

// edges F4
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_being_added_gives_way_to_one_of_the_file_that_is_off() {
    let gate = Gate::new();
    let slow = full("slow").hold("tools/list", &gate).stdio().await;
    let house = House::open("").await;
    let (registry, change) = (house.registry.clone(), put("x", keys(&slow)));
    let adding = tokio::spawn(async move { registry.apply(vec![change]).await });
    slow.wait_for_method("tools/list", 1).await;
    house.rewrite(&format!("[servers.x]\nenabled = false\n{}", slow.toml()));
    let reloading = reloading(&house).await;
    gate.open();
    within("the addition", adding).await.unwrap().unwrap();
    within("the reading", reloading).await.unwrap().unwrap();
    assert_eq!(house.servers(), [""; 0], "the file has it, and says that it is off");
    let entry = house.registry.state().server("x").cloned().unwrap();
    assert!(entry.origin == Origin::File && !entry.enabled, "{entry:?}");
    slow.wait_all_exited().await;
    house.close().await;
}

// edges F4
#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_before_another_change_does_not_overwrite_it() {
    let gate = Gate::new();
    let slow = full("slow").hold("tools/list", &gate).stdio().await;
    let (first, third) = (full("first").http().await, full("third").http().await);
    let house = House::open("").await;
    house.add(&[("f", &first)]).await;
    let read = house.registry.kept("f").await.unwrap();
    // Between the reading and the change of it another one is made, and takes its time.
    let (registry, change) = (house.registry.clone(), put("f", keys(&slow)));
    let other = tokio::spawn(async move { registry.apply(vec![change]).await });
    slow.wait_for_method("tools/list", 1).await;
    let (registry, server) = (house.registry.clone(), keys(&third));
    let change = RegistryChange::Replace { name: "f".into(), read, server };
    let replacing = tokio::spawn(async move { registry.apply(vec![change]).await });
    gate.open();
    within("the other change", other).await.unwrap().unwrap();
    let refused = within("the refusal", replacing).await.unwrap().unwrap_err();
    assert!(matches!(&refused, RegistryRefusal::Overtaken { name } if name == "f"), "{refused}");
    assert_eq!(house.registry.kept("f").await, Some(keys(&slow)));
    let (read, server) = (keys(&slow), keys(&third));
    house.registry.apply(vec![RegistryChange::Replace { name: "f".into(), read, server }]).await.unwrap();
    assert_eq!(house.registry.kept("f").await, Some(keys(&third)));
    house.close().await;
}
