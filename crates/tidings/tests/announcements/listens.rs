//! `subscriptions/listen`: each stream for itself.

use serde_json::{Value, json};
use tidings_testkit::*;

use crate::{ListFollower, add, full, full_servers, list_changed, quick};

const TAG: &str = "io.modelcontextprotocol/subscriptionId";

async fn listen(client: &Client, id: &str, flags: Value) -> PendingExchange {
    let mut listen = client.call("subscriptions/listen").id(id).params(json!({ "notifications": flags })).start();
    let acknowledged = listen.next_method("notifications/subscriptions/acknowledged").await;
    assert_eq!(acknowledged.params()["notifications"], flags);
    assert_eq!(acknowledged.param_raw(&["_meta", TAG]), id);
    listen
}

/// The notices a client got that are tagged with this id, typed.
fn tagged(client: &Client, id: &str) -> Vec<String> {
    let with_id = |r: &ReceivedMessage| r.method.ends_with("list_changed") && r.param_raw(&["_meta", TAG]) == id;
    client.received().iter().filter(|r| with_id(r)).map(|r| r.method.clone()).collect()
}

// bridging 24, 25
#[tokio::test]
async fn every_listen_has_its_own_filter_and_its_own_id() {
    for server in full_servers().await {
        let gateway = quick().server("one", &server).serve().await;
        for (round, client) in [gateway.client(), gateway.stdio()].into_iter().enumerate() {
            let client = client.modern().connect().await;
            let _one = listen(&client, "1", json!({"toolsListChanged": true, "promptsListChanged": true})).await;
            let _text = listen(&client, "\"1\"", json!({"toolsListChanged": true})).await;
            let _prompts = listen(&client, "\"p\"", json!({"promptsListChanged": true})).await;
            add(&server, "tools", &format!("t{round}"));
            client.wait_for_method(&list_changed("tools"), 2).await;
            add(&server, "resources", &format!("r{round}"));
            add(&server, "prompts", &format!("p{round}"));
            client.wait_for_method(&list_changed("prompts"), 2).await;
            assert_eq!(tagged(&client, "1"), [list_changed("tools"), list_changed("prompts")]);
            assert_eq!(tagged(&client, "\"1\""), [list_changed("tools")]);
            assert_eq!(tagged(&client, "\"p\""), [list_changed("prompts")]);
            assert_eq!(client.received().iter().filter(|r| r.method.ends_with("list_changed")).count(), 4);
        }
    }
}

// bridging 26
#[tokio::test]
async fn a_listen_ends_with_its_result_when_the_gateway_does() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let client = gateway.client().modern().connect().await;
    let on_http = listen(&client, "\"h\"", json!({"toolsListChanged": true})).await;
    let pipe = gateway.stdio().modern().connect().await;
    let on_stdio = listen(&pipe, "7", json!({"toolsListChanged": true})).await;
    add(&server, "tools", "new");
    client.wait_for_method(&list_changed("tools"), 1).await;
    pipe.wait_for_method(&list_changed("tools"), 1).await;
    gateway.begin_terminate();
    pipe.close_stdin();
    for (listen, id) in [(on_http, "\"h\""), (on_stdio, "7")] {
        let end = listen.finish().await;
        assert_eq!(end.result()["resultType"], "complete");
        assert_eq!(end.result()["_meta"][TAG].to_string(), id);
        assert!(end.failure.is_none(), "{end:?}");
    }
    assert!(gateway.wait_exit().await.success());
    assert!(pipe.wait_exit().await.success());
    for client in [client, pipe] {
        let all = client.received();
        let result = all.iter().position(ReceivedMessage::is_response).unwrap();
        assert!(!all[result..].iter().any(|r| r.method.ends_with("list_changed")), "{all:?}");
    }
}

// bridging 25
#[tokio::test]
async fn a_listen_that_was_left_is_told_nothing_and_a_new_one_begins_with_now() {
    let server = full().modern_only().http().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut witness = ListFollower::begin(gateway.client().connect().await).await;
    let client = gateway.client().modern().connect().await;
    drop(listen(&client, "1", json!({"toolsListChanged": true})).await);
    add(&server, "tools", "new");
    witness.expect(&["tools"]).await;
    let mut second = listen(&client, "2", json!({"toolsListChanged": true, "resourcesListChanged": true})).await;
    add(&server, "resources", "new");
    let first_told = second.next().await.unwrap();
    assert_eq!(first_told.method, list_changed("resources"));
    assert_eq!(tagged(&client, "1"), Vec::<String>::new());
}
