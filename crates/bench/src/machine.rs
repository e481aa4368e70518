//! Facts about the machine, without which numbers mean little.

use std::fs;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use serde::Serialize;

/// The machine of a run.
#[derive(Debug, Serialize)]
pub(crate) struct MachineFacts {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_mb: u64,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
    /// The share of the CPU that others used in the second before the run, 0 to 1.
    pub(crate) busy_before: f64,
}

impl MachineFacts {
    /// Reads them from the kernel; what can not be read is "unknown".
    pub(crate) async fn read() -> Self {
        let before = cpu_ticks();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let after = cpu_ticks();
        let unknown = || "unknown".to_owned();
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mb: kilobytes("/proc/meminfo", "MemTotal").unwrap_or(0) / 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| unknown(), |text| text.trim().to_owned()),
            rustc: rustc().unwrap_or_else(unknown),
            busy_before: busy_share(before, after),
        }
    }
}

/// Resident memory of a process, in megabytes of 1024² bytes.
pub(crate) fn resident_mb(pid: u32) -> Option<f64> {
    let kilobytes = kilobytes(&format!("/proc/{pid}/status"), "VmRSS")?;
    Some(kilobytes as f64 / 1024.0)
}

/// The part of a process's resident memory that nobody else could use: its heap, its stacks, what it wrote to. The rest is the program's own
/// text, which the kernel maps in pieces of 64 KB and takes back when it needs the room.
pub(crate) fn private_mb(pid: u32) -> Option<f64> {
    let kilobytes = kilobytes(&format!("/proc/{pid}/status"), "RssAnon")?;
    Some(kilobytes as f64 / 1024.0)
}

/// How many milliseconds the threads of a process that run now have computed so far.
pub(crate) fn cpu_ms(pid: u32) -> Option<f64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("schedstat")).ok();
    let nanos = |text: String| text.split_whitespace().next()?.parse::<u64>().ok();
    Some(threads.flatten().filter_map(of_thread).filter_map(nanos).sum::<u64>() as f64 / 1e6)
}

/// Thousands of streams need thousands of descriptors: as many as the system allows. Children inherit it.
pub(crate) fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What it does not allow shows itself when a stream can not be opened.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// How often the threads of a process have gone to sleep so far, which is as often as they were woken.
pub(crate) fn sleeps(pid: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of_thread =
        |thread: fs::DirEntry| field(&format!("{}/status", thread.path().display()), "voluntary_ctxt_switches");
    Some(threads.flatten().filter_map(of_thread).filter_map(|count| count.parse::<u64>().ok()).sum())
}

fn field(file: &str, key: &str) -> Option<String> {
    fs::read_to_string(file).ok()?.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

fn kilobytes(file: &str, key: &str) -> Option<u64> {
    field(file, key)?.split_whitespace().next()?.parse().ok()
}

/// All ticks of all cores so far, and the idle ones among them.
fn cpu_ticks() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .take(8) // user to steal; guest time is contained in user
        .filter_map(|tick| tick.parse().ok())
        .collect();
    // Idle and iowait.
    (ticks.iter().sum(), ticks.iter().skip(3).take(2).sum())
}

fn busy_share(before: (u64, u64), after: (u64, u64)) -> f64 {
    let all = after.0.saturating_sub(before.0);
    let idle = after.1.saturating_sub(before.1);
    1.0 - idle as f64 / all.max(1) as f64
}

fn rustc() -> Option<String> {
    let output = Command::new("rustc").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned())
}
