//! The task that sends: gathers spans for a moment, and bears a collector that is down. What it holds is sent again until it is taken;
//! what the collector refuses for good is dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use tidings_upstream::HttpClient;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{TelemetryShared, metric_message, span_message};

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the end may be put off for what is left.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// How long after a failure it is tried again: doubled with each, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Of the answer only so much is read: nothing in it is needed.
const ANSWER: usize = 64 << 10;

pub(crate) struct Exporter {
    shared: Arc<TelemetryShared>,
    client: HttpClient,
    /// Spans that were taken out of the queue and not accepted yet.
    held: Vec<Vec<u8>>,
    failures: u32,
    /// Whether the collector has said that it takes no measures: many take traces alone.
    takes_no_metrics: bool,
}

/// What became of a request.
enum Sent {
    Taken,
    /// Not now; perhaps after this time.
    Later(String, Option<Duration>),
    /// Never: the same would be refused again.
    Refused(String),
    /// There is nothing at this address, or not for this.
    Nowhere(String),
}

impl Exporter {
    pub(crate) fn new(shared: Arc<TelemetryShared>, client: HttpClient) -> Self {
        Self { shared, client, held: Vec::new(), failures: 0, takes_no_metrics: false }
    }

    /// Runs until `stop`, and a moment longer for what is left.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let (spans_every, metrics_every) = (self.shared.settings.spans_every, self.shared.settings.metrics_every);
        let mut metrics_due = Instant::now() + metrics_every;
        // None: there is nothing to send.
        let mut spans_due: Option<Instant> = None;
        let mut may_hurry = true;
        loop {
            let pause = async {
                match spans_due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // The end first: a collector that answers at once would otherwise be served for as long as there are
                // spans.
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep_until(metrics_due) => {
                    // From now, and not from when it was due: measures that were missed say the same as the next.
                    metrics_due = Instant::now() + metrics_every;
                    // Lost with the end, these are sent once more below.
                    let _ = stop.run_until_cancelled(self.send_metrics()).await;
                    continue;
                }
                () = pause => {}
                () = self.shared.queue.bell.notified(), if may_hurry => {
                    if !self.shared.queue.has_batch() {
                        spans_due.get_or_insert_with(|| Instant::now() + spans_every);
                        continue;
                    }
                }
            }
            // What was under way stays in `held`, and is sent again below: the collector may see it twice.
            let Some(paused) = stop.run_until_cancelled(self.send_spans()).await else { break };
            // Whoever asked for patience is not hurried by more spans.
            may_hurry = paused.is_none();
            let is_done = self.held.is_empty() && self.shared.queue.is_empty();
            spans_due = match paused {
                Some(pause) => Some(Instant::now() + pause),
                None if is_done => None,
                None => Some(Instant::now() + spans_every),
            };
        }
        // With one deadline for all of it: a collector that hangs must not hold up the end.
        let last = async {
            while !(self.held.is_empty() && self.shared.queue.is_empty()) {
                if self.send_spans().await.is_some() {
                    // Refused once is enough at the end: the pause that it asks for is longer than there is time.
                    break;
                }
            }
            self.send_metrics().await;
        };
        let _ = tokio::time::timeout(LAST_WORDS, last).await;
        let mut left = self.held.len();
        while !self.shared.queue.is_empty() {
            left += self.shared.queue.take_batch().len();
        }
        if left > 0 {
            self.shared.queue.drop_spans(left);
            tracing::warn!(spans = left, "not sent to the collector before the end");
        }
    }

    /// Sends one batch, and the next if there is another whole one. Gives how long to wait if that failed.
    async fn send_spans(&mut self) -> Option<Duration> {
        loop {
            if self.held.is_empty() {
                self.held = self.shared.queue.take_batch();
            }
            if self.held.is_empty() {
                return None;
            }
            let settings = &self.shared.settings;
            let body = span_message::request(&settings.resource, &self.held);
            match self.post(&settings.traces_url, body).await {
                Sent::Taken => {
                    self.shared.exported.fetch_add(self.held.len() as u64, Ordering::Relaxed);
                    self.held.clear();
                    self.works();
                }
                Sent::Refused(error) | Sent::Nowhere(error) => {
                    self.shared.queue.drop_spans(self.held.len());
                    // Dropped: the collector does not take these, and those behind them must not wait for it.
                    self.held.clear();
                    self.fails(&error);
                }
                Sent::Later(error, after) => {
                    self.fails(&error);
                    // Six doublings are 64 seconds, which the longest pause cuts.
                    let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(6)).min(LONGEST_PAUSE);
                    self.failures += 1;
                    // What it asks for is bounded, too: for hours spans would be dropped that it could have taken.
                    return Some(after.unwrap_or_else(|| jittered(doubled)).min(LONGEST_PAUSE));
                }
            }
            if !self.shared.queue.has_batch() {
                return None;
            }
        }
    }

    /// What is lost is in the next one again: each says all since the start.
    async fn send_metrics(&mut self) {
        if !self.shared.settings.metrics || self.takes_no_metrics {
            return;
        }
        // A copy, so that calls do not wait for their lock while the message is written.
        let durations = self.shared.durations.lock().clone();
        if durations.is_empty() {
            return;
        }
        let settings = &self.shared.settings;
        let body = metric_message::request(&settings.resource, &durations, SystemTime::now());
        match self.post(&settings.metrics_url, body).await {
            // Spans say whether it works, where there are any.
            Sent::Taken if !settings.traces => self.works_again(),
            Sent::Taken => {}
            // Else every minute would say that it is down, and every span that it is back.
            Sent::Nowhere(error) if settings.traces => {
                tracing::warn!(
                    collector = %settings.shown(),
                    error,
                    "takes no measures at /v1/metrics; only traces are sent from now on (OTEL_METRICS_EXPORTER=none says so at once)"
                );
                self.takes_no_metrics = true;
            }
            Sent::Later(error, _) | Sent::Refused(error) | Sent::Nowhere(error) => self.fails(&error),
        }
    }

    async fn post(&self, url: &Uri, body: Vec<u8>) -> Sent {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = url.clone();
        let headers = request.headers_mut();
        let agent = concat!("tidings/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        for (name, value) in &self.shared.settings.headers {
            headers.insert(name, value.clone());
        }
        // After those of the configuration: this one is not theirs to change.
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        match self.client.fetch(request, PATIENCE, ANSWER).await {
            Ok(answer) if answer.status().is_success() => Sent::Taken,
            Ok(answer) => {
                let status = answer.status();
                let error = format!("answered with HTTP status {status}");
                // The statuses that the standard names as worth another try.
                let is_passing = matches!(
                    status,
                    StatusCode::TOO_MANY_REQUESTS
                        | StatusCode::BAD_GATEWAY
                        | StatusCode::SERVICE_UNAVAILABLE
                        | StatusCode::GATEWAY_TIMEOUT
                );
                let after = answer.headers().get(RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?));
                let is_nothing = matches!(
                    status,
                    StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
                );
                match (is_passing, is_nothing) {
                    (true, _) => Sent::Later(error, after),
                    (_, true) => Sent::Nowhere(error),
                    _ => Sent::Refused(error),
                }
            }
            Err(error) => Sent::Later(error.to_string(), None),
        }
    }

    fn works(&mut self) {
        self.failures = 0;
        self.works_again();
    }

    fn works_again(&self) {
        if self.shared.status.lock().error.take().is_some() {
            tracing::info!(collector = %self.shared.settings.shown(), "takes telemetry again");
        }
    }

    /// Says once that it does not work.
    fn fails(&self, error: &str) {
        self.shared.failed.fetch_add(1, Ordering::Relaxed);
        let before = self.shared.status.lock().error.replace(error.to_owned());
        if before.is_none() {
            tracing::warn!(
                collector = %self.shared.settings.shown(),
                error,
                "does not take telemetry; it is tried again, and what does not fit meanwhile is dropped"
            );
        }
    }
}

