//! What a token sees, and what it can use.

use serde_json::{Value, json};
use tidings_testkit::{Client, Exchange, Gateway, Server};

use crate::{both_eras, error_about, everything, follow, full, guarded, hear, red_and_blue, with_token};

// issue 6.8; bridging 0.3
#[tokio::test]
async fn every_list_holds_what_the_token_may_use_and_nothing_else() {
    let (_red, _blue, gateway) = red_and_blue().await;
    let of = |name: &str| {
        [
            vec![format!("{name}__echo"), format!("{name}__own-{name}")],
            vec![format!("{name}__greet")],
            vec![format!("{name}+file:///r")],
            vec![format!("{name}+file:///t/{{x}}")],
        ]
    };
    for name in ["red", "blue"] {
        for client in both_eras(&gateway, name).await {
            assert_eq!(everything(&client).await, of(name), "{} {name}", client.revision());
        }
    }
    let both: Vec<Vec<String>> =
        of("red").into_iter().zip(of("blue")).map(|(red, blue)| [red, blue].concat()).collect();
    for name in ["all", "boss"] {
        for client in both_eras(&gateway, name).await {
            assert_eq!(everything(&client).await, both);
        }
    }
}

/// Every request that names something of a server.
async fn uses(client: &Client, server: &str) -> Vec<(String, Exchange)> {
    let argument = json!({"name": "a", "value": "v"});
    let complete = |reference: Value| json!({"ref": reference, "argument": argument});
    let uri = format!("{server}+file:///r");
    let template = format!("{server}+file:///t/{{x}}");
    let mut requests: Vec<(&str, String, Value)> = Vec::new();
    for tool in
        [format!("{server}__echo"), format!("{server}:echo"), format!("mcp_{server}_echo"), format!("own-{server}")]
    {
        requests.push(("tools/call", tool.clone(), json!({"name": tool, "arguments": {}})));
    }
    let prompt = format!("{server}__greet");
    requests.push(("prompts/get", prompt.clone(), json!({ "name": prompt })));
    for uri in [uri, format!("{server}+file:///t/1"), format!("{server}+file:///unlisted")] {
        requests.push(("resources/read", uri.clone(), json!({ "uri": uri })));
    }
    requests.push(("completion/complete", prompt.clone(), complete(json!({"type": "ref/prompt", "name": prompt}))));
    requests.push((
        "completion/complete",
        template.clone(),
        complete(json!({"type": "ref/resource", "uri": template})),
    ));
    let mut answers = Vec::new();
    for (method, name, params) in requests {
        answers.push((name, client.request(method, params).await));
    }
    answers
}

// issue 6.8
#[tokio::test]
async fn what_a_token_may_not_use_is_as_unknown_as_what_does_not_exist() {
    let (red, blue, gateway) = red_and_blue().await;
    let before = blue.record().len();
    for client in both_eras(&gateway, "red").await {
        let hidden = uses(&client, "blue").await;
        let nobody = uses(&client, "none").await;
        assert_eq!(hidden.len(), nobody.len());
        for ((hidden, refused), (absent, unknown)) in hidden.iter().zip(&nobody) {
            assert_eq!(error_about(refused, hidden), error_about(unknown, absent), "{}", client.revision());
            assert_eq!(refused.status, unknown.status);
        }
    }
    assert!(blue.record().since(before).iter().all(|r| r.method.ends_with("/list")), "it hears nothing of it");
    for (name, answer) in uses(&both_eras(&gateway, "red").await[1], "red").await {
        if !name.ends_with("unlisted") {
            assert!(answer.response().error().is_null(), "{name}: {answer:?}");
        }
    }
    assert!(red.count("tools/call") > 0);
}

// issue 6.8: that a tool was there is told to those who could see it
#[tokio::test]
async fn a_tool_that_went_was_never_there_for_those_who_may_not_use_its_server() {
    let (_red, blue, gateway) = red_and_blue().await;
    let witness = with_token(gateway.client().modern(), "blue").connect().await;
    let _stream = follow(&witness).await;
    blue.remove_tool("own-blue");
    assert!(blue.list_changed("tools") > 0);
    hear(&witness, "tools", 1).await;
    let error = witness.call_tool("blue__own-blue", json!({})).await.error().to_string();
    assert!(error.contains("removedAt"), "who could see it is told: {error}");
    for client in both_eras(&gateway, "red").await {
        let gone = client.call_tool("blue__own-blue", json!({})).await;
        let absent = client.call_tool("none__own-blue", json!({})).await;
        assert_eq!(error_about(&gone, "blue__own-blue"), error_about(&absent, "none__own-blue"));
    }
}

