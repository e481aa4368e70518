//! Finding out which era a server speaks.

use serde_json::json;
use tidings_testkit::{Gate, Gateway, ScriptedAnswer, Server, within};

// bridging 45
#[tokio::test]
async fn a_server_that_exits_on_the_probe_is_started_once_more_and_is_legacy() {
    let server = Server::builder("one").exit_on("server/discover", 3).echo("echo").stdio().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    assert_eq!(client.call_tool("echo", json!({"a": 1})).await.text(), r#"{"a":1}"#);
    let connections: Vec<_> = server.received().iter().map(|r| (r.connection, r.method.clone())).take(2).collect();
    assert_eq!(connections, [(1, "server/discover".to_owned()), (2, "initialize".to_owned())]);
    assert_eq!((server.processes().len(), server.initializes()), (2, 1));
    let status = gateway.server_status("one").await;
    assert_eq!((&status["state"], &status["era"], &status["connects"]), (&json!("ready"), &json!("legacy"), &json!(1)));
}

// bridging 45
#[tokio::test]
async fn a_probe_that_is_answered_too_late_changes_nothing() {
    let (probe, introduction) = (Gate::new(), Gate::new());
    let server = Server::builder("one")
        .modern()
        .hold("server/discover", &probe)
        .hold("initialize", &introduction)
        .echo("echo")
        .stdio()
        .await;
    let gateway = Gateway::builder().server("one", &server).without_waiting().serve().await;
    introduction.reached(1).await;
    // The late answer comes while another one is awaited.
    probe.open();
    within("the late answer to be dropped", async {
        server.print_stderr("answered late");
        gateway.stderr().wait_for("the server's words", |line| line.contains("answered late")).await;
    })
    .await;
    introduction.open();
    gateway.wait_ready().await;
    let client = gateway.client().connect().await;
    assert_eq!(client.call_tool("echo", json!({"a": 1})).await.text(), r#"{"a":1}"#);
    assert_eq!((server.processes().len(), server.initializes(), server.count("server/discover")), (1, 1, 1));
    let status = gateway.server_status("one").await;
    assert_eq!((&status["era"], &status["revision"]), (&json!("legacy"), &json!("2025-11-25")));
    server.assert_clean();
}

// bridging B8
#[tokio::test]
async fn any_error_on_the_probe_that_is_not_modern_means_legacy() {
    for (code, status) in [(-32601, 200), (-32600, 400), (-32000, 400), (-32002, 404), (-32603, 200)] {
        let body = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no"}}).to_string();
        let refuse = move |received: &tidings_testkit::ReceivedMessage| {
            (received.method == "server/discover").then(|| ScriptedAnswer::Http {
                status,
                headers: vec![("content-type".to_owned(), "application/json".to_owned())],
                body: body.clone().into(),
            })
        };
        let server = Server::builder("one").echo("echo").on_http(refuse).http().await;
        let gateway = Gateway::builder().server("one", &server).serve().await;
        let client = gateway.client().connect().await;
        assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}", "{code} with status {status}");
        server.assert_clean();
    }
}

// bridging B8
#[tokio::test]
async fn the_era_that_is_configured_is_not_asked_for() {
    let legacy = Server::builder("one").modern().echo("echo").stdio().await;
    let modern = Server::builder("two").modern().echo("echo").http().await;
    let gateway = Gateway::builder()
        .server_with("one", &legacy, "era = \"legacy\"")
        .server_with("two", &modern, "era = \"modern\"")
        .serve()
        .await;
    assert_eq!((legacy.count("server/discover"), legacy.initializes()), (0, 1));
    assert_eq!((modern.count("server/discover"), modern.initializes()), (1, 0));
    let client = gateway.client().connect().await;
    assert_eq!(client.call_tool("two__echo", json!({})).await.text(), "{}");
    assert_eq!(modern.initializes(), 0, "not for legacy clients either");
    modern.assert_clean();
}

// bridging 0.2, S2.2
#[tokio::test]
async fn a_legacy_server_is_introduced_to_in_order_with_its_revision_in_every_header() {
    let server = Server::builder("one").echo("echo").http().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
    server.wait_for(|received| received.verb == "GET").await;
    server.assert_clean();
    let order: Vec<_> = server.received().iter().map(|received| received.method.clone()).take(3).collect();
    assert_eq!(order, ["server/discover", "initialize", "notifications/initialized"]);
}
