//! Registries of servers through the real gateway: what they publish is found, added, and followed.

use std::io::Write as _;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tidings_testkit::{Client, Gateway, GatewayBuilder, Server, TempDir, within};

use crate::stand_in::{StandInMode, StandInRegistry};

const DAY: &str = "2026-01-02T03:04:05Z";

fn gateway(registry: &StandInRegistry) -> GatewayBuilder {
    Gateway::builder().toml(&format!("[[registry]]\nname = \"acme\"\nurl = {:?}\n", registry.url)).quick()
}

fn npm(name: &str, version: &str) -> Value {
    let package = json!({
        "registryType": "npm", "identifier": "x", "version": version, "transport": {"type": "stdio"},
        "environmentVariables": [{"name": "X_KEY", "isRequired": true, "isSecret": true}],
    });
    json!({"name": name, "description": format!("Keeps notes for {name}."), "version": version, "packages": [package]})
}

/// A bundle that runs a scripted server.
fn bundle(registry: &StandInRegistry, version: &str, server: &Server) -> Value {
    let (command, args) = server.command();
    let manifest = json!({
        "manifest_version": "0.3", "name": "notes", "version": version,
        "server": {"type": "binary", "entry_point": "x", "mcp_config": {"command": command, "args": args}},
    });
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("manifest.json", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(manifest.to_string().as_bytes()).unwrap();
    let bytes = zip.finish().unwrap().into_inner();
    let sha256: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let url = registry.file(&format!("/notes-{version}.mcpb"), bytes);
    let package = json!({
        "registryType": "mcpb", "identifier": url, "fileSha256": sha256, "transport": {"type": "stdio"},
    });
    json!({"name": "io.github.acme/notes", "description": "Notes.", "version": version, "packages": [package]})
}

async fn refresh(gateway: &Gateway) -> Value {
    let (status, answer) = gateway.api("POST", "/entries/refresh", json!({"source": "acme"})).await;
    assert_eq!(status, 200, "{answer}");
    answer["sources"][0].clone()
}

async fn found(gateway: &Gateway, words: &str) -> Vec<Value> {
    let (_, answer) = gateway.api("GET", &format!("/entries?q={words}"), Value::Null).await;
    let entries = answer["entries"].as_array().unwrap().clone();
    entries.into_iter().filter(|entry| entry["source"] == "acme").collect()
}

async fn releases(gateway: &Gateway) -> Vec<Value> {
    let (_, answer) = gateway.api("GET", "/changes?kind=release", Value::Null).await;
    answer["changes"].as_array().unwrap().clone()
}

/// Waits until so many releases were told: the gateway looks after the refresh was answered.
async fn told(gateway: &Gateway, count: usize) {
    within("releases in the feed", async {
        while releases(gateway).await.len() < count {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// The tools of the server, without its prefix.
async fn tools(client: &Client) -> Vec<String> {
    let names = client.names("tools").await;
    let mut own: Vec<String> = names.iter().filter_map(|name| Some(name.strip_prefix("notes__")?.to_owned())).collect();
    own.sort();
    own
}

// reach 5, S4.5
#[tokio::test]
async fn a_registry_is_copied_by_pages_and_later_only_what_is_new_is_asked_for() {
    let registry = StandInRegistry::start().await;
    for n in 0..250 {
        registry.publish(&npm(&format!("io.github.acme/notes-{n}"), "1.0.0"), "active", DAY);
    }
    let gateway = gateway(&registry).serve().await;
    gateway.wait_ready().await;
    assert_eq!(registry.take_requests(), Vec::<String>::new(), "nothing is asked at the start");
    let read = refresh(&gateway).await;
    assert_eq!((&read["entries"], &read["added"], &read["error"]), (&json!(250), &json!(250), &Value::Null));
    let asked = registry.take_requests();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert_eq!(asked[0], "/v0.1/servers?limit=100&version=latest");
    assert_eq!(asked[1], "/v0.1/servers?limit=100&version=latest&cursor=%C3%BC%2F%26%3D100");
    let hits = found(&gateway, "acme/notes-17").await;
    assert_eq!((&hits[0]["id"], &hits[0]["version"]), (&json!("io.github.acme/notes-17"), &json!("1.0.0")));

    registry.publish(&npm("io.github.acme/notes-17", "1.0.0"), "deleted", "2026-01-03T00:00:00Z");
    registry.publish(&npm("io.github.acme/notes-18", "1.0.0"), "deprecated", "2026-01-03T00:00:00Z");
    registry.publish(&npm("io.github.acme/notes-19", "2.0.0"), "active", "2026-01-03T00:00:00Z");
    let read = refresh(&gateway).await;
    assert_eq!((&read["added"], &read["changed"], &read["removed"]), (&json!(0), &json!(2), &json!(1)), "{read}");
    let asked = registry.take_requests();
    assert_eq!(asked[0], "/v0.1/servers?limit=100&updated_since=2026%2D01%2D02T02%3A59%3A05Z");
    assert!(found(&gateway, "acme/notes-17").await.iter().all(|entry| entry["id"] != "io.github.acme/notes-17"));
    let (_, old) = gateway.api("GET", "/entries/io.github.acme%2Fnotes-18", Value::Null).await;
    assert_eq!((&old["status"], &old["status_message"]), (&json!("deprecated"), &json!("use another")));
    assert!(old["documentation"].as_str().unwrap().contains("**deprecated**: use another"), "{old}");
    let (_, new) = gateway.api("GET", "/entries/io.github.acme%2Fnotes-19", Value::Null).await;
    assert_eq!(new["version"], "2.0.0");
}

// reach 5
#[tokio::test]
async fn what_was_copied_is_served_while_the_registry_is_away_or_hostile() {
    let registry = StandInRegistry::start().await;
    registry.publish(&npm("io.github.acme/notes", "1.0.0"), "active", DAY);
    let first = gateway(&registry).serve().await;
    refresh(&first).await;
    first.terminate().await;
    registry.mode(StandInMode::Away);
    let gateway = first.again().await;
    assert_eq!(found(&gateway, "notes").await.len(), 1);
    for (mode, why) in [
        (StandInMode::Away, "HTTP status 503"),
        (StandInMode::Huge, "exceeds"),
        (StandInMode::Circle, "in a circle"),
        (StandInMode::BadJson, "no list of servers"),
        (StandInMode::WrongTypes, "no list of servers"),
    ] {
        registry.mode(mode);
        let read = refresh(&gateway).await;
        assert!(read["error"].as_str().unwrap().contains(why), "{mode:?}: {read}");
        assert_eq!((&read["entries"], read["refreshed"].is_string()), (&json!(1), true), "{mode:?}: {read}");
        assert_eq!(found(&gateway, "notes").await.len(), 1, "{mode:?}");
    }
    registry.mode(StandInMode::Honest);
    assert_eq!(refresh(&gateway).await["error"], Value::Null);
    let (status, fault) =
        gateway.api("POST", "/entries/io.github.acme%2Fnotes/add", json!({"inputs": {"X_KEY": "hush"}})).await;
    assert_eq!(status, 422, "{fault}");
    assert!(fault["detail"].as_str().unwrap().contains("is a secret"), "{fault}");
}

// reach 5, S4.1
#[tokio::test]
async fn a_release_of_an_installed_server_is_one_change_and_an_upgrade_one_commit() {
    let registry = StandInRegistry::start().await;
    let old = Server::builder("old")
        .tool("list", |call| async move { call.ok_text("old") })
        .tool("gone", |call| async move { call.ok_text("old") })
        .stdio()
        .await;
    let new = Server::builder("new")
        .tool("list", |call| async move { call.ok_text("new") })
        .tool("search", |call| async move { call.ok_text("new") })
        .stdio()
        .await;
    registry.publish(&bundle(&registry, "1.0.0", &old), "active", DAY);
    let gateway = gateway(&registry).serve().await;
    refresh(&gateway).await;
    let (status, added) = gateway.api("POST", "/entries/io.github.acme%2Fnotes/add", json!({})).await;
    assert_eq!((status, &added["name"], &added["tools"]), (201, &json!("notes"), &json!(2)), "{added}");
    let client = gateway.client().connect().await;
    refresh(&gateway).await;
    assert_eq!(releases(&gateway).await.len(), 0, "what is installed is no news");

    registry.publish(&bundle(&registry, "1.1.0", &new), "active", "2026-01-04T00:00:00Z");
    refresh(&gateway).await;
    told(&gateway, 1).await;
    refresh(&gateway).await;
    let feed = releases(&gateway).await;
    assert_eq!(feed.len(), 1, "{feed:?}");
    let change = &feed[0];
    assert_eq!((&change["server"], &change["changed"][0]["name"]), (&json!("notes"), &json!("io.github.acme/notes")));
    assert_eq!(change["changed"][0]["fields"], json!(["version"]));
    assert_eq!(tools(&client).await, ["gone", "list"], "nothing runs but what was chosen");

    let (status, begun) = gateway.api("POST", "/servers/notes/upgrade", Value::Null).await;
    assert_eq!(status, 200, "{begun}");
    let upgrade = &begun["upgrade"];
    assert_eq!((&upgrade["from"], &upgrade["to"]), (&json!("1.0.0"), &json!("1.1.0")));
    let list = &upgrade["difference"]["lists"][0];
    assert_eq!((&list["added"][0]["name"], &list["removed"][0]["name"]), (&json!("search"), &json!("gone")));
    assert_eq!(upgrade["difference"]["severity"], "breaking");
    // The old one serves while the new one waits.
    assert_eq!(client.call_tool("notes__list", json!({})).await.text(), "old");
    let path = |upgrade: &Value| format!("/servers/notes/upgrade/{}", upgrade["id"].as_str().unwrap());
    let (status, said) = gateway.api("POST", &path(upgrade), json!({"decision": "reject"})).await;
    assert_eq!((status, said), (200, json!({"rejected": "notes"})));
    new.wait_all_exited().await;
    assert_eq!(tools(&client).await, ["gone", "list"]);

    let output = gateway.command(&["upgrade", "notes", "--yes"]).await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("- gone: is gone") && said.contains("notes runs 1.1.0"), "{said}");
    assert_eq!(tools(&client).await, ["list", "search"]);
    assert_eq!(client.call_tool("notes__list", json!({})).await.text(), "new");
    old.wait_all_exited().await;
    let (_, none) = gateway.api("POST", "/servers/notes/upgrade", Value::Null).await;
    assert_eq!(none["upgrade"], Value::Null);
    refresh(&gateway).await;
    assert_eq!(releases(&gateway).await.len(), 1, "what was chosen is no news");

    registry.publish(&bundle(&registry, "1.1.0", &new), "deleted", "2026-01-05T00:00:00Z");
    refresh(&gateway).await;
    told(&gateway, 2).await;
    assert_eq!(tools(&client).await, ["list", "search"], "a running one is flagged, not ended");
}

// reach 5
#[tokio::test]
async fn a_bundle_that_is_not_the_published_one_is_not_run() {
    let registry = StandInRegistry::start().await;
    let server = Server::builder("notes").tool("list", |call| async move { call.ok_text("") }).stdio().await;
    registry.publish(&bundle(&registry, "1.0.0", &server), "active", DAY);
    registry.file("/notes-1.0.0.mcpb", b"something else".to_vec());
    let gateway = gateway(&registry).serve().await;
    refresh(&gateway).await;
    let (status, fault) = gateway.api("POST", "/entries/io.github.acme%2Fnotes/add", json!({})).await;
    assert_eq!(status, 502, "{fault}");
    assert!(fault["detail"].as_str().unwrap().contains("it is not the file that was published"), "{fault}");
    assert!(server.processes().is_empty());
}

// reach 5
#[tokio::test]
async fn a_docker_catalogue_is_taken_over_without_secrets() {
    let folder = TempDir::new();
    let catalogue = folder.write(
        "docker-mcp.yaml",
        "registry:\n  brave:\n    type: server\n    image: mcp/brave@sha256:aa\n    secrets:\n      - name: b.key\n        env: B_KEY\n  \
         once:\n    type: poci\n    image: mcp/once\n",
    );
    let config = folder.write("tidings.toml", "");
    let gateway = Gateway::builder().quick().serve().await;
    let (catalogue, config) = (catalogue.to_string_lossy(), config.to_string_lossy());
    let output = gateway.command(&["import", "docker", &catalogue, "--config", &config]).await;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("once is left out"), "{said}");
    let written = std::fs::read_to_string(&*config).unwrap();
    assert!(written.contains("[servers.brave]") && written.contains("${env:B_KEY}"), "{written}");
    let output = gateway.command(&["import", "docker", "--config", &config]).await;
    assert_eq!(output.status.code(), Some(2), "a file has to be named");
}
