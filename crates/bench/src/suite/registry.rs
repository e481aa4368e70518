//! Cases 11 to 13: the set of servers changes while a thousand clients listen.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_testkit::{Client, Server, ServerBuilder};
use tokio::task::JoinSet;

use super::listeners::{count, listen};
use super::{BenchContext, startup};
use crate::error::BenchError;
use crate::load::http::LoadConnection;
use crate::process::{GatewayProcess, this_program};
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};

const CLIENTS: usize = 1_000;
const SERVERS: usize = 100;
const FILE_SERVERS: usize = 500;
const WITHIN: Duration = Duration::from_secs(20);

/// Case 11: a stdio server is added; case 12: one is removed that has a call running.
pub(super) async fn add_and_remove(bench: &BenchContext, add: bool, remove: bool) -> Vec<ReportRow> {
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    let mut note = None;
    for repetition in 0..bench.repeat {
        eprintln!("adding and removing a server … {}/{}", repetition + 1, bench.repeat);
        match add_and_remove_once(bench).await {
            Ok(took) => {
                let full = json!({ "alone_ms": took.alone, "added_ms": took.added, "removed_ms": took.removed });
                added.push(BenchSample { baseline: Some(took.alone), gateway: Some(took.added), full: full.clone() });
                removed.push(BenchSample { baseline: None, gateway: Some(took.removed), full });
            }
            Err(error) => note = Some(error.to_string()),
        }
    }
    let beside = format!("beside {SERVERS} servers, until the last of {CLIENTS} clients is told");
    let mut rows = Vec::new();
    if add {
        let (what, target) = (format!("a stdio server added {beside}"), RowTarget::ExtraMillisecondsAtMost(50.0));
        rows.push(ReportRow::judge(11, what, RowMeasure::Milliseconds, target, added, note.clone()));
    }
    if remove {
        let what = format!("a server removed {beside} and its running call is answered");
        let target = RowTarget::MillisecondsAtMost(50.0);
        rows.push(ReportRow::judge(12, what, RowMeasure::Milliseconds, target, removed, note));
    }
    rows
}

/// Case 13: one server more in a long file, compared with one more in a short file.
pub(super) async fn reload(bench: &BenchContext) -> ReportRow {
    let mut samples = Vec::new();
    let mut note = None;
    for repetition in 0..bench.repeat {
        eprintln!("reading a long file again … {}/{}", repetition + 1, bench.repeat);
        let both =
            async { Ok::<_, BenchError>((reload_once(bench, 1).await?, reload_once(bench, FILE_SERVERS).await?)) };
        match both.await {
            Ok((short, long)) => samples.push(BenchSample {
                baseline: Some(short),
                gateway: Some(long),
                full: json!({ "short_ms": short, "long_ms": long }),
            }),
            Err(error) => note = Some(error.to_string()),
        }
    }
    let what = format!("one server more in a file of {FILE_SERVERS}, from saving it to the notice");
    ReportRow::judge(13, what, RowMeasure::Milliseconds, RowTarget::ExtraMillisecondsAtMost(20.0), samples, note)
}

struct ChangeTimes {
    alone: f64,
    added: f64,
    removed: f64,
}

/// A server whose tool `wait` never answers.
fn stuck() -> ServerBuilder {
    Server::builder("stuck").modern_only().tool("wait", |call| async move {
        call.cancelled().await;
        call.ok_text("late")
    })
}

/// A configuration with this many servers, which are all the same one.
fn config(server: &Server, servers: usize) -> String {
    (0..servers).map(|number| format!("[servers.s{number}]\n{}\n", server.toml())).collect()
}

