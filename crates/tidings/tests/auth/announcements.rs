//! Who is told of what.

use serde_json::{Value, json};
use tidings_testkit::{Client, PendingExchange, Server, Tool, is_modern};

use crate::{follow, full, guarded, hear, red_and_blue, told, with_token};

const CHANGES: &str = "dev.tidings/changes";

fn add(server: &Server, name: &str) {
    server.put_tool(Tool::text_tool(name, "new"));
    assert!(server.list_changed("tools") > 0, "somebody hears it");
}

/// Clients of both eras that follow with a token, and want to know what changed.
async fn followers(gateway: &tidings_testkit::Gateway, token: &str) -> Vec<(Client, PendingExchange)> {
    let extension = json!({ CHANGES: {} });
    let builders = [
        gateway.client().capabilities(json!({ "experimental": extension })),
        gateway.client().modern().capabilities(json!({ "extensions": extension })),
    ];
    let mut clients = Vec::new();
    for builder in builders {
        let client = with_token(builder, token).connect().await;
        let stream = follow(&client).await;
        clients.push((client, stream));
    }
    clients
}

fn summary(params: &Value) -> Value {
    params["_meta"][CHANGES].clone()
}

// issue 6.8; Invariant 2
#[tokio::test]
async fn a_change_is_told_to_those_who_can_see_it_and_says_only_that() {
    let (red, blue, gateway) = red_and_blue().await;
    let mut all = followers(&gateway, "all").await;
    all.extend(followers(&gateway, "boss").await);
    let (reds, blues) = (followers(&gateway, "red").await, followers(&gateway, "blue").await);
    let added = |name: &str| json!({"added": [name], "removed": [], "changed": []});

    add(&blue, "secret");
    for (client, _) in all.iter().chain(&blues) {
        assert_eq!(summary(&hear(client, "tools", 1).await), added("blue__secret"));
    }
    // What the others can see comes later, and is the first that they hear.
    add(&red, "open");
    for (client, _) in &all {
        assert_eq!(summary(&hear(client, "tools", 2).await), added("red__open"));
    }
    for (client, _) in &reds {
        assert_eq!(summary(&hear(client, "tools", 1).await), added("red__open"), "{}", client.revision());
    }
    blue.remove_tool("secret");
    blue.list_changed("tools");
    for (client, _) in &blues {
        let gone = json!({"added": [], "removed": ["blue__secret"], "changed": []});
        assert_eq!(summary(&hear(client, "tools", 2).await), gone);
    }
    for (clients, count) in [(&all, 3), (&reds, 1), (&blues, 2)] {
        for (client, _) in clients {
            hear(client, "tools", count).await;
            assert_eq!((told(client, "tools"), told(client, "prompts")), (count, 0), "{:?}", client.received());
        }
    }
}

// issue 6.8; bridging 6
#[tokio::test]
async fn what_was_missed_is_summed_up_as_far_as_it_can_be_seen() {
    let (red, blue, gateway) = red_and_blue().await;
    let witness = with_token(gateway.client().modern(), "all").connect().await;
    let _stream = follow(&witness).await;
    let away = with_token(gateway.client().capabilities(json!({"experimental": {CHANGES: {}}})), "red").connect().await;
    drop(follow(&away).await);
    for (nth, (server, name)) in [(&red, "a"), (&blue, "b"), (&red, "c")].into_iter().enumerate() {
        add(server, name);
        hear(&witness, "tools", nth + 1).await;
    }
    let _stream = away.open_get().await;
    let missed = summary(&hear(&away, "tools", 1).await);
    assert_eq!(missed, json!({"added": ["red__a", "red__c"], "removed": [], "changed": []}));
}

// issue 6.8; bridging 62
#[tokio::test]
async fn what_a_server_says_to_all_is_said_to_those_who_may_use_it() {
    let red = full("red").stdio().await;
    let blue = full("blue").stdio().await;
    let gateway = guarded().server("red", &red).server("blue", &blue).serve().await;
    let listeners = [("all", 2), ("red", 1), ("blue", 1)];
    let mut clients = Vec::new();
    for (token, _) in listeners {
        let client = with_token(gateway.client(), token).connect().await;
        let stream = follow(&client).await;
        clients.push((client, stream));
    }
    for (server, name) in [(&red, "red"), (&blue, "blue")] {
        assert!(server.notify("notifications/vendor/news", json!({ "of": name })) > 0);
    }
    for ((token, count), (client, _)) in listeners.iter().zip(&clients) {
        assert!(!is_modern(&client.revision()));
        client.wait_for_method("notifications/vendor/news", *count).await;
        // A change that all can see settles what was on its way.
        let news: Vec<Value> =
            client.received().iter().filter(|r| r.method.ends_with("news")).map(|r| r.params()).collect();
        assert_eq!(news.len(), *count);
        assert!(*token == "all" || news == [json!({ "of": token })], "{token}: {news:?}");
    }
    for server in [&red, &blue] {
        add(server, "later");
    }
    for ((_, count), (client, _)) in listeners.iter().zip(&clients) {
        hear(client, "tools", 1).await;
        assert_eq!(client.count("notifications/vendor/news"), *count);
    }
}
