//! Servers that come and go while clients with tokens are connected.

use serde_json::{Value, json};

use crate::{follow, full, guarded, hear, told, with_token};

const CHANGES: &str = "dev.tidings/changes";

// S4.1, S4.4; issue 6.8
#[tokio::test]
async fn a_server_comes_and_goes_only_for_those_whose_patterns_fit() {
    let (red, blue) = (full("red").stdio().await, full("blue").stdio().await);
    let gateway = guarded().server("red", &red).serve().await;
    let mut followers = Vec::new();
    for token in ["all", "boss", "blue", "red"] {
        for builder in [
            gateway.client().capabilities(json!({"experimental": {CHANGES: {}}})),
            gateway.client().modern().capabilities(json!({"extensions": {CHANGES: {}}})),
        ] {
            let client = with_token(builder, token).connect().await;
            let stream = follow(&client).await;
            followers.push((token, client, stream));
        }
    }
    let names = json!(["blue__echo", "blue__own-blue"]);
    let summary = |params: Value| params["_meta"][CHANGES].clone();

    assert_eq!(gateway.api("PUT", "/servers/blue", blue.keys()).await.0, 201);
    for (token, client, _) in followers.iter().filter(|(token, ..)| *token != "red") {
        let came = summary(hear(client, "tools", 1).await);
        assert_eq!(came, json!({"added": names, "removed": [], "changed": []}), "{token} {}", client.revision());
        assert!(client.names("prompts").await.contains(&"blue__greet".to_owned()));
    }
    assert_eq!(gateway.api("DELETE", "/servers/blue", Value::Null).await.0, 200);
    for (token, client, _) in followers.iter().filter(|(token, ..)| *token != "red") {
        let went = summary(hear(client, "tools", 2).await);
        assert_eq!(went, json!({"added": [], "removed": names, "changed": []}), "{token} {}", client.revision());
    }
    // What the others hear first is what they can see.
    red.put_tool(tidings_testkit::Tool::text_tool("new", "new"));
    red.list_changed("tools");
    for (token, client, _) in &followers {
        match *token {
            "blue" => assert_eq!((client.names("tools").await.len(), told(client, "tools")), (0, 2)),
            "red" => {
                assert_eq!(summary(hear(client, "tools", 1).await)["added"], json!(["new"]));
                assert_eq!((told(client, "tools"), told(client, "prompts")), (1, 0));
            }
            _ => assert_eq!(summary(hear(client, "tools", 3).await)["added"], json!(["new"])),
        }
    }
}