async fn add_and_remove_once(bench: &BenchContext) -> Result<ChangeTimes, BenchError> {
    let alone = startup::alone_ms(0).await?;
    let there = Server::builder("there").echo("echo").modern_only().http().await;
    let gateway = GatewayProcess::start_ready(&bench.gateway, &config(&there, SERVERS), bench.folder.path()).await?;
    let crowd = ListeningCrowd::gather(gateway.address, CLIENTS).await?;
    let keys = json!({ "command": this_program()?, "args": ["stdio-server"] });
    let begun = Instant::now();
    manage(&gateway, "PUT", "new", Some(&keys)).await?;
    let added = crowd.told(1, begun).await?;

    let stuck = stuck().stdio().await;
    let (command, args) = stuck.command();
    manage(&gateway, "PUT", "stuck", Some(&json!({ "command": command, "args": args }))).await?;
    crowd.told(2, Instant::now()).await?;
    let client = Client::modern(format!("http://{}/mcp", gateway.address)).await;
    let call = client.start("tools/call", json!({ "name": "stuck__wait", "arguments": {} }));
    stuck.wait_for_method("tools/call", 1).await;
    let begun = Instant::now();
    let (answer, told) = tokio::join!(call.finish(), async {
        manage(&gateway, "DELETE", "stuck", None).await?;
        crowd.told(3, begun).await
    });
    // Both have to be over: the last notice, and the answer to the call that was running.
    let removed = told?.max(milliseconds(begun));
    let said = answer.error()["message"].as_str().unwrap_or_default().to_owned();
    gateway.stop().await;
    if !said.contains("was removed") {
        return Err(BenchError::unexpected("the call", "that its server was removed", said.as_bytes()));
    }
    Ok(ChangeTimes { alone, added, removed })
}

async fn reload_once(bench: &BenchContext, servers: usize) -> Result<f64, BenchError> {
    let there = Server::builder("there").echo("echo").modern_only().http().await;
    let text = config(&there, servers);
    let gateway = GatewayProcess::start_ready(&bench.gateway, &text, bench.folder.path()).await?;
    let crowd = ListeningCrowd::gather(gateway.address, 1).await?;
    let more = Server::builder("more").echo("echo").modern_only().http().await;
    // Written before the clock starts: the file is saved by the rename.
    let fresh = gateway.config.with_extension("new");
    std::fs::write(&fresh, format!("{text}[servers.more]\n{}", more.toml())).map_err(BenchError::io("writing"))?;
    let begun = Instant::now();
    std::fs::rename(&fresh, &gateway.config).map_err(BenchError::io("replacing the configuration"))?;
    let took = crowd.told(1, begun).await;
    gateway.stop().await;
    took
}

/// Clients that listen, and how often they were told.
struct ListeningCrowd {
    notices: Arc<(AtomicUsize, AtomicUsize)>,
    size: usize,
    // Dropping it hangs up.
    _readers: JoinSet<()>,
}

impl ListeningCrowd {
    async fn gather(address: SocketAddr, size: usize) -> Result<Self, BenchError> {
        let notices = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let mut readers = JoinSet::new();
        for number in 0..size {
            readers.spawn(count(listen(address, number).await?, Arc::clone(&notices)));
        }
        Ok(Self { notices, size, _readers: readers })
    }

    /// Waits until everybody was told so often; gives the milliseconds since `begun`.
    async fn told(&self, times: usize, begun: Instant) -> Result<f64, BenchError> {
        let all = async {
            while self.notices.1.load(Ordering::Relaxed) < times * self.size {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let late = || BenchError::unexpected("the clients", "a notice for each", b"");
        tokio::time::timeout(WITHIN, all).await.map_err(|_| late())?;
        Ok(milliseconds(begun))
    }
}

/// One request to the API; answered when it is done.
async fn manage(gateway: &GatewayProcess, method: &str, name: &str, keys: Option<&Value>) -> Result<(), BenchError> {
    let token =
        std::fs::read_to_string(gateway.data.join("admin.token")).map_err(BenchError::io("reading the token"))?;
    let body = keys.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} /api/v1/servers/{name} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        gateway.address,
        token.trim(),
        body.len()
    );
    let mut connection = LoadConnection::open(gateway.address).await?;
    let answer = connection.exchange(request.as_bytes()).await?;
    match answer.status {
        200..=299 => Ok(()),
        status => Err(BenchError::unexpected("the API", "that it is done", format!("{status}").as_bytes())),
    }
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
