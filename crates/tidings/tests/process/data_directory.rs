//! The data directory: who owns it, what is left in it, and what becomes of a gateway that can not write to it.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::*;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// A gateway that need not be found in its data directory: what it prints tells where it is.
struct Printing {
    child: Child,
    url: String,
    lines: Vec<String>,
}

impl Printing {
    /// Starts it, and reads what it prints up to a line that begins like this.
    async fn start(config: &Path, data: &Path, until: &str) -> Self {
        let mut command = Command::new(tidings());
        command.arg("serve").arg("--config").arg(config).arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = Vec::new();
        let read = async {
            while let Ok(Some(line)) = errors.next_line().await {
                let done = line.contains(until);
                lines.push(line);
                if done {
                    return;
                }
            }
            panic!("it ended: {lines:#?}");
        };
        within(&format!("{until:?} of a gateway"), read).await;
        tokio::spawn(async move { while let Ok(Some(_)) = errors.next_line().await {} });
        let url = lines
            .iter()
            .find_map(|line| Some(format!("http{}", line.strip_prefix("Tidings serves")?.split_once(" at http")?.1)));
        let url = url.unwrap_or_else(|| panic!("no URL in {lines:#?}"));
        Self { child, url, lines }
    }

    async fn end(mut self) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(within("its end", self.child.wait()).await.unwrap().success());
    }
}

// edges F5
#[tokio::test]
async fn the_first_gateway_of_a_directory_stays_the_one_that_commands_find() {
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let first = Gateway::builder().server("alpha", &server).serve().await;
    let before = std::fs::read_to_string(first.data().join("gateway.json")).unwrap();
    let second = Printing::start(first.config(), first.data(), "Give this one a directory of its own").await;
    assert!(
        second.lines.iter().any(|line| line.starts_with("Another gateway") && line.contains(first.base_url())),
        "{:#?}",
        second.lines
    );
    let after = || std::fs::read_to_string(first.data().join("gateway.json")).unwrap();
    assert_eq!(after(), before);
    // It serves all the same.
    assert_eq!(Client::http(&second.url).connect().await.names("tools").await, ["echo"]);
    second.end().await;
    assert_eq!(after(), before, "the second one does not remove what it did not write");
    let shown = first.command(&["servers"]).await;
    assert!(shown.status.success() && String::from_utf8_lossy(&shown.stdout).contains("alpha"), "{shown:?}");
    let data = first.data().to_owned();
    assert!(first.terminate().await.success());
    assert!(!data.join("gateway.json").exists());
}

// edges F13
#[tokio::test]
async fn a_file_that_was_left_behind_names_no_gateway() {
    let folder = TempDir::new();
    // A process that lives, and is no gateway; with and without the lock that a killed gateway leaves.
    let left = json!({ "url": "http://127.0.0.1:9", "pid": std::process::id(), "started": 1 });
    folder.write("gateway.json", left.to_string());
    for lock in [false, true] {
        if lock {
            folder.write("gateway.lock", "");
        }
        let mut command = Command::new(tidings());
        let command = command.arg("--data").arg(folder.path()).arg("status").current_dir(folder.path());
        let ended = within("tidings status", command.output()).await.unwrap();
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(errors.contains("no gateway is running"), "{errors}");
    }
    // Nor does it keep a new one from being found.
    let config = folder.write("tidings.toml", "");
    let gateway = Printing::start(&config, folder.path(), "Look behind it").await;
    let found = eventually("its file", || {
        let state: serde_json::Value =
            serde_json::from_slice(&std::fs::read(folder.join("gateway.json")).ok()?).ok()?;
        (state["pid"].as_u64() == gateway.child.id().map(u64::from)).then_some(state)
    });
    found.await;
    gateway.end().await;
}

// edges F13
#[tokio::test]
async fn a_stopped_gateway_is_not_waited_for() {
    let gateway = Gateway::builder().toml("").serve().await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(gateway.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let begun = Instant::now();
    let ended = gateway.command(&["servers"]).await;
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(errors.contains("does not answer") && errors.contains("kill -CONT"), "{errors}");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let ended = gateway.command(&["servers"]).await;
    assert!(ended.status.success(), "{ended:?}");
}

/// It serves, and says what is not kept.
async fn serves_without_keeping(data: &Path) {
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let folder = TempDir::new();
    let config = folder.write("tidings.toml", format!("[servers.alpha]\n{}", server.toml()));
    let gateway = Printing::start(&config, data, "where this gateway is").await;
    for said in ["Not kept in", "the key of the API", "changes, and servers that are added at run time"] {
        assert!(gateway.lines.iter().any(|line| line.contains(said)), "{said}: {:#?}", gateway.lines);
    }
    let client = Client::http(&gateway.url).connect().await;
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
    gateway.end().await;
}

// edges G11
#[tokio::test]
async fn a_gateway_starts_without_a_directory_that_it_may_write_to() {
    // Not even root can make a folder there.
    serves_without_keeping(Path::new("/proc/self/nowhere")).await;
}

/// A disk of a few kilobytes, until it is dropped.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(path: &'a Path) -> Option<Self> {
        let mut mount = std::process::Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=16k", "none"]).arg(path).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then_some(Self(path))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0).status();
    }
}

// edges G11
#[tokio::test]
async fn a_gateway_starts_on_a_full_disk() {
    let disk = TempDir::new();
    let Some(_mounted) = SmallDisk::mount(disk.path()) else {
        return eprintln!("\n*** SKIPPED: this test needs the right to mount a small disk ***\n");
    };
    // Until nothing more fits.
    let filled = std::fs::write(disk.join("filler"), vec![0; 1 << 20]);
    assert!(filled.is_err());
    serves_without_keeping(&disk.join("data")).await;
}
