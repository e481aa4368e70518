//! Server processes: started with care, watched, and never left behind.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tidings_testkit::*;

/// A shell script in front of a scripted server: `$0` and `$1` start the server, `$2` is a directory for notes.
fn behind_shell(name: &str, server: &Server, script: &str, notes: &TempDir) -> String {
    let (relay, args) = server.command();
    let notes = notes.path().to_string_lossy();
    format!("[servers.{name}]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}, {relay:?}, {:?}, {notes:?}]\n", args[0])
}

/// Whether a process runs; a zombie that nobody collects does not.
fn runs(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, Some('Z' | 'X') | None)
}

async fn wait_gone(what: &str, pid: u32) {
    eventually(&format!("the end of {what} ({pid})"), || (!runs(pid)).then_some(())).await;
}

async fn pid_in(file: &Path) -> u32 {
    eventually("a pid in a file", || std::fs::read_to_string(file).ok()?.trim().parse().ok()).await
}

/// Processes whose parent is this one.
fn children(parent: u32) -> Vec<u32> {
    let of = |entry: std::fs::DirEntry| -> Option<u32> {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let above: u32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        (above == parent).then_some(pid)
    };
    std::fs::read_dir("/proc").unwrap().filter_map(|entry| of(entry.ok()?)).collect()
}

/// Signals and the end of input mean nothing to this server, nor to the child it leaves behind.
const STUBBORN: &str = "trap '' TERM HUP INT; (trap '' TERM HUP INT; exec sleep 1000) & echo $! > $2/grandchild; \
                        exec \"$0\" \"$1\"";

fn stubborn() -> ServerBuilder {
    Server::builder("alpha").echo("echo").ignore_eof()
}

struct Family {
    server: Server,
    gateway: Gateway,
    grandchild: u32,
    _notes: TempDir,
}

impl Family {
    async fn start() -> Self {
        let notes = TempDir::new();
        let server = stubborn().stdio().await;
        let gateway = Gateway::builder().toml(&behind_shell("alpha", &server, STUBBORN, &notes)).serve().await;
        let grandchild = pid_in(&notes.join("grandchild")).await;
        assert!(runs(grandchild) && runs(server.processes()[0].pid));
        Self { server, gateway, grandchild, _notes: notes }
    }

    async fn wait_all_gone(&self, helpers: Vec<u32>) {
        wait_gone("the server", self.server.processes()[0].pid).await;
        wait_gone("the grandchild", self.grandchild).await;
        for helper in helpers {
            wait_gone("a helper", helper).await;
        }
    }
}

#[tokio::test]
async fn a_killed_gateway_leaves_no_process_behind() {
    let family = Family::start().await;
    let helpers = children(family.gateway.pid());
    assert!(helpers.len() >= 2, "the server and the watchdog: {helpers:?}");
    family.gateway.kill().await;
    family.wait_all_gone(helpers).await;
}

#[tokio::test]
async fn a_killed_gateway_on_stdio_leaves_no_process_behind() {
    let notes = TempDir::new();
    let server = stubborn().stdio().await;
    let client = Gateway::builder().toml(&behind_shell("alpha", &server, STUBBORN, &notes)).stdio().connect().await;
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
    let grandchild = pid_in(&notes.join("grandchild")).await;
    let helpers = children(client.pid());
    let killed = std::process::Command::new("kill").args(["-KILL", &client.pid().to_string()]).status().unwrap();
    assert!(killed.success());
    client.wait_exit().await;
    wait_gone("the server", server.processes()[0].pid).await;
    wait_gone("the grandchild", grandchild).await;
    for helper in helpers {
        wait_gone("a helper", helper).await;
    }
}

#[tokio::test]
async fn a_terminated_gateway_ends_even_stubborn_servers() {
    let family = Family::start().await;
    let helpers = children(family.gateway.pid());
    assert!(family.gateway.terminate().await.success());
    assert!(!runs(family.server.processes()[0].pid), "the gateway waits for its servers");
    assert!(!family.gateway.data().join("gateway.json").exists());
    family.wait_all_gone(helpers).await;
}

