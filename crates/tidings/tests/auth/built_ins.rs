//! What is part of the program: the search is for everybody and finds what its caller may use; watches go by the name
//! `watch`.

use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, TempDir};

use crate::{auth, both_eras, full, quick};

async fn found(client: &Client, query: &str) -> Vec<String> {
    let answer = client.call_tool("retrieve_tools", json!({ "query": query })).await;
    let said: Value = serde_json::from_str(&answer.text()).unwrap();
    said["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn call(client: &Client, name: &str) -> (bool, String) {
    let answer = client.call_tool("call_tool", json!({"name": name, "arguments": {}})).await;
    (answer.result()["isError"] == true, answer.text())
}

// issue 6.8
#[tokio::test]
async fn a_search_finds_and_calls_only_what_its_caller_may_use() {
    for expose in ["search", "both"] {
        let red = full("red").stdio().await;
        let blue = full("blue").modern_only().http().await;
        let gateway = quick(&auth(&[("all", &["*"], false), ("red", &["red"], false), ("none", &[], false)]))
            .toml(&format!("[gateway]\nexpose = \"{expose}\""))
            .server("red", &red)
            .server("blue", &blue)
            .serve()
            .await;
        for _round in 0..2 {
            for client in both_eras(&gateway, "all").await {
                assert_eq!(found(&client, "own").await.len(), 2);
                assert_eq!(call(&client, "blue__own-blue").await, (false, "done".to_owned()));
            }
            let calls = blue.count("tools/call");
            for client in both_eras(&gateway, "red").await {
                assert_eq!(found(&client, "own").await, ["red__own-red"]);
                assert_eq!(found(&client, "blue").await, [""; 0]);
                assert_eq!(call(&client, "red__own-red").await, (false, "done".to_owned()));
                for name in ["blue__own-blue", "own-blue"] {
                    let (failed, text) = call(&client, name).await;
                    let said = text.replace(name, "");
                    assert!(failed && text.starts_with("there is no tool") && !said.contains("blue"), "{text}");
                }
            }
            for client in both_eras(&gateway, "none").await {
                assert_eq!(found(&client, "own echo").await, [""; 0]);
                assert_eq!(client.names("tools").await, ["retrieve_tools", "call_tool"]);
            }
            assert_eq!(blue.count("tools/call"), calls);
        }
    }
}

// issue 6.8
#[tokio::test]
async fn watches_go_by_the_name_watch() {
    let dir = TempDir::new();
    let file = dir.write("settings.json", "{}");
    let red = full("red").stdio().await;
    let gateway: Gateway = quick(&auth(&[("red", &["red"], false), ("watcher", &["watch"], false)]))
        .toml(&format!("[watch.settings]\nfile = {file:?}"))
        .server("red", &red)
        .serve()
        .await;
    for client in both_eras(&gateway, "watcher").await {
        assert_eq!(client.names("resources").await, ["watch://settings"]);
        assert_eq!(client.names("tools").await, [""; 0]);
        let read = client.request("resources/read", json!({"uri": "watch://settings"})).await.result();
        assert_eq!(read["contents"][0]["text"], "{}");
    }
    for client in both_eras(&gateway, "red").await {
        assert_eq!(client.names("resources").await, ["file:///r"]);
        let read = client.request("resources/read", json!({"uri": "watch://settings"})).await;
        assert!(!read.response().text().contains("\"text\""), "{read:?}");
    }
}