// issue 6.8
#[tokio::test]
async fn a_bare_name_has_to_be_unique_among_what_the_token_may_use() {
    let (red, blue, gateway) = red_and_blue().await;
    for client in both_eras(&gateway, "all").await {
        assert!(!client.call_tool("echo", json!({})).await.error().is_null(), "two have it");
    }
    for (token, server) in [("red", &red), ("blue", &blue)] {
        let before = server.count("tools/call");
        for client in both_eras(&gateway, token).await {
            assert_eq!(client.call_tool("echo", json!({"of": token})).await.text(), json!({"of": token}).to_string());
        }
        assert_eq!(server.count("tools/call"), before + 2);
    }
}

// issue 6.8; bridging 46
#[tokio::test]
async fn headers_of_a_hidden_tool_are_not_asked_for() {
    let tool = json!({"name": "deploy", "inputSchema": {"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
    }}});
    let red = full("red").stdio().await;
    let blue = Server::builder("blue").modern_only().tool_def(tool, |call| async move { call.ok_text("done") });
    let blue = blue.http().await;
    let gateway = guarded().server("red", &red).server("blue", &blue).serve().await;
    let call = async |token: &str, name: &str| {
        let client = with_token(gateway.client().modern(), token).connect().await;
        client.call_tool(name, json!({"region": "eu"})).await
    };
    assert_eq!(call("blue", "blue__deploy").await.error_code(), -32020, "the header is missing");
    let (hidden, unknown) = (call("red", "blue__deploy").await, call("red", "none__deploy").await);
    assert_eq!(error_about(&hidden, "blue__deploy"), error_about(&unknown, "none__deploy"));
}

// bridging "Caching"
#[tokio::test]
async fn what_is_given_to_a_token_is_private() {
    let list = json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}], "resultType": "complete",
        "ttlMs": 60_000, "cacheScope": "public"});
    let read = json!({"contents": [], "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"});
    let server = || {
        let (list, read) = (list.clone(), read.clone());
        Server::builder("red")
            .modern_only()
            .resource("file:///r", "r")
            .on_raw("tools/list", move |call| {
                let answer = call.ok(list.clone());
                async move { answer }
            })
            .on_raw("resources/read", move |call| {
                let answer = call.ok(read.clone());
                async move { answer }
            })
    };
    let red = server().http().await;
    let open = Gateway::builder().server("red", &red).serve().await;
    let guarded = guarded().server("red", &red).serve().await;
    let anybody = open.client().modern().connect().await;
    let boss = with_token(guarded.client().modern(), "boss").connect().await;
    for (client, scope) in [(anybody, "public"), (boss, "private")] {
        let list = client.request("tools/list", json!({})).await.result();
        assert_eq!(list["cacheScope"], scope, "what a limited token would not get");
        let read = client.request("resources/read", json!({"uri": "file:///r"})).await.result();
        assert_eq!(read["cacheScope"], scope);
    }
}

// issue 6.8
#[tokio::test]
async fn a_cursor_leads_nobody_into_the_list_of_somebody_else() {
    let red = full("red").stdio().await;
    let blue = full("blue").stdio().await;
    let gateway = guarded().server("red", &red).server("blue", &blue).toml("[gateway]\npage_size = 1").serve().await;
    let all = with_token(gateway.client(), "all").connect().await;
    let limited = with_token(gateway.client(), "red").connect().await;
    assert_eq!(limited.names("tools").await, ["red__echo", "red__own-red"]);
    let mut params = json!({});
    let mut seen = Vec::new();
    while let Some(cursor) = all.request("tools/list", params).await.result().get("nextCursor") {
        params = json!({ "cursor": cursor });
        let page = limited.request("tools/list", params.clone()).await.result();
        seen.extend(page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()));
    }
    assert_eq!(seen, ["red__own-red"], "what comes after the others is theirs or nothing");
}
