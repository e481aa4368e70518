//! Case 4: resident memory of an idle gateway with ten servers connected.

use std::time::Duration;

use serde_json::{Value, json};

use super::BenchContext;
use crate::echo::EchoEra;
use crate::error::BenchError;
use crate::load::http::LoadConnection;
use crate::load::request::LoadClient;
use crate::machine::resident_mb;
use crate::process::{GatewayProcess, this_program};
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};

const SERVERS: usize = 10;
const IDLE: Duration = Duration::from_secs(2);

/// Measures it afresh in each repetition.
pub(super) async fn idle(bench: &BenchContext) -> ReportRow {
    let mut samples = Vec::new();
    let mut note = None;
    for repetition in 0..bench.repeat {
        eprintln!("memory … {}/{}", repetition + 1, bench.repeat);
        match measure(bench).await {
            Ok(megabytes) => samples.push(BenchSample {
                baseline: None,
                gateway: Some(megabytes),
                full: json!({ "resident_mb": megabytes }),
            }),
            Err(error) => note = Some(error.to_string()),
        }
    }
    ReportRow::judge(
        4,
        format!("resident memory, idle, {SERVERS} stdio servers"),
        RowMeasure::Megabytes,
        RowTarget::MegabytesAtMost(25.0),
        samples,
        note,
    )
}

async fn measure(bench: &BenchContext) -> Result<f64, BenchError> {
    let config = config()?;
    let gateway = GatewayProcess::start_ready(&bench.gateway, &config, bench.folder.path()).await?;
    let measured = measure_running(&gateway).await;
    gateway.stop().await;
    measured
}

async fn measure_running(gateway: &GatewayProcess) -> Result<f64, BenchError> {
    all_connected(gateway).await?;
    // The allocator gives back what the start needed only after a while.
    tokio::time::sleep(IDLE).await;
    gateway.pid().and_then(resident_mb).ok_or_else(|| BenchError::unexpected("the kernel", "VmRSS of the gateway", b""))
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
