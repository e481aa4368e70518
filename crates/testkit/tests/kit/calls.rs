use serde_json::json;
use tidings_testkit::*;

#[tokio::test]
async fn bytes_are_kept_both_ways() {
    let result = r#"{"content":[],"n":9007199254740993.0, "u":"\u00e9", "n2":1e400}"#;
    let script = move || {
        Server::builder("alpha").tool_raw(
            r#"{"name": "t",  "inputSchema": {"type":"object"}, "big":1e400}"#,
            move |call| {
                let answer = call.result_raw(result);
                async move { answer }
            },
        )
    };
    for server in crate::both(script).await {
        let client = Client::of(&server).connect().await;
        let listed = client.request("tools/list", json!({})).await;
        assert!(
            listed
                .response()
                .outcome_raw()
                .contains(r#"{"name": "t",  "inputSchema": {"type":"object"}, "big":1e400}"#)
        );
        let params = r#"{"name":"t","arguments":{"x":12345678901234567890123,  "y":"\/"}}"#;
        let reply = client.call("tools/call").id("\"\\u0061\"").params_raw(params).send().await;
        assert_eq!(reply.response().id.as_ref().map(|id| id.as_str()), Some("\"\\u0061\""));
        assert_eq!(reply.response().outcome_raw(), result);
        assert_eq!(server.wait_for_method("tools/call", 1).await.params_raw(), params);
    }
}

#[tokio::test]
async fn progress_and_logs_come_before_the_response_in_order() {
    let script = || {
        Server::builder("alpha").modern().tool("work", |call| async move {
            for i in 0..50 {
                assert!(call.progress(i));
            }
            call.progress(json!({"progress": 50, "total": 50, "message": "done"}));
            call.log("info", "hello");
            call.log("debug", "too small");
            call.notify("notifications/vendor/x", json!({"a": 1}));
            call.ok_text("ok")
        })
    };
    for server in crate::both(script).await {
        for revision in [V2025_06_18, V2025_11_25, MODERN] {
            let client = Client::of(&server).revision(revision).log_level("info").connect().await;
            if !is_modern(revision) {
                client.request("logging/setLevel", json!({"level": "info"})).await.result();
            }
            let params = json!({"name": "work"});
            let reply = client.call("tools/call").params(params).progress_token("\"7\"").send().await;
            let progress = reply.before_with("notifications/progress");
            assert_eq!(progress.len(), 51);
            assert_eq!(progress[49].params(), json!({"progressToken": "7", "progress": 49}));
            assert_eq!(progress[50].param(&["message"]), "done");
            assert_eq!(reply.before_with("notifications/message").len(), 1);
            assert_eq!(reply.before.last().map(|m| m.method.as_str()), Some("notifications/vendor/x"));
            assert_eq!(reply.text(), "ok");
        }
        server.assert_clean();
    }
}

#[tokio::test]
async fn servers_ask_and_clients_answer() {
    let script = || {
        Server::builder("alpha").tool("ask", |call| async move {
            let name = call.elicit(json!({"message": "name?"})).await;
            let roots = call.roots().await;
            let sample = call.sample(json!({})).await;
            call.ok_text(&format!("{name:?} {roots:?} {}", sample.map_or_else(|e| e.code, |_| 0)))
        })
    };
    for server in crate::both(script).await {
        let client = Client::of(&server).capabilities(json!({"elicitation": {}, "roots": {}})).connect().await;
        client.on_request(|request| match request.method.as_str() {
            "elicitation/create" => ClientReply::Result(json!({"action": "cancel"})),
            "roots/list" => ClientReply::Later,
            _ => ClientReply::Error(-1, "no".to_owned()),
        });
        let pending = client.start("tools/call", json!({"name": "ask"}));
        let late = client.wait_for_method("roots/list", 1).await;
        client.respond(&late, ClientReply::Result(json!({"roots": []}))).await;
        let reply = pending.finish().await;
        assert!(reply.text().ends_with("-1") && reply.text().contains("cancel"), "{reply:?}");
        assert_eq!(reply.before.len(), 3);
        server.assert_clean();
    }
}

#[tokio::test]
async fn lists_come_in_pages_and_change() {
    let script = || {
        (0..5)
            .fold(Server::builder("alpha"), |s, i| s.entry_tool(Tool::text_tool(&format!("t{i}"), "x")))
            .page_size(2)
            .resource("file:///a", "A")
            .template("file:///t/{path}", |uri| uri.ends_with('1').then(|| uri.to_owned()))
            .prompt("p", |call| async move { call.ok_message("hi") })
            .completion(|call| async move { call.ok(json!({"completion": {"values": ["v"]}})) })
            .modern()
    };
    for server in crate::both(script).await {
        for revision in [V2025_03_26, MODERN] {
            let client = Client::of(&server).revision(revision).connect().await;
            assert_eq!(client.names("tools").await, ["t0", "t1", "t2", "t3", "t4"]);
            assert_eq!(client.names("resources").await, ["file:///a"]);
            assert_eq!(client.names("templates").await, ["file:///t/{path}"]);
            assert_eq!(client.names("prompts").await, ["p"]);
            let read = |uri: &str| client.request("resources/read", json!({ "uri": uri }));
            assert_eq!(read("file:///a").await.text(), "A");
            assert_eq!(read("file:///t/1").await.text(), "file:///t/1");
            assert_eq!(read("file:///t/2").await.error()["data"]["uri"], "file:///t/2");
            assert_eq!(client.request("prompts/get", json!({"name": "p"})).await.text(), "hi");
            let completed = client.request("completion/complete", json!({})).await.result();
            assert_eq!(completed["completion"]["values"][0], "v");
            assert_eq!(client.request("tools/list", json!({"cursor": "x"})).await.error_code(), -32602);
            assert_eq!(client.request("tools/call", json!({"name": "x"})).await.error_code(), -32602);
            assert_eq!(client.request("no/such", json!({})).await.error_code(), -32601);
        }
        server.set_tools(vec![Tool::text_tool("new", "N")]);
        server.put_resource(Resource::resource("file:///b", "B"));
        server.remove_prompt("p");
        let client = Client::of(&server).connect().await;
        assert_eq!(client.names("tools").await, ["new"]);
        assert_eq!(client.names("resources").await, ["file:///a", "file:///b"]);
        assert!(client.names("prompts").await.is_empty());
        server.assert_clean();
    }
}

#[tokio::test]
async fn cancelling_reaches_the_right_call() {
    let script = || {
        Server::builder("alpha").tool("wait", |call| async move {
            call.cancelled().await;
            call.error(-1, "cancelled", Some(json!({"id": call.id().as_str()})))
        })
    };
    for server in crate::both(script).await {
        let client = Client::of(&server).connect().await;
        let number = client.call("tools/call").id("1000").params(json!({"name": "wait"})).start();
        let text = client.call("tools/call").id("\"1000\"").params(json!({"name": "wait"})).start();
        server.wait_for_method("tools/call", 2).await;
        client.cancel(&text).await;
        assert_eq!(text.finish().await.error()["data"]["id"], "\"1000\"");
        client.cancel(&number).await;
        assert_eq!(number.finish().await.error()["data"]["id"], "1000");
        server.assert_clean();
    }
}

#[tokio::test]
async fn gates_hold_calls() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = move || {
        let gate = held.clone();
        Server::builder("alpha").tool("held", move |call| {
            let gate = gate.clone();
            async move {
                gate.wait().await;
                call.ok_text("through")
            }
        })
    };
    for (i, server) in crate::both(script).await.iter().enumerate() {
        let client = Client::of(server).connect().await;
        let first = client.start("tools/call", json!({"name": "held"}));
        let second = client.start("tools/call", json!({"name": "held"}));
        gate.reached(2 * i + 2).await;
        gate.release();
        gate.release();
        assert_eq!(first.finish().await.text(), "through");
        assert_eq!(second.finish().await.text(), "through");
    }
}
