//! URLs of `[[notify]]`: each change at least once, whatever happens to the receiver or the gateway.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tidings_sync::Lock;
use tidings_testkit::{Gateway, Server, within};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::{add, full, get, quick};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEXT: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

#[derive(Clone)]
struct Posted {
    at: Instant,
    headers: HeaderMap,
    body: Bytes,
}

impl Posted {
    fn id(&self) -> &str {
        self.headers["webhook-id"].to_str().unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Whether the library of Standard Webhooks accepts it.
    fn is_signed_with(&self, secret: &str) -> bool {
        Webhook::new(secret).unwrap().verify(&self.body, &self.headers).is_ok()
    }
}

/// A status, and for how long the receiver wants to be left alone.
type ScriptedAnswer = (u16, Option<&'static str>);

/// A receiver that answers as it is told, else 204, and can go away and come back.
#[derive(Clone, Default)]
struct Receiver {
    posted: Arc<Lock<Vec<Posted>>>,
    answers: Arc<Lock<VecDeque<ScriptedAnswer>>>,
}

impl Receiver {
    fn url(address: SocketAddr) -> String {
        format!("http://{address}/in/hush-hush")
    }

    /// An address where nobody listens yet.
    async fn reserve() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
    }

    async fn listen(&self, address: SocketAddr) -> JoinHandle<()> {
        let listener = TcpListener::bind(address).await.unwrap();
        let router = Router::new().fallback(Self::take).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() })
    }

    async fn take(State(receiver): State<Self>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
        // `doctor` looks whether somebody is there.
        if method != Method::POST {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        receiver.posted.lock().push(Posted { at: Instant::now(), headers, body });
        let (status, retry) = receiver.answers.lock().pop_front().unwrap_or((204, None));
        let status = StatusCode::from_u16(status).unwrap();
        match retry {
            Some(retry) => (status, [("retry-after", retry)]).into_response(),
            None => status.into_response(),
        }
    }

    async fn wait(&self, count: usize) -> Vec<Posted> {
        within("deliveries", async {
            loop {
                let posted = self.posted.lock().clone();
                if posted.len() >= count {
                    return posted;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
    }
}

fn notify(address: SocketAddr, secret: &str) -> String {
    format!("[[notify]]\nurl = \"{}\"\nsecret = {secret}\n", Receiver::url(address))
}

async fn wait_state(gateway: &Gateway, fits: impl Fn(&Value) -> bool) -> Value {
    within("the state of [[notify]]", async {
        loop {
            let (_, status) = get(gateway, "/status").await;
            if fits(&status["notify"][0]) {
                return status["notify"][0].clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

async fn serve(server: &Server, toml: &str) -> Gateway {
    let gateway = quick().server("one", server).toml(toml).serve().await;
    gateway.wait_ready().await;
    gateway
}

// reach 3
#[tokio::test]
async fn a_receiver_that_was_down_is_told_each_change_once_and_in_order() {
    let (server, address) = (full().stdio().await, Receiver::reserve().await);
    let gateway = serve(&server, &notify(address, &format!("{SECRET:?}"))).await;
    for name in ["t1", "t2", "t3"] {
        add(&server, name);
        wait_state(&gateway, |hook| hook["seq"].as_u64() >= Some(name[1..].parse().unwrap())).await;
    }
    let hook = wait_state(&gateway, |hook| hook["state"] == "retrying").await;
    assert_eq!((&hook["pending"], &hook["delivered"]), (&json!(3), &json!(0)));
    let receiver = Receiver::default();
    receiver.listen(address).await;
    let posted = receiver.wait(3).await;
    let events: Vec<Value> = posted.iter().map(Posted::json).collect();
    let added: Vec<&Value> = events.iter().map(|event| &event["data"]["added"][0]).collect();
    assert_eq!(added, ["t1", "t2", "t3"], "in order");
    for (posted, event) in posted.iter().zip(&events) {
        assert!(posted.is_signed_with(SECRET) && !posted.is_signed_with(NEXT));
        assert_eq!(posted.headers["content-type"], "application/cloudevents+json");
        assert_eq!(posted.id(), event["id"].as_str().unwrap());
        assert_eq!((&event["specversion"], &event["type"]), (&json!("1.0"), &json!("dev.tidings.change.v1")));
        assert_eq!((&event["subject"], &event["time"]), (&json!("one"), &event["data"]["time"]));
    }
    wait_state(&gateway, |hook| hook["state"] == "fine" && hook["delivered"] == 3).await;
    add(&server, "t4");
    let posted = receiver.wait(4).await;
    let mut ids: Vec<&str> = posted.iter().map(Posted::id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 4, "each once");
    // What people see has neither the secret nor the path.
    let status = gateway.command(&["status"]).await;
    let (_, metrics) = gateway.get("/metrics").await;
    let log = gateway.stderr().all().join("\n");
    let shown = format!("{}{metrics}{log}", String::from_utf8(status.stdout).unwrap());
    assert!(shown.contains(&format!("notify         http://{address}: 4 delivered")), "{shown}");
    assert!(shown.contains(&format!("tidings_notify_delivered_total{{hook=\"http://{address}\"}} 4")), "{shown}");
    assert!(!shown.contains("hush-hush") && !shown.contains("MfKQ"), "{shown}");
}

// reach 3
#[tokio::test]
async fn what_was_not_delivered_is_delivered_by_the_next_process_after_a_crash() {
    let (server, address) = (full().stdio().await, Receiver::reserve().await);
    let gateway = serve(&server, &notify(address, &format!("{SECRET:?}"))).await;
    let receiver = Receiver::default();
    let first = receiver.listen(address).await;
    add(&server, "t1");
    let before = receiver.wait(1).await[0].id().to_owned();
    wait_state(&gateway, |hook| hook["delivered"] == 1).await;
    first.abort();
    add(&server, "t2");
    wait_state(&gateway, |hook| hook["state"] == "retrying").await;
    gateway.kill().await;
    receiver.posted.lock().clear();
    receiver.listen(address).await;
    let gateway = gateway.again().await;
    let again = receiver.wait(1).await;
    let last = again.last().unwrap();
    assert_eq!(last.json()["data"]["added"], json!(["t2"]));
    let (sender, seq) = before.rsplit_once('_').unwrap();
    let next = format!("{sender}_{}", seq.parse::<u64>().unwrap() + 1);
    assert_eq!(last.id(), next, "the gateway is the same to its receivers");
    wait_state(&gateway, |hook| hook["pending"] == 0 && hook["delivered"].as_u64() >= Some(1)).await;
}

// reach 3
#[tokio::test]
async fn one_that_says_gone_is_told_nothing_more_until_its_entry_is_changed_while_running() {
    let (server, address) = (full().stdio().await, Receiver::reserve().await);
    let receiver = Receiver::default();
    receiver.answers.lock().push_back((410, None));
    receiver.listen(address).await;
    let gateway = serve(&server, &notify(address, &format!("{SECRET:?}"))).await;
    add(&server, "t1");
    wait_state(&gateway, |hook| hook["state"] == "disabled").await;
    add(&server, "t2");
    wait_state(&gateway, |hook| hook["seq"] == 2).await;
    gateway.terminate().await;
    let gateway = gateway.again().await;
    wait_state(&gateway, |hook| hook["state"] == "disabled").await;
    let said = gateway.command(&["doctor", "--json"]).await;
    assert!(String::from_utf8(said.stdout).unwrap().contains("answered 410"));
    let config = std::fs::read_to_string(gateway.config()).unwrap();
    // A secret is changed: from now on both sign.
    gateway.rewrite_config(&config.replace(&format!("{SECRET:?}"), &format!("[{NEXT:?}, {SECRET:?}]")));
    wait_state(&gateway, |hook| hook["state"] == "fine").await;
    add(&server, "t3");
    let posted = receiver.wait(2).await;
    assert_eq!(posted.len(), 2, "nothing of what changed while it was gone");
    assert_eq!(posted[1].json()["data"]["added"], json!(["t3"]));
    assert!(posted[1].is_signed_with(SECRET) && posted[1].is_signed_with(NEXT));
    // And it can go while running, too.
    gateway.rewrite_config(config.split("[[notify]]").next().unwrap());
    within("no [[notify]]", async {
        while get(&gateway, "/status").await.1["notify"] != json!([]) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

// reach 3
#[tokio::test]
async fn a_receiver_is_left_alone_for_as_long_as_it_asks_and_slack_gets_a_text() {
    let (server, address) = (full().stdio().await, Receiver::reserve().await);
    let receiver = Receiver::default();
    receiver.answers.lock().push_back((503, Some("3")));
    receiver.listen(address).await;
    let url = Receiver::url(address);
    let gateway = serve(&server, &format!("[[notify]]\nname = \"chat\"\nurl = \"{url}\"\nformat = \"slack\"\n")).await;
    add(&server, "t1");
    let hook = wait_state(&gateway, |hook| hook["state"] == "retrying").await;
    assert_eq!(
        (&hook["name"], &hook["error"]),
        (&json!("chat"), &json!("answered with HTTP status 503 Service Unavailable"))
    );
    let posted = receiver.wait(2).await;
    let pause = posted[1].at - posted[0].at;
    assert!(pause >= Duration::from_millis(2_900), "{pause:?}");
    assert_eq!(posted[1].json()["text"], "*`one`* tools\n+ `t1`");
    assert_eq!(posted[0].body, posted[1].body);
    assert!(!posted[0].headers.contains_key("webhook-signature"));
}
