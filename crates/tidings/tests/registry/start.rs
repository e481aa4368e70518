//! What a gateway starts with.

use tidings_testkit::{Gateway, Server};

// S4.6, names = "auto"
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_on_stdio_applies_its_file_too() {
    let (a, b) = (Server::builder("a").echo("one").stdio().await, Server::builder("b").echo("two").http().await);
    let gateway = Gateway::builder().quick().server("a", &a).serve().await;
    let client = gateway.stdio().connect().await;
    assert_eq!(client.names("tools").await, ["one"]);
    gateway.rewrite_config(&format!("[servers.a]\n{}[servers.b]\n{}", a.toml(), b.toml()));
    client.wait_for_method("notifications/tools/list_changed", 2).await;
    assert_eq!(client.names("tools").await, ["one", "b__two"], "who was alone keeps its names");
    client.close_stdin();
    assert!(client.wait_exit().await.success());
    assert!(gateway.terminate().await.success());
}
