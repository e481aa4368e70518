//! What is in a trace.

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::json;
use tidings_testkit::{Client, Server, Tool, eventually};

use crate::sink::{OtlpSink, ReceivedSpan, hex};
use crate::{CARRIER, SECRET, THEIRS, script, traced};

fn of_trace(line: &str) -> impl Fn(&ReceivedSpan) -> bool {
    let trace = line.split('-').nth(1).unwrap().to_owned();
    move |span| hex(&span.raw.trace_id) == trace
}

/// The same, of another trace.
fn numbered(line: &str, number: usize) -> String {
    format!("{}{number}{}", &line[..4], &line[5..])
}

async fn call_within(client: &Client, tool: &str, parent: &str) -> tidings_testkit::Exchange {
    let meta = json!({"traceparent": parent, "tracestate": "vendor=1", "baggage": "who=me"});
    let params = json!({"name": tool, "arguments": {"secret": SECRET}, "_meta": meta});
    client.call("tools/call").params(params).send().await
}

// reach 8.7
#[tokio::test]
async fn one_trace_leads_from_the_client_through_the_gateway_to_the_server() {
    let servers = [
        ("2025-11-25", "pipe", script().stdio().await),
        ("2025-11-25", "tcp", script().http().await),
        ("2025-11-25", "tcp", script().sse().await),
        ("2026-07-28", "pipe", script().modern_only().stdio().await),
        ("2026-07-28", "tcp", script().modern_only().http().await),
    ];
    for (revision, transport, server) in &servers {
        let (sink, telemetry) = OtlpSink::start().await;
        let gateway = traced(&telemetry).server("one", server).serve().await;
        for (number, is_modern) in [false, true].into_iter().enumerate() {
            let client = if is_modern { gateway.client().modern() } else { gateway.client() };
            let client = client.connect().await;
            let theirs = numbered(THEIRS, number);
            call_within(&client, "echo", &theirs).await.result();
            let mine = of_trace(&theirs);
            let asked =
                sink.wait_span("the SERVER span", |span| mine(span) && span.raw.kind() == SpanKind::Server).await;
            let sent =
                sink.wait_span("the CLIENT span", |span| mine(span) && span.raw.kind() == SpanKind::Client).await;
            assert_eq!(hex(&asked.raw.parent_span_id), "00f067aa0ba902b7");
            assert_eq!(sent.raw.parent_span_id, asked.raw.span_id);
            assert_eq!(asked.raw.trace_state, "vendor=1");
            assert!(asked.raw.start_time_unix_nano <= sent.raw.start_time_unix_nano);
            assert!(asked.raw.end_time_unix_nano >= sent.raw.end_time_unix_nano);

            let got = server.wait_for_method("tools/call", number + 1).await;
            assert_eq!(got.param(&["_meta", "traceparent"]), sent.parent_line(), "{revision} {transport}");
            assert_eq!(got.param(&["_meta", "tracestate"]), "vendor=1");
            assert_eq!(got.param(&["_meta", "baggage"]), "who=me");
            if server.is_http() {
                assert_eq!(got.header("traceparent"), Some(sent.parent_line().as_str()));
                assert_eq!(got.header("tracestate"), Some("vendor=1"));
            }
            for span in [&asked, &sent] {
                assert_eq!(span.raw.name, "tools/call echo");
                assert_eq!(span.attribute("mcp.method.name"), "tools/call");
                assert_eq!(span.attribute("gen_ai.operation.name"), "execute_tool");
                assert_eq!(span.attribute("gen_ai.tool.name"), "echo");
                assert_eq!(span.attribute("tidings.server"), "one");
                assert!(!span.attribute("jsonrpc.request.id").is_empty());
                assert!(!span.has_failed() && !span.attributes.contains_key("error.type"));
                assert_eq!(span.resource["service.name"], "tidings");
            }
            assert_eq!(
                (asked.attribute("network.transport"), sent.attribute("network.transport")),
                ("tcp", *transport)
            );
            assert_eq!(asked.attribute("mcp.protocol.version"), if is_modern { "2026-07-28" } else { "2025-11-25" });
            assert_eq!(asked.attributes.contains_key("mcp.session.id"), !is_modern);
            assert!(sent.attribute("mcp.protocol.version").starts_with("20"));
            assert_eq!(
                got.id.as_ref().map(|id| id.as_str().to_owned()).as_deref(),
                Some(sent.attribute("jsonrpc.request.id"))
            );
        }
        assert!(!sink.contains(SECRET), "neither arguments nor results");
    }
}

