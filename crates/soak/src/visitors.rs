//! Clients that do not stay: they come and go, or ask for more than they read.

use std::time::Duration;

use serde_json::json;
use tidings_testkit::{ClientBuilder, MODERN};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use tidings_testkit::SplitMix;

/// How many answers are asked for and not read: more than the buffers of a connection hold.
const UNREAD: usize = 300;

/// Visitors on their way.
#[derive(Default)]
pub(crate) struct VisitorTasks(JoinSet<()>);

impl VisitorTasks {
    /// Somebody comes, looks around and goes properly.
    pub(crate) fn come_and_go(&mut self, client: ClientBuilder, modern: bool) {
        self.0.spawn(async move {
            let client = client.connect().await;
            client.list("tools").await;
            if modern {
                let filter = json!({"notifications": {"toolsListChanged": true}});
                let mut listen = client.start("subscriptions/listen", filter);
                listen.next_method("notifications/subscriptions/acknowledged").await;
            } else {
                let _stream = client.open_get().await;
                client.list("prompts").await;
                client.delete().await;
            }
        });
    }

    /// Somebody asks for a lot, reads nothing, and hangs up.
    pub(crate) fn stall(&mut self, address: String, random: &mut SplitMix) {
        let time = random.millis(200, 1_500);
        self.0.spawn(async move {
            let Ok(mut stream) = TcpStream::connect(&address).await else { return };
            let bytes = unread_requests(&address);
            // Writing blocks when the gateway stops reading, as it should.
            let _ = tokio::time::timeout(time, stream.write_all(&bytes)).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        });
    }

    /// Waits until all are gone; says whether all were served.
    pub(crate) async fn gone(&mut self) -> bool {
        let mut served = true;
        while let Some(ended) = self.0.join_next().await {
            served &= ended.is_ok();
        }
        served
    }
}

fn unread_requests(address: &str) -> Vec<u8> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "stalled", "version": "1"},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: {MODERN}\r\nmcp-method: tools/list\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    request.repeat(UNREAD).into_bytes()
}
