//! Against a real server on this machine.

use std::convert::Infallible;
use std::sync::Arc;

use http::Response;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tidings_sync::Lock;
use tidings_testkit::eventually;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::probe::ProbeLink;

/// A server that answers with what the test wants, and keeps what it was asked.
struct Api {
    url: String,
    answer: Arc<Lock<Answer>>,
    asked: Arc<Lock<Vec<HeaderMap>>>,
    _stop: tokio_util::sync::DropGuard,
}

#[derive(Clone)]
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    /// Answers 304 to whoever has this already.
    etag: Option<&'static str>,
}

fn ok(body: &str) -> Answer {
    Answer { status: 200, headers: Vec::new(), body: body.to_owned(), etag: None }
}

fn status(status: u16) -> Answer {
    Answer { status, ..ok("") }
}

impl Api {
    async fn start(first: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/now.json", listener.local_addr().unwrap());
        let answer = Arc::new(Lock::new(first));
        let asked = Arc::new(Lock::new(Vec::new()));
        let stop = CancellationToken::new();
        let (answers, record, ended) = (Arc::clone(&answer), Arc::clone(&asked), stop.clone());
        tokio::spawn(async move {
            while let Some(Ok((stream, _))) = ended.run_until_cancelled(listener.accept()).await {
                let (answers, record) = (Arc::clone(&answers), Arc::clone(&record));
                let service = service_fn(move |request: Request<Incoming>| {
                    record.lock().push(request.headers().clone());
                    let answer = answers.lock().clone();
                    async move { Ok::<_, Infallible>(answer.to(request.headers())) }
                });
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(ended.clone().run_until_cancelled_owned(async move { drop(connection.await) }));
            }
        });
        Self { url, answer, asked, _stop: stop.drop_guard() }
    }

    fn now(&self, answer: Answer) {
        *self.answer.lock() = answer;
    }

    fn count(&self) -> usize {
        self.asked.lock().len()
    }

    /// Waits until it was asked so many times more.
    async fn asked(&self, more: usize) {
        let until = self.count() + more;
        eventually("more requests", || (self.count() >= until).then_some(())).await;
    }

    fn probe(&self, every: Duration) -> ProbeLink {
        ProbeLink::of(watch(&self.url, every).unwrap())
    }
}

impl Answer {
    fn to(self, asked: &HeaderMap) -> Response<Full<Bytes>> {
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        if let Some(etag) = self.etag {
            response = response.header("etag", etag);
            if asked.get("if-none-match").is_some_and(|given| given == etag) {
                return response.status(304).body(Full::default()).unwrap();
            }
        }
        response.body(Full::from(self.body)).unwrap()
    }
}

fn watch(url: &str, every: Duration) -> Result<HttpSource, HttpFault> {
    let about = AboutResource { id: "weather".to_owned(), ..AboutResource::default() };
    let headers = vec![("x-key".to_owned(), "k".to_owned())];
    HttpSource::new(about, &HttpWatch { url: url.to_owned(), headers, every, private: false })
}

const SOON: Duration = Duration::from_millis(10);
const URI: &str = "watch://weather";

// S1.6
#[tokio::test]
async fn only_a_changed_body_is_told_and_it_can_be_read() {
    let typed = |body| Answer { headers: vec![("content-type", "application/json; charset=utf-8".into())], ..ok(body) };
    let api = Api::start(typed("1")).await;
    let probe = api.probe(SOON);
    let mut heard = probe.listen(&[URI], false).await;
    api.asked(3).await;
    api.now(typed("2"));
    assert_eq!(heard.next().await, URI);
    let answer = probe.ask("resources/read", json!({ "uri": URI })).await;
    let content = &answer["result"]["contents"][0];
    assert_eq!((content["text"].as_str(), content["mimeType"].as_str()), (Some("2"), Some("application/json")));
    heard.nothing().await;
    let list = probe.ask("resources/list", json!({})).await;
    let item = &list["result"]["resources"][0];
    assert_eq!((item["size"].as_u64(), item["mimeType"].as_str()), (Some(1), Some("application/json")));
    assert!(item["annotations"]["lastModified"].is_string());
    assert_eq!(api.asked.lock()[0]["x-key"], "k");
}

