//! Errors of servers in the terms of the client's era.

use serde_json::{Value, json};
use tidings_testkit::{Exchange, Gateway, ScriptedAnswer, ScriptedCall, Server, ServerBuilder};

/// A server whose tool, prompt and resource fail with the code and the data they are told.
fn failing(name: &str) -> ServerBuilder {
    let fail = |call: ScriptedCall| async move {
        let code = call.argument("code").as_str().and_then(|code| code.parse().ok()).unwrap_or(0);
        let data = call.argument("data").as_str().and_then(|data| serde_json::from_str(data).ok());
        call.error(code, "it failed", data)
    };
    Server::builder(name).tool("fail", fail).prompt("fail", fail).template("file:///{path}", |_| None).on_raw(
        "resources/read",
        |call| async move {
            let uri = call.params()["uri"].clone();
            let code = if call.is_modern() { -32602 } else { -32002 };
            match uri.as_str().unwrap_or_default() {
                "file:///plain" => call.error(-32602, "bad params", None),
                _ => call.error(code, "no such resource", Some(json!({"uri": uri, "other": 1}))),
            }
        },
    )
}

struct Setup {
    _servers: [Server; 2],
    gateway: Gateway,
}

async fn setup() -> Setup {
    let old = failing("old").stdio().await;
    let new = failing("new").modern_only().http().await;
    let gateway = Gateway::builder().server("old", &old).server("new", &new).serve().await;
    Setup { _servers: [old, new], gateway }
}

fn arguments(code: i64, data: &Value) -> Value {
    json!({"code": code.to_string(), "data": data.to_string()})
}

// bridging 41
#[tokio::test]
async fn a_missing_resource_has_the_code_of_the_clients_era_and_the_clients_uri() {
    let setup = setup().await;
    let (legacy, modern) = (setup.gateway.client().connect().await, setup.gateway.client().modern().connect().await);
    for server in ["old", "new"] {
        let uri = format!("{server}+file:///gone");
        for (client, code) in [(&legacy, -32002), (&modern, -32602)] {
            let reply = client.request("resources/read", json!({ "uri": uri })).await;
            let expected = json!({"code": code, "message": "no such resource", "data": {"uri": uri, "other": 1}});
            assert_eq!((reply.status, reply.error()), (200, expected), "{server}");
        }
        // Wrong parameters of another kind stay what they are.
        for client in [&legacy, &modern] {
            let reply = client.request("resources/read", json!({"uri": format!("{server}+file:///plain")})).await;
            assert_eq!(reply.error_code(), -32602, "{server}");
        }
    }
    // No server has it: the gateway's own error says the same.
    for (client, code) in [(&legacy, -32002), (&modern, -32602)] {
        let reply = client.request("resources/read", json!({"uri": "nobody+file:///x"})).await;
        assert_eq!((reply.error_code(), &reply.error()["data"]), (code, &json!({"uri": "nobody+file:///x"})));
    }
}

// bridging A3 (errors)
#[tokio::test]
async fn codes_that_mean_nothing_to_the_gateway_pass_as_they_are() {
    let setup = setup().await;
    let clients = [setup.gateway.client().connect().await, setup.gateway.client().modern().connect().await];
    for client in &clients {
        for (tool, code) in
            [("old", -32000), ("new", -32019), ("old", -32099), ("new", 1), ("old", -32603), ("new", -32602)]
        {
            let data = json!({"why": [1, null]});
            let reply = client.call_tool(&format!("{tool}__fail"), arguments(code, &data)).await;
            let expected = json!({"code": code, "message": "it failed", "data": data});
            assert_eq!((reply.status, reply.error()), (200, expected), "{tool}");
        }
    }
    let (legacy, modern) = (&clients[0], &clients[1]);
    assert_eq!(legacy.call_tool("old__fail", arguments(-32601, &Value::Null)).await.status, 200);
    assert_eq!(modern.call_tool("old__fail", arguments(-32601, &Value::Null)).await.status, 404);
}

/// Its status is the modern one also where the legacy server has opened its stream before it knew what to say.
// bridging A4
#[tokio::test]
async fn an_error_on_a_stream_that_said_nothing_before_has_its_status() {
    let server = Server::builder("old").tool("fail", |call| async move {
        call.open_stream();
        call.error(-32601, "no such thing", None)
    });
    let server = server.http().await;
    let gateway = Gateway::builder().server("old", &server).serve().await;
    let modern = gateway.client().modern().connect().await;
    let reply = modern.call_tool("fail", json!({})).await;
    assert_eq!((reply.status, reply.error_code()), (404, -32601));
}

