//! A plain balancer: every request goes to the next gateway, over a connection of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// The balancer. It ends with this.
pub struct RoundRobin {
    port: u16,
    targets: Arc<RwLock<Vec<String>>>,
    accepting: AbortHandle,
}

impl Drop for RoundRobin {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl RoundRobin {
    /// Balances between gateways, by their URLs (`http://HOST:PORT`). One that can not be reached is passed over.
    pub async fn start(gateways: &[&str]) -> Self {
        let targets: Vec<String> = gateways.iter().map(|url| address(url)).collect();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap_or_else(|e| panic!("a port: {e}"));
        let port = listener.local_addr().unwrap_or_else(|e| panic!("a port: {e}")).port();
        let (targets, next) = (Arc::new(RwLock::new(targets)), Arc::new(AtomicUsize::new(0)));
        let known = Arc::clone(&targets);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, Arc::clone(&targets), Arc::clone(&next)));
            }
        });
        Self { port, targets: known, accepting: accepting.abort_handle() }
    }

    /// Another gateway takes the place of one.
    pub fn replace(&self, place: usize, url: &str) {
        self.targets.write().unwrap_or_else(PoisonError::into_inner)[place] = address(url);
    }

    /// Where clients find it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}

fn address(url: &str) -> String {
    url.trim_start_matches("http://").to_owned()
}

/// One request and its answer, as long as that takes.
async fn pass(mut client: TcpStream, targets: Arc<RwLock<Vec<String>>>, next: Arc<AtomicUsize>) -> Option<()> {
    let mut request = Vec::new();
    let head = loop {
        let mut buffer = [0; 16 << 10];
        let read = client.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&buffer[..read]);
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
    };
    let text = String::from_utf8_lossy(&request[..head]).into_owned();
    let field = |line: &&str| line.to_ascii_lowercase().starts_with("content-length:");
    let length = text.lines().find(field).and_then(|line| line.split(':').nth(1)?.trim().parse::<usize>().ok());
    while request.len() < head + 4 + length.unwrap_or(0) {
        let mut buffer = [0; 16 << 10];
        let read = client.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&buffer[..read]);
    }
    // The answer ends with its connection, so that the client asks anew.
    let lines = text.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let mut passed = lines.collect::<Vec<_>>().join("\r\n").into_bytes();
    passed.extend_from_slice(b"\r\nConnection: close\r\n\r\n");
    passed.extend_from_slice(&request[head + 4..]);
    let mut target = None;
    let targets = targets.read().unwrap_or_else(PoisonError::into_inner).clone();
    for _ in 0..targets.len() {
        let place = next.fetch_add(1, Ordering::Relaxed) % targets.len();
        if let Ok(reached) = TcpStream::connect(&targets[place]).await {
            target = Some(reached);
            break;
        }
    }
    let mut target = target?;
    target.write_all(&passed).await.ok()?;
    tokio::io::copy_bidirectional(&mut client, &mut target).await.ok()?;
    Some(())
}
