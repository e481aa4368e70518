//! `tidings changes`.

use std::process::Output;
use std::process::Stdio;

use serde_json::{Value, json};
use tidings_testkit::*;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::{Feed, add, described, full, put, quick};

fn command(gateway: &Gateway, args: &[&str]) -> Command {
    let mut command = Command::new(tidings());
    command.arg("changes").arg("--data").arg(gateway.data()).args(args).env("TZ", "UTC");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn run(gateway: &Gateway, args: &[&str]) -> Output {
    within("the command", command(gateway, args).output()).await.unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Without the time at the beginning of a change, which is the same length on every day.
fn timeless(text: &str) -> String {
    let line = |line: &str| match line.split_once("  ") {
        Some((time, rest)) if time.contains(':') && !line.starts_with(' ') => format!("TIME  {rest}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

const EXPECTED: &str = r#"TIME  one  tools  ▲ breaking  #1
  + new
  - echo

TIME  one  tools  ◆ suspect  #2
  ◆ new has got a character that nobody sees (U+001B)
  ~ new (description, inputSchema)
    description
      + Looks for words.
      + \u{1b}[2JBoth lines count.
    inputSchema
      + properties: {"q":{"type":"string"}}

TIME  one  tools  ▲ breaking  #3
  ▲ new q allows less
  ~ new (inputSchema)
      + properties.n: {"type":"integer"}
      - properties.q.type: "string"
      + properties.q.type: "array"
"#;

fn searching(properties: &Value) -> Tool {
    let description = "Looks for words.\n\u{1b}[2JBoth lines count.";
    let schema = json!({"type": "object", "properties": properties});
    let tool = json!({"name": "new", "description": description, "inputSchema": schema});
    Tool::raw(&tool.to_string(), |call| async move { call.ok_text("") })
}

// S4.4
#[tokio::test]
async fn changes_read_well_from_the_gateway_and_from_its_store() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let nothing = run(&gateway, &[]).await;
    assert_eq!((text(&nothing), &*nothing.stderr), (String::new(), &b"No change was recorded yet.\n"[..]));
    let mut feed = Feed::all(&gateway).await;
    server.remove_tool("echo");
    let bare = json!({"name": "new", "inputSchema": {"type": "object"}}).to_string();
    put(&server, Tool::raw(&bare, |call| async move { call.ok_text("") }));
    feed.next().await;
    put(&server, searching(&json!({"q": {"type": "string"}})));
    feed.next().await;
    put(&server, searching(&json!({"n": {"type": "integer"}, "q": {"type": "array"}})));
    feed.next().await;
    let running = text(&run(&gateway, &[]).await);
    assert_eq!(timeless(&running), EXPECTED);
    let json = run(&gateway, &["--json", "--since", "1"]).await;
    assert!(gateway.terminate().await.success());
    assert_eq!(text(&run(&gateway, &[]).await), running);
    let stored = text(&run(&gateway, &["--json", "--since", "1"]).await);
    assert_eq!(stored, text(&json));
    let document: Value = serde_json::from_str(&stored).unwrap();
    let seqs: Vec<&Value> = document["changes"].as_array().unwrap().iter().map(|change| &change["seq"]).collect();
    assert_eq!(seqs, [2, 3]);
    let newest = text(&run(&gateway, &["-n", "1", "--since", "1h"]).await);
    assert!(newest.contains("#3") && !newest.contains("#2"), "{newest}");
    assert_eq!(text(&run(&gateway, &["--json", "--since", "3"]).await), "{\"changes\":[]}\n");
}

#[tokio::test]
async fn a_wrong_since_is_wrong_use() {
    let gateway = quick().serve().await;
    let output = run(&gateway, &["--since", "yesterday"]).await;
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("--since") && stderr.contains("1h30m"), "{stderr}");
}

#[tokio::test]
async fn a_store_that_another_process_keeps_is_named() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    assert!(gateway.terminate().await.success());
    let client = gateway.stdio().connect().await;
    client.list("tools").await;
    let failed = async || {
        let output = run(&gateway, &[]).await;
        (!output.status.success()).then(|| String::from_utf8(output.stderr).unwrap())
    };
    // Its store is opened beside everything else.
    let stderr = within("the store to be taken", async {
        loop {
            if let Some(stderr) = failed().await {
                return stderr;
            }
        }
    })
    .await;
    assert!(stderr.contains("in use by another process"), "{stderr}");
}

struct Following {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { _child: child, lines }
    }

    async fn line(&mut self) -> String {
        within("a line of the command", self.lines.next_line()).await.unwrap().expect("the command goes on")
    }

    async fn record(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }
}

// S4.4
#[tokio::test]
async fn following_shows_each_change_once_through_restarts_of_the_gateway() {
    let server = full().stdio().await;
    let mut gateway = quick().server("one", &server).serve().await;
    let mut feed = Feed::all(&gateway).await;
    add(&server, "before");
    feed.next().await;
    let mut json = Following::start(command(&gateway, &["--follow", "--json"]));
    let mut plain = Following::start(command(&gateway, &["--follow", "--since", "1"]));
    assert_eq!(json.record().await["added"], json!(["before"]));
    for round in 0..3_u64 {
        let name = format!("t{round}");
        put(&server, described(&name, "new"));
        let record = json.record().await;
        assert_eq!((&record["seq"], &record["added"]), (&json!(round + 2), &json!([name])));
        if round > 0 {
            assert_eq!(plain.line().await, "", "a blank line between two changes");
        }
        assert!(plain.line().await.ends_with(&format!("  one  tools  #{}", round + 2)));
        assert_eq!(plain.line().await, format!("  + {name}"));
        if round == 0 {
            assert!(gateway.terminate().await.success());
        } else {
            gateway.kill().await;
        }
        gateway = gateway.again().await;
    }
}
