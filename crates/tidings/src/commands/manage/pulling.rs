//! A bar in the terminal while the image of a container is being got.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::Value;

use crate::backend::ApiEvents;
use crate::data::RunningGateway;

/// How long the gateway may take to begin its reports.
const OPENED: Duration = Duration::from_secs(5);
/// How wide the bar is.
const WIDTH: usize = 24;

/// Does something, and shows meanwhile how far the image of a server is. What can not be shown is no reason to fail.
pub(super) async fn showing<T>(running: &RunningGateway, server: &str, work: impl Future<Output = T>) -> T {
    // First heard, then asked: no report is missed.
    let Ok(Some(reports)) = tokio::time::timeout(OPENED, open(running)).await else { return work.await };
    let mut bar = PullBar::new();
    let done = {
        tokio::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => done,
            // The reports ended first: the work goes on without a bar.
            () = follow(reports, server, &mut bar) => work.await,
        }
    };
    bar.clear();
    done
}

/// The gateway's reports, from now on.
async fn open(running: &RunningGateway) -> Option<ApiEvents> {
    let request = Request::get(format!("{}/api/v1/pulls/stream", running.url))
        .header("accept", "text/event-stream")
        .header("authorization", format!("Bearer {}", running.token));
    let request = request.body(Full::<Bytes>::default()).ok()?;
    let response = running.client().ok()?.send(request).await.ok()?;
    let mut events = ApiEvents::of(response.status().is_success().then(|| response.into_body())?);
    // The first bytes say that the gateway listens to its own reports by now.
    events.more().await.then_some(events)
}

/// Shows reports until there are no more.
async fn follow(mut reports: ApiEvents, server: &str, bar: &mut PullBar) {
    while let Ok(Some(data)) = reports.next().await {
        let report: Value = serde_json::from_slice(&data).unwrap_or_default();
        if report["server"] == server {
            bar.show(&report);
        }
    }
}

/// One line of a terminal that is written again and again. Elsewhere, a line for each layer.
struct PullBar {
    terminal: bool,
    shown: String,
}

impl PullBar {
    fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), shown: String::new() }
    }

    fn show(&mut self, report: &Value) {
        let text = crate::plain_text::line(&line(report));
        if text == self.shown {
            return;
        }
        let mut out = std::io::stderr().lock();
        let _ = if self.terminal { write!(out, "\r\x1b[K{text}") } else { writeln!(out, "{text}") };
        let _ = out.flush();
        self.shown = text;
    }

    fn clear(&self) {
        if self.terminal && !self.shown.is_empty() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// How many layers are not known before the end: more may come, and then the bar is shorter again.
fn line(report: &Value) -> String {
    let image = report["image"].as_str().unwrap_or_default();
    let count = |key: &str| report[key].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let (layers, done) = (count("layers"), count("done"));
    if layers == 0 {
        return format!("Getting {image}");
    }
    let full = WIDTH * done.min(layers) / layers;
    format!("Getting {image} [{}{}] {done} of {layers} layers", "#".repeat(full), "-".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bar_is_as_long_as_the_part_that_is_here() {
        let at = |done: u64, layers: u64| line(&json!({"image": "i:1", "done": done, "layers": layers}));
        assert_eq!(at(0, 0), "Getting i:1");
        assert_eq!(at(0, 4), format!("Getting i:1 [{}] 0 of 4 layers", "-".repeat(24)));
        assert_eq!(at(3, 4), format!("Getting i:1 [{}{}] 3 of 4 layers", "#".repeat(18), "-".repeat(6)));
        assert_eq!(at(4, 4), format!("Getting i:1 [{}] 4 of 4 layers", "#".repeat(24)));
    }
}
