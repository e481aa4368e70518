//! What outlives the process, and the configuration file.

use serde_json::json;
use tidings_engine::{Origin, ServerState};
use tidings_testkit::eventually;

use crate::house::{House, KINDS, all_expect, full, keys, put};

// S4.6
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_were_added_are_started_again_with_the_next_process() {
    let server = full("s").stdio().await;
    let house = House::open("").await;
    let mut given = keys(&server);
    given["env"] = json!({ "SECRET": "${env:PATH}" });
    house.registry.apply(vec![put("s", given.clone())]).await.unwrap();
    let house = house.close().await.open().await;
    assert_eq!(server.processes().len(), 2);
    assert_eq!(house.registry.kept("s").await, Some(given), "references stay references");
    let status = house.gateway.catalogue().borrow().servers[0].clone();
    assert_eq!((status.origin, status.state), (Origin::Runtime, ServerState::Ready));
    house.remove("s").await;
    let house = house.close().await.open().await;
    assert!(house.servers().is_empty());
    house.close().await;
}

// interface.md: the file wins over a stored one of the same name
#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_the_file_hides_a_kept_one_of_its_name_or_prefix_and_says_so() {
    let (kept, of_file) = (full("kept").http().await, full("file").http().await);
    let house = House::open("").await;
    house.add(&[("same", &kept), ("a b", &kept)]).await;
    let closed = house.close().await;
    closed.rewrite(&format!("[servers.same]\n{0}\n[servers.a_b]\n{0}", of_file.toml()));
    let house = closed.open().await;
    assert_eq!(house.servers(), ["same", "a_b"]);
    let state = house.registry.state();
    let problems: Vec<_> =
        state.servers.iter().filter_map(|entry| Some((&*entry.name, entry.problem.as_deref()?))).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].0 == "a b" && problems[0].1.contains("prefix"), "{problems:?}");
    assert!(problems[1].0 == "same" && problems[1].1.contains("configuration file"), "{problems:?}");
    assert_eq!(state.server("same").unwrap().origin, Origin::File);
    // When the file gives them up they are back, without a restart.
    house.rewrite("");
    let done = house.registry.reload().await.unwrap();
    assert_eq!((done.removed.len(), done.added, done.changed), (1, vec!["a b".to_owned()], vec!["same".to_owned()]));
    assert_eq!(house.gateway.catalogue().borrow().servers.iter().filter(|s| s.origin == Origin::Runtime).count(), 2);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_on_the_same_data_runs_without_keeping_and_says_so() {
    let server = full("s").http().await;
    let house = House::open("").await;
    assert!(house.registry.state().kept);
    let second = house.beside().await;
    assert!(!second.registry.state().kept);
    second.add(&[("s", &server)]).await;
    assert_eq!(second.servers(), ["s"]);
    second.close().await;
    let house = house.close().await.open().await;
    assert!(house.servers().is_empty());
    house.close().await;
}

// S4.3
#[tokio::test(flavor = "multi_thread")]
async fn only_what_differs_in_the_file_is_touched_and_a_fault_touches_nothing() {
    let (stays, goes, comes) = (full("a").stdio().await, full("b").stdio().await, full("c").stdio().await);
    let house = House::open(&format!("[servers.stays]\n{}\n[servers.goes]\n{}", stays.toml(), goes.toml())).await;
    let mut followers = house.followers().await;
    house.rewrite(&format!("# moved\n\n[servers.comes]\n{}\n[servers.stays]\n{}", comes.toml(), stays.toml()));
    let done = house.registry.reload().await.unwrap();
    assert_eq!((done.added, done.removed), (vec!["comes".to_owned()], vec!["goes".to_owned()]));
    all_expect(&mut followers, &KINDS).await;
    goes.wait_all_exited().await;
    house.rewrite("[servers.stays]\ncomand = \"x\"\n");
    let fault = house.registry.reload().await.unwrap_err();
    let shown = fault.to_string();
    assert!(shown.contains("tidings.toml:2") && shown.contains("command"), "{fault}");
    let shown = house.registry.state();
    assert_eq!(shown.reload.as_ref().unwrap().outcome.as_ref().unwrap_err(), &fault);
    assert_eq!(house.servers(), ["stays", "comes"]);
    assert_eq!((stays.processes().len(), comes.processes().len()), (1, 1));
    house.rewrite(&format!("[gateway]\npage_size = 7\n[servers.stays]\n{}", stays.toml()));
    let done = house.registry.reload().await.unwrap();
    assert_eq!(done.needs_restart, ["[gateway]"]);
    all_expect(&mut followers, &KINDS).await;
    assert_eq!(stays.processes().len(), 1);
    house.close().await;
}

// interface.md: a server of the file that fails is kept as failing
#[tokio::test(flavor = "multi_thread")]
async fn a_new_server_of_the_file_that_fails_is_there_as_failing_and_comes_when_it_can() {
    let house = House::open("").await;
    let mut followers = house.followers().await;
    let server = full("late").http().await;
    server.kill().await;
    house.rewrite(&format!("[servers.late]\n{}", server.toml()));
    house.registry.reload().await.unwrap();
    let status = house.gateway.catalogue().borrow().servers[0].clone();
    assert_eq!(status.state, ServerState::Failing);
    assert!(status.error.is_some());
    server.revive().await;
    let ready = || (house.gateway.catalogue().borrow().servers[0].state == ServerState::Ready).then_some(());
    eventually("the server to be ready", ready).await;
    all_expect(&mut followers, &KINDS).await;
    house.close().await;
}
