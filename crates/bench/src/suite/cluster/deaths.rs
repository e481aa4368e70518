//! A replica is killed: how soon its sessions are not found any more, and how soon calls that it carried out are answered with an error.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::{NatsServer, Server};
use tokio::task::JoinSet;

use super::fleet::BenchFleet;
use crate::echo::{EchoEra, LEGACY_REVISION, MODERN_REVISION};
use crate::error::BenchError;
use crate::load::http::LoadConnection;
use crate::load::request::LoadClient;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};
use crate::suite::BenchContext;

/// Calls under way at the replica that is killed, from each of the others.
const CALLS: usize = 20;
/// Sessions that live there, for each of the moments.
const SESSIONS: usize = 10;
/// When they are asked for, after the process is gone. A request at the very moment of a kill may vanish in NATS: it is shown, and does not count.
const MOMENTS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(1000)];
const WITHIN: Duration = Duration::from_secs(20);

/// Case 35: the slowest 404, and the slowest error.
pub(super) async fn rows(bench: &BenchContext) -> [ReportRow; 2] {
    let (mut sessions, mut calls, mut note) = (Vec::new(), Vec::new(), None);
    for repetition in 0..bench.repeat {
        eprintln!("a replica is killed … {}/{}", repetition + 1, bench.repeat);
        match measure(bench).await {
            Ok(Some(seen)) => {
                let full = json!({ "after_ms": seen.sessions, "calls_ms": seen.calls });
                let later = seen.sessions[1..].iter().flatten().copied();
                sessions.push(slowest(later, &full));
                calls.push(slowest(seen.calls.iter().copied(), &full));
            }
            Ok(None) => {}
            Err(error) => note = Some(error.to_string()),
        }
    }
    let what = "cluster: a session of a replica that was killed: slowest 404".to_owned();
    let target = RowTarget::MillisecondsAtMost(300.0);
    let not_found = ReportRow::judge(35, what, RowMeasure::Milliseconds, target, sessions, note.clone());
    let what = "cluster: a call that is lost with its replica: slowest error".to_owned();
    let target = RowTarget::MillisecondsAtMost(1500.0);
    [not_found, ReportRow::judge(35, what, RowMeasure::Milliseconds, target, calls, note)]
}

fn slowest(times: impl Iterator<Item = f64>, full: &serde_json::Value) -> BenchSample {
    BenchSample { baseline: None, gateway: times.max_by(f64::total_cmp), full: full.clone() }
}

/// Milliseconds, since the request or since the death.
struct DeathTimes {
    /// Of sessions, for each of the moments.
    sessions: Vec<Vec<f64>>,
    calls: Vec<f64>,
}

async fn measure(bench: &BenchContext) -> Result<Option<DeathTimes>, BenchError> {
    let server = Server::builder("hanging").tool("hang", |_| std::future::pending()).modern_only().http().await;
    let Some(nats) = NatsServer::start() else { return Ok(None) };
    let servers = format!("[servers.hanging]\n{}", server.toml());
    let mut fleet = BenchFleet::three(bench, &nats, &servers).await?;
    let [home, others @ ..] = [0, 1, 2].map(|place| fleet.replicas[place].address);
    let mut sessions = Vec::new();
    for _ in 0..MOMENTS.len() * SESSIONS {
        let client = LoadClient::start(LoadConnection::open(home).await?, EchoEra::Legacy, "hang").await?;
        sessions.push(client.session().unwrap_or_default().to_owned());
    }
    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        for to in others {
            calls.spawn(call(to));
        }
    }
    server.wait_for_method("tools/call", CALLS * others.len()).await;
    fleet.replicas[0].kill().await;
    let death = Instant::now();
    let mut asking = JoinSet::new();
    for (place, session) in sessions.into_iter().enumerate() {
        let (moment, to) = (place / SESSIONS, others[place % 2]);
        asking.spawn(async move { (moment, find(to, session, death + MOMENTS[moment], moment == 0).await) });
    }
    let mut times = DeathTimes { sessions: vec![Vec::new(); MOMENTS.len()], calls: Vec::new() };
    while let Some(asked) = asking.join_next().await {
        let (moment, took) = asked.map_err(|error| BenchError::io("asking for a session")(error.into()))?;
        times.sessions[moment].push(took?);
    }
    while let Some(called) = calls.join_next().await {
        let ended: Instant = called.map_err(|error| BenchError::io("calling")(error.into()))??;
        times.calls.push(ended.duration_since(death).as_secs_f64() * 1e3);
    }
    fleet.stop().await;
    Ok(Some(times))
}

/// A call that hangs until its replica is lost; gives the moment of the error.
async fn call(to: SocketAddr) -> Result<Instant, BenchError> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"hang","arguments":{{}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN_REVISION}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    let headers = format!("mcp-protocol-version: {MODERN_REVISION}\r\nmcp-method: tools/call\r\nmcp-name: hang\r\n");
    let (_, answer) = post(to, &headers, &body).await?;
    if !String::from_utf8_lossy(&answer).contains("it may have run") {
        return Err(BenchError::unexpected("a replica", "that the call may have run", &answer));
    }
    Ok(Instant::now())
}

/// Asks for a session at this moment; gives the milliseconds until it is not found.
async fn find(to: SocketAddr, session: String, at: Instant, may_vanish: bool) -> Result<f64, BenchError> {
    tokio::time::sleep_until(at.into()).await;
    let asked = Instant::now();
    let headers = format!("mcp-protocol-version: {LEGACY_REVISION}\r\nmcp-session-id: {session}\r\n");
    let (status, answer) = post(to, &headers, r#"{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{}}"#).await?;
    if status != 404 && !may_vanish {
        return Err(BenchError::unexpected("a replica", "status 404", &answer));
    }
    Ok(asked.elapsed().as_secs_f64() * 1e3)
}

async fn post(to: SocketAddr, headers: &str, body: &str) -> Result<(u16, Vec<u8>), BenchError> {
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {to}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
         {headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = LoadConnection::open(to).await?;
    let asked = async {
        let answer = connection.exchange(request.as_bytes()).await?;
        Ok((answer.status, answer.body.to_vec()))
    };
    let late = || BenchError::unexpected("a replica", "an answer", b"nothing");
    tokio::time::timeout(WITHIN, asked).await.map_err(|_| late())?
}
