//! The truth, once: what changes is told by every replica to its own clients, and can be read at each.

use serde_json::json;
use tidings_testkit::{ListFollower, Tool, V2025_06_18};

use crate::{Fleet, counting, owner_in};

// cluster: readable anywhere
#[tokio::test]
async fn a_change_is_told_once_at_every_replica_and_is_read_at_any_other() {
    let one = counting("one").stdio().await;
    let Some(fleet) = Fleet::begin(3, &[("one", &one)]).await else { return };
    let mut followers = Vec::new();
    let mut readers = Vec::new();
    for replica in &fleet.replicas {
        followers.push(ListFollower::begin(replica.client().modern().connect().await).await);
        followers.push(ListFollower::begin(replica.client().revision(V2025_06_18).connect().await).await);
        readers.push(replica.client().modern().connect().await);
    }
    for round in 0..10 {
        let name = format!("t{round}");
        one.put_tool(Tool::text_tool(&name, "new"));
        assert!(one.list_changed("tools") > 0);
        for (place, follower) in followers.iter_mut().enumerate() {
            follower.expect(&["tools"]).await;
            // At another replica than the one that told it.
            let names = readers[(place / 2 + 1) % 3].names("tools").await;
            assert!(names.contains(&name), "round {round}, follower {place}: {names:?}");
        }
    }
}

// cluster: a move is no change
#[tokio::test]
async fn a_move_with_equal_lists_is_told_to_nobody() {
    let one = counting("one").stdio().await;
    let Some(fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    let owner = fleet.owner(0, "one").await;
    let left = 1 - owner;
    let mut follower = ListFollower::begin(fleet.replicas[left].client().modern().connect().await).await;
    fleet.replicas[owner].kill().await;
    let name = ["a", "b"][left];
    fleet.wait(left, "the other owns it", |cluster| owner_in(cluster, "one").as_deref() == Some(name)).await;
    one.wait_spawned(2).await;
    assert!(follower.client.call_tool("echo", json!({"text": "x"})).await.text().contains("x"));
    one.put_prompt(Tool::prompt("q", |call| async move { call.ok_message("new") }));
    assert!(one.list_changed("prompts") > 0);
    // What is said next is the first thing that is said.
    follower.expect(&["prompts"]).await;
}

// cluster: NATS restarts
#[tokio::test]
async fn a_restart_of_the_bus_moves_nothing_and_loses_no_change() {
    let one = counting("one").stdio().await;
    let Some(mut fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    let owner = fleet.owner(0, "one").await;
    let follower = ListFollower::begin(fleet.replicas[1 - owner].client().modern().connect().await).await;
    fleet.nats.kill();
    // While the bus is gone: it is found when it is back.
    one.put_tool(Tool::text_tool("meanwhile", "new"));
    assert!(one.list_changed("tools") > 0);
    let direct = fleet.replicas[owner].client().modern().connect().await;
    assert!(direct.call_tool("echo", json!({"text": "x"})).await.text().contains("x"), "what is run here goes on");
    let known = follower.client.names("tools").await;
    assert!(known.contains(&"echo".to_owned()), "what is known is served: {known:?}");
    fleet.nats.run();
    // Told at least once, and once more if a list was answered while nothing could be confirmed.
    follower.heard("tools", 1).await;
    assert!(follower.client.names("tools").await.contains(&"meanwhile".to_owned()));
    assert_eq!((fleet.owner(0, "one").await, one.initializes()), (owner, 1), "nothing moved");
}
