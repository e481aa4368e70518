//! Who follows what, for people to see; and updates on the command line.

use std::process::Stdio;

use tidings_testkit::*;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::*;

fn command(gateway: &Gateway, args: &[&str]) -> Command {
    let mut command = Command::new(tidings_testkit::tidings());
    command.args(args).arg("--data").arg(gateway.data()).stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn output(gateway: &Gateway, args: &[&str]) -> String {
    let output = within("a command", command(gateway, args).output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

// S1.1
#[tokio::test]
async fn the_api_and_the_command_show_both_sides() {
    let server = three().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let _legacy = Follower::of(gateway.client(), &["one+file:///a", "one+file:///b"]).await;
    let _modern = Follower::of(gateway.client().modern(), &["one+file:///a"]).await;
    let shown: Value = serde_json::from_str(&output(&gateway, &["subscriptions", "--json"]).await).unwrap();
    let resource = |uri: &str, followers: usize| {
        json!({
            "server": "one", "uri": format!("one+{uri}"), "server_uri": uri, "state": "active",
            "own_connection": false, "followers": followers, "announced": 0, "announced_at": null,
        })
    };
    assert_eq!(shown["subscriptions"], json!([resource("file:///a", 2), resource("file:///b", 1)]));
    assert_eq!(shown["clients"][0]["era"], "legacy");
    assert_eq!(shown["clients"][0]["name"], "testkit");
    assert_eq!(shown["clients"][0]["uris"], json!(["one+file:///a", "one+file:///b"]));
    assert_eq!(shown["clients"][1]["era"], "modern");
    assert_eq!(shown["clients"][1]["uris"], json!(["one+file:///a"]));
    let text = output(&gateway, &["subscriptions"]).await;
    assert!(text.contains("one+file:///a  active on one, 2 followers"), "{text}");
    assert_eq!(text.matches("testkit (").count(), 3, "{text}");
}

#[tokio::test]
async fn watch_prints_updates_with_what_changed() {
    let content: Content = Arc::new(Mutex::new("first\nsecond\nthird\n".to_owned()));
    let server = Server::builder("one").entry_resource(resource("file:///a", &content)).modern_only().http().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut child = command(&gateway, &["watch", "one+file:///a"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut printed = BufReader::new(child.stdout.take().unwrap()).lines();
    let begun = within("the beginning", said.next_line()).await.unwrap().unwrap();
    assert_eq!(begun, "Following one+file:///a");
    *content.lock().unwrap() = "first\n2nd\nthird\n".to_owned();
    update(&server, "file:///a");
    let mut lines = Vec::new();
    for _ in 0..5 {
        lines.push(within("a line", printed.next_line()).await.unwrap().unwrap());
    }
    assert!(lines[0].ends_with(" one+file:///a"), "{lines:?}");
    assert_eq!(lines[1..], ["    first", "  - second", "  + 2nd", "    third"]);
}

#[tokio::test]
async fn watch_says_what_can_not_be_followed() {
    let server = three().capabilities(json!({"resources": {}})).http().await;
    let gateway = quick().server("one", &server).serve().await;
    for (uri, why) in [("one+file:///a", "poll_interval"), ("nobody+file:///a", "resource not found")] {
        let output = within("the refusal", command(&gateway, &["watch", uri]).output()).await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
}

#[tokio::test]
async fn a_uri_that_is_wrong_is_named_with_the_one_that_was_meant() {
    let server = three().http().await;
    let gateway = quick().server("one", &server).serve().await;
    let output = within("the refusal", command(&gateway, &["read", "one+file:///aa"]).output()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.starts_with("tidings: one+file:///aa: "), "{said}");
    assert!(said.contains("Did you mean one+file:///a?"), "{said}");
    for verb in ["read", "watch"] {
        let output = within("the refusal", command(&gateway, &[verb, "watch://x"]).output()).await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.starts_with("tidings: watch://x: "), "{said}");
        assert!(said.contains("There are:\n  one+file:///a\n") && said.contains("tidings doctor"), "{said}");
    }
}

// S1.6
#[tokio::test]
async fn watch_waits_for_a_file_that_is_not_there_yet() {
    let folder = TempDir::new();
    let toml = format!("[watch.later]\nfile = {:?}\nquiet = \"250ms\"\n", folder.join("later.txt"));
    let gateway = Gateway::builder().toml(&toml).serve().await;
    let mut child = command(&gateway, &["watch", "watch://later"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut printed = BufReader::new(child.stdout.take().unwrap()).lines();
    for expected in ["Following watch://later", "tidings: watch://later: resource not found"] {
        let line = within("a line", said.next_line()).await.unwrap().unwrap();
        assert!(line.starts_with(expected), "{line}");
    }
    folder.write("later.txt", "now\n");
    for expected in [" watch://later", "  + now"] {
        let line = within("a line", printed.next_line()).await.unwrap().unwrap();
        assert!(line.ends_with(expected), "{line}");
    }
}
