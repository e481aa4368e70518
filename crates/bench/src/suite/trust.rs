//! Cases 22 and 23: what approvals and the proof of the records cost. Case 21 is one of throughput.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_store::{AuditEntry, AuditLimits, AuditLog, CallCourse, CallEnding, EntrySheet, SinkSettings, Store};
use tidings_testkit::{Client, Gateway, PendingExchange, Server, Tool};
use tokio::process::Command;

use super::BenchContext;
use crate::error::BenchError;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget, median};

const TOOLS: usize = 10_000;
const ROUNDS: usize = 15;
const RECORDS: usize = 1_000_000;
const NOTICE: &str = "notifications/tools/list_changed";

/// Case 22: one of many tools changes at its server, without and with approval: from the server's signal to the notice at a client.
pub(super) async fn approvals(bench: &BenchContext) -> ReportRow {
    let mut samples = Vec::new();
    for repetition in 0..bench.repeat {
        eprintln!("approvals … {}/{}", repetition + 1, bench.repeat);
        let plain = ManyTools::new(bench, "").await;
        let screened = ManyTools::new(bench, "approve = \"changed\"\n").await;
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            // In turns: both sides under the same load.
            without.push(plain.change_and_return().await);
            with.push(screened.change_and_return().await);
        }
        assert!(screened.was_held().await, "what changed is not held");
        samples.push(BenchSample {
            baseline: median(without.into_iter()),
            gateway: median(with.into_iter()),
            full: json!({ "rounds": ROUNDS, "tools": TOOLS }),
        });
    }
    let what = format!("one of {TOOLS} tools changes, signal to notice: without approval, and approve = \"changed\"");
    ReportRow::judge(22, what, RowMeasure::MedianMicros, RowTarget::RatioAtMost(1.2), samples, None)
}

/// A server with many tools, and a client that follows them through a gateway.
struct ManyTools {
    server: Server,
    client: Client,
    _gateway: Gateway,
    _listen: PendingExchange,
}

impl ManyTools {
    async fn new(bench: &BenchContext, keys: &str) -> Self {
        let all = (0..TOOLS).map(|number| tool(number, 0));
        let server =
            all.fold(Server::builder("many"), |server, tool| server.entry_tool(tool)).modern_only().http().await;
        let toml = "[notifications]\nlist_quiet = \"0ms\"\n";
        let gateway =
            Gateway::builder().binary(&bench.gateway).toml(toml).server_with("many", &server, keys).serve().await;
        let client = gateway.client().modern().connect().await;
        let filter = json!({ "notifications": { "toolsListChanged": true } });
        let mut listen = client.start("subscriptions/listen", filter);
        listen.next_method("notifications/subscriptions/acknowledged").await;
        server.wait_listening(1).await;
        Self { server, client, _gateway: gateway, _listen: listen }
    }

    /// One tool says something else, in microseconds; then it says again what it said, which brings it back if it was held.
    async fn change_and_return(&self) -> f64 {
        let took = self.say(1).await;
        self.say(0).await;
        took
    }

    async fn say(&self, version: usize) -> f64 {
        let told = self.client.count(NOTICE);
        self.server.put_tool(tool(TOOLS / 2, version));
        let signalled = Instant::now();
        self.server.list_changed("tools");
        self.client.wait_for_method(NOTICE, told + 1).await;
        signalled.elapsed().as_secs_f64() * 1e6
    }

    /// Whether a tool that changes is not there for clients.
    async fn was_held(&self) -> bool {
        self.say(2).await;
        let names = self.client.names("tools").await;
        names.len() == TOOLS - 1
    }
}

fn tool(number: usize, version: usize) -> Tool {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}, "count": {"type": "integer"}}});
    let description = format!("Does what tool {number} does, in version {version}.");
    let definition = json!({"name": format!("tool_{number}"), "description": description, "inputSchema": schema});
    Tool::raw(&definition.to_string(), |call| async move { call.ok_text("done") })
}

/// A call, as it is recorded.
#[derive(Debug)]
struct BenchedRecord(usize);

impl AuditEntry for BenchedRecord {
    type Memo = ();

    fn moment(&self) -> Instant {
        Instant::now()
    }

    fn write(self, (): &mut (), sheet: EntrySheet<'_>) {
        let name = format!("echo_{}", self.0 % 100);
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&(self.0 as u64).to_le_bytes());
        let course =
            CallCourse { arguments: Some((&hash, 64)), more: &[], ending: CallEnding::Answered(120), micros: 1_400 };
        let write = |members: &mut Vec<u8>| {
            let subject = format!(
                "\"kind\":\"call\",\"method\":\"tools/call\",\"server\":\"echo\",\"name\":\"{name}\",\"principal\":\"local\",\
                 \"client\":{{\"name\":\"bench\",\"version\":\"1\"}}"
            );
            members.extend_from_slice(subject.as_bytes());
        };
        sheet.call(&[b"tools/call", b"echo", name.as_bytes(), b"local", b"bench", b""], write, &course);
    }
}

/// Case 23: `tidings verify` over a million records, from the start of the command to its end.
pub(super) async fn proof(bench: &BenchContext) -> ReportRow {
    let folder = bench.folder.path().join("proof");
    let mut note = std::fs::create_dir_all(&folder).err().map(|error| error.to_string());
    write_records(&folder).await;
    let mut samples = Vec::new();
    for repetition in 0..bench.repeat {
        eprintln!("verify … {}/{}", repetition + 1, bench.repeat);
        let (took, records) = match prove(&bench.gateway, &folder).await {
            Ok((took, records)) => (Some(took), records),
            Err(fault) => {
                note = Some(fault.to_string());
                (None, 0)
            }
        };
        samples.push(BenchSample { baseline: None, gateway: took, full: json!({ "records": records }) });
    }
    let what = format!("`tidings verify` over {RECORDS} records");
    ReportRow::judge(23, what, RowMeasure::Milliseconds, RowTarget::MillisecondsAtMost(5_000.0), samples, note)
}

async fn write_records(folder: &Path) {
    let limits = AuditLimits {
        max_age: Duration::from_secs(3_600),
        max_records: 2 * RECORDS as u64,
        max_bytes: 4 << 30,
        // All of them may wait: none is lost, however slow the disk is.
        max_waiting: RECORDS * 1024,
    };
    let store = Store::open(folder, Duration::from_secs(2));
    let (log, queue) = AuditLog::start(store, limits, SinkSettings::default());
    for number in 0..RECORDS {
        queue.hand_over(BenchedRecord(number));
    }
    log.close().await;
}

/// How long it took, in milliseconds, and how many records were proved.
async fn prove(tidings: &Path, folder: &Path) -> Result<(f64, u64), BenchError> {
    let until = Instant::now() + Duration::from_secs(600);
    loop {
        let mut command = Command::new(tidings);
        command.arg("--data").arg(folder).args(["verify", "--json"]).stdin(Stdio::null()).kill_on_drop(true);
        let started = Instant::now();
        let output = command.output().await.map_err(BenchError::io("running `tidings verify`"))?;
        let took = started.elapsed().as_secs_f64() * 1e3;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        // The thread of the log lets go of the store a moment after it said that it is done.
        if said.contains("try again") && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        }
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let records = report["audit"]["records"].as_u64().unwrap_or_default();
        return match output.status.success() && records >= RECORDS as u64 {
            true => Ok((took, records)),
            false => {
                Err(BenchError::unexpected("verify", "all records proved", format!("{records}; {said}").as_bytes()))
            }
        };
    }
}
