//! A call through `call_tool` is the client's own request to the tool: everything that belongs to a call belongs to it.

use serde_json::{Value, json};
use tidings_testkit::{ClientReply, Gate, Server, ServerBuilder};

use crate::{call, clients, exposing, failure, office, start};

/// A tool that reports progress and a log message, then runs until the gate opens or it is cancelled.
fn slow(gate: &Gate) -> ServerBuilder {
    let gate = gate.clone();
    Server::builder("one").tool("slow", move |call| {
        let gate = gate.clone();
        async move {
            call.progress(json!({"progress": 1, "total": 2}));
            call.notify("notifications/message", json!({"level": "error", "data": "half way"}));
            tokio::select! {
                () = gate.wait() => call.ok_text("done"),
                () = call.cancelled() => call.ok_text("too late"),
            }
        }
    })
}

async fn slow_servers(gate: &Gate) -> Vec<Server> {
    Server::of_every_sort(|| slow(gate)).await
}

// S2.3, S2.8
#[tokio::test]
async fn progress_and_log_messages_reach_the_caller_before_the_answer() {
    let gate = Gate::new();
    for server in slow_servers(&gate).await {
        let gateway = exposing("search").server("one", &server).serve().await;
        for client in [
            gateway.client().connect().await,
            gateway.client().modern().log_level("debug").connect().await,
            gateway.stdio().connect().await,
            gateway.stdio().modern().log_level("debug").connect().await,
        ] {
            let mut running = start(&client, "slow", json!({})).progress_token("\"my token\"").start();
            let progress = running.next_method("notifications/progress").await;
            assert_eq!(progress.params(), json!({"progressToken": "my token", "progress": 1, "total": 2}));
            let logged = running.next_method("notifications/message").await;
            assert_eq!(logged.params()["data"], "half way");
            gate.open();
            assert_eq!(running.finish().await.text(), "done");
            gate.close();
        }
    }
}

// S2.1
#[tokio::test]
async fn a_cancellation_reaches_the_server_that_runs_the_tool() {
    let gate = Gate::new();
    for server in [slow(&gate).stdio().await, slow(&gate).http().await, slow(&gate).modern_only().stdio().await] {
        let gateway = exposing("search").server("one", &server).serve().await;
        for client in [
            gateway.client().connect().await,
            gateway.stdio().connect().await,
            gateway.stdio().modern().connect().await,
        ] {
            let before = server.count("tools/call");
            let mut running = start(&client, "slow", json!({})).progress_token("1").start();
            running.next_method("notifications/progress").await;
            let at_server = server.wait_for_method("tools/call", before + 1).await;
            client.cancel(&running).await;
            let id = at_server.id.as_ref().unwrap().as_str().to_owned();
            let cancelled = |id: &str, r: &tidings_testkit::ReceivedMessage| {
                r.method == "notifications/cancelled"
                    && r.connection == at_server.connection
                    && r.param_raw(&["requestId"]) == id
            };
            server.wait_for(|r| cancelled(&id, r)).await;
        }
    }
}

// S2.1
#[tokio::test]
async fn a_cancellation_on_the_way_from_call_tool_to_the_tool_is_not_lost() {
    let gate = Gate::new();
    let server = slow(&gate).stdio().await;
    let client = exposing("search").server("one", &server).stdio().connect().await;
    assert_eq!(call(&client, "call_tool", json!({})).await.result()["isError"], true, "all is up");
    for round in 0..200 {
        let running = start(&client, "slow", json!({})).start();
        // At a slightly later moment each time.
        for _ in 0..round % 20 {
            tokio::task::yield_now().await;
        }
        client.cancel(&running).await;
    }
    // The gate is closed: if one call were still running, this would not end.
    client.close_stdin();
    assert!(client.wait_exit().await.success());
    let lost = |line: &&String| line.contains("cancellation of an unknown request");
    assert_eq!(client.stderr().all().iter().filter(lost).count(), 0);
    assert_eq!(server.count("tools/call"), server.count("notifications/cancelled"));
}