// reach 8.7
#[tokio::test]
async fn the_message_says_which_span_is_the_parent_and_else_the_http_header() {
    let (sink, telemetry) = OtlpSink::start().await;
    let server = script().http().await;
    let gateway = traced(&telemetry).server("one", &server).serve().await;
    for (number, client) in
        [gateway.client().connect().await, gateway.client().modern().connect().await].into_iter().enumerate()
    {
        let (theirs, carrier) = (numbered(THEIRS, number), numbered(CARRIER, number));
        let asked = |span: &ReceivedSpan| span.is(SpanKind::Server, "tools/call echo");
        let params = json!({"name": "echo", "arguments": {}});
        client.call("tools/call").params(params).header("traceparent", &carrier).send().await.result();
        let by_header = sink.wait_span("the first", |span| asked(span) && of_trace(&carrier)(span)).await;
        assert_eq!(hex(&by_header.raw.parent_span_id), "b7ad6b7169203331");
        assert!(by_header.raw.links.is_empty());

        let params = json!({"name": "echo", "arguments": {}, "_meta": {"traceparent": theirs}});
        client.call("tools/call").params(params).header("traceparent", &carrier).send().await.result();
        let fits = |span: &ReceivedSpan| asked(span) && of_trace(&theirs)(span);
        let by_message = sink.wait_span("the second", fits).await;
        let [link] = &by_message.raw.links[..] else { panic!("{by_message:?}") };
        assert_eq!((hex(&link.trace_id), hex(&link.span_id)), (carrier[3..35].into(), carrier[36..52].into()));

        let params = json!({"name": "echo", "arguments": {}, "_meta": {"traceparent": "00-nonsense"}});
        client.call("tools/call").params(params).send().await.result();
        let begun = || sink.spans().iter().filter(|span| asked(span) && span.raw.parent_span_id.is_empty()).count();
        eventually("a trace of its own", || (begun() == number + 1).then_some(())).await;
    }
}

// reach 8.7
#[tokio::test]
async fn what_fails_says_how() {
    let (sink, telemetry) = OtlpSink::start().await;
    let server = script().stdio().await;
    let other = script().stdio().await;
    let gateway = traced(&telemetry).server("one", &server).server("two", &other).serve().await;
    let client = gateway.client().modern().connect().await;
    for (tool, error, status) in [("fails", "tool_error", ""), ("refuses", "-32602", "-32602")] {
        let shown = format!("one__{tool}");
        client.call_tool(&shown, json!({})).await;
        // Each side has its own name for it.
        for (kind, name) in [(SpanKind::Server, shown.as_str()), (SpanKind::Client, tool)] {
            let span = sink.wait_span(tool, |span| span.is(kind, &format!("tools/call {name}"))).await;
            assert_eq!((span.attribute("gen_ai.tool.name"), span.attribute("tidings.server")), (name, "one"));
            assert!(span.has_failed(), "{span:?}");
            assert_eq!((span.attribute("error.type"), span.attribute("rpc.response.status_code")), (error, status));
        }
    }
    // Whatever somebody calls does not become a name.
    client.call_tool("nobody-has-this", json!({})).await.error();
    let span = sink.wait_span("a refused call", |span| span.is(SpanKind::Server, "tools/call")).await;
    assert!(span.has_failed() && !span.attributes.contains_key("gen_ai.tool.name"), "{span:?}");
    assert!(!sink.contains("nobody-has-this"));

    client.request("resources/read", json!({"uri": "one+file:///r"})).await.result();
    let read = sink.wait_span("a reading", |span| span.is(SpanKind::Client, "resources/read")).await;
    assert_eq!(read.attribute("mcp.resource.uri"), "file:///r");
    client.names("tools").await;
    sink.wait_span("a list", |span| span.is(SpanKind::Server, "tools/list") && !span.has_failed()).await;
    // Answered by the gateway; what it asks its server for is a part of a look.
    let spans = sink.spans();
    let looks: Vec<_> = spans.iter().filter(|span| span.is(SpanKind::Internal, "discovery")).collect();
    let asked: Vec<_> = spans.iter().filter(|span| span.is(SpanKind::Client, "tools/list")).collect();
    assert!(!asked.is_empty() && asked.iter().all(|span| !span.has_failed()), "{asked:?}");
    for span in asked {
        assert!(looks.iter().any(|look| look.raw.span_id == span.raw.parent_span_id), "{span:?}");
    }
}

