//! Servers that break, restart, forget, lie and come back as something else: what it costs, and how soon it is over.
//!
//! The same table over servers that others wrote is `conformance/server_restarts.py`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod eras;
mod resets;
mod restarts;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_testkit::*;

/// How soon after a server is back a call works, and an idle follower knows what changed.
const CALL_WORKS: Duration = Duration::from_secs(2);
const FOLLOWER_KNOWS: Duration = Duration::from_secs(5);

/// What a server has to read, to be changed by the test.
type Content = Arc<Mutex<String>>;

fn resource(uri: &str, content: &Content) -> Resource {
    let content = Arc::clone(content);
    Resource::raw(&json!({"uri": uri, "name": uri}).to_string(), move |call| {
        let answer = call.ok_contents(&content.lock().unwrap());
        async move { answer }
    })
}

/// How often each job was begun, over all lives of a server.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<HashMap<String, usize>>>);

impl Runs {
    fn assert_none_ran_twice(&self) {
        let runs = self.0.lock().unwrap();
        let twice: Vec<_> = runs.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}

/// A server whose tool does named jobs, so that none can run twice unseen; one that holds waits for the gate.
fn worker(runs: &Runs, gate: &Gate) -> ServerBuilder {
    let (runs, gate) = (runs.clone(), gate.clone());
    Server::builder("one").tool("work", move |call| {
        let (runs, gate) = (runs.clone(), gate.clone());
        async move {
            let job = text_of(&call.argument("job"));
            *runs.0.lock().unwrap().entry(job.clone()).or_default() += 1;
            if call.argument("hold") == true {
                gate.wait().await;
            }
            call.ok_text(&job)
        }
    })
}

/// Whether a call was answered by the server.
fn worked(reply: &Exchange) -> bool {
    reply.response().error().is_null()
}

/// Calls until one works; while they fail the gateway never says that the server is ready. Gives the time it took.
async fn wait_until_it_works(gateway: &Gateway, server: &str, client: &Client, jobs: &str) -> Duration {
    let begun = Instant::now();
    for attempt in 0.. {
        let job = format!("{jobs}.{attempt}");
        let reply = client.call_tool("work", json!({ "job": job })).await;
        if worked(&reply) {
            assert_eq!(reply.text(), job);
            break;
        }
        let status = gateway.server_status(server).await;
        assert_ne!(status["state"], "ready", "a call failed: {reply:?}, {status}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{reply:?}, {status}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    begun.elapsed()
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
