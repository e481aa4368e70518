//! Cases 20 to 23: script projects. What a call costs beyond the script itself, and beside mcp-bash where it can be had;
//! how long a project of 500 tools takes to be listed; how long a saved file takes to be told.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::{Client, ClientBuilder};
use tokio::process::Command;

use super::BenchContext;
use crate::error::BenchError;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget, median};

const CALLS: usize = 200;
/// The other program takes its time.
const CALLS_OF_OTHERS: usize = 5;
const TOOLS: usize = 500;
const SAVES: usize = 10;
const NOTICE: &str = "notifications/tools/list_changed";
/// As configured when nothing is said.
const QUIET_MS: f64 = 250.0;
const SCRIPT: &str = "#!/bin/sh\necho hello\n";

/// All rows. `other` is a folder or a git directory of mcp-bash.
pub(super) async fn rows(bench: &BenchContext, other: Option<&Path>) -> Result<Vec<ReportRow>, BenchError> {
    Ok(vec![call(bench).await?, call_of_others(bench, other).await?, listing(bench).await?, saving(bench).await?])
}

/// A project in the scratch folder.
fn project(bench: &BenchContext, name: &str, tools: usize) -> Result<PathBuf, BenchError> {
    let root = bench.folder.path().join(name);
    for number in 0..tools {
        write_tool(&root, &format!("tool{number:03}"))?;
    }
    Ok(root)
}

fn write_tool(root: &Path, name: &str) -> Result<(), BenchError> {
    let folder = root.join("tools").join(name);
    let about = json!({
        "name": name,
        "description": format!("Says hello, and is called {name}."),
        "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
    });
    let script = folder.join("tool.sh");
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(folder.join("tool.meta.json"), about.to_string()))
        .and_then(|()| std::fs::write(&script, SCRIPT))
        .and_then(|()| std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)))
        .map_err(BenchError::io("making a project"))
}

fn client(bench: &BenchContext, root: &Path) -> ClientBuilder {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let data = bench.folder.path().join("data-scripts");
    let args = vec!["project".into(), text(root), "--data".into(), text(&data)];
    Client::stdio(bench.gateway.to_string_lossy(), args).env("MCPBASH_TOOL_ALLOWLIST", "*")
}

/// The script alone, started and waited for.
async fn alone(script: &Path) -> Result<f64, BenchError> {
    let started = Instant::now();
    let output = Command::new(script)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .await
        .map_err(BenchError::io("running a script"))?;
    let took = micros(started.elapsed());
    if output.stdout != b"hello\n" {
        return Err(BenchError::unexpected("the script", "hello", &output.stdout));
    }
    Ok(took)
}

async fn called(client: &Client) -> f64 {
    let started = Instant::now();
    let text = client.call_tool("tool000", json!({})).await.text();
    let took = micros(started.elapsed());
    assert_eq!(text.trim_end(), "hello");
    took
}

/// A call of a trivial tool, against the script alone; the two take turns.
async fn call(bench: &BenchContext) -> Result<ReportRow, BenchError> {
    let root = project(bench, "one", 1)?;
    let script = root.join("tools/tool000/tool.sh");
    let client = client(bench, &root).connect().await;
    // The first call also makes the project's folder for calls; it is not counted.
    called(&client).await;
    let mut samples = Vec::new();
    for repetition in 0..bench.repeat {
        eprintln!("a trivial tool … {}/{}", repetition + 1, bench.repeat);
        let (mut scripts, mut calls) = (Vec::new(), Vec::new());
        for _ in 0..CALLS {
            scripts.push(alone(&script).await?);
            calls.push(called(&client).await);
        }
        let (baseline, gateway) = (median(scripts.into_iter()), median(calls.into_iter()));
        samples.push(BenchSample { baseline, gateway, full: json!({ "calls": CALLS }) });
    }
    let what = "a trivial script as a tool over stdio, against the script alone".to_owned();
    Ok(ReportRow::judge(20, what, RowMeasure::MedianMicros, RowTarget::RatioAtMost(1.3), samples, None))
}