// reach 7
#[tokio::test]
async fn names_that_a_server_does_not_list_are_told_to_nobody() {
    let (sink, telemetry) = OtlpSink::start().await;
    let (server, other) = (script().stdio().await, script().stdio().await);
    let gateway = traced(&telemetry).server("one", &server).server("two", &other).serve().await;
    // One that is asked for alone answers for whatever a client says.
    let client = Client::http(format!("{}/s/one", gateway.url())).connect().await;
    client.call_tool("guessed-by-a-client", json!({})).await.error();
    client.call_tool("echo", json!({})).await.result();
    sink.wait_span("a known one", |span| span.is(SpanKind::Client, "tools/call echo")).await;
    sink.wait_span("a guess", |span| span.is(SpanKind::Client, "tools/call") && span.has_failed()).await;
    assert!(!sink.contains("guessed-by-a-client"));
    let of = |tool: &str| format!(r#"tidings_tool_calls_total{{server="one",tool="{tool}",outcome="error"}}"#);
    assert_eq!(gateway.metric(&of("guessed-by-a-client")).await, None);
    assert_eq!(gateway.metric(&of("(other)")).await, Some(1.0));
}

// reach 8.7
#[tokio::test]
async fn a_server_that_dies_in_a_call_ends_its_span_with_the_reason() {
    let (sink, telemetry) = OtlpSink::start().await;
    let server = script().exit_on("resources/read", 3).stdio().await;
    let gateway = traced(&telemetry).server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    client.request("resources/read", json!({"uri": "file:///r"})).await.error();
    let sent = sink.wait_span("the CLIENT span", |span| span.is(SpanKind::Client, "resources/read")).await;
    assert!(sent.has_failed() && ["exited", "connection_lost"].contains(&sent.attribute("error.type")), "{sent:?}");
    let asked = sink.wait_span("the SERVER span", |span| span.is(SpanKind::Server, "resources/read")).await;
    assert!(asked.has_failed() && asked.attribute("rpc.response.status_code").starts_with('-'), "{asked:?}");
}

// reach 8.7
#[tokio::test]
async fn a_change_is_one_trace_from_the_signal_to_each_client() {
    for server in [script().stdio().await, script().modern_only().http().await] {
        let (sink, telemetry) = OtlpSink::start().await;
        let gateway = traced(&telemetry).server("one", &server).serve().await;
        let client = gateway.client().connect().await;
        let _stream = client.open_get().await;
        client.names("tools").await;
        change(&server).await;
        client.wait_for_method("notifications/tools/list_changed", 1).await;
        let method = "notifications/tools/list_changed";
        let told = sink.wait_span("the delivery", |span| span.is(SpanKind::Producer, method)).await;
        let parent = async |of: &ReceivedSpan, what: &str| {
            let (id, trace) = (of.raw.parent_span_id.clone(), of.raw.trace_id.clone());
            sink.wait_span(what, |span| span.raw.span_id == id && span.raw.trace_id == trace).await
        };
        let commit = parent(&told, "the commit").await;
        assert!(commit.is(SpanKind::Internal, "commit"), "{commit:?}");
        assert!(commit.attribute("tidings.commit").parse::<u64>().is_ok());
        let look = parent(&commit, "the look").await;
        assert!(look.is(SpanKind::Internal, "discovery"), "{look:?}");
        assert_eq!((look.attribute("tidings.server"), look.attribute("tidings.reason")), ("one", "signal"));
        let signal = parent(&look, "the signal").await;
        assert!(signal.is(SpanKind::Consumer, method), "{signal:?}");
        assert!(signal.raw.parent_span_id.is_empty(), "a trace begins with it");
        assert!(signal.raw.start_time_unix_nano <= look.raw.start_time_unix_nano);
    }
}

async fn change(server: &Server) {
    if server.is_http() {
        server.wait_listening(1).await;
    }
    server.put_tool(Tool::text_tool("fresh", "new"));
    assert!(server.list_changed("tools") > 0, "somebody hears it");
}

// reach 8.7
#[tokio::test]
async fn a_change_of_a_resource_is_one_trace_from_the_signal_to_each_client() {
    const URI: &str = "file:///r";
    let method = "notifications/resources/updated";
    for server in [script().stdio().await, script().modern_only().http().await] {
        let (sink, telemetry) = OtlpSink::start().await;
        let gateway = traced(&telemetry).server("one", &server).serve().await;
        let (legacy, modern) = (gateway.client().connect().await, gateway.client().modern().connect().await);
        let _stream = legacy.open_get().await;
        legacy.request("resources/subscribe", json!({ "uri": URI })).await.result();
        let mut listen =
            modern.start("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": [URI] } }));
        listen.next_method("notifications/subscriptions/acknowledged").await;
        if server.is_http() {
            server.wait_listening(1).await;
        } else {
            // What nobody follows is nobody's trace.
            server.notify_raw(
                json!({ "jsonrpc": "2.0", "method": method, "params": { "uri": "file:///other" } }).to_string(),
            );
        }
        assert!(server.resource_updated(URI) > 0, "somebody hears it");
        legacy.wait_for_method(method, 1).await;
        listen.next_method(method).await;
        let of_era = |era: &'static str| {
            move |span: &ReceivedSpan| span.is(SpanKind::Producer, method) && span.attribute("tidings.era") == era
        };
        let told = [
            sink.wait_span("the session is told", of_era("legacy")).await,
            sink.wait_span("the listen is told", of_era("modern")).await,
        ];
        let signal = sink.wait_span("the signal", |span| span.is(SpanKind::Consumer, method)).await;
        assert!(signal.raw.parent_span_id.is_empty(), "a trace begins with it");
        assert_eq!((signal.attribute("tidings.server"), signal.attribute("mcp.resource.uri")), ("one", URI));
        for told in &told {
            assert_eq!(told.raw.trace_id, signal.raw.trace_id);
            assert_eq!(told.raw.parent_span_id, signal.raw.span_id);
            assert_eq!(told.attribute("mcp.resource.uri"), URI);
        }
        assert_ne!(told[0].attribute("tidings.client"), told[1].attribute("tidings.client"));
        assert!(!sink.contains("file:///other"));
    }
}

