//! Case 30: calls of clients that show a token, to a gateway that asks for it and has rules, against one without `[auth]`.

use sha2::{Digest, Sha256};

use super::BenchContext;
use super::throughput::{MANY_TURNS, ThroughputLoad, compare, upstream};
use crate::echo::EchoEra;
use crate::error::BenchError;
use crate::process::GatewayProcess;
use crate::report::{ReportRow, RowMeasure, RowTarget};

/// About as long as those that a company's provider signs.
const TOKEN_BYTES: usize = 900;
const RULES: usize = 20;

pub(super) async fn rows(bench: &BenchContext) -> Result<Vec<ReportRow>, BenchError> {
    let token = "b".repeat(TOKEN_BYTES);
    let mut rows = Vec::new();
    for era in [EchoEra::Legacy, EchoEra::Modern] {
        let upstream = upstream(era, 0).await?;
        let open = format!("[servers.echo]\nurl = \"http://{}/mcp\"\n", upstream.address);
        let start =
            async |config: String| GatewayProcess::start_ready(&bench.gateway, &config, bench.folder.path()).await;
        let without = start(open.clone()).await?;
        let with = start(open + &guarded(&token)).await;
        let load = ThroughputLoad {
            case: 30,
            what: format!("tools/call, 16 clients, without [auth], and with a token and {RULES} rules, {}", era.word()),
            era,
            operation: "call",
            clients: 16,
            baseline_has_sessions: true,
            bearer: Some(token.clone()),
            turns: MANY_TURNS,
            measure: RowMeasure::RequestsPerSecond,
            target: RowTarget::RatioAtLeast(0.97),
        };
        rows.push(compare(bench, load, without.address, with.as_ref()).await);
        without.stop().await;
        if let Ok(with) = with {
            with.stop().await;
        }
    }
    Ok(rows)
}

/// The tables that ask for the token, and rules that are about other people and other servers.
fn guarded(token: &str) -> String {
    let hash: String = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
    let rule =
        |number: usize| format!("[[policy.rule]]\nwho = [\"group:g{number}\"]\ndeny = [\"other/get_{number}*\"]\n");
    let rules: String = (0..RULES).map(rule).collect();
    format!("[auth]\ntokens = [{{ name = \"bench\", sha256 = \"{hash}\" }}]\n{rules}")
}