// S2.1
#[tokio::test]
async fn a_modern_client_that_goes_away_cancels() {
    let gate = Gate::new();
    let server = slow(&gate).stdio().await;
    let gateway = exposing("search").server("one", &server).serve().await;
    let client = gateway.client().modern().connect().await;
    let mut running = start(&client, "slow", json!({})).progress_token("1").start();
    running.next_method("notifications/progress").await;
    drop(running);
    server.wait_for_method("notifications/cancelled", 1).await;
}

// bridging 46
#[tokio::test]
async fn the_arguments_arrive_as_they_were_written() {
    let raw = r#"{ "n": 5.00, "big": 9007199254740993, "u": "\u00e9", "n2" : [ 1 , 2.50 ], "region": "eu" }"#;
    let build = || {
        let definition = json!({"name": "t", "inputSchema": {"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"}}}});
        Server::builder("one").tool_def(definition, |call| async move { call.ok_text(&call.arguments_raw()) })
    };
    for server in [build().stdio().await, build().http().await, build().modern_only().http().await] {
        let gateway = exposing("search").server("one", &server).serve().await;
        for client in clients(&gateway).await {
            let params = format!(r#"{{"name":"call_tool","arguments":{{"arguments":{raw},"name":"t"}}}}"#);
            // Waits until the gateway knows the tool, and so its headers.
            client.list("tools").await;
            let before = server.count("tools/call");
            assert_eq!(client.call("tools/call").params_raw(params).send().await.text(), raw);
            let received = server.wait_for_method("tools/call", before + 1).await;
            assert_eq!(received.param(&["name"]), "t");
            if let Some(name) = received.header("mcp-name") {
                assert_eq!((name, received.header("mcp-param-region")), ("t", Some("eu")), "headers are of the tool");
            }
        }
    }
}

#[tokio::test]
async fn a_question_of_the_tool_is_put_to_the_caller() {
    let form = json!({"message": "Colour?", "requestedSchema": {"type": "object", "properties": {}}});
    let build = || {
        let form = form.clone();
        Server::builder("one").tool("ask", move |call| {
            let form = form.clone();
            async move {
                match call.elicit(form).await {
                    Ok(answer) => call.ok_text(&answer["content"]["colour"].to_string()),
                    Err(error) => call.ok_text(&format!("{error:?}")),
                }
            }
        })
    };
    for server in [build().stdio().await, build().http().await] {
        let gateway = exposing("search").server("one", &server).serve().await;
        let bystander = gateway.client().capabilities(json!({"elicitation": {}})).connect().await;
        for builder in [gateway.client(), gateway.stdio()] {
            let client = builder.capabilities(json!({"elicitation": {}})).connect().await;
            client.on_request(|_| ClientReply::Result(json!({"action": "accept", "content": {"colour": "blue"}})));
            assert_eq!(call(&client, "ask", json!({})).await.text(), "\"blue\"");
        }
        assert_eq!(bystander.count("elicitation/create"), 0);
    }
}