// bridging A3 (errors): −32020, −32022
#[tokio::test]
async fn refused_headers_and_versions_are_the_gateways_fault() {
    let setup = setup().await;
    for client in [setup.gateway.client().connect().await, setup.gateway.client().modern().connect().await] {
        for code in [-32020, -32022] {
            let reply = client.call_tool("new__fail", arguments(code, &Value::Null)).await;
            assert_eq!((reply.status, reply.error_code()), (200, -32603), "{code}");
        }
    }
}

#[track_caller]
fn failed_with(reply: &Exchange, parts: &[&str]) {
    let result = reply.result();
    assert_eq!(result["isError"], true, "{reply:?}");
    let text = reply.text();
    assert!(parts.iter().all(|part| text.contains(part)), "{text} should hold {parts:?}");
}

// bridging A3 (errors): −32021
#[tokio::test]
async fn a_missing_capability_is_told_to_those_who_know_the_word() {
    let setup = setup().await;
    let legacy = setup.gateway.client().connect().await;
    let modern = setup.gateway.client().modern().connect().await;
    let data = json!({"requiredCapabilities": {"sampling": {}}});
    failed_with(&legacy.call_tool("new__fail", arguments(-32021, &data)).await, &["it failed"]);
    let prompt = json!({"name": "new__fail", "arguments": arguments(-32021, &data)});
    assert_eq!(legacy.request("prompts/get", prompt.clone()).await.error_code(), -32603);
    let reply = modern.request("prompts/get", prompt).await;
    assert_eq!((reply.status, reply.error_code()), (400, -32021));
    assert_eq!(reply.error()["data"], data);
}

// bridging A3 (errors): −32042
#[tokio::test]
async fn a_url_to_visit_first_reaches_clients_that_can_not_be_told_by_error_as_text() {
    let setup = setup().await;
    let url = "https://example.com/consent?id=1";
    let data = json!({"elicitations": [{"mode": "url", "elicitationId": "e", "url": url, "message": "visit"}]});
    let able = setup.gateway.client().capabilities(json!({"elicitation": {"url": {}}})).connect().await;
    let reply = able.call_tool("old__fail", arguments(-32042, &data)).await;
    assert_eq!(reply.error(), json!({"code": -32042, "message": "it failed", "data": data}));
    let form_only = setup.gateway.client().capabilities(json!({"elicitation": {"form": {}}})).connect().await;
    failed_with(&form_only.call_tool("old__fail", arguments(-32042, &data)).await, &["it failed", url]);
    let early = setup.gateway.client().revision("2025-06-18").capabilities(json!({"elicitation": {"url": {}}}));
    failed_with(&early.connect().await.call_tool("old__fail", arguments(-32042, &data)).await, &["it failed", url]);
    // A modern client is asked to visit it, and comes back with a new call.
    let modern = setup.gateway.client().modern().capabilities(json!({"elicitation": {"url": {}}})).connect().await;
    let asked = modern.call_tool("old__fail", arguments(-32042, &data)).await.result();
    let params = json!({"mode": "url", "url": url, "message": "[old] visit"});
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"], json!({"url-0": {"method": "elicitation/create", "params": params}}));
    assert_eq!(asked.get("requestState"), None, "{asked}");
    let again = json!({"name": "old__fail", "arguments": arguments(-32007, &json!({})),
        "inputResponses": {"url-0": {"action": "accept"}}});
    assert_eq!(modern.request("tools/call", again).await.error_code(), -32007);
    let form_only = setup.gateway.client().modern().capabilities(json!({"elicitation": {}})).connect().await;
    let reply = form_only.call_tool("old__fail", arguments(-32042, &data)).await;
    assert_eq!((reply.status, reply.error_code()), (400, -32021));
    assert_eq!(reply.error()["data"]["requiredCapabilities"], json!({"elicitation": {"url": {}}}));
}

