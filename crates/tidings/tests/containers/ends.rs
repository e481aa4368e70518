//! However a server, a session or a gateway ends: no container is left.

use serde_json::json;
use tidings_testkit::*;

use crate::{World, echo, wait_containers};

/// Neither the end of its input nor a signal ends it.
fn stubborn() -> ServerBuilder {
    echo().ignore_eof()
}

fn kill(pid: u32) {
    let killed = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
}

/// The process that cleans up after a gateway that was killed.
fn watchdog(gateway: u32) -> u32 {
    let is_it = |entry: &std::fs::DirEntry| {
        let read = |file: &str| std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let parent = read("stat").rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
        parent == Some(gateway) && read("cmdline").contains("__watchdog")
    };
    let found = std::fs::read_dir("/proc").unwrap().flatten().find(is_it);
    found.and_then(|entry| entry.file_name().to_str()?.parse().ok()).expect("a gateway with servers has a watchdog")
}

// S4.2
#[tokio::test]
async fn a_gateway_that_ends_leaves_no_container_and_no_note() {
    let Some(world) = World::new(echo(), "").await else { return };
    world.container();
    assert!(world.gateway.terminate().await.success());
    assert_eq!(world.podman.containers(), [""; 0], "the gateway waits for its servers");
    assert_eq!(world.notes(), [""; 0]);
}

// S4.2
#[tokio::test]
async fn a_server_that_does_not_want_to_end_is_removed_all_the_same() {
    let Some(world) = World::new(stubborn(), "").await else { return };
    world.container();
    assert!(world.gateway.terminate().await.success());
    assert_eq!(world.podman.containers(), [""; 0]);
}

// S4.2
#[tokio::test]
async fn a_killed_gateway_leaves_no_container() {
    let Some(world) = World::new(stubborn(), "").await else { return };
    world.container();
    world.gateway.kill().await;
    world.wait_containers(0).await;
}

// S4.2
#[tokio::test]
async fn what_is_left_all_the_same_goes_with_the_next_start_and_what_belongs_to_the_living_stays() {
    let Some(world) = World::new(stubborn(), "env = { A = \"b\" }").await else { return };
    let lost = world.container();
    // Another gateway with the same data directory.
    let living = world.podman.client(world.gateway.stdio()).connect().await;
    assert_eq!(living.call_tool("echo", json!({})).await.text(), "{}");
    let names = world.wait_containers(2).await;
    let kept = names.into_iter().find(|name| *name != lost).unwrap();
    let notes = world.notes().len();
    kill(watchdog(world.gateway.pid()));
    world.gateway.kill().await;
    assert!(world.podman.containers().contains(&lost), "nobody was there to remove it");
    let again = world.gateway.again().await;
    again.stderr().wait_for("a word about it", |line| line.contains("removed containers of a gateway")).await;
    let names = world.wait_containers(2).await;
    assert!(names.contains(&kept) && !names.contains(&lost), "{names:?}");
    assert_eq!(world.notes().len(), notes, "one is gone, and one has come");
    assert_eq!(living.call_tool("echo", json!({})).await.text(), "{}", "the living is not disturbed");
    let client = again.client().connect().await;
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
}

// S4.2
#[tokio::test]
async fn a_server_that_dies_comes_back_in_a_new_container() {
    let Some(world) = World::new(echo(), "").await else { return };
    let first = world.container();
    world.server.exit(3);
    let back = |status: &serde_json::Value| status["connects"] == 2 && status["state"] == "ready";
    world.gateway.wait_server("box", "back", back).await;
    let names = world.wait_containers(1).await;
    assert_ne!(names, [first]);
    let client = world.gateway.client().connect().await;
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
}

// S4.2
#[tokio::test]
async fn the_container_of_a_session_goes_with_the_session() {
    let Some(world) = World::new(echo(), "isolation = \"session\"").await else { return };
    let before = world.podman.containers().len();
    let client = world.gateway.client().connect().await;
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
    wait_containers(&world.podman, before + 1).await;
    client.delete().await;
    wait_containers(&world.podman, before).await;
}

/// Podman answers to that name on many machines; it takes the same words.
// S4.2
#[tokio::test]
async fn under_the_name_of_docker_nothing_is_left_either() {
    let Some(podman) = Podman::ready() else { return };
    let programs = TempDir::new();
    let docker = programs.write("docker", "#!/bin/sh\nexec podman \"$@\"\n");
    std::fs::set_permissions(&docker, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap());
    for server in [echo(), stubborn()] {
        let server = server.stdio().await;
        let keys = podman.toml("box", &server, "").replace("\"podman\"", "\"docker\"");
        let gateway = podman.gateway(Gateway::builder().toml(&keys).env("PATH", &path)).serve().await;
        let client = gateway.client().connect().await;
        assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
        assert!(gateway.terminate().await.success());
        assert_eq!(podman.containers(), [""; 0]);
        let notes = std::fs::read_dir(gateway.data().join("containers")).unwrap().count();
        assert_eq!(notes, 0, "it is known to be gone");
    }
}
