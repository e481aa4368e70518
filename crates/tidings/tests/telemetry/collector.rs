//! When something is sent, and what becomes of a collector that is down.

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Value, json};
use tidings_testkit::{Gateway, eventually};

use crate::sink::OtlpSink;
use crate::{THEIRS, script, traced};

async fn status(gateway: &Gateway) -> Value {
    let (_, status) = gateway.get_as_admin("/api/v1/status").await;
    serde_json::from_str::<Value>(&status).unwrap()["telemetry"].clone()
}

// reach 8.7
#[tokio::test]
async fn nothing_is_sent_and_nothing_changed_unless_somebody_asks_for_it() {
    let (sink, telemetry) = OtlpSink::start().await;
    let url = telemetry.split('"').nth(1).unwrap();
    let server = script().http().await;
    let off = Gateway::builder().server("one", &server);
    let disabled = script().http().await;
    let disabling = traced(&telemetry).server("one", &disabled).env("OTEL_SDK_DISABLED", "true");
    for (builder, server) in [(off, &server), (disabling.env("OTEL_EXPORTER_OTLP_ENDPOINT", url), &disabled)] {
        let gateway = builder.serve().await;
        let client = gateway.client().connect().await;
        let params = json!({"name": "echo", "arguments": {}, "_meta": {"traceparent": THEIRS, "tracestate": "a=1"}});
        client.call("tools/call").params(params).header("traceparent", "00-other").send().await.result();
        client.call_tool("echo", json!({})).await.result();
        let got = server.wait_for_method("tools/call", 1).await;
        assert_eq!(got.param(&["_meta"]), json!({"traceparent": THEIRS, "tracestate": "a=1"}));
        assert_eq!(got.header("traceparent"), None);
        assert_eq!(server.wait_for_method("tools/call", 2).await.param(&["_meta"]), Value::Null);
        assert_eq!(status(&gateway).await, Value::Null);
        assert!(!gateway.get("/metrics").await.1.contains("tidings_telemetry"));
        assert!(gateway.terminate().await.success());
    }
    assert_eq!(sink.requests(), 0);
}

// reach 8.7
#[tokio::test]
async fn the_variables_of_opentelemetry_say_where_and_how() {
    let (sink, telemetry) = OtlpSink::start().await;
    let url = telemetry.split('"').nth(1).unwrap();
    let server = script().stdio().await;
    let client = Gateway::builder()
        .server("one", &server)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=a%20key")
        .env("OTEL_SERVICE_NAME", "house")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab")
        .stdio()
        .connect()
        .await;
    client.call_tool("echo", json!({})).await.result();
    // What was not sent yet is sent at the end.
    client.close_stdin();
    client.wait_exit().await;
    let asked = sink.wait_span("the call", |span| span.is(SpanKind::Server, "tools/call echo")).await;
    assert_eq!(asked.attribute("network.transport"), "pipe");
    assert_eq!(asked.resource["service.name"], "house");
    assert_eq!(asked.resource["deployment.environment.name"], "lab");
    assert!(sink.headers().iter().all(|headers| headers["x-api-key"] == "a key"));
    sink.wait_point("mcp.server.operation.duration", |named, _| named["mcp.method.name"] == "tools/call").await;
    sink.wait_span("the beginning", |span| span.is(SpanKind::Server, "initialize")).await;
}

// reach 8.7
#[tokio::test]
async fn a_collector_that_is_down_is_told_later_and_complained_of_once() {
    let (sink, address) = (OtlpSink::default(), OtlpSink::reserve().await);
    let server = script().stdio().await;
    let telemetry = format!("[telemetry]\notlp = \"http://{address}\"\nheaders = {{ x-key = \"hush-hush\" }}\n");
    let gateway = traced(&telemetry).server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    for _ in 0..5 {
        client.call_tool("echo", json!({})).await.result();
    }
    gateway.wait_metric("tidings_telemetry_up", |up| up == 0.0).await;
    gateway.wait_metric("tidings_telemetry_failed_total", |failed| failed >= 3.0).await;
    let down = status(&gateway).await;
    assert_eq!((&down["state"], &down["endpoint"]), (&json!("down"), &json!(format!("http://{address}"))));
    assert!(down["error"].as_str().is_some_and(|error| !error.is_empty()), "{down}");
    let shown = String::from_utf8(gateway.command(&["status"]).await.stdout).unwrap();
    assert!(shown.contains(&format!("http://{address} takes nothing")), "{shown}");

    drop(sink.listen(address).await);
    gateway.wait_metric("tidings_telemetry_up", |up| up == 1.0).await;
    sink.wait_span("what waited", |span| span.is(SpanKind::Server, "tools/call echo")).await;
    let calls = || sink.spans().iter().filter(|span| span.is(SpanKind::Server, "tools/call echo")).count();
    eventually("all of them, each once", || (calls() == 5).then_some(())).await;
    gateway.wait_metric("tidings_telemetry_spans_dropped_total", |dropped| dropped == 0.0).await;
    let lines: Vec<String> = gateway.stderr().all();
    let warned = lines.iter().filter(|line| line.contains("does not take telemetry")).count();
    assert_eq!(warned, 1, "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("hush-hush")));
    let shown = String::from_utf8(gateway.command(&["status"]).await.stdout).unwrap();
    assert!(shown.contains("spans sent"), "{shown}");
}

// reach 8.7
#[tokio::test]
async fn what_a_collector_refuses_for_good_is_dropped_and_counted() {
    let (sink, telemetry) = OtlpSink::start().await;
    // The last is answered first: one that passes, then one that does not.
    *sink.answers.lock() = vec![400, 503];
    let server = script().stdio().await;
    let gateway = traced(&telemetry).env("OTEL_METRICS_EXPORTER", "none").server("one", &server).serve().await;
    gateway.wait_metric("tidings_telemetry_failed_total", |failed| failed == 2.0).await;
    gateway.wait_metric("tidings_telemetry_spans_dropped_total", |dropped| dropped > 0.0).await;
    let client = gateway.client().connect().await;
    client.call_tool("echo", json!({})).await.result();
    sink.wait_span("the next", |span| span.is(SpanKind::Server, "tools/call echo")).await;
    gateway.wait_metric("tidings_telemetry_up", |up| up == 1.0).await;
    assert!(sink.headers().len() < sink.requests());
}

// reach 8.7
#[tokio::test]
async fn the_end_does_not_wait_for_a_collector_that_hangs() {
    // Takes connections, and never answers.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let telemetry = format!("[telemetry]\notlp = \"http://{}\"\n", listener.local_addr().unwrap());
    let server = script().stdio().await;
    let gateway = traced(&telemetry).server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    client.call_tool("echo", json!({})).await.result();
    let begun = std::time::Instant::now();
    assert!(gateway.terminate().await.success());
    assert!(begun.elapsed() < std::time::Duration::from_secs(8), "{:?}", begun.elapsed());
    gateway.stderr().wait_for("what was lost", |line| line.contains("not sent to the collector before the end")).await;
}
