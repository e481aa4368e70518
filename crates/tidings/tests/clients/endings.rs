//! The end of a gateway while a call runs that does not end.

use std::time::Instant;

use super::*;

/// The time for what runs, and some for everything else on a busy machine.
const LIMIT: Duration = Duration::from_secs(25);

fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

fn runs(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !matches!(stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()), Some('Z' | 'X') | None)
}

async fn gone(pid: u32) {
    soon("the end of the gateway", LIMIT, async {
        while runs(pid) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

/// A client on stdio with one call that never ends.
async fn busy(revision: &str) -> (Server, Client, PendingExchange) {
    let server = script(&Gate::new()).stdio().await;
    let client = Gateway::builder().server("alpha", &server).stdio().revision(revision).connect().await;
    let running = client.start("tools/call", json!({"name": "slow"}));
    server.wait_for_method("tools/call", 1).await;
    (server, client, running)
}

// edges F3
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_on_stdio_drains_for_ten_seconds_and_then_ends() {
    let (closed, terminated, modern) = tokio::join!(busy(V2025_11_25), busy(V2025_11_25), busy(MODERN));
    let begun = Instant::now();
    closed.1.close_stdin();
    modern.1.close_stdin();
    signal(terminated.1.pid(), "-TERM");
    for (server, client, running) in [closed, terminated, modern] {
        gone(client.pid()).await;
        assert!(begun.elapsed() >= Duration::from_secs(9), "what runs had no time: {:?}", begun.elapsed());
        assert!(client.wait_exit().await.success());
        let text = running.finish().await.error()["message"].to_string();
        assert!(text.contains("shutting down"), "{text}");
        server.wait_all_exited().await;
        // It was told before its end.
        assert_eq!(server.count("notifications/cancelled"), 1);
    }
}

// edges F3
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_on_stdio_ends_when_its_client_was_killed_during_a_call() {
    let server = script(&Gate::new()).stdio().await;
    let files = TempDir::new();
    let config = files.write("tidings.toml", format!("[servers.alpha]\n{}", server.toml()));
    // A shell stands in for the client: it feeds the gateway, never closes anything, and is killed.
    let lines = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": V2025_11_25}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        call(1, "slow"),
    ];
    let input = files.write("input", lines.map(|line| format!("{line}\n")).concat());
    let script = "echo $$ > $3/client; (cat $2; sleep 1000) | { echo $BASHPID > $3/gateway; exec $0 stdio --config $1 --data $3; } | cat";
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let mut client = tokio::process::Command::new("setsid")
        .args(["bash", "-c", script, &path(tidings()), &path(&config), &path(&input), &path(files.path())])
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    server.wait_for_method("tools/call", 1).await;
    let number = |file: &str| std::fs::read_to_string(files.join(file)).unwrap().trim().parse::<u32>().unwrap();
    let (leader, gateway) = (number("client"), number("gateway"));
    assert!(runs(gateway));
    // All of the client's processes, and not the gateway.
    let of_client = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let rest = stat.rsplit_once(") ")?.1.to_owned();
        let session: u32 = rest.split(' ').nth(3)?.parse().ok()?;
        let name = stat.split_once('(')?.1.split(')').next()?.to_owned();
        (session == leader && pid != gateway && ["bash", "cat", "sleep"].contains(&&*name)).then_some(pid)
    };
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    for pid in all.filter_map(of_client) {
        let _ = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    }
    gone(gateway).await;
    server.wait_all_exited().await;
    let _ = client.wait().await;
}

// edges F3
#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_a_gateway_at_once() {
    let (_server, client, _running) = busy(V2025_11_25).await;
    let behind = script(&Gate::new()).stdio().await;
    let gateway = Gateway::builder().server("alpha", &behind).serve().await;
    let other = gateway.client().connect().await;
    let _calling = other.start("tools/call", json!({"name": "slow"}));
    behind.wait_for_method("tools/call", 1).await;
    for (pid, stderr) in [(client.pid(), client.stderr()), (gateway.pid(), gateway.stderr())] {
        signal(pid, "-TERM");
        stderr.wait_for("its last words", |line| line.contains("stopping")).await;
        assert!(runs(pid), "it waits for the call");
        let begun = Instant::now();
        signal(pid, "-INT");
        gone(pid).await;
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
    behind.wait_all_exited().await;
}

// edges F3
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_over_http_drains_for_ten_seconds_and_then_ends() {
    let server = script(&Gate::new()).stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let (legacy, modern) = (gateway.client().connect().await, gateway.client().modern().connect().await);
    let _calls = [&legacy, &modern].map(|client| client.start("tools/call", json!({"name": "slow"})));
    let _stream = legacy.open_get().await;
    server.wait_for_method("tools/call", 2).await;
    let begun = Instant::now();
    gateway.begin_terminate();
    gone(gateway.pid()).await;
    assert!(begun.elapsed() >= Duration::from_secs(9), "what runs had no time: {:?}", begun.elapsed());
    server.wait_all_exited().await;
}