/// The same call by mcp-bash and by us.
async fn call_of_others(bench: &BenchContext, other: Option<&Path>) -> Result<ReportRow, BenchError> {
    let what = "a trivial script as a tool over stdio, against mcp-bash".to_owned();
    let target = RowTarget::RatioAtMost(0.2);
    let Some(other) = other else {
        let mut row = ReportRow::judge(21, what, RowMeasure::MedianMicros, target, Vec::new(), None);
        // Not a miss: the comparison was not possible here, and the note says so.
        row.ok = true;
        row.note = Some("mcp-bash was not available: name its folder or git directory with --mcp-bash".into());
        return Ok(row);
    };
    let program = checked_out(bench, other).await?.join("bin/mcp-bash");
    let root = project(bench, "others", 1)?;
    let theirs = Client::stdio(program.to_string_lossy(), Vec::new())
        .env("MCPBASH_PROJECT_ROOT", &root.to_string_lossy())
        .env("MCPBASH_TOOL_ALLOWLIST", "*")
        .connect()
        .await;
    let ours = client(bench, &root).connect().await;
    let mut samples = Vec::new();
    for repetition in 0..bench.repeat {
        eprintln!("a trivial tool of mcp-bash … {}/{}", repetition + 1, bench.repeat);
        let (mut baseline, mut gateway) = (Vec::new(), Vec::new());
        for _ in 0..CALLS_OF_OTHERS {
            baseline.push(called(&theirs).await);
            gateway.push(called(&ours).await);
        }
        let (baseline, gateway) = (median(baseline.into_iter()), median(gateway.into_iter()));
        samples.push(BenchSample { baseline, gateway, full: json!({ "calls": CALLS_OF_OTHERS }) });
    }
    Ok(ReportRow::judge(21, what, RowMeasure::MedianMicros, target, samples, None))
}

/// A work tree: the folder itself, or one made of a git directory.
async fn checked_out(bench: &BenchContext, other: &Path) -> Result<PathBuf, BenchError> {
    if other.join("bin/mcp-bash").is_file() {
        return Ok(other.to_owned());
    }
    let folder = bench.folder.path().join("mcp-bash");
    std::fs::create_dir_all(&folder).map_err(BenchError::io("making a folder"))?;
    let output = Command::new("git")
        .arg("--git-dir")
        .arg(other)
        .arg("--work-tree")
        .arg(&folder)
        .args(["checkout", "--force", "HEAD", "--"])
        // What it needs to run; a mirror may lack the large files of its documentation.
        .args(["bin", "lib", "handlers", "providers", "sdk", "server.d", "VERSION"])
        // An index of its own: the git directory stays as it is.
        .env("GIT_INDEX_FILE", bench.folder.path().join("mcp-bash.index"))
        .output()
        .await
        .map_err(BenchError::io("checking out mcp-bash"))?;
    if output.status.success() {
        return Ok(folder);
    }
    Err(BenchError::unexpected("git", "a work tree of mcp-bash", &output.stderr))
}

/// From the start of the process to the list of a large project.
async fn listing(bench: &BenchContext) -> Result<ReportRow, BenchError> {
    let root = project(bench, "many", TOOLS)?;
    let mut samples = Vec::new();
    for repetition in 0..bench.repeat {
        eprintln!("a project of {TOOLS} tools … {}/{}", repetition + 1, bench.repeat);
        let started = Instant::now();
        let client = client(bench, &root).connect().await;
        let page = client.request("tools/list", json!({})).await.result();
        let took = started.elapsed().as_secs_f64() * 1e3;
        assert_eq!(page["tools"][0]["name"], "tool000");
        let all = client.list("tools").await.len();
        if all != TOOLS {
            return Err(BenchError::unexpected("the project", "every tool", all.to_string().as_bytes()));
        }
        samples.push(BenchSample { baseline: None, gateway: Some(took), full: json!({ "tools": all }) });
    }
    let what = format!("a project of {TOOLS} tools: start of the process to tools/list");
    Ok(ReportRow::judge(22, what, RowMeasure::Milliseconds, RowTarget::MillisecondsAtMost(150.0), samples, None))
}

/// From a saved file to the notice, with the quiet window as it is.
async fn saving(bench: &BenchContext) -> Result<ReportRow, BenchError> {
    let root = project(bench, "saved", 1)?;
    let client = client(bench, &root).connect().await;
    // The one that every new session of the legacy era gets.
    client.wait_for_method(NOTICE, 1).await;
    let mut samples = Vec::new();
    for save in 0..SAVES {
        eprintln!("a saved file … {}/{SAVES}", save + 1);
        let saved = Instant::now();
        write_tool(&root, &format!("new{save}"))?;
        client.wait_for_method(NOTICE, save + 2).await;
        let took = saved.elapsed().as_secs_f64() * 1e3;
        samples.push(BenchSample { baseline: Some(QUIET_MS), gateway: Some(took), full: json!({ "save": save }) });
    }
    let what = "a file saved to a client notified, beyond the quiet window".to_owned();
    Ok(ReportRow::judge(23, what, RowMeasure::Milliseconds, RowTarget::ExtraMillisecondsAtMost(100.0), samples, None))
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