// reach 8.7
#[tokio::test]
async fn what_its_beginner_does_not_record_is_passed_on_and_measured() {
    let (sink, telemetry) = OtlpSink::start().await;
    let server = script().stdio().await;
    let gateway = traced(&telemetry).server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    let quiet = THEIRS.replace("-01", "-00");
    call_within(&client, "echo", &quiet).await.result();
    call_within(&client, "fails", THEIRS).await.result();
    sink.wait_span("the recorded one", |span| span.is(SpanKind::Server, "tools/call fails")).await;
    assert!(sink.spans().iter().all(|span| span.raw.name != "tools/call echo"));
    let got = server.wait_for_method("tools/call", 1).await;
    let told = got.param(&["_meta", "traceparent"]).as_str().unwrap().to_owned();
    assert!(told.starts_with(&quiet[..36]) && told.ends_with("-00") && told != quiet, "{told}");
    for metric in ["mcp.server.operation.duration", "mcp.client.operation.duration"] {
        let echo =
            sink.wait_point(metric, |named, _| named.get("gen_ai.tool.name").is_some_and(|tool| tool == "echo")).await;
        assert_eq!((echo.count, echo.bucket_counts.iter().sum::<u64>()), (1, 1));
        assert_eq!((echo.bucket_counts.len(), echo.explicit_bounds.len()), (15, 14));
        assert!(echo.sum.unwrap() > 0.0 && echo.time_unix_nano > echo.start_time_unix_nano);
        let failed = |named: &std::collections::BTreeMap<String, String>| {
            named.get("error.type").is_some_and(|error| error == "tool_error") && named["tidings.server"] == "one"
        };
        assert_eq!(sink.wait_point(metric, |named, _| failed(named)).await.count, 1);
    }
}
