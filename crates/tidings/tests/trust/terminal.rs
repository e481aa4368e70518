//! Texts of others on a terminal.

use std::process::Stdio;

use serde_json::json;
use tidings_testkit::{Client, Gateway, ScriptedCall, Server, tidings, within};

/// Moves the cursor, colours, turns the direction, hides a letter and, as a C1 control, begins a sequence.
const POISON: &str = "x\u{1b}]0;owned\u{7}\u{1b}[31my\u{202e}z\u{200b}\u{9b}2J\rw";

async fn on_terminal(gateway: &Gateway, args: &[&str]) -> String {
    let words = args.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let line = format!("'{}' --data '{}' {words}", tidings().display(), gateway.data().display());
    let mut command = tokio::process::Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = within("a command on a terminal", command.output()).await.expect("`script` of util-linux");
    String::from_utf8(output.stdout).unwrap()
}

// trust T9
#[tokio::test]
async fn no_command_lets_a_text_of_others_act_on_the_terminal() {
    let tool = json!({"name": "t", "description": POISON, "title": POISON, "inputSchema": {"type": "object"}});
    let hostile = Server::builder("hostile")
        .tool_def(tool, |call: ScriptedCall| async move { call.ok_text(POISON) })
        .resource("x:///r", POISON)
        .stdio()
        .await;
    let fails = format!(
        "[servers.fails]\ncommand = \"sh\"\nargs = [\"-c\", {:?}]\n",
        format!("printf '{}' >&2; exit 1", "a\\033[31mb\\342\\200\\256c")
    );
    let gateway = Gateway::builder().server("hostile", &hostile).toml(&fails).serve().await;
    let named = Client::http(gateway.url()).raw().connect().await;
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": POISON, "version": POISON}});
    named.request("initialize", hello).await;
    let commands = [
        &["tools"][..],
        &["tools", "hostile__t"],
        &["tools", "--json"],
        &["call", "hostile__t"],
        &["servers"],
        &["servers", "fails"],
        &["servers", "--json"],
        &["sessions"],
        &["sessions", "--json"],
        &["resources"],
        &["read", "hostile+x:///r"],
        &["changes"],
        &["changes", "--json"],
        &["doctor"],
        &["status"],
        &["call", "no\u{1b}[31msuch\u{202e}"],
        &["read", "no\u{1b}[31msuch\u{202e}"],
    ];
    for command in commands {
        let shown = on_terminal(&gateway, command).await;
        for what in
            ["\u{1b}]", "\u{1b}[31my", "\u{1b}[31mb", "\u{1b}[31msuch", "\u{202e}", "\u{200b}", "\u{9b}", "\u{7}"]
        {
            assert!(!shown.contains(what), "{command:?} shows {what:?}: {shown:?}");
        }
    }
    let call = on_terminal(&gateway, &["call", "hostile__t"]).await;
    assert!(call.contains("\\u202e") && call.contains("\\u001b"), "it is spelled out: {call:?}");
    // Whoever reads the output by a program gets every byte.
    let piped = gateway.command(&["read", "hostile+x:///r"]).await;
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), POISON);
    drop(named);
}
