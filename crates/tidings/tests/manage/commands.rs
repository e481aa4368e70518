//! `tidings add`, `remove`, `enable`, `disable`, `restart` with a running gateway.

use std::process::Output;

use crate::{listener, quick, server};

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

// S4.3
#[tokio::test]
async fn a_server_is_added_and_removed_by_typing() {
    let (one, two) = (server("one").await, server("two").await);
    let gateway = quick().server("one", &one).serve().await;
    let mut listener = listener(&gateway).await;
    let (program, args) = two.command();
    let said = text(&gateway.command(&["add", "two", "--", &program, &args[0]]).await);
    assert_eq!(said, "Added two: 1 tool, 0 resources, 0 prompts.\n");
    listener.expect(&["tools"]).await;
    assert!(text(&gateway.command(&["tools"]).await).contains("two__two"));
    let again = gateway.command(&["add", "two", "--", &program, &args[0]]).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("tidings remove two"), "{again:?}");
    assert_eq!(text(&gateway.command(&["restart", "two"]).await), "two runs again: 1 tool.\n");
    assert_eq!(text(&gateway.command(&["disable", "two"]).await), "two is off.\n");
    listener.expect(&["tools"]).await;
    assert!(text(&gateway.command(&["servers"]).await).contains("disabled"));
    assert_eq!(text(&gateway.command(&["enable", "two"]).await), "two is on.\n");
    listener.expect(&["tools"]).await;
    assert_eq!(text(&gateway.command(&["remove", "two"]).await), "Removed two.\n");
    listener.expect(&["tools"]).await;
}

// S4.2, S4.3
#[tokio::test]
async fn a_command_that_can_not_be_started_is_said_and_not_kept() {
    let one = server("one").await;
    let gateway = quick().server("one", &one).serve().await;
    let output = gateway.command(&["add", "x", "--", "sh", "-c", "echo no licence >&2; exit 1"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no licence"), "{output:?}");
    assert!(!text(&gateway.command(&["servers"]).await).contains("x "));
}

// S4.3
#[tokio::test]
async fn a_server_of_the_file_is_removed_from_the_file() {
    let (one, two) = (server("one").await, server("two").await);
    let gateway = quick().server("one", &one).server("two", &two).toml("# the end").serve().await;
    let mut listener = listener(&gateway).await;
    let said = text(&gateway.command(&["remove", "two"]).await);
    assert!(said.starts_with("Removed two from ") && said.contains("tidings.toml"), "{said}");
    listener.expect(&["tools"]).await;
    let file = std::fs::read_to_string(gateway.config()).unwrap();
    assert!(!file.contains("two") && file.contains("[servers.\"one\"]"), "{file}");
}
