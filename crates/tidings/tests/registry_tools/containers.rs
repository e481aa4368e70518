//! Containers of the catalogue, with a real podman; without one the tests say so and how to get it.

use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, ImageRegistry, Podman, Server, TempDir, eventually};

use crate::{ListFollower, call, clock, followers, listed, refusal, said, with_tools};

/// A gateway with a catalogue of one container.
async fn gateway(podman: &Podman, folder: &TempDir, server: &Server, image: &str) -> Gateway {
    // The keys are those of a server.
    let keys = podman.toml("box", server, "").replace(Podman::IMAGE, image);
    let keys: Vec<&str> = keys.lines().filter(|line| !line.starts_with('[') && !line.starts_with("runtime ")).collect();
    let entry = format!("[[servers]]\nid = \"acme/boxed-clock\"\ndescription = \"d\"\n{}\n", keys.join("\n"));
    let path = folder.write("servers.toml", entry);
    podman.gateway(with_tools(&format!("catalogue = {path:?}"))).serve().await
}

async fn gone(podman: &Podman) {
    eventually("the end of all containers", || podman.containers().is_empty().then_some(())).await;
}

// S4.1
#[tokio::test]
async fn a_container_is_added_for_everybody_and_nothing_is_left_of_it() {
    let Some(podman) = Podman::ready() else { return };
    let (folder, server) = (TempDir::new(), clock().stdio().await);
    let gateway = gateway(&podman, &folder, &server, Podman::IMAGE).await;
    let followers = followers(&gateway).await;
    let before: Vec<_> = followers.iter().map(ListFollower::counts).collect();
    let added = call(&followers[0].client, "add", json!({"entry_id": "acme/boxed-clock"})).await;
    assert_eq!(added["server"]["tools"], json!(["boxed_clock__now"]));
    assert_eq!(podman.containers().len(), 1);
    for (follower, before) in followers.iter().zip(&before) {
        follower.heard_all(*before).await;
        assert_eq!(follower.client.call_tool("boxed_clock__now", json!({})).await.text(), "noon");
    }
    call(&followers[3].client, "remove", json!({"entry_id": "acme/boxed-clock"})).await;
    for (follower, before) in followers.iter().zip(before) {
        follower.heard_all(before.map(|count| count + 1)).await;
        assert_eq!(follower.counts(), before.map(|count| count + 2));
        assert!(!listed(&follower.client, "tools").await.contains(&"boxed_clock__now".to_owned()));
    }
    gone(&podman).await;
}

async fn progress_of_add(client: &Client) -> (Vec<String>, Value) {
    let params = json!({"name": "mcp_registry_add", "arguments": {"entry_id": "acme/boxed-clock"}});
    let answer = client.call("tools/call").params(params).progress_token("7").send().await;
    let progress = answer.before.iter().filter(|message| message.method == "notifications/progress");
    let messages = progress.map(|message| message.params()["message"].as_str().unwrap().to_owned());
    (messages.collect(), said(&answer))
}

// issue 6.3: an image is got with a report of its progress
#[tokio::test]
async fn whoever_adds_a_container_hears_how_its_image_is_got() {
    let Some(podman) = Podman::ready() else { return };
    let Some(registry) = ImageRegistry::start(&podman) else { return };
    let image = registry.publish(&podman, Podman::IMAGE, "kit/clock:1");
    let (folder, server) = (TempDir::new(), clock().stdio().await);
    let gateway = gateway(&podman, &folder, &server, &image).await;
    let client = gateway.client().modern().connect().await;
    let (messages, added) = progress_of_add(&client).await;
    assert_eq!(added["server"]["state"], "ready");
    let getting = format!("Getting {image}");
    assert!(messages.iter().any(|message| message.starts_with(&getting)), "{messages:#?}");
    assert!(messages.iter().any(|message| message.contains("1 of 1 layers")), "{messages:#?}");
    call(&client, "remove", json!({"entry_id": "boxed_clock"})).await;
    gone(&podman).await;
}

// S4.2
#[tokio::test]
async fn a_container_that_can_not_be_had_changes_nothing() {
    let Some(podman) = Podman::ready() else { return };
    let (folder, server) = (TempDir::new(), clock().stdio().await);
    let gateway = gateway(&podman, &folder, &server, "localhost/no-such-image:1").await;
    let client = gateway.client().connect().await;
    let problem = refusal(&client, "add", json!({"entry_id": "acme/boxed-clock"})).await;
    assert!(problem.contains("localhost/no-such-image:1"), "{problem}");
    assert_eq!(call(&client, "active", json!({})).await, json!({"servers": []}));
    assert_eq!(podman.containers(), [""; 0]);
}
