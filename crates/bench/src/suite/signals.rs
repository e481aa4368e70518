//! Cases 8 and 9: from a server's signal to a client's notification, and what a flood of signals costs.

use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::{Client, Gateway, PendingExchange, Server, Tool};

use super::BenchContext;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget, median};

const NOTICE: &str = "notifications/tools/list_changed";
const CHANGES: usize = 100;
const SIGNALS: usize = 200;
/// Longer than any window: whatever a flood causes has happened.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// Signal to notification, with no quiet window, against one round trip to the server.
pub(super) async fn latency(bench: &BenchContext) -> ReportRow {
    let mut samples = Vec::new();
    for repetition in 0..bench.repeat {
        eprintln!("signal to notification … {}/{}", repetition + 1, bench.repeat);
        let setting = SignalSetting::new(bench, "[notifications]\nlist_quiet = \"0ms\"\n").await;
        let direct = Client::of(&setting.server).modern().connect().await;
        let (mut trips, mut notices) = (Vec::new(), Vec::new());
        for version in 0..CHANGES {
            let asked = Instant::now();
            direct.list("tools").await;
            trips.push(micros(asked));
            // In turns, so that the list stays short and each signal stands for a change.
            match version % 2 {
                0 => setting.server.put_tool(Tool::text_tool("visitor", "hello")),
                _ => setting.server.remove_tool("visitor"),
            }
            let signalled = Instant::now();
            setting.server.list_changed("tools");
            setting.client.wait_for_method(NOTICE, version + 1).await;
            notices.push(micros(signalled));
        }
        samples.push(BenchSample {
            baseline: median(trips.into_iter()),
            gateway: median(notices.into_iter()),
            full: json!({ "changes": CHANGES }),
        });
    }
    let what = "signal at the server to notification at the client".to_owned();
    ReportRow::judge(8, what, RowMeasure::MedianMicros, RowTarget::RatioAtMost(5.0), samples, None)
}

/// A flood of signals with one real change among them.
pub(super) async fn flood(bench: &BenchContext) -> ReportRow {
    let mut samples = Vec::new();
    let mut note = None;
    for repetition in 0..bench.repeat {
        eprintln!("flood of signals … {}/{}", repetition + 1, bench.repeat);
        let setting = SignalSetting::new(bench, "").await;
        let before = setting.server.count("tools/list");
        let mut every = tokio::time::interval(Duration::from_secs(1) / SIGNALS as u32);
        for signal in 0..SIGNALS {
            every.tick().await;
            if signal == SIGNALS / 2 {
                setting.server.put_tool(Tool::text_tool("visitor", "hello"));
            }
            setting.server.list_changed("tools");
        }
        tokio::time::sleep(AFTERWARDS).await;
        let discoveries = setting.server.count("tools/list") - before;
        let notices = setting.client.count(NOTICE);
        if notices != 1 {
            note = Some(format!("{notices} notifications instead of 1"));
        }
        samples.push(BenchSample {
            baseline: None,
            gateway: Some(discoveries as f64),
            full: json!({ "discoveries": discoveries, "notifications": notices }),
        });
    }
    let what = format!("{SIGNALS} signals in a second, 1 change: discoveries for 1 notification");
    ReportRow::judge(9, what, RowMeasure::Count, RowTarget::CountAtMost(2.0), samples, note)
}

/// A modern server that announces its tools, and a modern client that follows them through the gateway.
struct SignalSetting {
    server: Server,
    client: Client,
    _gateway: Gateway,
    _listen: PendingExchange,
}

impl SignalSetting {
    async fn new(bench: &BenchContext, toml: &str) -> Self {
        let server = Server::builder("changing").echo("echo").modern_only().http().await;
        let gateway = Gateway::builder().binary(&bench.gateway).toml(toml).server("changing", &server).serve().await;
        let client = gateway.client().modern().connect().await;
        let filter = json!({ "notifications": { "toolsListChanged": true } });
        let mut listen = client.start("subscriptions/listen", filter);
        listen.next_method("notifications/subscriptions/acknowledged").await;
        server.wait_listening(1).await;
        Self { server, client, _gateway: gateway, _listen: listen }
    }
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}
