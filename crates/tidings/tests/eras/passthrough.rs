//! A server that is alone, or that declares an extension: what the gateway does not know passes as it is, to exactly one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tidings_testkit::*;

const APPS: &str = "io.modelcontextprotocol/ui";

async fn clients(gateway: &Gateway) -> Vec<Client> {
    vec![
        gateway.client().connect().await,
        gateway.client().modern().connect().await,
        gateway.stdio().connect().await,
        gateway.stdio().modern().connect().await,
    ]
}

/// A server with methods of its own, which counts what was cancelled.
fn vendor(cancelled: &Arc<AtomicUsize>) -> ServerBuilder {
    let cancelled = Arc::clone(cancelled);
    Server::builder("one")
        .echo("echo")
        .on_raw("acme/search", |call| async move {
            call.progress(1);
            call.ok(json!({"items": [call.params()["query"]], "x": 1.50}))
        })
        .on_raw("acme/wait", move |call| {
            let cancelled = Arc::clone(&cancelled);
            async move {
                call.cancelled().await;
                cancelled.fetch_add(1, Ordering::Relaxed);
                call.ok(json!({}))
            }
        })
}

// edges C8
#[tokio::test]
async fn a_method_that_is_not_known_reaches_the_only_server_as_it_is() {
    let cancelled = Arc::new(AtomicUsize::new(0));
    for server in Server::of_every_sort(|| vendor(&cancelled)).await {
        let gateway = Gateway::builder().server("one", &server).serve().await;
        for client in clients(&gateway).await {
            let call = client
                .call("acme/search")
                .params(json!({"query": "q", "odd": [1], "task": {"ttl": 1}}))
                .progress_token("\"mine\"");
            let answer = call.send().await;
            assert_eq!(answer.result()["items"], json!(["q"]));
            assert_eq!(answer.before_with("notifications/progress")[0].params()["progressToken"], "mine");
            let got = server.received().into_iter().rfind(|r| r.method == "acme/search").unwrap().params();
            assert_eq!((&got["query"], &got["odd"]), (&json!("q"), &json!([1])));
            assert_eq!(got["task"], json!({"ttl": 1}), "no task of ours");
            assert_eq!(client.request("acme/none", json!({})).await.error()["code"], -32601, "the server's own word");
            assert!(server.count("acme/none") > 0);

            let (seen, before) = (server.count("acme/wait"), cancelled.load(Ordering::Relaxed));
            let waiting = client.start("acme/wait", json!({}));
            server.wait_for_method("acme/wait", seen + 1).await;
            client.cancel(&waiting).await;
            drop(waiting);
            eventually("the server hears of it", || (cancelled.load(Ordering::Relaxed) > before).then_some(())).await;
        }
    }
}

// edges C8
#[tokio::test]
async fn among_several_servers_it_goes_to_the_one_it_belongs_to_and_never_to_several() {
    let named = |name: &'static str, extension: &str| {
        Server::builder(name)
            .echo(name)
            .resource(&format!("file:///{name}"), "r")
            .capabilities(json!({"tools": {}, "resources": {}, "extensions": {extension: {}}}))
            .on_raw("acme/who", move |call| async move { call.ok(json!({"who": name, "got": call.params()})) })
            .on_raw("com.example/who", move |call| async move { call.ok(json!({"who": name})) })
            .on_raw("org.both/who", move |call| async move { call.ok(json!({"who": name})) })
    };
    let one = named("first", "com.example/catalog").modern_only().http().await;
    let two = named("second", "org.both/a").modern_only().http().await;
    let three = named("third", "org.both/b").stdio().await;
    let gateway = Gateway::builder().server("one", &one).server("two", &two).server("three", &three).serve().await;
    for client in clients(&gateway).await {
        let who = async |method: &str, params: Value| client.request(method, params).await.response().value();
        let by_name = who("acme/who", json!({"name": "two__second"})).await;
        assert_eq!(by_name["result"]["who"], "second", "{by_name}");
        assert_eq!(by_name["result"]["got"]["name"], "second");
        let by_uri = who("acme/who", json!({"uri": "three+file:///third"})).await;
        assert_eq!(
            (&by_uri["result"]["who"], &by_uri["result"]["got"]["uri"]),
            (&json!("third"), &json!("file:///third"))
        );
        assert_eq!(who("com.example/who", json!({})).await["result"]["who"], "first", "it alone declares it");
        for (method, params) in [
            ("org.both/who", json!({})),
            ("acme/who", json!({})),
            ("acme/who", json!({"name": "nothing"})),
            ("acme/who", json!({"uri": "file:///none"})),
            ("tasks/get", json!({"taskId": "x"})),
        ] {
            let refused = who(method, params.clone()).await;
            assert_eq!(refused["error"]["code"], -32601, "{method} {params}");
            if !method.starts_with("tasks/") {
                let words = refused["error"]["message"].as_str().unwrap_or_default();
                // bridging D: the reason, and what would help
                assert!(words.contains("an extension of this prefix") && words.contains("alone"), "{words}");
            }
        }
    }
    for server in [&one, &two, &three] {
        assert_eq!((server.count("org.both/who"), server.count("tasks/get")), (0, 0));
    }
}

