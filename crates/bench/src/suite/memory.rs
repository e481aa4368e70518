//! Case 4: resident memory of an idle gateway with ten servers connected.

use std::time::Duration;

use serde_json::{Value, json};

use super::BenchContext;
use crate::echo::EchoEra;
use crate::error::BenchError;
use crate::load::http::LoadConnection;
use crate::load::request::LoadClient;
use crate::machine::{private_mb, resident_mb};
use crate::process::{GatewayProcess, this_program};
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};

const SERVERS: usize = 10;
const IDLE: Duration = Duration::from_secs(2);

/// Measures it afresh in each repetition: the whole, and what of it is the process's own.
pub(super) async fn idle(bench: &BenchContext) -> [ReportRow; 2] {
    let (mut whole, mut own) = (Vec::new(), Vec::new());
    let mut note = None;
    let sample = |megabytes, full| BenchSample { baseline: None, gateway: Some(megabytes), full };
    for repetition in 0..bench.repeat {
        eprintln!("memory … {}/{}", repetition + 1, bench.repeat);
        match measure(bench).await {
            Ok(IdleMemory { resident, private }) => {
                whole.push(sample(resident, json!({ "resident_mb": resident })));
                own.push(sample(private, json!({ "private_mb": private })));
            }
            Err(error) => note = Some(error.to_string()),
        }
    }
    let row = |what: String, most, samples, note| {
        ReportRow::judge(4, what, RowMeasure::Megabytes, RowTarget::MegabytesAtMost(most), samples, note)
    };
    [
        row(format!("resident memory, idle, {SERVERS} stdio servers"), 25.0, whole, note.clone()),
        row("of that, the process's own: all but the program's text".to_owned(), 6.0, own, note),
    ]
}

/// In megabytes of 1024² bytes.
struct IdleMemory {
    resident: f64,
    private: f64,
}

async fn measure(bench: &BenchContext) -> Result<IdleMemory, BenchError> {
    let config = config()?;
    let gateway = GatewayProcess::start_ready(&bench.gateway, &config, bench.folder.path()).await?;
    let measured = measure_running(&gateway).await;
    gateway.stop().await;
    measured
}

async fn measure_running(gateway: &GatewayProcess) -> Result<IdleMemory, BenchError> {
    all_connected(gateway).await?;
    // The allocator gives back what the start needed only after a while.
    tokio::time::sleep(IDLE).await;
    let pid = gateway.pid();
    pid.and_then(|pid| Some(IdleMemory { resident: resident_mb(pid)?, private: private_mb(pid)? }))
        .ok_or_else(|| BenchError::unexpected("the kernel", "VmRSS and RssAnon of the gateway", b""))
}

/// A gateway that lacks a server would look small.
async fn all_connected(gateway: &GatewayProcess) -> Result<(), BenchError> {
    let connection = LoadConnection::open(gateway.address).await?;
    let mut client = LoadClient::start(connection, EchoEra::Modern, "echo").await?;
    let body = client.list().await?;
    let list: Value =
        serde_json::from_slice(body).map_err(|_| BenchError::unexpected("tools/list", "plain JSON", body))?;
    let tools = list["result"]["tools"].as_array().map_or(0, Vec::len);
    if tools < SERVERS {
        return Err(BenchError::unexpected("tools/list", "a tool of each server", body));
    }
    Ok(())
}

fn config() -> Result<String, BenchError> {
    let program = json!(this_program()?).to_string();
    Ok((0..SERVERS)
        .map(|number| format!("[servers.s{number}]\ncommand = {program}\nargs = [\"stdio-server\"]\n"))
        .collect())
}
