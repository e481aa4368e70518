use serde_json::json;
use tidings_testkit::*;

#[tokio::test]
async fn every_legacy_revision_calls_a_tool_on_both_transports() {
    for server in both_echo().await {
        for revision in LEGACY {
            let client = Client::of(&server).revision(revision).connect().await;
            assert_eq!(client.revision(), revision);
            assert_eq!(client.initialize_result()["serverInfo"]["name"], "alpha");
            assert_eq!(client.call_tool("echo", json!({"a": 1})).await.text(), r#"{"a":1}"#);
        }
        assert_eq!(server.initializes(), 4);
        server.assert_clean();
    }
}

async fn both_echo() -> [Server; 2] {
    crate::both(|| Server::builder("alpha").echo("echo")).await
}

#[tokio::test]
async fn a_server_offers_its_latest_revision_for_an_unknown_one() {
    for server in crate::both(|| Server::builder("alpha").revisions(&[V2025_03_26, V2025_06_18]).echo("echo")).await {
        let client = Client::of(&server).revision(V2025_11_25).connect().await;
        assert_eq!(client.revision(), V2025_06_18);
        client.call_tool("echo", json!({})).await.result();
        server.assert_clean();
    }
}

#[tokio::test]
async fn a_dual_server_serves_both_eras() {
    for server in crate::both(|| Server::builder("alpha").modern().echo("echo")).await {
        let modern = Client::of(&server).modern().connect().await;
        let legacy = Client::of(&server).connect().await;
        assert_eq!(modern.call_tool("echo", json!({})).await.result()["resultType"], "complete");
        assert_eq!(legacy.call_tool("echo", json!({})).await.result().get("resultType"), None);
        server.assert_clean();
    }
}

#[tokio::test]
async fn a_legacy_server_refuses_a_modern_probe() {
    let [http, stdio] = both_echo().await;
    let client = Client::of(&stdio).modern().connect().await;
    assert_eq!(client.request("server/discover", json!({})).await.error_code(), -32601);
    let client = Client::of(&http).modern().connect().await;
    assert_eq!(client.request("server/discover", json!({})).await.status, 400);
}

#[tokio::test]
async fn sessions_end_by_delete_and_by_forgetting() {
    let server = Server::builder("alpha").echo("echo").http().await;
    let client = Client::legacy(server.url(), V2025_06_18, json!({})).await;
    assert!(client.session_id().is_some());
    assert_eq!(client.delete().await, 200);
    assert_eq!(client.request("ping", json!({})).await.status, 404);
    let client = Client::legacy(server.url(), V2025_06_18, json!({})).await;
    server.forget_sessions();
    assert_eq!(client.request("ping", json!({})).await.status, 404);
    let raw = Client::http(server.url()).raw().connect().await;
    assert_eq!(raw.request("ping", json!({})).await.status, 400);
}

#[tokio::test]
async fn a_server_without_sessions_gives_out_no_id() {
    let server = Server::builder("alpha").without_sessions().echo("echo").http().await;
    let client = Client::legacy(server.url(), V2025_11_25, json!({})).await;
    assert_eq!(client.session_id(), None);
    client.call_tool("echo", json!({})).await.result();
    server.assert_clean();
}

#[tokio::test]
async fn protocol_faults_are_noticed() {
    for server in crate::both(|| Server::builder("alpha").echo("echo")).await {
        let client = Client::of(&server).connect().await;
        client.call("ping").id("7").send().await.result();
        client.call("ping").id("\"7\"").send().await.result();
        server.assert_clean();
        client.call("ping").id("7").send().await.result();
        assert_eq!(server.faults().len(), 1, "{:?}", server.faults());
    }
}

#[tokio::test]
async fn http_can_answer_anything() {
    let server = Server::builder("alpha")
        .on_http(|r| (r.header("x-fail") == Some("yes")).then(|| ScriptedAnswer::http(503, "later")))
        .http()
        .await;
    let client = Client::http(server.url()).raw().connect().await;
    let reply = client.call("initialize").header("x-fail", "yes").send().await;
    assert_eq!((reply.status, reply.body.as_str()), (503, "later"));
    let reply = client.post_raw("[]", &[("accept", "")]).await;
    assert_eq!(reply.status, 400);
    assert_eq!(server.faults().len(), 2, "{:?}", server.faults());
}
