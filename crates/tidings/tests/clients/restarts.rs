//! Sessions that go on when the gateway is started again.

use super::*;

const SUBSCRIBED: &str = "resources/subscribe";

/// A client without a memory of its own, that names a session.
async fn named(gateway: &Gateway, session: &str, headers: &[(&str, &str)]) -> Client {
    let mut client = Client::http(gateway.url()).raw().header("mcp-session-id", session);
    for (name, value) in headers {
        client = client.header(name, value);
    }
    client.connect().await
}

fn request(id: u32, method: &str, params: &serde_json::Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

async fn ping(client: &Client) -> u16 {
    client.post_raw(request(1, "ping", &json!({})), &[]).await.status
}

/// Waits until the store has this of a session. Whatever is in the file was written; a moment later it is committed.
async fn wait_kept(gateway: &Gateway, text: &str) {
    let file = gateway.data().join("tidings.redb");
    let found = |bytes: Vec<u8>| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    eventually(&format!("{text} in the store"), || std::fs::read(&file).is_ok_and(found).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
}

/// A session that follows all lists and one resource whose content it has read; nothing is owed to it.
async fn settled(gateway: &Gateway, headers: &[(&str, &str)]) -> String {
    let mut client = gateway.client();
    for (name, value) in headers {
        client = client.header(name, value);
    }
    let client = client.connect().await;
    let mut stream = client.open_get().await;
    for _ in 0..3 {
        let notice = stream.next().await.unwrap();
        assert!(notice.method.ends_with("list_changed"), "{notice:?}");
    }
    client.request(SUBSCRIBED, json!({"uri": "test://r"})).await.result();
    client.request("resources/read", json!({"uri": "test://r"})).await.result();
    client.request("logging/setLevel", json!({"level": "alert"})).await.result();
    wait_kept(gateway, r#""follows":[["test://r",""#).await;
    wait_kept(gateway, r#""level":"alert""#).await;
    client.session_id().unwrap()
}

/// The notifications of a stream until one fits.
async fn until(stream: &mut PendingExchange, fits: impl Fn(&ReceivedMessage) -> bool) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let notice = within("a notification", stream.next()).await.unwrap_or_else(|| panic!("the end: {seen:?}"));
        seen.push(notice.method.clone());
        if fits(&notice) {
            return seen;
        }
    }
}

// edges F19
#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_a_killed_gateway_and_is_told_nothing_that_did_not_change() {
    let server = script(&Gate::new()).stdio().await;
    let gateway = Gateway::builder().quick().server("alpha", &server).serve().await;
    let session = settled(&gateway, &[]).await;
    let before = (server.count(SUBSCRIBED), server.count("resources/read"));
    gateway.kill().await;
    let gateway = gateway.again().await;
    let client = named(&gateway, &session, &[("mcp-protocol-version", V2025_11_25)]).await;
    assert_eq!(ping(&client).await, 200);
    let answer = client.post_raw(call(7, "echo").to_string(), &[]).await;
    assert_eq!(answer.text(), r#"{"id":7}"#, "{answer:?}");
    let mut stream = client.open_get().await;
    // It is followed again, and its content compared.
    server.wait_for_method(SUBSCRIBED, before.0 + 1).await;
    server.wait_for_method("resources/read", before.1 + 1).await;
    server.wait_for_method("logging/setLevel", 2).await;
    server.put_resource(ScriptedEntry::resource("test://r", "two"));
    server.resource_updated("test://r");
    let seen = until(&mut stream, |notice| notice.method == "notifications/resources/updated").await;
    assert_eq!(seen, ["notifications/resources/updated"], "nothing else had changed");
    server.put_tool(ScriptedEntry::text_tool("new", "new"));
    server.list_changed("tools");
    let seen = until(&mut stream, |notice| notice.method.ends_with("list_changed")).await;
    assert_eq!(seen, ["notifications/tools/list_changed"]);
    // What the client ends stays ended.
    assert_eq!(client.delete().await, 204);
    assert!(gateway.terminate().await.success());
    let gateway = gateway.again().await;
    assert_eq!(ping(&named(&gateway, &session, &[]).await).await, 404);
}

// edges F19
#[tokio::test(flavor = "multi_thread")]
async fn what_changed_while_the_gateway_was_away_is_told_once() {
    let server = script(&Gate::new()).stdio().await;
    for is_killed in [true, false] {
        let gateway = Gateway::builder().quick().server("alpha", &server).serve().await;
        let session = settled(&gateway, &[]).await;
        if is_killed {
            gateway.kill().await
        } else {
            gateway.terminate().await
        };
        let text = format!("changed {is_killed}");
        server.put_resource(ScriptedEntry::resource("test://r", &text));
        server.put_tool(ScriptedEntry::text_tool(if is_killed { "one" } else { "other" }, ""));
        let gateway = gateway.again().await;
        let client = named(&gateway, &session, &[]).await;
        let mut stream = client.open_get().await;
        let mut seen = until(&mut stream, |notice| notice.method == "notifications/resources/updated").await;
        if seen.len() == 1 {
            seen.extend(until(&mut stream, |notice| notice.method.ends_with("list_changed")).await);
        }
        seen.sort();
        assert_eq!(seen, ["notifications/resources/updated", "notifications/tools/list_changed"]);
        let answer = client.post_raw(request(3, "resources/unsubscribe", &json!({"uri": "test://r"})), &[]).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

// edges F19
#[tokio::test(flavor = "multi_thread")]
async fn resources_of_a_server_that_is_away_keep_no_others_from_being_followed_again() {
    let alive = script(&Gate::new()).http().await;
    // More than are followed again at a time; they are followed first.
    let builder = (0..20).fold(Server::builder("away"), |server, n| server.resource(&format!("test://{n}"), "one"));
    let away = builder.http().await;
    let gateway = Gateway::builder().quick().server("away", &away).server("alive", &alive).serve().await;
    let client = gateway.client().connect().await;
    for n in 0..20 {
        client.request(SUBSCRIBED, json!({"uri": format!("away+test://{n}")})).await.result();
    }
    client.request(SUBSCRIBED, json!({"uri": "alive+test://r"})).await.result();
    client.request("resources/read", json!({"uri": "alive+test://r"})).await.result();
    wait_kept(&gateway, r#"["alive+test://r",""#).await;
    let session = client.session_id().unwrap();
    gateway.kill().await;
    drop(away);
    let before = alive.count(SUBSCRIBED);
    let gateway = gateway.again().await;
    let client = named(&gateway, &session, &[("mcp-protocol-version", V2025_11_25)]).await;
    assert_eq!(ping(&client).await, 200);
    let mut stream = client.open_get().await;
    alive.wait_for_method(SUBSCRIBED, before + 1).await;
    alive.put_resource(ScriptedEntry::resource("test://r", "two"));
    alive.resource_updated("test://r");
    until(&mut stream, |notice| notice.method == "notifications/resources/updated").await;
    assert!(gateway.terminate().await.success());
}

// edges F19: a session id is no authentication, also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_only_for_its_owner() {
    let digest = |text: &str| {
        let out = std::process::Command::new("sh").args(["-c", "printf %s \"$0\" | sha256sum", text]).output().unwrap();
        String::from_utf8(out.stdout).unwrap().split(' ').next().unwrap().to_owned()
    };
    let tokens = format!(
        "[auth]\ntokens = [{{ name = \"a\", sha256 = \"{}\", servers = [\"*\"] }}, \
         {{ name = \"b\", sha256 = \"{}\", servers = [\"*\"] }}]",
        digest("secret-a"),
        digest("secret-b")
    );
    let server = script(&Gate::new()).stdio().await;
    let gateway = Gateway::builder().quick().server("alpha", &server).toml(&tokens).serve().await;
    let (a, b) = (("authorization", "Bearer secret-a"), ("authorization", "Bearer secret-b"));
    let session = settled(&gateway, &[a]).await;
    gateway.kill().await;
    let gateway = gateway.again().await;
    assert_eq!(ping(&named(&gateway, &session, &[b]).await).await, 404);
    assert_eq!(ping(&named(&gateway, &session, &[]).await).await, 401);
    assert_eq!(ping(&named(&gateway, &session, &[a]).await).await, 200, "somebody else's attempt has not ended it");
    assert_eq!(ping(&named(&gateway, &session, &[b]).await).await, 404);
    let file = std::fs::read(gateway.data().join("tidings.redb")).unwrap();
    assert!(!file.windows(session.len()).any(|part| part == session.as_bytes()), "the id itself is not kept");
}