/// Running requests are finished first, then servers see the end of their input and exit by themselves.
#[tokio::test]
async fn a_terminated_gateway_finishes_what_is_running() {
    let gate = Gate::new();
    let held = gate.clone();
    let notes = TempDir::new();
    let server = Server::builder("alpha").tool("wait", move |call| {
        let gate = held.clone();
        async move {
            gate.wait().await;
            call.ok_text("done")
        }
    });
    let server = server.stdio().await;
    // The shell is still there when the server has exited, and notes how.
    let script = "trap 'echo TERM > $2/signal' TERM; \"$0\" \"$1\"; echo $? > $2/status";
    let gateway = Gateway::builder().toml(&behind_shell("alpha", &server, script, &notes)).serve().await;
    let client = gateway.client().connect().await;
    let pending = client.start("tools/call", json!({"name": "wait"}));
    gate.reached(1).await;
    gateway.begin_terminate();
    within("no new connections", async {
        while gateway.get("/healthz").await.0 != 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Time enough to lose patience.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(runs(server.processes()[0].pid));
    gate.open();
    assert_eq!(pending.finish().await.text(), "done");
    assert!(gateway.wait_exit().await.success());
    assert_eq!(std::fs::read_to_string(notes.join("status")).unwrap().trim(), "0");
    assert!(!notes.join("signal").exists(), "no signal was needed");
    assert_eq!(server.count("notifications/cancelled"), 0);
    let hurried = gateway.stderr().all().into_iter().find(|line| line.contains("not everything was finished"));
    assert_eq!(hurried, None);
}

/// A server that is replaced takes its children with it.
#[tokio::test]
async fn a_dead_server_leaves_no_child_behind() {
    let family = Family::start().await;
    family.server.exit(1);
    wait_gone("the grandchild", family.grandchild).await;
    family.server.wait_spawned(2).await;
}

#[tokio::test]
async fn what_a_server_prints_on_stderr_is_logged_with_its_name() {
    let (alpha, beta) =
        (Server::builder("a").echo("echo").stdio().await, Server::builder("b").echo("echo").stdio().await);
    let gateway = Gateway::builder().server("alpha", &alpha).server("beta", &beta).serve().await;
    alpha.print_stderr("the disk is full");
    beta.print_stderr("all is well");
    for (text, name) in [("the disk is full", "alpha"), ("all is well", "beta")] {
        let line = gateway.stderr().wait_for(text, |line| line.contains(text)).await;
        assert!(line.contains(name), "{line}");
    }
}

#[tokio::test]
async fn a_command_that_is_not_found_is_named_with_its_server() {
    let good = Server::builder("good").echo("echo").stdio().await;
    let gateway = Gateway::builder()
        .toml("[servers.ghost]\ncommand = \"no-such-command-here\"\n[servers.path]\ncommand = \"./no/such/file\"")
        .server("good", &good)
        .serve()
        .await;
    for (server, command) in [("ghost", "no-such-command-here"), ("path", "no/such/file")] {
        let line = gateway.stderr().wait_for("the failure", |line| line.contains(command)).await;
        assert!(line.contains(server) && line.contains("command not found"), "{line}");
    }
    let client = gateway.client().connect().await;
    assert_eq!(client.call_tool("good__echo", json!({})).await.text(), "{}");
    let alone = Gateway::builder().toml("[servers.ghost]\ncommand = \"no-such-command-here\"").serve().await;
    let client = alone.client().connect().await;
    let text = client.call_tool("echo", json!({})).await.error()["message"].to_string();
    assert!(text.contains("ghost") && text.contains("no-such-command-here"), "{text}");
}

#[tokio::test]
async fn garbage_on_stdout_is_survived_and_logged() {
    let notes = TempDir::new();
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let script = "echo 'Welcome to alpha!'; echo; printf '\\377\\376 [1,2\\n'; exec \"$0\" \"$1\"";
    let gateway = Gateway::builder().toml(&behind_shell("alpha", &server, script, &notes)).serve().await;
    let line = gateway.stderr().wait_for("the greeting", |line| line.contains("Welcome to alpha!")).await;
    assert!(line.contains("not a message") && line.contains("server=alpha"), "{line}");
    let client = gateway.client().connect().await;
    for garbage in
        ["{\"level\":\"info\"\n", "null\n", "[]\n", "{\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{}}\n", "\u{0}\n"]
    {
        server.print_stdout(garbage);
        assert_eq!(client.call_tool("echo", json!({"n": 1})).await.text(), "{\"n\":1}");
    }
    let long = format!("{}\n", "x".repeat(1 << 20));
    server.print_stdout(long);
    assert_eq!(client.call_tool("echo", json!({"n": 2})).await.text(), "{\"n\":2}");
    assert_eq!(server.processes().len(), 1);
}

/// Each try starts the process at most twice, since one that ends on the modern probe gets a second chance.
#[tokio::test]
async fn a_server_that_exits_at_once_is_started_less_and_less_often() {
    let notes = TempDir::new();
    let good = Server::builder("good").echo("echo").stdio().await;
    let config = format!(
        "[servers.bad]\ncommand = \"sh\"\nargs = [\"-c\", \"date +%s%N >> $0/starts; exit 1\", {:?}]",
        notes.path().to_string_lossy()
    );
    let gateway = Gateway::builder().toml(&config).server("good", &good).serve().await;
    let starts = || -> Vec<u128> {
        let text = std::fs::read_to_string(notes.join("starts")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    let times = eventually("the ninth start", || Some(starts()).filter(|starts| starts.len() >= 9)).await;
    let spent = Duration::from_nanos((times[8] - times[0]) as u64);
    assert!(spent >= Duration::from_secs(2), "nine starts in {spent:?}");
    let client = gateway.client().connect().await;
    assert_eq!(client.call_tool("good__echo", json!({})).await.text(), "{}");
}

#[tokio::test]
async fn a_server_knows_how_deep_it_is() {
    for (outer, inner) in [(None, "1"), (Some("1"), "2"), (Some("nonsense"), "1")] {
        let server = Server::builder("alpha").echo("echo").stdio().await;
        let mut builder = Gateway::builder().server("alpha", &server);
        if let Some(outer) = outer {
            builder = builder.env("TIDINGS_DEPTH", outer);
        }
        let _gateway = builder.serve().await;
        assert_eq!(server.processes()[0].env["TIDINGS_DEPTH"], inner);
    }
}

/// A gateway whose server starts the same gateway again would go on for ever.
#[tokio::test]
async fn gateways_nested_too_deep_start_nothing() {
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).env("TIDINGS_DEPTH", "4").serve().await;
    let line = gateway.stderr().wait_for("the refusal", |line| line.contains("TIDINGS_DEPTH")).await;
    assert!(line.contains("alpha") && line.contains("nested"), "{line}");
    assert!(server.processes().is_empty());
}

#[tokio::test]
async fn a_server_gets_its_arguments_directory_and_environment() {
    let directory = TempDir::new();
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let (relay, args) = server.command();
    let config = format!(
        "[servers.alpha]\ncommand = {relay:?}\nargs = [{:?}, \"a b\", \"$HOME\"]\ncwd = {:?}\nenv = {{ COLOUR = \"red\" }}",
        args[0],
        directory.path().to_string_lossy()
    );
    let config = format!("{config}\ninherit_env = [\"SHAPE\"]");
    let _gateway = Gateway::builder().toml(&config).env("SHAPE", "round").serve().await;
    let process = &server.processes()[0];
    assert_eq!(process.args, ["a b", "$HOME"], "no shell looks at them");
    assert_eq!(Path::new(&process.cwd), directory.path());
    assert_eq!((&process.env["COLOUR"], &process.env["SHAPE"]), (&json!("red"), &json!("round")));
}

/// A child that leaves the group and the session of its server, and that no signal to them reaches.
const DEFECTOR: &str = "setsid sleep 1000 <&- >&- 2>&- & echo $! > $2/grandchild; exec \"$0\" \"$1\"";

// edges G10
#[tokio::test]
async fn a_child_that_left_its_session_is_gone_when_its_server_is() {
    for end in ["remove", "restart", "terminate", "kill", "exit"] {
        let notes = TempDir::new();
        let server = Server::builder("alpha").echo("echo").stdio().await;
        let gateway = Gateway::builder().toml(&behind_shell("alpha", &server, DEFECTOR, &notes)).serve().await;
        let grandchild = pid_in(&notes.join("grandchild")).await;
        assert!(runs(grandchild));
        match end {
            "remove" => gateway.rewrite_config("[gateway]\nregistry_tools = false\n"),
            "restart" => {
                std::fs::remove_file(notes.join("grandchild")).unwrap();
                assert!(gateway.command(&["restart", "alpha"]).await.status.success());
            }
            "terminate" => drop(gateway.terminate().await),
            "kill" => drop(gateway.kill().await),
            _ => {
                std::fs::remove_file(notes.join("grandchild")).unwrap();
                server.exit(3);
            }
        }
        wait_gone(&format!("the child that left, after {end}"), grandchild).await;
        if matches!(end, "restart" | "exit") {
            let next = pid_in(&notes.join("grandchild")).await;
            assert!(next != grandchild && runs(next), "the child of the new process is left alone");
        }
    }
}

/// How many bytes a gateway has logged, and how many lines it says that it left out.
fn logged(gateway: &Gateway) -> (usize, u64) {
    let lines = gateway.stderr().all();
    let left_out = |line: &String| {
        let (_, rest) = line.split_once(" left_out=").or_else(|| line.split_once(" lines="))?;
        rest.split(' ').next()?.parse::<u64>().ok()
    };
    (lines.iter().map(|line| line.len() + 1).sum(), lines.iter().filter_map(left_out).sum())
}

// edges G7
#[tokio::test]
async fn a_flood_on_standard_error_is_cut_and_counted_and_the_server_still_answers() {
    let notes = TempDir::new();
    let server = Server::builder("alpha").echo("echo").stdio().await;
    // Hundreds of megabytes each second, if somebody reads them.
    let flood = "yes flooding-the-log-with-something-that-nobody-reads >&2 & exec \"$0\" \"$1\"";
    let gateway = Gateway::builder().toml(&behind_shell("alpha", &server, flood, &notes)).serve().await;
    let client = gateway.client().connect().await;
    let begun = std::time::Instant::now();
    let cut = |line: &String| line.contains("left out of the log");
    gateway.stderr().wait_for_nth("word of what was left out, twice", 2, cut).await;
    assert_eq!(client.call_tool("echo", json!({"a": 1})).await.text(), r#"{"a":1}"#);
    // From its start, which was a little before; 64 KiB each second.
    let seconds = begun.elapsed().as_secs() as usize + 5;
    let (bytes, left_out) = logged(&gateway);
    assert!(bytes < (64 << 10) * seconds, "{bytes} bytes in {seconds} s");
    assert!(left_out > 1_000, "{left_out}");
}

// edges G7
#[tokio::test]
async fn a_flood_of_log_messages_and_requests_is_cut_and_counted_and_the_server_still_answers() {
    const MESSAGES: usize = 20_000;
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let other = Server::builder("beta").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).server("beta", &other).serve().await;
    let client = gateway.client().connect().await;
    let before = logged(&gateway).0;
    let text =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"flooding the log"}}"#;
    let mut lines = format!("{text}\n").repeat(MESSAGES);
    for id in 0..2_000 {
        lines.push_str(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"roots/list\"}}\n"));
    }
    let begun = std::time::Instant::now();
    server.print_stdout(lines);
    assert_eq!(client.call_tool("beta__echo", json!({"a": 1})).await.text(), r#"{"a":1}"#);
    assert_eq!(client.call_tool("alpha__echo", json!({"a": 2})).await.text(), r#"{"a":2}"#);
    gateway.stderr().wait_for("word of what was left out", |line| line.contains("left out of the log")).await;
    let (bytes, left_out) = logged(&gateway);
    let seconds = begun.elapsed().as_secs() as usize + 2;
    assert!(bytes - before < (64 << 10) * seconds, "{} bytes in {seconds} s", bytes - before);
    assert!(left_out > 0, "{}", gateway.stderr().dump());
    let status = gateway.server_status("alpha").await;
    assert!(status["warning"].as_str().is_some_and(|text| text.contains("left out")), "{status}");
    // Every request was answered.
    server.wait_for(|r| r.is_response() && r.id.as_ref().is_some_and(|id| id.as_str() == "1999")).await;
}