// bridging A3 (errors): server down
#[tokio::test]
async fn a_server_that_is_down_is_an_internal_error_that_names_it() {
    let gone = Server::builder("gone").echo("echo").stdio().await;
    let there = Server::builder("there").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("gone", &gone).server("there", &there).serve().await;
    let clients = [gateway.client().connect().await, gateway.client().modern().connect().await];
    gone.kill().await;
    gateway.stderr().wait_for("the failure in the log", |line| line.contains("server failed")).await;
    for client in &clients {
        let reply = client.call_tool("gone__echo", json!({})).await;
        assert_eq!((reply.status, reply.error_code()), (200, -32603));
        assert!(reply.error()["message"].as_str().is_some_and(|text| text.contains("\"gone\"")), "{reply:?}");
        assert_eq!(client.call_tool("there__echo", json!({})).await.text(), "{}");
    }
}

// bridging A1, A3 (resultType)
#[tokio::test]
async fn an_unknown_result_type_is_an_internal_error_and_an_unknown_name_is_the_clients() {
    let odd = Server::builder("odd")
        .modern_only()
        .tool("odd", |call| async move { call.result_raw(r#"{"resultType":"surprise","content":[]}"#) })
        .http()
        .await;
    let gateway = Gateway::builder().server("odd", &odd).toml("[gateway]\nnames = \"prefix\"").serve().await;
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        assert_eq!(client.call_tool("odd__odd", json!({})).await.error_code(), -32603);
        let reply = client.call_tool("odd__missing", json!({})).await;
        assert_eq!((reply.status, reply.error_code()), (200, -32602), "{reply:?}");
        assert_eq!(client.request("prompts/get", json!({"name": "missing"})).await.error_code(), -32602);
    }
    assert_eq!(odd.count("tools/call"), 2, "unknown names are not tried");
}

/// The members called `id` of a message, however it spells them.
fn ids(message: &tidings_testkit::ReceivedMessage) -> Vec<String> {
    let bytes = &message.raw;
    let whole = tidings_wire::validate(bytes, 64).unwrap_or_else(|e| panic!("{e}: {}", message.text()));
    let members = tidings_wire::members(bytes, whole).filter(|member| member.key.is(bytes, "id"));
    members.map(|member| String::from_utf8_lossy(member.value.of(bytes)).into_owned()).collect()
}

/// A server whose tool fails as frameworks do that answer before they have read the id: as plain JSON with any status, or
/// as the last message of a stream.
fn nobodys(name: &str) -> ServerBuilder {
    Server::builder(name).tool("fail", |call: ScriptedCall| async move {
        let status = call.argument("status").as_u64().unwrap_or_default();
        let body = match call.argument("absent").as_bool() {
            Some(true) => r#" {"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: nobody"}}"#,
            _ => r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: nobody"}}"#,
        };
        match u16::try_from(status) {
            Ok(0) | Err(_) => {
                call.progress(1);
                ScriptedAnswer::Raw(body.into())
            }
            Ok(status) => {
                let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
                ScriptedAnswer::Http { status, headers, body: body.into() }
            }
        }
    })
}

// edges G1
#[tokio::test]
async fn an_error_whose_id_is_null_reaches_the_caller_with_one_id_the_callers() {
    let (pipe, old, new) =
        (nobodys("pipe").stdio().await, nobodys("old").http().await, nobodys("new").modern_only().http().await);
    let gateway = Gateway::builder().server("pipe", &pipe).server("old", &old).server("new", &new).serve().await;
    let clients = [gateway.client().connect().await, gateway.client().modern().connect().await];
    let statuses = [0, 200, 400, 422, 429, 500, 502, 503];
    for client in &clients {
        for server in ["pipe", "old", "new"] {
            for status in statuses.into_iter().filter(|status| server != "pipe" || *status == 0) {
                for absent in [false, true] {
                    let params =
                        json!({"name": format!("{server}__fail"), "arguments": {"status": status, "absent": absent}});
                    let pending = client.call("tools/call").params(params).progress_token("7").start();
                    let id = pending.id().as_str().to_owned();
                    let reply = pending.finish().await;
                    let what = format!("{server} {status} {absent}: {reply:?}");
                    assert_eq!(ids(reply.response()), [id], "{what}");
                    assert_eq!(reply.error_code(), -32000, "{what}");
                    assert_eq!(reply.error()["message"], "Bad Request: nobody", "{what}");
                }
            }
        }
    }
}
