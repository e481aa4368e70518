//! Clients that speak HTTP+SSE only, in front of servers of every sort.

use super::*;

#[tokio::test]
async fn an_old_client_has_all_that_its_revision_has_whatever_the_server_speaks() {
    let gate = Gate::new();
    let mut servers = Server::of_every_sort(|| of_everything(&gate)).await;
    servers.push(of_everything(&gate).sse().await);
    for server in &servers {
        let gateway = quick().server("one", server).serve().await;
        let client = gateway.sse().capabilities(able()).connect().await;
        assert_eq!(client.revision(), V2024_11_05);
        answers(&client, "me");
        assert_eq!(client.names("tools").await, ["echo", "slow", "ask"]);
        assert_eq!(client.call_tool("echo", json!({"a": [1, null]})).await.text(), r#"{"a":[1,null]}"#);
        let read = client.request("resources/read", json!({"uri": "file:///a"})).await.result();
        assert_eq!(read["contents"][0]["text"], "a");
        let unknown = client.request("no/such", json!({})).await;
        assert_eq!(unknown.error_code(), -32601);

        let mut pending = client.call("tools/call").params(tool("slow", "x")).progress_token("\"mine\"").start();
        assert_eq!(pending.next_method("notifications/progress").await.param(&["progressToken"]), "mine");
        client.cancel(&pending).await;
        let is_modern_server = server.count("server/discover") > 0 && server.initializes() == 0;
        let told = |received: &ReceivedMessage| [CANCELLED, DISCONNECTED].contains(&received.method.as_str());
        server.wait_for(told).await;

        if !is_modern_server {
            assert_eq!(client.call_tool("ask", json!({})).await.text(), "\"me\"");
        }
        client.request("resources/subscribe", json!({"uri": "file:///a"})).await.result();
        if is_modern_server {
            server.wait_listening(1).await;
        }
        within("the update", async {
            while client.count(UPDATED) == 0 {
                server.resource_updated("file:///a");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        server.put_tool(Tool::text_tool("new", "new"));
        server.list_changed("tools");
        client.wait_for_method("notifications/tools/list_changed", 1).await;
        assert_eq!(client.call_tool("new", json!({})).await.text(), "new");
        assert!(client.refused_posts().all().is_empty(), "{:?}", client.refused_posts().all());
    }
}

#[tokio::test]
async fn later_revisions_may_be_spoken_over_it_too() {
    let server = Server::builder("one").echo("echo").stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    for revision in LEGACY {
        let client = gateway.sse().revision(revision).connect().await;
        assert_eq!(client.revision(), revision);
        assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
    }
    // One revision has batches, and answers them together.
    let client = gateway.sse().revision(V2025_03_26).connect().await;
    client.post_message(r#"[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"b","method":"ping"}]"#);
    let batch = client.wait_for(|received| received.text().starts_with('[')).await;
    assert!(batch.text().contains("\"a\"") && batch.text().contains("\"b\""), "{batch:?}");
}

#[tokio::test]
async fn whoever_closes_the_stream_has_cancelled_and_the_session_is_over() {
    let gate = Gate::new();
    let server = of_everything(&gate).stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let client = gateway.sse().connect().await;
    let _pending = client.start("tools/call", tool("slow", "x"));
    let call = server.wait_for_method("tools/call", 1).await;
    client.close_stream();
    let told = server.wait_for_method(CANCELLED, 1).await;
    assert_eq!(told.param_raw(&["requestId"]), call.id.unwrap().as_str());
    within("the end of the session", async {
        while gateway.api("GET", "/sessions", Value::Null).await.1.to_string().contains("2024-11-05") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    client.post_message(r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#);
    let refused = client.refused_posts().wait_for("the refusal", |(status, _)| *status == 404).await;
    assert!(refused.1.contains("/sse"), "{refused:?}");
}

#[tokio::test]
async fn a_stop_answers_what_runs_and_then_ends_the_stream() {
    let gate = Gate::new();
    let server = of_everything(&gate).stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let client = gateway.sse().connect().await;
    let pending = client.start("tools/call", tool("slow", "x"));
    server.wait_for_method("tools/call", 1).await;
    gateway.begin_terminate();
    tokio::time::sleep(Duration::from_millis(100)).await;
    gate.open();
    assert_eq!(pending.finish().await.text(), "done");
    let begun = std::time::Instant::now();
    assert!(gateway.wait_exit().await.success());
    assert!(begun.elapsed() < Duration::from_secs(5), "an idle stream holds up nobody");
}

#[tokio::test]
async fn what_does_not_belong_there_is_refused_with_the_way_out() {
    let server = Server::builder("one").echo("echo").stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let client = gateway.sse().connect().await;
    let refused = async |message: &str, status: u16| {
        client.post_message(message.to_owned());
        let all = client.refused_posts();
        let found = all.wait_for("the refusal", |(found, _)| *found == status).await;
        found.1
    };
    let modern = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    assert!(refused(modern, 400).await.contains("/mcp"));
    let again = client.request("initialize", json!({"protocolVersion": V2024_11_05, "capabilities": {}})).await;
    assert_eq!(again.error_code(), -32600, "{again:?}");

    // The same doors as those of /mcp.
    let plain = |path: &str| Client::http(format!("{}{path}", gateway.base_url())).raw();
    let stream = plain("/sse").connect().await;
    assert_eq!(stream.send_http("GET", "", &[("accept", "application/json")]).await.status, 406);
    assert_eq!(stream.send_http("GET", "", &[("origin", "https://evil.example")]).await.status, 403);
    assert_eq!(stream.send_http("GET", "", &[("host", "evil.example")]).await.status, 403);
    let post = stream.send_http("POST", "{}", &[]).await;
    assert_eq!((post.status, post.header("allow")), (405, Some("GET")), "so that new clients find out");
    let messages = plain("/messages").connect().await;
    assert_eq!(messages.send_http("GET", "", &[]).await.status, 405);
    assert_eq!(messages.post_raw("{}", &[("origin", "https://evil.example")]).await.status, 403);
    assert_eq!(messages.post_raw("{}", &[("content-type", "text/plain")]).await.status, 415);
    assert_eq!(messages.post_raw("{}", &[]).await.status, 400, "without a session");
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}", "the session is as it was");
}

#[tokio::test]
async fn a_session_belongs_to_the_token_that_opened_its_stream() {
    let server = Server::builder("one").echo("echo").stdio().await;
    let digest = |token: &str| -> String {
        ring::digest::digest(&ring::digest::SHA256, token.as_bytes())
            .as_ref()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect()
    };
    let auth = format!(
        "[auth]\ntokens = [{{ name = \"a\", sha256 = \"{}\", servers = [\"*\"] }}, {{ name = \"b\", sha256 = \"{}\", servers = [\"*\"] }}]\n",
        digest("token-a"),
        digest("token-b")
    );
    let gateway = quick().toml(&auth).server("one", &server).serve().await;
    let bearer = |name: &str| format!("Bearer token-{name}");
    let nobody = Client::http(format!("{}/sse", gateway.base_url())).raw().connect().await;
    assert_eq!(nobody.send_http("GET", "", &[]).await.status, 401);
    let first = gateway.sse().header("authorization", &bearer("a")).connect().await;
    assert_eq!(first.call_tool("echo", json!({})).await.text(), "{}");
    let post = async |token: Option<&str>| {
        let address = gateway.base_url().trim_start_matches("http://").to_owned();
        let body = r#"{"jsonrpc":"2.0","id":77,"method":"ping"}"#;
        let authorization = token.map(|name| format!("Authorization: {}\r\n", bearer(name))).unwrap_or_default();
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {address}\r\n{authorization}Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            first.endpoint(),
            body.len()
        );
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!((post(None).await.as_str(), post(Some("b")).await.as_str()), ("401", "404"));
    assert_eq!(post(Some("a")).await, "202");
    first
        .wait_for(|received| received.is_response() && received.id.as_ref().is_some_and(|id| id.as_str() == "77"))
        .await;
}
