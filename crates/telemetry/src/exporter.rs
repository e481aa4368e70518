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
}

/// What became of a request.
enum Sent {
    Taken,
    /// Not now; perhaps after this time.
    Later(String, Option<Duration>),
    /// Never: the same would be refused again.
    Refused(String),
}

impl Exporter {
    pub(crate) fn new(shared: Arc<TelemetryShared>, client: HttpClient) -> Self {
        Self { shared, client, held: Vec::new(), failures: 0 }
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
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep_until(metrics_due) => {
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
                Sent::Refused(error) => {
                    self.shared.queue.drop_spans(self.held.len());
                    self.held.clear();
                    self.fails(&error);
                }
                Sent::Later(error, after) => {
                    self.fails(&error);
                    let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(6)).min(LONGEST_PAUSE);
                    self.failures += 1;
                    return Some(after.unwrap_or_else(|| jittered(doubled)).min(LONGEST_PAUSE));
                }
            }
            if !self.shared.queue.has_batch() {
                return None;
            }
        }
    }

    /// What is lost is in the next one again: each says all since the start.
    async fn send_metrics(&self) {
        if !self.shared.settings.metrics {
            return;
        }
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
            Sent::Later(error, _) | Sent::Refused(error) => self.fails(&error),
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
                if is_passing { Sent::Later(error, after) } else { Sent::Refused(error) }
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
