//! Containers that come and go while clients are connected.

use serde_json::{Value, json};
use tidings_testkit::*;

use crate::{echo, wait_containers};

fn keys(server: &Server, image: &str) -> Value {
    let (_, args) = server.command();
    let (folder, socket) = args[0].rsplit_once('/').unwrap();
    json!({"container": image, "args": [format!("/kit/{socket}")], "volumes": [format!("{folder}:/kit")]})
}

// S4.1, S4.2
#[tokio::test]
async fn a_container_is_added_with_its_image_and_removed_with_nothing_left() {
    let Some(podman) = Podman::ready() else { return };
    let Some(registry) = ImageRegistry::start(&podman) else { return };
    let image = registry.publish(&podman, Podman::IMAGE, "kit/relay:3");
    let first = Server::builder("first").echo("first").stdio().await;
    let added = echo().ignore_eof().stdio().await;
    let gateway = podman.gateway(Gateway::builder().quick().server("first", &first)).serve().await;
    let client = gateway.client().connect().await;
    let _stream = client.open_get().await;
    let before = client.count("notifications/tools/list_changed");
    let (status, answer) = gateway.api("PUT", "/servers/box", keys(&added, &image)).await;
    assert_eq!((status, &answer["state"]), (201, &json!("ready")), "{answer}");
    client.wait_for_method("notifications/tools/list_changed", before + 1).await;
    assert_eq!(client.call_tool("box__echo", json!({})).await.text(), "{}");
    assert_eq!(podman.containers().len(), 1);
    // It is kept, and comes back with the next start.
    assert!(gateway.terminate().await.success());
    assert_eq!(podman.containers(), [""; 0]);
    let again = gateway.again().await;
    wait_containers(&podman, 1).await;
    let (status, answer) = again.api("DELETE", "/servers/box", Value::Null).await;
    assert_eq!(status, 200, "{answer}");
    wait_containers(&podman, 0).await;
    let client = again.client().connect().await;
    assert_eq!(client.names("tools").await, ["first__first"], "it began as one of two");
}

// S4.2
#[tokio::test]
async fn a_container_that_can_not_be_added_is_told_to_nobody_and_leaves_nothing() {
    let Some(podman) = Podman::ready() else { return };
    let first = Server::builder("first").echo("first").stdio().await;
    let mute = echo().exit_on("initialize", 4).exit_on("server/discover", 4).stdio().await;
    let gateway = podman.gateway(Gateway::builder().quick().server("first", &first)).serve().await;
    let client = gateway.client().connect().await;
    let _stream = client.open_get().await;
    let before = client.count("notifications/tools/list_changed");
    let table = [
        (json!({"container": "localhost:1/none:1"}), 502, "connection refused"),
        (json!({"container": "nosuchname"}), 502, "whole name"),
        // Its words may be missing: podman can lose what a container says that ends at once.
        (json!({"container": Podman::IMAGE, "args": ["/none"]}), 502, "exit status: 1"),
        (keys(&mute, Podman::IMAGE), 502, "exit status: 4"),
        (json!({"container": "-v"}), 422, "the name of an image"),
    ];
    for (server, expected, words) in table {
        let (status, problem) = gateway.api("PUT", "/servers/box", server.clone()).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(status == expected && detail.contains(words), "{server}: {status} {problem}");
        assert_eq!(podman.containers(), [""; 0], "{server}");
    }
    assert_eq!(client.names("tools").await, ["first"]);
    assert_eq!(client.count("notifications/tools/list_changed"), before);
}
