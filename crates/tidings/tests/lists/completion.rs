//! Completion goes to the server whose prompt or template it is about.

use std::sync::Arc;

use serde_json::{Value, json};
use tidings_testkit::{Client, Exchange, Gateway, Server, ServerBuilder, V2025_03_26, V2025_06_18};

fn completing(name: &str) -> ServerBuilder {
    let own: Arc<str> = name.into();
    Server::builder(name)
        .prompt("greet", |call| async move { call.ok_message("hi") })
        .template("file:///{path}", |_| None)
        .completion(move |call| {
            let answer = call.ok(json!({"completion": {"values": [&*own], "total": 1, "x-unknown": 1e300}}));
            async move { answer }
        })
}

async fn complete(client: &Client, reference: Value) -> Exchange {
    let argument = json!({"name": "a", "value": "v"});
    let params = json!({"ref": reference, "argument": argument, "context": {"arguments": {"b": "c"}}});
    client.request("completion/complete", params).await
}

fn prompt(name: &str) -> Value {
    json!({"type": "ref/prompt", "name": name})
}

fn template(uri: &str) -> Value {
    json!({"type": "ref/resource", "uri": uri})
}

// bridging A1 (completion/complete)
#[tokio::test]
async fn completion_goes_to_the_server_of_the_reference_in_its_own_words() {
    let old = completing("old").revisions(&[V2025_03_26]).stdio().await;
    let mid = completing("mid").revisions(&[V2025_06_18]).http().await;
    let new = completing("new").modern_only().http().await;
    let gateway = Gateway::builder().server("old", &old).server("mid", &mid).server("new", &new).serve().await;
    let clients = [gateway.client().connect().await, gateway.client().modern().connect().await];
    for (name, server, has_context) in [("old", &old, false), ("mid", &mid, true), ("new", &new, true)] {
        for (nth, client) in clients.iter().enumerate() {
            let by_name = complete(client, prompt(&format!("{name}__greet"))).await.result();
            assert_eq!(by_name["completion"]["values"], json!([name]));
            assert_eq!(by_name["completion"]["x-unknown"], 1e300);
            assert_eq!(by_name.get("resultType").is_some(), nth == 1);
            let by_uri = complete(client, template(&format!("{name}+file:///{{path}}"))).await.result();
            assert_eq!(by_uri["completion"]["values"], json!([name]));
            let seen: Vec<_> = server.received().into_iter().filter(|r| r.method == "completion/complete").collect();
            let [.., first, second] = &seen[..] else { panic!("{seen:?}") };
            assert_eq!(first.params()["ref"], prompt("greet"));
            assert_eq!(second.params()["ref"], template("file:///{path}"));
            assert_eq!(first.params()["argument"], json!({"name": "a", "value": "v"}));
            let context = first.params().get("context").cloned();
            assert_eq!(context, has_context.then(|| json!({"arguments": {"b": "c"}})), "{name}");
        }
        assert_eq!(server.count("completion/complete"), 4);
    }
}

// bridging A1 (completion/complete)
#[tokio::test]
async fn a_server_without_completions_suggests_nothing_and_is_not_asked() {
    let plain = Server::builder("plain")
        .prompt("greet", |call| async move { call.ok_message("hi") })
        .template("file:///{path}", |_| None)
        .stdio()
        .await;
    let other = completing("other").stdio().await;
    let gateway = Gateway::builder().server("plain", &plain).server("other", &other).serve().await;
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        for reference in [prompt("plain__greet"), template("plain+file:///{path}")] {
            let result = complete(&client, reference).await.result();
            assert_eq!(result["completion"]["values"], json!([]), "{result}");
        }
        assert_eq!(complete(&client, prompt("nobody")).await.error_code(), -32602);
        assert_eq!(complete(&client, json!({"type": "ref/odd"})).await.error_code(), -32602);
    }
    assert_eq!((plain.count("completion/complete"), other.count("completion/complete")), (0, 0));
}