/// A server that says what its caller declared.
fn extended() -> ServerBuilder {
    let declared = json!({"tools": {"listChanged": true}, "resources": {}, "experimental": {"e": {}},
        "extensions": {"com.example/x": {"a": [1]}, APPS: {}}});
    Server::builder("one")
        .capabilities(declared)
        .tool_def(
            json!({"name": "app", "inputSchema": {"type": "object"},
                "_meta": {"ui": {"resourceUri": "ui://app/page"}, "ui/resourceUri": "ui://app/page"}}),
            |call| async move { call.ok_text(&call.client_capabilities().to_string()) },
        )
        .resource("ui://app/page", "<p>")
}

// edges C9
#[tokio::test]
async fn extensions_of_the_only_server_pass_in_both_directions() {
    for server in [extended().modern_only().http().await, extended().modern_only().stdio().await] {
        let gateway = Gateway::builder().server("one", &server).serve().await;
        let own = json!({"extensions": {"com.example/y": {"b": 1.0}}, "experimental": {"z": {}}});
        for client in [gateway.client(), gateway.stdio()] {
            let client = client.modern().capabilities(own.clone()).connect().await;
            let hello = client.request("server/discover", json!({})).await.result();
            assert_eq!(hello["capabilities"]["extensions"], json!({"com.example/x": {"a": [1]}, APPS: {}}));
            assert_eq!(hello["capabilities"]["experimental"], json!({"e": {}}));
            let told: Value = serde_json::from_str(&client.call_tool("app", json!({})).await.text()).unwrap();
            assert_eq!(told, own, "byte for byte what the client declared");
        }
        let legacy = gateway.client().connect().await.initialize_result();
        assert_eq!(legacy["capabilities"]["experimental"], json!({"e": {}}));
        assert_eq!(legacy["capabilities"]["extensions"], json!({APPS: {}}), "of the rest no promise for the other era");
    }
}

// edges C9; reach 4
#[tokio::test]
async fn among_several_servers_only_extensions_that_are_carried_pass() {
    let (one, two) = (extended().modern_only().http().await, Server::builder("two").echo("echo").stdio().await);
    let gateway = Gateway::builder().server("one", &one).server("two", &two).serve().await;
    let own = json!({"extensions": {"com.example/y": {}, APPS: {"mimeTypes": []}}, "experimental": {"z": {}}});
    let client = gateway.client().modern().capabilities(own).connect().await;
    let hello = client.request("server/discover", json!({})).await.result();
    assert_eq!(hello["capabilities"]["extensions"], json!({APPS: {}}));
    assert_eq!(hello["capabilities"]["experimental"], Value::Null);
    let told: Value = serde_json::from_str(&client.call_tool("one__app", json!({})).await.text()).unwrap();
    assert_eq!(told, json!({"extensions": {APPS: {"mimeTypes": []}}}));
    let tool = client.list("tools").await.into_iter().find(|tool| tool["name"] == "one__app").unwrap();
    assert_eq!(
        tool["_meta"],
        json!({"ui": {"resourceUri": "ui://one/app/page"}, "ui/resourceUri": "ui://one/app/page"})
    );
    assert_eq!(client.names("resources").await, ["ui://one/app/page"]);
    let read = client.request("resources/read", json!({"uri": "ui://one/app/page"})).await.result();
    assert_eq!(read["contents"][0]["uri"], "ui://one/app/page");
    let alone = Gateway::builder().server("two", &two).server("three", &two).serve().await;
    let hello = alone.client().modern().connect().await.request("server/discover", json!({})).await.result();
    assert_eq!(hello["capabilities"]["extensions"], Value::Null, "nobody declares any");
}

// edges C10
#[tokio::test]
async fn the_state_of_the_only_server_is_its_own() {
    let server = Server::builder("one")
        .tool("ask", |call| async move {
            match call.request_state().as_str() {
                None => call.input_required(json!({"requestState": "own \u{e4}", "inputRequests": {}})),
                Some("own \u{e4}") => call.ok_text("done"),
                Some(_) => call.error(-32602, "not mine", Some(json!({"reason": "state"}))),
            }
        })
        .modern_only()
        .http()
        .await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    for client in [gateway.client(), gateway.stdio()] {
        let client = client.modern().connect().await;
        let first = client.call_tool("ask", json!({})).await.result();
        assert_eq!(first["requestState"], "own \u{e4}");
        let again = async |state: &str| {
            let params = json!({"name": "ask", "arguments": {}, "requestState": state, "inputResponses": {}});
            client.request("tools/call", params).await
        };
        assert_eq!(again("own \u{e4}").await.text(), "done");
        let refused = again("other").await.error();
        assert_eq!(refused, json!({"code": -32602, "message": "not mine", "data": {"reason": "state"}}));
    }
}