/// Seconds, or a date.
fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok()
}

/// Between half of it and all of it: gateways that lost the same collector must not come back together.
fn jittered(pause: Duration) -> Duration {
    let mut random = [0];
    let _ = getrandom::fill(&mut random);
    pause / 2 + pause.mul_f64(f64::from(random[0]) / 512.0)
}

#[cfg(test)]
mod tests {
    use tidings_config::TelemetrySettings;
    use tidings_engine::{EndedSpan, SpanKind};
    use tidings_proto::{TraceContext, TraceParent};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use crate::{CollectorState, ExportSettings, Telemetry};

    // reach 7
    #[tokio::test]
    async fn a_collector_that_takes_traces_alone_is_not_down() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (told, mut asked) = tokio::sync::mpsc::unbounded_channel();
        let collector = tokio::spawn(async move {
            loop {
                let Ok((mut stream, _)) = listener.accept().await else { return };
                let mut head = vec![0; 65_536];
                let Ok(read) = stream.read(&mut head).await else { continue };
                let is_metrics = head[..read].starts_with(b"POST /v1/metrics");
                let _ = told.send(is_metrics);
                let status = if is_metrics { "404 Not Found" } else { "200 OK" };
                let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let configured = TelemetrySettings { otlp: Some(url), ..TelemetrySettings::default() };
        let quick = |name: &str| {
            let every = ["OTEL_METRIC_EXPORT_INTERVAL", "OTEL_BSP_SCHEDULE_DELAY"].contains(&name);
            every.then(|| "20".to_owned())
        };
        let settings = ExportSettings::read(&configured, &quick).0.expect("on");
        let telemetry = Telemetry::start(settings).expect("a client");
        let span = || {
            let parent = TraceParent { trace: [1; 16], span: [2; 8], sampled: true };
            telemetry.sink().ended(EndedSpan {
                kind: SpanKind::Server,
                name: "ping".into(),
                context: TraceContext { parent, state: None },
                parent: None,
                links: Vec::new(),
                began: std::time::SystemTime::now(),
                took: std::time::Duration::ZERO,
                attributes: Vec::new(),
                error: None,
            });
        };
        // Measures are asked for once; then three times as many spans as would have brought them again are taken.
        let (mut metrics, mut traces) = (0, 0);
        while metrics == 0 || traces < 10 {
            span();
            let next = tokio::time::timeout(std::time::Duration::from_secs(20), asked.recv()).await;
            match next.expect("nothing comes").expect("it listens") {
                true => metrics += 1,
                false => traces += 1,
            }
        }
        assert_eq!((metrics, telemetry.status().state), (1, CollectorState::Fine));
        telemetry.close().await;
        collector.abort();
    }
}
