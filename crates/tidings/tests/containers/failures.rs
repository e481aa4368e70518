//! What can not be started says why, with what helps, and leaves nothing.

use serde_json::json;
use tidings_testkit::*;

use crate::{World, echo};

/// What is said of a server that can not be started.
async fn error_of(gateway: &Gateway, name: &str) -> String {
    let status = gateway.wait_server(name, "failing", |status| status["error"].is_string()).await;
    status["error"].as_str().unwrap_or_default().to_owned()
}

fn image(keys: &str) -> String {
    format!("[servers.box]\ncontainer = {:?}\nruntime = \"podman\"\n{keys}\n", Podman::IMAGE)
}

// S4.2
#[tokio::test]
async fn servers_that_can_not_be_started_say_why_and_leave_nothing() {
    let Some(podman) = Podman::ready() else { return };
    let table = [
        // Starts, and ends at once. Its words may be missing: podman can lose them then.
        (image("args = [\"/none\"]"), &["exited", "exit status: 1"][..]),
        (image("run_args = [\"--entrypoint\", \"/nope\"]"), &["could not be started", "/nope", "no such command"]),
        (image("volumes = [\"/no/such/folder:/x\"]"), &["/no/such/folder", "is not there"]),
        (
            image("runtime_args = [\"--runtime\", \"nope\"]"),
            &["could not be started", "\"nope\" not found", "podman info"],
        ),
        (
            "[servers.box]\ncontainer = \"localhost:1/none:1\"\n".to_owned(),
            &["podman pull localhost:1/none:1", "connection refused", "check the name"],
        ),
        ("[servers.box]\ncontainer = \"nosuchname\"\n".to_owned(), &["short-name", "whole name"]),
        ("[servers.box]\ncontainer = \"BAD::\"\n".to_owned(), &["invalid reference format"]),
    ];
    for (config, parts) in table {
        let gateway = podman.gateway(Gateway::builder().toml(&config)).without_waiting().serve().await;
        let error = error_of(&gateway, "box").await;
        for part in parts {
            assert!(error.contains(part), "{config}: {part}: {error}");
        }
        gateway.terminate().await;
        assert_eq!(podman.containers(), [""; 0], "{config}");
    }
}

// S4.2
#[tokio::test]
async fn a_server_that_speaks_garbage_spoils_nothing() {
    let Some(world) = World::new(echo(), "").await else { return };
    world.server.print_stdout("garbage { \n");
    world.gateway.stderr().wait_for("a word about it", |line| line.contains("not a message")).await;
    let client = world.gateway.client().connect().await;
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
}

/// Needs no podman: it is not there.
// S4.2
#[tokio::test]
async fn without_a_runtime_the_gateway_starts_and_says_what_to_install() {
    let nowhere = TempDir::new();
    let path = nowhere.path().to_string_lossy().into_owned();
    let config = "[servers.box]\ncontainer = \"i\"\n[servers.dock]\ncontainer = \"i\"\nruntime = \"docker\"\n";
    let gateway = Gateway::builder().toml(config).env("PATH", &path).serve().await;
    let error = error_of(&gateway, "box").await;
    assert!(error.contains("neither podman nor docker") && error.contains("apt-get install podman"), "{error}");
    let error = error_of(&gateway, "dock").await;
    assert!(error.contains("docker: command not found"), "{error}");
    // What another gateway left can not be removed now: it is remembered, and nobody waits.
    gateway.terminate().await;
    let notes = gateway.data().join("containers");
    std::fs::create_dir_all(&notes).unwrap();
    let note = notes.join("0123.lock");
    std::fs::write(&note, "{\"runtime\":\"podman\",\"args\":[]}\n").unwrap();
    let again = gateway.again().await;
    again.stderr().wait_for("a warning", |line| line.contains("podman is not there any more")).await;
    assert!(note.exists());
}
