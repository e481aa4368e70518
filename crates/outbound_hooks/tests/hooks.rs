//! The set of URLs that are told changes while the gateway runs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tidings_config::{NotifyFormat, NotifySettings};
use tidings_outbound_hooks::OutboundHooks;
use tidings_store::{ChangeLog, ChangeRecord, LogLimits, OutboundTable, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// A receiver that answers when it is told to. Gives the ids of what it was sent, in order.
struct SlowReceiver {
    url: String,
    arrived: mpsc::UnboundedReceiver<String>,
    answer: Arc<tokio::sync::Semaphore>,
    ids: Arc<Mutex<Vec<String>>>,
}

impl SlowReceiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (told, arrived) = mpsc::unbounded_channel();
        let (answer, ids) = (Arc::new(tokio::sync::Semaphore::new(0)), Arc::<Mutex<Vec<String>>>::default());
        let (may, all) = (Arc::clone(&answer), Arc::clone(&ids));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (told, may, all) = (told.clone(), Arc::clone(&may), Arc::clone(&all));
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    loop {
                        let mut part = [0; 4096];
                        let Ok(read @ 1..) = stream.read(&mut part).await else { return };
                        request.extend_from_slice(&part[..read]);
                        let text = String::from_utf8_lossy(&request).into_owned();
                        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                        let header = |name: &str| {
                            let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                            line.map(str::to_owned)
                        };
                        let length: usize = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
                        if body.len() < length {
                            continue;
                        }
                        let id = header("webhook-id").unwrap_or_default();
                        all.lock().unwrap().push(id.clone());
                        let _ = told.send(id);
                        may.acquire().await.unwrap().forget();
                        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
                        request.clear();
                    }
                });
            }
        });
        Self { url, arrived, answer, ids }
    }

    async fn next(&mut self) -> String {
        tokio::time::timeout(Duration::from_secs(20), self.arrived.recv()).await.expect("nothing comes").unwrap()
    }
}

fn settings(url: &str) -> NotifySettings {
    NotifySettings {
        name: None,
        url: url.to_owned(),
        secrets: vec!["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned()],
        format: NotifyFormat::CloudEvents,
        servers: Vec::new(),
        kinds: Vec::new(),
        private: true,
    }
}

fn change(log: &ChangeLog, tool: &str) {
    let record: ChangeRecord = serde_json::from_value(json!({
        "time": "2026-11-18T05:00:00Z", "server": "github", "kind": "tools",
        "added": [tool], "removed": [], "changed": [],
    }))
    .unwrap();
    log.append(record, None);
}

// reach 3
#[tokio::test]
async fn a_url_that_is_taken_out_and_put_back_is_told_once() {
    let folder = std::env::temp_dir().join(format!("tidings-hooks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let store = Store::open(&folder, Duration::ZERO);
    let table = OutboundTable::new(&store);
    let log = ChangeLog::start(move || store, LogLimits::default());
    let hooks = OutboundHooks::new(log.clone(), table);
    let mut receiver = SlowReceiver::start().await;
    let apply = |told: &[NotifySettings]| hooks.apply(hooks.prepare(told, &|_| false).unwrap());
    apply(&[settings(&receiver.url)]);
    // Its place is known: what comes now is told.
    receiver.answer.add_permits(1);
    let first = loop {
        change(&log, "warm");
        if let Ok(Some(id)) = tokio::time::timeout(Duration::from_millis(200), receiver.arrived.recv()).await {
            break id;
        }
    };
    receiver.answer.add_permits(100 - 1);
    while tokio::time::timeout(Duration::from_millis(500), receiver.arrived.recv()).await.is_ok() {}
    receiver.answer.forget_permits(1_000);

    change(&log, "created");
    let under_way = receiver.next().await;
    assert_ne!(first, under_way);
    // While the receiver thinks about it, somebody edits the file twice.
    apply(&[]);
    apply(&[settings(&receiver.url)]);
    let again = tokio::time::timeout(Duration::from_millis(700), receiver.arrived.recv()).await;
    assert!(again.is_err(), "the same was sent beside the first try: {again:?}");
    receiver.answer.add_permits(100);
    change(&log, "later");
    let later = receiver.next().await;
    assert_ne!(later, under_way, "it is told what it has taken already");
    let ids = receiver.ids.lock().unwrap().clone();
    assert_eq!(ids.iter().filter(|id| **id == under_way).count(), 1, "{ids:?}");
    hooks.close().await;
    let _ = std::fs::remove_dir_all(&folder);
}
