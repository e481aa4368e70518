//! What a container is given, and what it is not.

use serde_json::json;
use tidings_testkit::*;

use crate::{World, echo};

const SECRET: &str = "hunter2 is #1 = \"best\"";

/// The command lines of all processes.
fn command_lines() -> String {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok()).collect()
}

// S4.1
#[tokio::test]
async fn a_server_in_a_container_is_like_any_other() {
    let Some(world) = World::new(echo(), "").await else { return };
    for revision in [V2025_03_26, V2025_11_25, MODERN] {
        let client = world.gateway.client().revision(revision).connect().await;
        assert_eq!(client.call_tool("echo", json!({"a": 1})).await.text(), "{\"a\":1}");
    }
    let client = world.gateway.client().connect().await;
    let _stream = client.open_get().await;
    let before = client.count("notifications/tools/list_changed");
    world.server.put_tool(ScriptedEntry::text_tool("other", "hi"));
    world.server.list_changed("tools");
    client.wait_for_method("notifications/tools/list_changed", before + 1).await;
    assert_eq!(client.names("tools").await, ["echo", "other"]);
    assert!(world.container().starts_with("tidings-box-"), "{}", world.container());
    world.server.assert_clean();
}

// S4.1
#[tokio::test]
async fn secrets_reach_the_server_and_no_command_line() {
    let keys = "env = { TOKEN = \"${env:KIT_SECRET}\", MODE = \"quiet\" }";
    let Some(podman) = Podman::ready() else { return };
    let server = echo().stdio().await;
    let config = Gateway::builder().toml(&podman.toml("box", &server, keys)).env("KIT_SECRET", SECRET);
    let gateway = podman.gateway(config).serve().await;
    let world = World { server, gateway, podman };
    let process = &world.server.processes()[0];
    assert_eq!((&process.env["TOKEN"], &process.env["MODE"]), (&json!(SECRET), &json!("quiet")));
    assert_eq!(process.env["KIT_SECRET"], json!(null), "nothing else of the gateway's own");
    let lines = command_lines();
    assert!(lines.contains(Podman::IMAGE) && !lines.contains("hunter2"), "{lines}");
    let inspected = world.podman.inspect(&world.container());
    let command = inspected["Config"]["CreateCommand"].to_string();
    assert!(command.contains("--env-file") && !command.contains("hunter2"), "{command}");
    // The file is gone as soon as the server has introduced itself.
    let notes = world.notes();
    assert!(notes.len() == 1 && notes[0].ends_with(".lock"), "{notes:?}");
}

// S4.1
#[tokio::test]
async fn a_container_has_bounds_unless_asked_otherwise() {
    let Some(world) = World::new(echo(), "").await else { return };
    let inspected = world.podman.inspect(&world.container());
    let host = &inspected["HostConfig"];
    let found = [&host["Memory"], &host["NanoCpus"], &host["PidsLimit"], &host["ReadonlyRootfs"], &host["NetworkMode"]];
    assert_eq!(found, [&json!(1_u64 << 30), &json!(1_000_000_000_u64), &json!(256), &json!(true), &json!("none")]);
    assert_eq!(host["Privileged"], json!(false));
    assert!(inspected["EffectiveCaps"].as_array().is_none_or(Vec::is_empty), "{}", inspected["EffectiveCaps"]);
    assert!(host["SecurityOpt"].to_string().contains("no-new-privileges"), "{}", host["SecurityOpt"]);
    assert!(host["Tmpfs"]["/tmp"].is_string(), "{}", host["Tmpfs"]);
    assert_eq!(host["LogConfig"]["Type"], json!("none"), "what a server says is not for the disk");
    assert_eq!(inspected["Config"]["Labels"]["dev.tidings.server"], json!("box"));
}

// S4.1
#[tokio::test]
async fn a_container_gets_what_it_is_asked_to_get() {
    let keys = "memory = \"96m\"\ncpus = \"0.5\"\npids = 20\nread_only = false\nuser = \"0:0\"\n\
                runtime_args = [\"--log-level\", \"error\"]\nrun_args = [\"--hostname\", \"kitbox\"]";
    let Some(world) = World::new(echo(), keys).await else { return };
    let inspected = world.podman.inspect(&world.container());
    let host = &inspected["HostConfig"];
    let found = [&host["Memory"], &host["NanoCpus"], &host["PidsLimit"], &host["ReadonlyRootfs"]];
    assert_eq!(found, [&json!(96_u64 << 20), &json!(500_000_000_u64), &json!(20), &json!(false)]);
    let config = &inspected["Config"];
    assert_eq!((&config["User"], &config["Hostname"]), (&json!("0:0"), &json!("kitbox")));
    let mounts = inspected["Mounts"].as_array().unwrap();
    assert!(mounts.iter().any(|mount| mount["Destination"] == "/kit"), "{mounts:?}");
    world.server.assert_clean();
}