#[tokio::test]
async fn what_is_known_is_not_sent_again() {
    let date = "Sun, 15 Nov 2026 10:00:00 GMT";
    let api =
        Api::start(Answer { etag: Some("\"v1\""), headers: vec![("last-modified", date.into())], ..ok("one") }).await;
    let probe = api.probe(SOON);
    let mut heard = probe.listen(&[URI], false).await;
    api.asked(2).await;
    let second = api.asked.lock()[1].clone();
    assert_eq!(
        (&second["if-none-match"], &second["if-modified-since"]),
        (&"\"v1\"".parse().unwrap(), &date.parse().unwrap())
    );
    heard.nothing().await;
    assert_eq!(probe.text(URI).await.unwrap(), "one");
    let list = probe.ask("resources/list", json!({})).await;
    assert_eq!(list["result"]["resources"][0]["annotations"]["lastModified"], "2026-11-15T10:00:00.000Z");
    // Another tag with the same body is no change.
    api.now(Answer { etag: Some("\"v2\""), ..ok("one") });
    heard.nothing().await;
}

// S1.8
#[tokio::test]
async fn an_api_that_is_down_is_reported_and_the_hash_decides_after_the_gap() {
    let api = Api::start(ok("1")).await;
    let probe = api.probe(SOON);
    let mut heard = probe.listen(&[URI], true).await;
    api.now(status(503));
    heard.until("list").await;
    let list = probe.ask("resources/list", json!({})).await;
    assert_eq!(list["result"]["resources"][0]["description"], "(the URL does not answer at this time)");
    assert!(probe.text(URI).await.unwrap_err().contains("503"));
    api.now(ok("1"));
    assert_eq!(heard.next().await, "list", "the same as before the gap: only the remark goes");
    api.now(status(500));
    assert_eq!(heard.next().await, "list");
    api.now(ok("2"));
    heard.until(URI).await;
}

#[tokio::test]
async fn a_server_that_asks_us_to_wait_is_left_alone() {
    let api = Api::start(ok("1")).await;
    let probe = api.probe(SOON);
    let mut heard = probe.listen(&[URI], true).await;
    api.now(Answer { headers: vec![("retry-after", "2".into())], ..status(429) });
    assert_eq!(heard.next().await, "list");
    let (count, at) = (api.count(), Instant::now());
    assert!(probe.text(URI).await.unwrap_err().contains("asked us to wait"));
    assert_eq!(api.count(), count, "readers do not ask either");
    api.now(ok("2"));
    heard.until(URI).await;
    assert!(at.elapsed() >= Duration::from_millis(1_500), "{:?}", at.elapsed());
}

#[tokio::test]
async fn redirects_and_long_bodies_are_refused() {
    let api = Api::start(Answer { headers: vec![("location", "http://10.0.0.1/".into())], ..status(302) }).await;
    let probe = api.probe(SOON);
    let error = probe.text(URI).await.unwrap_err();
    assert!(error.contains("redirects"), "{error}");
    api.now(ok(&"x".repeat(LONGEST + 1)));
    let error = probe.text(URI).await.unwrap_err();
    assert!(error.contains("exceeds"), "{error}");
}

#[test]
fn only_hosts_that_are_written_as_addresses_may_be_private() {
    for host in ["127.0.0.1", "10.0.0.1", "[::1]", "localhost", "LOCALHOST"] {
        assert!(is_declared_private(host), "{host}");
    }
    assert!(!is_declared_private("intranet.example") && !is_declared_private("localhost.evil.example"));
    assert!(matches!(watch("http://", SOON), Err(HttpFault::Url)));
}

#[test]
fn the_wait_is_seconds_or_a_date() {
    let now = httpdate::parse_http_date("Sun, 15 Nov 2026 10:00:00 GMT").unwrap();
    let wait = |text: &str| retry_after(&HeaderMap::from_iter([(header::RETRY_AFTER, text.parse().unwrap())]), now);
    assert_eq!(wait("120"), Some(Duration::from_secs(120)));
    assert_eq!(wait("Sun, 15 Nov 2026 10:01:00 GMT"), Some(Duration::from_secs(60)));
    assert_eq!(wait("999999999"), Some(LONGEST_WAIT));
    assert_eq!(wait("soon"), None);
}