// edges C12
#[tokio::test]
async fn params_with_two_meta_are_refused() {
    let server = Server::builder("one").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    for client in [gateway.client().connect().await, gateway.stdio().connect().await] {
        for second in ["_meta", "\\u005fmeta"] {
            let params = format!(
                r#"{{"_meta":{{"progressToken":1}},"name":"echo","arguments":{{}},"{second}":{{"progressToken":2}}}}"#
            );
            let error = client.call("tools/call").params_raw(params).send().await.error();
            assert_eq!(error["code"], -32600, "{error}");
        }
    }
    assert_eq!(server.count("tools/call"), 0);
}

// bridging B6, 36: what a modern server gives a modern client to carry comes back as it was, or not at all.
#[tokio::test]
async fn among_several_servers_a_state_that_was_changed_reaches_nobody() {
    let asking = |name: &'static str| {
        let ask = move |call: ScriptedCall| async move {
            match call.request_state().as_str() {
                None => call.input_required(json!({"requestState": format!("of {name}"), "inputRequests": {}})),
                Some(state) => call.ok_text(state),
            }
        };
        Server::builder(name).tool("ask", ask).tool("other", ask).modern_only()
    };
    let (one, two) = (asking("first").http().await, asking("second").stdio().await);
    let gateway = Gateway::builder().server("one", &one).server("two", &two).serve().await;
    for client in [gateway.client(), gateway.stdio()] {
        let client = client.modern().connect().await;
        let call = async |tool: &str, arguments: Value, state: Option<&str>| {
            let mut params = json!({"name": tool, "arguments": arguments, "inputResponses": {}});
            if let Some(state) = state {
                params["requestState"] = state.into();
            }
            client.request("tools/call", params).await
        };
        let state = call("one__ask", json!({"a": 1}), None).await.result()["requestState"].as_str().unwrap().to_owned();
        assert!(!state.contains("first"), "nobody can read it on the way: {state}");
        let asked = (one.count("tools/call"), two.count("tools/call"));
        let end = state.len() - 1;
        let other = if state.ends_with('A') { "B" } else { "A" };
        let changed = [
            format!("{}{other}", &state[..end]),
            format!("{state}A"),
            state[..end].to_owned(),
            state.replacen("g1.", "g2.", 1),
            "of first".to_owned(),
            String::new(),
        ];
        for changed in &changed {
            let refused = call("one__ask", json!({"a": 1}), Some(changed)).await;
            assert_eq!(refused.error_code(), -32602, "{changed}");
        }
        // Nor with another tool, other arguments, or another server.
        for (tool, arguments) in
            [("one__other", json!({"a": 1})), ("one__ask", json!({"a": 2})), ("two__ask", json!({"a": 1}))]
        {
            assert_eq!(call(tool, arguments, Some(&state)).await.error_code(), -32602, "{tool}");
        }
        assert_eq!((one.count("tools/call"), two.count("tools/call")), asked, "no server was asked");
        assert_eq!(call("one__ask", json!({"a": 1}), Some(&state)).await.text(), "of first");
    }
}

// bridging D: a client may fetch a web address itself, if it is shown as it is.
#[tokio::test]
async fn web_addresses_of_a_transparent_server_stay_what_they_are() {
    const PAGE: &str = "https://example.com/a?b=1#c";
    let web = |name: &'static str| {
        let link = json!({"content": [
            {"type": "resource_link", "uri": PAGE, "name": "page"},
            {"type": "resource", "resource": {"uri": PAGE, "text": name}},
        ]});
        let show = move |call: ScriptedCall| {
            let link = link.clone();
            async move { call.ok(link) }
        };
        Server::builder(name)
            .resource(PAGE, name)
            .tool("show", show)
            .template("https://example.com/t/{x}", move |uri| Some(format!("{name} {uri}")))
    };
    let transparent = "uris = \"transparent\"";
    for modern in [true, false] {
        let (one, two) = (web("first"), web("second"));
        let (one, two) = match modern {
            true => (one.modern_only().http().await, two.stdio().await),
            false => (one.stdio().await, two.modern_only().http().await),
        };
        let gateway = Gateway::builder().server_with("one", &one, transparent).server("two", &two).serve().await;
        for client in clients(&gateway).await {
            let mut listed = client.names("resources").await;
            listed.sort();
            assert_eq!(listed, [PAGE.to_owned(), format!("two+{PAGE}")]);
            for (name, shown, who) in [("one", PAGE.to_owned(), "first"), ("two", format!("two+{PAGE}"), "second")] {
                let result = client.call_tool(&format!("{name}__show"), json!({})).await.result();
                let content = &result["content"];
                assert_eq!((&content[0]["uri"], &content[1]["resource"]["uri"]), (&json!(shown), &json!(shown)));
                let read =
                    client.request("resources/read", json!({"uri": shown})).await.result()["contents"][0].clone();
                assert_eq!((&read["uri"], &read["text"]), (&json!(shown), &json!(who)));
            }
            // One that no list has belongs to the server whose template it fits.
            let uri = "https://example.com/t/9";
            let read = client.request("resources/read", json!({"uri": uri})).await.result()["contents"][0].clone();
            assert_eq!((&read["uri"], &read["text"]), (&json!(uri), &json!(format!("first {uri}"))));
        }
    }
}
