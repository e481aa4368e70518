//! Names that are too long for clients.

use std::collections::HashSet;

use serde_json::json;
use tidings_testkit::{Gateway, Server};

const LIMIT: usize = 64;

// interface (names and URIs)
#[tokio::test]
async fn long_names_are_cut_and_hashed_and_can_be_called() {
    let stem = "x".repeat(80);
    let locals = [format!("{stem}-one"), format!("{stem}-two"), format!("{}é{}", "y".repeat(49), "z".repeat(30))];
    let long = locals.iter().fold(Server::builder("long"), |server, local| {
        let text = local.clone();
        server
            .tool(local, move |call| {
                let answer = call.ok_text(&text);
                async move { answer }
            })
            .prompt(local, |call| async move { call.ok_message("hi") })
    });
    let (long, short) = (long.stdio().await, Server::builder("short").echo("echo").stdio().await);
    let gateway = Gateway::builder().server("long", &long).server("short", &short).serve().await;
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        let names: Vec<String> = client.names("tools").await.into_iter().filter(|n| n.starts_with("long__")).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 3, "distinct: {names:?}");
        assert!(names.iter().all(|name| name.len() <= LIMIT), "{names:?}");
        for (name, local) in names.iter().zip(&locals) {
            assert_eq!(&client.call_tool(name, json!({})).await.text(), local, "{name}");
        }
        let prompts = client.names("prompts").await;
        assert_eq!(prompts, names, "prompts are named alike");
        assert_eq!(client.request("prompts/get", json!({"name": prompts[1]})).await.text(), "hi");
    }
    let asked = long.wait_for_method("prompts/get", 1).await;
    assert_eq!(asked.params()["name"], locals[1].as_str(), "the server hears its own name");
}

// S2.7, interface (names and URIs)
#[tokio::test]
async fn a_server_alone_keeps_its_long_names() {
    let name = "x".repeat(100);
    let server = Server::builder("one").echo(&name).stdio().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    assert_eq!(client.names("tools").await, [name.as_str()]);
    assert_eq!(client.call_tool(&name, json!({})).await.text(), "{}");
}
