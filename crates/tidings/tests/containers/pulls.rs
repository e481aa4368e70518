//! Images that are not there yet.

use serde_json::json;
use tidings_testkit::*;

use crate::echo;

// S4.1
#[tokio::test]
async fn an_image_that_is_not_there_is_got_with_a_report_of_its_progress() {
    let Some(podman) = Podman::ready() else { return };
    let Some(registry) = ImageRegistry::start(&podman) else { return };
    let image = registry.publish(&podman, Podman::IMAGE, "kit/relay:2");
    let server = echo().stdio().await;
    let config = podman.toml("box", &server, "").replace(Podman::IMAGE, &image);
    let gateway = podman.gateway(Gateway::builder().toml(&config)).serve().await;
    let client = gateway.client().connect().await;
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
    let lines = gateway.stderr().all();
    let reports: Vec<&String> = lines.iter().filter(|line| line.contains(&image) && line.contains("layers=")).collect();
    assert!(
        reports.iter().any(|line| line.contains("Copying blob") && line.contains("layers=1 done=0")),
        "{reports:#?}"
    );
    assert!(reports.last().is_some_and(|line| line.contains("layers=1 done=1")), "{reports:#?}");
    // The second start finds it.
    let reports = reports.len();
    assert!(gateway.terminate().await.success());
    let again = gateway.again().await;
    let told = again.stderr().all().iter().filter(|line| line.contains("layers=")).count();
    assert_eq!((told, reports > 0), (0, true));
}

// S4.3
#[tokio::test]
async fn whoever_adds_a_container_sees_how_far_its_image_is() {
    let Some(podman) = Podman::ready() else { return };
    let Some(registry) = ImageRegistry::start(&podman) else { return };
    let image = registry.publish(&podman, Podman::IMAGE, "kit/relay:3");
    let gateway = podman.gateway(Gateway::builder()).serve().await;
    let output = gateway.command(&["add", "box", "--container", &image]).await;
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(shown.contains(&format!("Getting {image} [########################] 1 of 1 layers")), "{shown}");
    // What is in it has nobody to speak for.
    assert!(!output.status.success() && shown.contains("server \"box\""), "{shown}");
}

// S4.2
#[tokio::test]
async fn an_image_that_the_registry_does_not_have_is_said_in_its_own_words() {
    let Some(podman) = Podman::ready() else { return };
    let Some(registry) = ImageRegistry::start(&podman) else { return };
    let image = registry.image("kit/none:1");
    let config = format!("[servers.box]\ncontainer = {image:?}\n");
    let gateway = podman.gateway(Gateway::builder().toml(&config)).without_waiting().serve().await;
    let status = gateway.wait_server("box", "failing", |status| status["error"].is_string()).await;
    let error = status["error"].as_str().unwrap();
    assert!(error.contains("manifest unknown") && error.contains("check the name of the image"), "{error}");
    gateway.terminate().await;
    assert_eq!(podman.containers(), [""; 0]);
}
