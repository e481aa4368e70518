//! The streams that the gateway opens to modern servers, when they are refused or cut.

use std::time::{Duration, Instant};

use tidings_testkit::*;

use crate::*;

// edges G4
#[tokio::test]
async fn followers_are_told_soon_after_every_cut_however_often_the_stream_is_cut() {
    let content = Content::default();
    let entry = || Server::builder("one").entry_resource(resource("file:///a", &content)).resource("file:///b", "b");
    let server = entry().modern_only().http().await;
    let gateway = quick().server("one", &server).serve().await;
    let follower = Follower::of(gateway.client(), &["one+file:///a", "one+file:///b"]).await;
    follower.client.request("resources/read", json!({"uri": "one+file:///a"})).await.result();
    for cut in 1..=5 {
        server.end_listens();
        *content.lock().unwrap() = cut.to_string();
        let begun = Instant::now();
        follower.wait_nth(cut).await;
        // The unit tests say one second; this machine may be busy. Without the repair it is sixteen for the last.
        assert!(begun.elapsed() < Duration::from_secs(6), "{cut}: {:?}", begun.elapsed());
        let told = follower.told();
        assert!(told.iter().all(|uri| uri == "one+file:///a"), "the other one has not changed: {told:?}");
        eventually("a server that tells", || (server.resource_updated("file:///z") == 0).then_some(())).await;
        wait_active(&gateway).await;
    }
}

async fn subscriptions(gateway: &Gateway) -> Value {
    let (_, found) = gateway.get_as_admin("/api/v1/subscriptions").await;
    serde_json::from_str(&found).unwrap()
}

async fn wait_active(gateway: &Gateway) {
    let active = async {
        loop {
            let found = subscriptions(gateway).await;
            let all = found["subscriptions"].as_array().unwrap();
            if all.iter().all(|one| one["state"] == "active" && one.get("unheard_seconds").is_none()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within("subscriptions that are heard", active).await;
}

// edges G4: "visible"
#[tokio::test]
async fn a_follower_that_is_not_heard_for_a_while_can_be_seen() {
    let server = three().modern_only().http().await;
    let gateway = quick().server("one", &server).serve().await;
    let _follower = Follower::of(gateway.client(), &["one+file:///a"]).await;
    assert_eq!(gateway.metric("tidings_unheard_resources").await, Some(0.0));
    server.fail_next(LISTEN, 1_000);
    server.end_listens();
    gateway.wait_metric("tidings_unheard_resources", |count| count == 1.0).await;
    let found = subscriptions(&gateway).await;
    assert!(found["subscriptions"][0]["unheard_seconds"].as_u64().unwrap() >= 3, "{found}");
    let shown = gateway.command(&["subscriptions"]).await;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(" on one, 1 follower, unheard for "), "{shown}");
    server.behave();
    gateway.wait_metric("tidings_unheard_resources", |count| count == 0.0).await;
    wait_active(&gateway).await;
}

// edges A6
#[tokio::test]
async fn a_listen_that_is_refused_once_is_asked_for_again_and_the_lists_are_polled_meanwhile() {
    for on_http in [false, true] {
        let server = three().echo("old").modern_only();
        let server = if on_http { server.http().await } else { server.stdio().await };
        // The one for lists is the first, and the gateway asks for it before it is ready.
        server.fail_next(LISTEN, 2);
        let windows = "list_quiet = \"20ms\"\nlist_max_wait = \"200ms\"\n";
        let gateway = quick().toml(windows).server_with("one", &server, "poll_interval = \"300ms\"").serve().await;
        let client = gateway.client().connect().await;
        server.put_tool(Tool::text_tool("polled", "polled"));
        let polled = async {
            while !client.names("tools").await.contains(&"one__polled".to_owned()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        within("what was found by polling", polled).await;
        server.wait_listening(1).await;
        server.put_tool(Tool::text_tool("told", "told"));
        eventually("a listen for lists", || (server.list_changed("tools") > 0).then_some(())).await;
        let told = async {
            while !client.names("tools").await.contains(&"one__told".to_owned()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        within("what was announced", told).await;
        let listens = server.count(LISTEN);
        assert!((3..6).contains(&listens), "later and later, and then no more: {listens}");
        // One for resources is as good.
        let mut follower = Follower::of(gateway.client(), &["one+file:///a"]).await;
        server.fail_next(LISTEN, 1);
        server.end_listens();
        let told = follower.told().len();
        wait_active(&gateway).await;
        eventually("a server that tells", || (server.resource_updated("file:///a") > 0).then_some(())).await;
        follower.wait_nth(told + 1).await;
        follower.leave("one+file:///a", 0).await;
    }
}

// edges C11
#[tokio::test]
async fn where_lists_are_not_announced_to_modern_clients_the_acknowledgement_says_so() {
    let server = three().echo("old").stdio().await;
    let suppress = "list_quiet = \"20ms\"\nlist_max_wait = \"200ms\"\nsuppress = [\"2026-07-28\"]";
    let gateway = quick().toml(suppress).server("one", &server).serve().await;
    for client in [gateway.client().modern(), gateway.stdio().modern()] {
        let client = client.connect().await;
        let found = client.request("server/discover", json!({})).await.result();
        assert_ne!(found["capabilities"]["tools"]["listChanged"], true, "{found}");
        let filter = json!({
            "toolsListChanged": true, "resourcesListChanged": true, "promptsListChanged": true,
            "resourceSubscriptions": ["one+file:///a"],
        });
        let mut listen = client.start(LISTEN, json!({ "notifications": filter }));
        let acknowledged = listen.next_method(ACKNOWLEDGED).await;
        assert_eq!(acknowledged.params()["notifications"], json!({"resourceSubscriptions": ["one+file:///a"]}));
        let name = format!("new-{}", client.is_on_http());
        server.put_tool(Tool::text_tool(&name, "new"));
        server.list_changed("tools");
        let listed = async {
            while !client.names("tools").await.contains(&format!("one__{name}")) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        within("the new tool", listed).await;
        update(&server, "file:///a");
        let next = listen.next().await.unwrap();
        assert_eq!(next.method, UPDATED, "no list is announced, and the resource is");
    }
}