#[tokio::test]
async fn a_request_of_several_rounds_comes_back_to_the_same_tool() {
    let build = |name: &str| {
        let name = name.to_owned();
        Server::builder(&name.clone()).modern_only().tool("form", move |call| {
            let name = name.clone();
            let ask = json!({"method": "elicitation/create",
                "params": {"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}});
            async move {
                match call.request_state().as_str() {
                    None => call.input_required(json!({"requestState": format!("of {name}"), "inputRequests": {"who": ask}})),
                    Some(state) => {
                        let who = call.input_responses()["who"]["content"]["who"].to_string();
                        call.ok_text(&format!("{name} got {state:?} from {who} with {}", call.argument("n")))
                    }
                }
            }
        })
    };
    let (one, two) = (build("one").stdio().await, build("two").http().await);
    let gateway = exposing("search").server("one", &one).server("two", &two).serve().await;
    for client in [
        gateway.client().modern().capabilities(json!({"elicitation": {"form": {}}})).connect().await,
        gateway.stdio().modern().capabilities(json!({"elicitation": {"form": {}}})).connect().await,
    ] {
        for (server, other) in [("one", "two"), ("two", "one")] {
            let params = |server: &str, n: u8| -> Value {
                let arguments = json!({"name": format!("{server}__form"), "arguments": {"n": n}});
                json!({"name": "call_tool", "arguments": arguments})
            };
            let first = client.call("tools/call").params(params(server, 1)).send().await.result();
            assert_eq!(first["resultType"], "input_required", "{first}");
            let retry = |mut params: Value| {
                params["requestState"] = first["requestState"].clone();
                params["inputResponses"] = json!({"who": {"action": "accept", "content": {"who": "ann"}}});
                client.call("tools/call").params(params)
            };
            let last = retry(params(server, 1)).send().await.text();
            assert_eq!(last, format!("{server} got \"of {server}\" from \"ann\" with 1"));
            for moved in [params(server, 2), params(other, 1)] {
                assert_eq!(retry(moved).send().await.error_code(), -32602, "a state is for its request only");
            }
            let mut direct = json!({"name": format!("{server}__form"), "arguments": {"n": 1}});
            direct["requestState"] = first["requestState"].clone();
            assert_eq!(client.call("tools/call").params(direct).send().await.error_code(), -32602);
        }
    }
}

#[tokio::test]
async fn every_spelling_that_a_call_understands_is_understood() {
    let server = office().stdio().await;
    let other = Server::builder("other").echo("echo").stdio().await;
    let gateway = exposing("search").server("office", &server).server("other", &other).serve().await;
    for client in clients(&gateway).await {
        for name in ["office__book_room", "office:book_room", "mcp_office_book_room", "book_room"] {
            assert_eq!(call(&client, name, json!({"text": "5"})).await.text(), "book_room: 5", "{name}");
        }
        let bare = client.call_tool("call_tool", json!({"name": "book_room"})).await;
        assert_eq!(bare.text(), "book_room: ", "arguments may be left out");
    }
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_nearest_names() {
    let server = office().stdio().await;
    let other = Server::builder("other").echo("echo").stdio().await;
    let gateway = exposing("search").server("office", &server).server("other", &other).serve().await;
    for client in clients(&gateway).await {
        let answer = call(&client, "send_mesage", json!({})).await;
        let text = failure(&answer);
        assert!(
            text.contains("no tool \"send_mesage\"") && text.contains("did you mean office__send_message"),
            "{text}"
        );
        let text = failure(&call(&client, "xylophone", json!({})).await);
        assert!(text.contains("xylophone") && !text.contains("did you mean"), "{text}");
        assert_eq!((server.count("tools/call"), other.count("tools/call")), (0, 0));
    }
}

#[tokio::test]
async fn call_tool_does_not_call_itself_but_may_search() {
    let server = office().stdio().await;
    let gateway = exposing("search").server("office", &server).serve().await;
    for client in clients(&gateway).await {
        for name in ["call_tool", "tidings__call_tool", "tidings:call_tool"] {
            let text = failure(&call(&client, name, json!({"name": "book_room"})).await);
            assert!(text.contains("can not call itself"), "{name}: {text}");
        }
        let answer = call(&client, "retrieve_tools", json!({"query": "room"})).await;
        assert_eq!(answer.result()["structuredContent"]["tools"][0]["name"], "book_room");
    }
}

#[tokio::test]
async fn a_server_that_is_silent_or_down_is_named() {
    let gate = Gate::new();
    let server = slow(&gate).stdio().await;
    let gateway = exposing("search").server_with("one", &server, "timeout = \"200ms\"").serve().await;
    for client in clients(&gateway).await {
        let answer = call(&client, "slow", json!({})).await;
        let message = answer.error()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("\"one\" did not answer"), "{message}");
    }
}

// S2.7
#[tokio::test]
async fn a_tool_that_a_single_server_does_not_list_can_be_called() {
    let server = Server::builder("one")
        .echo("shown")
        .echo("unlisted")
        .on_raw("tools/list", |call| {
            let answer = call.ok(json!({"tools": [{"name": "shown", "inputSchema": {"type": "object"}}]}));
            async move { answer }
        })
        .stdio()
        .await;
    let gateway = exposing("search").server("one", &server).serve().await;
    for client in clients(&gateway).await {
        let before = server.count("tools/call");
        call(&client, "unlisted", json!({"text": "x"})).await.result();
        assert_eq!(server.wait_for_method("tools/call", before + 1).await.param(&["name"]), "unlisted");
    }
}
