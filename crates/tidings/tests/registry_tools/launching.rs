//! Launching and removing while others are connected.

use serde_json::{Value, json};
use tidings_testkit::{Gate, Server};

use crate::{ListFollower, call, clock, followers, launch, launch_arguments, listed, refusal, said, with_tools};

// S4.1, S4.4, bridging 14
#[tokio::test]
async fn everybody_is_told_once_after_it_is_true() {
    let other = Server::builder("other").echo("echo").stdio().await;
    for build in [|| clock(), || clock().modern_only()] {
        let gateway = with_tools("").server("other", &other).server("one", &other).serve().await;
        let server = build().stdio().await;
        let followers = followers(&gateway).await;
        for (place, caller) in followers.iter().enumerate() {
            let prefix = format!("clock_{place}");
            let before: Vec<[usize; 3]> = followers.iter().map(ListFollower::counts).collect();
            let launched = launch(&caller.client, &prefix, &server).await;
            assert_eq!(launched["server"]["entry_id"], format!("stdio-{prefix}"));
            assert_eq!(launched["server"]["state"], "ready");
            assert_eq!(launched["server"]["tools"], json!([format!("{prefix}__now")]));
            let tool = format!("{prefix}__now");
            // The answer comes after the commit: nobody has to wait to see it.
            for follower in &followers {
                assert!(listed(&follower.client, "tools").await.contains(&tool));
            }
            assert_eq!(caller.client.call_tool(&tool, json!({})).await.text(), "noon");
            for (follower, before) in followers.iter().zip(&before) {
                follower.heard_all(*before).await;
                assert!(listed(&follower.client, "prompts").await.contains(&format!("{prefix}__ask")));
            }

            let told: Vec<[usize; 3]> = followers.iter().map(ListFollower::counts).collect();
            let removed = call(&caller.client, "remove", json!({"entry_id": format!("stdio-{prefix}")})).await;
            assert_eq!(removed, json!({"removed": {"entry_id": format!("stdio-{prefix}"), "name": prefix}}));
            for (follower, told) in followers.iter().zip(&told) {
                assert!(!listed(&follower.client, "tools").await.contains(&tool));
                follower.heard_all(*told).await;
            }
            server.wait_all_exited().await;
            for (follower, before) in followers.iter().zip(before) {
                assert_eq!(follower.counts(), before.map(|count| count + 2), "{}", follower.client.revision());
            }
        }
    }
}

// S4.1
#[tokio::test]
async fn on_stdio_they_are_there_without_being_asked_for() {
    for modern in [false, true] {
        let server = clock().stdio().await;
        let gateway = tidings_testkit::Gateway::builder().toml("[gateway]\nregistry_tools = \"auto\"").quick();
        let client = if modern { gateway.stdio().modern() } else { gateway.stdio() };
        let follower = ListFollower::begin(client.connect().await).await;
        let before = follower.counts();
        launch(&follower.client, "clock", &server).await;
        follower.heard_all(before).await;
        assert_eq!(follower.client.call_tool("clock__now", json!({})).await.text(), "noon");
        call(&follower.client, "remove", json!({"entry_id": "clock"})).await;
        assert!(!listed(&follower.client, "tools").await.contains(&"clock__now".to_owned()));
        server.wait_all_exited().await;
    }
}

