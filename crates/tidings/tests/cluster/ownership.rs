//! Who runs which server.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{Fleet, counting, owner_in};

// cluster: ownership
#[tokio::test]
async fn every_server_runs_once_and_another_replica_takes_over_when_its_owner_is_killed() {
    let (one, two, three) =
        (counting("one").stdio().await, counting("two").stdio().await, counting("three").stdio().await);
    let servers = [("one", &one), ("two", &two), ("three", &three)];
    let Some(fleet) = Fleet::begin(3, &servers).await else { return };
    for (name, server) in servers {
        assert_eq!(server.initializes(), 1, "{name} is started by its owner alone");
    }
    for replica in &fleet.replicas {
        let client = replica.client().modern().connect().await;
        let mut names = client.names("tools").await;
        names.sort();
        assert_eq!(names, ["one__echo", "three__echo", "two__echo"]);
        for name in ["one", "two", "three"] {
            let called = client.call_tool(&format!("{name}__echo"), json!({"text": "x"})).await;
            assert!(called.text().contains("x"));
        }
    }
    assert_eq!(one.count("tools/call"), 3, "each call ran once, wherever it came in");
    let owner = fleet.owner(0, "one").await;
    fleet.replicas[owner].kill().await;
    let left = (owner + 1) % 3;
    let dead = ["a", "b", "c"][owner];
    fleet.wait(left, "another owner", |cluster| owner_in(cluster, "one").is_some_and(|name| name != dead)).await;
    for place in (0..3).filter(|place| *place != owner) {
        let client = fleet.replicas[place].client().connect().await;
        let called = client.call_tool("one__echo", json!({"text": "x"})).await;
        assert!(called.text().contains("x"));
    }
    assert_eq!((one.count("tools/call"), one.initializes()), (5, 2));
}

// cluster: shutdown
#[tokio::test]
async fn a_replica_that_ends_gives_its_servers_up_at_once() {
    let one = counting("one").stdio().await;
    let Some(fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    let owner = fleet.owner(0, "one").await;
    let left = 1 - owner;
    let begun = std::time::Instant::now();
    assert!(fleet.replicas[owner].terminate().await.success());
    let name = ["a", "b"][left];
    fleet.wait(left, "the other owns it", |cluster| owner_in(cluster, "one").as_deref() == Some(name)).await;
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(3),
        "nobody had to be missed first: {:?}",
        begun.elapsed()
    );
}

// cluster: what the log says of its lists is true, also where the owner could not be reached for a while
#[tokio::test]
async fn a_replica_that_did_not_reach_the_owner_at_first_shows_its_lists_as_current_afterwards() {
    let one = counting("one").stdio().await;
    let Some(mut fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    let owner = fleet.owner(0, "one").await;
    let other = 1 - owner;
    assert!(fleet.replicas[other].terminate().await.success());
    let process = Pid::from_raw(fleet.replicas[owner].pid().cast_signed()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    fleet.replicas[other] = fleet.replicas[other].again().await;
    let down = fleet.replicas[other].server_status("one").await;
    kill_process(process, Signal::CONT).unwrap();
    assert_ne!(down["state"], "ready", "its owner is stopped: {down}");
    fleet.replicas[other].wait_server("one", "ready", |server| server["state"] == "ready").await;
    let (code, lock) = fleet.replicas[other].api("GET", "/lock", json!(null)).await;
    assert_eq!((code, &lock["servers"][0]["error"]), (200, &json!(null)), "{lock:#}");
}

// cluster: commands
#[tokio::test]
async fn the_status_names_replicas_and_what_they_run() {
    let one = counting("one").stdio().await;
    let Some(fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    let output = fleet.replicas[0].command(&["status"]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("cluster        tidings: 2 replicas"), "{text}");
    assert!(text.contains("a (this one): connected") && text.contains("b: connected"), "{text}");
    assert!(text.contains("runs one"), "{text}");
    fleet.replicas[0].wait_metric("tidings_cluster_replicas", |count| count == 2.0).await;
}
