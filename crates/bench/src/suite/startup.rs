//! Case 5: ten stdio servers, one of which never answers. How much later than the server alone does
//! the gateway answer a call to each of the others, counted from the start of its process?

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::BenchContext;
use crate::echo::EchoEra;
use crate::error::BenchError;
use crate::load::http::LoadConnection;
use crate::load::request::LoadClient;
use crate::process::{GatewayProcess, read_line, this_program};
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget, median};

const ANSWERING: usize = 9;
/// Each server takes this much longer to start than the one before: waiting for another shows.
const START_STEP: u64 = 25;
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const DIRECT_REPETITIONS: usize = 3;

/// One server's answer through the gateway.
struct FirstAnswer {
    server: usize,
    after: Duration,
    /// Answers before the right one.
    refusals: usize,
}

/// Measures the servers alone, then behind the gateway.
pub(super) async fn one_hanging(bench: &BenchContext) -> Result<ReportRow, BenchError> {
    let mut alone = Vec::with_capacity(ANSWERING);
    for server in 0..ANSWERING {
        alone.push(alone_ms(server).await?);
    }
    let mut samples = Vec::new();
    let mut note = None;
    for repetition in 0..bench.repeat {
        eprintln!("start with one hanging … {}/{}", repetition + 1, bench.repeat);
        match through_gateway(bench).await {
            Ok(answers) => {
                let refusals: usize = answers.iter().map(|answer| answer.refusals).sum();
                if refusals > 0 {
                    note = Some(format!("{refusals} answers were refusals before the right one came"));
                }
                samples.extend(worst(&alone, &answers));
            }
            Err(error) => note = Some(error.to_string()),
        }
    }
    if samples.is_empty() {
        samples.push(BenchSample {
            baseline: alone.last().copied(),
            gateway: None,
            full: json!({ "alone_ms": alone }),
        });
    }
    Ok(ReportRow::judge(
        5,
        format!("tools/call to each of {ANSWERING} starting servers, a tenth hanging"),
        RowMeasure::Milliseconds,
        RowTarget::ExtraMillisecondsAtMost(100.0),
        samples,
        note,
    ))
}

/// The server with the greatest difference stands for the repetition.
fn worst(alone: &[f64], answers: &[FirstAnswer]) -> Option<BenchSample> {
    let extra = |answer: &&FirstAnswer| milliseconds(answer.after) - alone[answer.server];
    let worst = answers.iter().max_by(|left, right| extra(left).total_cmp(&extra(right)))?;
    let servers: Vec<_> = answers
        .iter()
        .map(|answer| {
            json!({
                "server": answer.server,
                "alone_ms": alone[answer.server],
                "gateway_ms": milliseconds(answer.after),
                "refusals": answer.refusals,
            })
        })
        .collect();
    Some(BenchSample {
        baseline: Some(alone[worst.server]),
        gateway: Some(milliseconds(worst.after)),
        full: json!({ "servers": servers }),
    })
}

fn arguments(server: usize) -> Vec<String> {
    let delay = START_STEP * server as u64;
    vec!["stdio-server".into(), "--start-delay".into(), delay.to_string()]
}

/// From the start of the server's process to its answer to a call, asked directly.
pub(super) async fn alone_ms(server: usize) -> Result<f64, BenchError> {
    let mut times = Vec::new();
    for _ in 0..DIRECT_REPETITIONS {
        times.push(milliseconds(alone_once(server).await?));
    }
    median(times.into_iter()).ok_or_else(|| BenchError::unexpected("the server alone", "a time", b""))
}

async fn alone_once(server: usize) -> Result<Duration, BenchError> {
    const CALL: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
"#;
    // The modern era has no handshake, so that the first line is the call.
    let started = Instant::now();
    let mut child = Command::new(this_program()?)
        .args(arguments(server))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(BenchError::io("starting a server"))?;
    let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(BenchError::unexpected("a server", "pipes", b""));
    };
    stdin.write_all(CALL).await.map_err(BenchError::io("asking a server"))?;
    let answer = read_line(&mut stdout).await?;
    let took = started.elapsed();
    if !answer.contains("\"hello\"") {
        return Err(BenchError::unexpected("a server", "its echo", answer.as_bytes()));
    }
    drop(stdin);
    let _ = child.wait().await;
    Ok(took)
}

async fn through_gateway(bench: &BenchContext) -> Result<Vec<FirstAnswer>, BenchError> {
    let gateway = GatewayProcess::start(&bench.gateway, &config()?, bench.folder.path())?;
    let mut calls = JoinSet::new();
    for server in 0..ANSWERING {
        calls.spawn(call_until_answered(server, gateway.address, gateway.started));
    }
    let gathered = tokio::time::timeout(ANSWER_WITHIN, calls.join_all()).await;
    let log = gateway.log_tail();
    gateway.stop().await;
    gathered.map_err(|_| BenchError::GatewayNotReady { waited: ANSWER_WITHIN, log })
}

/// Knocks until the port opens, then calls. A refusal is counted and the call made again, so that the
/// time is that of the right answer in any case.
async fn call_until_answered(server: usize, address: SocketAddr, started: Instant) -> FirstAnswer {
    let tool = format!("s{server}__echo");
    let mut refusals = 0;
    loop {
        if let Ok(connection) = LoadConnection::open(address).await {
            let answer = match LoadClient::start(connection, EchoEra::Modern, &tool).await {
                Ok(mut client) => client.call().await,
                Err(error) => Err(error),
            };
            if answer.is_ok() {
                return FirstAnswer { server, after: started.elapsed(), refusals };
            }
            refusals += 1;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn config() -> Result<String, BenchError> {
    let program = json!(this_program()?).to_string();
    // First in the file: a gateway that starts one server after the other would wait for it.
    let hanging = format!("[servers.hanging]\ncommand = {program}\nargs = [\"stdio-server\", \"--hang\"]\n");
    let answering = (0..ANSWERING).map(|server| {
        let args = json!(arguments(server));
        format!("[servers.s{server}]\ncommand = {program}\nargs = {args}\n")
    });
    Ok(std::iter::once(hanging).chain(answering).collect())
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