// S4.6
#[tokio::test]
async fn what_was_launched_is_launched_again_after_a_restart() {
    let server = clock().stdio().await;
    let gateway = with_tools("").serve().await;
    let client = gateway.client().connect().await;
    launch(&client, "clock", &server).await;
    launch(&client, "second", &server).await;
    call(&client, "remove", json!({"entry_id": "second"})).await;
    gateway.terminate().await;
    let gateway = gateway.again().await;
    let client = gateway.client().connect().await;
    let active = call(&client, "active", json!({})).await;
    let servers = active["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 1, "{active}");
    assert_eq!((&servers[0]["entry_id"], &servers[0]["source"]), (&json!("stdio-clock"), &json!("runtime")));
    let tool = servers[0]["tools"][0].as_str().unwrap().to_owned();
    assert_eq!(client.call_tool(&tool, json!({})).await.text(), "noon");
}

// S2.3: progress of a start, with the caller's own token
#[tokio::test]
async fn whoever_waits_hears_how_it_goes() {
    for modern in [false, true] {
        let gate = Gate::new();
        let server = clock().hold("tools/list", &gate).stdio().await;
        let gateway = with_tools("").serve().await;
        let client = if modern { gateway.client().modern() } else { gateway.client() }.connect().await;
        let params = json!({"name": "mcp_registry_launch_stdio", "arguments": launch_arguments("clock", &server)});
        let mut running = client.call("tools/call").params(params).progress_token("\"mine\"").start();
        let first = running.next_method("notifications/progress").await.params();
        assert_eq!((&first["progressToken"], &first["progress"]), (&json!("mine"), &json!(1)));
        assert!(first["message"].as_str().unwrap().starts_with("Starting "), "{first}");
        let second = running.next_method("notifications/progress").await.params();
        assert!(second["message"].as_str().unwrap().starts_with("Still starting "), "{second}");
        gate.open();
        assert_eq!(said(&running.finish().await)["server"]["state"], "ready");
    }
}

// S4.5
#[tokio::test]
async fn new_variables_start_the_server_again() {
    let server = clock().stdio().await;
    let gateway = with_tools("").serve().await;
    let followers = followers(&gateway).await;
    let before: Vec<_> = followers.iter().map(ListFollower::counts).collect();
    let client = &followers[0].client;
    let mut arguments = launch_arguments("clock", &server);
    arguments["env"] = json!({"COLOUR": "red", "API_KEY": "old"});
    call(client, "launch_stdio", arguments).await;
    let environment = |place: usize| -> Value { server.processes()[place].env.clone() };
    assert_eq!(environment(0)["COLOUR"], "red");

    let set = json!({"entry_id": "stdio-clock", "environment": {"API_KEY": "new", "GITHUB_TOKEN": "t"}});
    let changed = call(client, "config_set", set).await;
    assert_eq!(changed["server"]["state"], "ready");
    server.wait_spawned(2).await;
    let now = environment(1);
    assert_eq!((&now["API_KEY"], &now["GITHUB_TOKEN"], &now["COLOUR"]), (&json!("new"), &json!("t"), &json!("red")));
    assert_eq!(client.call_tool("clock__now", json!({})).await.text(), "noon");

    let problem = refusal(client, "config_set", json!({"entry_id": "clock", "environment": {"PATH": "/tmp"}})).await;
    assert!(problem.starts_with("PATH can not be set here; allowed are names that begin with API_KEY, "), "{problem}");
    let problem = refusal(client, "config_set", json!({"entry_id": "clock", "environment": {}})).await;
    assert_eq!(problem, "`environment` must be an object with at least one variable");
    assert_eq!(server.processes().len(), 2, "what was refused started nothing");

    // The same lists from another process are no change: only coming and going was told.
    call(client, "remove", json!({"entry_id": "clock"})).await;
    for (follower, before) in followers.iter().zip(before) {
        follower.heard_all(before.map(|count| count + 1)).await;
        assert_eq!(follower.counts(), before.map(|count| count + 2), "{}", follower.client.revision());
    }
}

// edges F4
#[tokio::test]
async fn whoever_leaves_while_a_server_starts_has_cancelled_and_held_up_nobody() {
    let gate = Gate::new();
    let slow = clock().hold("tools/list", &gate).stdio().await;
    let good = clock().stdio().await;
    let gateway = with_tools("").serve().await;
    let follower = ListFollower::begin(gateway.client().connect().await).await;
    for (round, modern) in [false, true].into_iter().enumerate() {
        let before = follower.counts();
        let client = if modern { gateway.client().modern() } else { gateway.client() }.connect().await;
        let params = json!({"name": "mcp_registry_launch_stdio", "arguments": launch_arguments("slow", &slow)});
        let running = client.start("tools/call", params);
        gate.reached(round + 1).await;
        launch(&follower.client, "good", &good).await;
        client.cancel(&running).await;
        drop((running, client));
        slow.wait_all_exited().await;
        let active = call(&follower.client, "active", json!({})).await;
        let names: Vec<&Value> = active["servers"].as_array().unwrap().iter().map(|server| &server["name"]).collect();
        assert_eq!(names, [&json!("good")], "{active}");
        follower.heard_all(before).await;
        call(&follower.client, "remove", json!({"entry_id": "good"})).await;
        follower.heard_all(before.map(|count| count + 1)).await;
        assert_eq!(follower.counts(), before.map(|count| count + 2), "only the other one came and went");
    }
}
