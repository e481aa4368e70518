//! What somebody at a terminal of 80 columns sees.

use std::process::Stdio;

use serde_json::json;
use tidings_testkit::{Gateway, ScriptedCall, Server, tidings, within};

use crate::quick;

/// Runs a command of the command line on a terminal that `script` makes, and gives all that was written there.
async fn seen(gateway: &Gateway, args: &[&str], env: &[(&str, &str)]) -> String {
    let words = |words: &[&str]| words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let (program, data) = (tidings().to_str().unwrap(), gateway.data().to_str().unwrap());
    let line = format!("stty cols 80 rows 24; {} {}", words(&[program, "--data", data]), words(args));
    let mut command = tokio::process::Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR").envs(env.iter().copied());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = within("a command on a terminal", command.output()).await.expect("`script` of util-linux");
    // The terminal's own answer to the end of input is not part of it.
    String::from_utf8(output.stdout).unwrap().replace("^D\u{8}\u{8}", "")
}

// edges F14
#[tokio::test]
async fn lines_fit_the_terminal_and_no_color_is_honoured() {
    let tool = json!({"name": "t".repeat(60), "description": "word ".repeat(60), "inputSchema": {"type": "object"}});
    let one = Server::builder("one")
        .tool_def(tool, |call: ScriptedCall| async move { call.ok_text("x") })
        .echo("short")
        .stdio()
        .await;
    let broken = "[servers.a-server-with-a-name-that-is-longer-than-it-has-to-be]\ncommand = \"/no/such/program\"";
    let gateway = quick().server("one", &one).toml(broken).serve().await;
    for command in [&["servers"][..], &["tools"], &["servers", "one"], &["doctor"]] {
        let plain = seen(&gateway, command, &[("NO_COLOR", "1")]).await;
        assert!(!plain.contains('\u{1b}'), "{command:?}: {plain:?}");
        // A name is never cut where it has to be typed.
        let long = |line: &str| line.chars().count() > 80 && !line.contains(&"t".repeat(60));
        assert!(!plain.lines().any(long), "{command:?}: {plain}");
    }
    let coloured = seen(&gateway, &["servers"], &[]).await;
    assert!(coloured.contains("\u{1b}["), "{coloured:?}");
    assert_eq!(seen(&gateway, &["servers"], &[("NO_COLOR", "1")]).await.lines().count(), 2, "one line per server");
}

// edges F17
#[tokio::test]
async fn progress_is_shown_while_a_call_runs_and_leaves_no_trace() {
    let slow = |call: ScriptedCall| async move {
        for step in 1..=3 {
            call.progress(step);
        }
        call.ok_text("finished")
    };
    let one = Server::builder("one").tool("slow", slow).stdio().await;
    let gateway = quick().server("one", &one).serve().await;
    let shown = seen(&gateway, &["call", "slow"], &[]).await;
    assert!(shown.contains("\r\u{1b}[K1") && shown.contains("\r\u{1b}[K3"), "{shown:?}");
    assert!(shown.ends_with("\r\u{1b}[Kfinished\r\n"), "{shown:?}");
    let piped = gateway.command(&["call", "slow"]).await;
    assert_eq!((piped.stdout.as_slice(), piped.stderr.as_slice()), (&b"finished\n"[..], &b""[..]));
}
