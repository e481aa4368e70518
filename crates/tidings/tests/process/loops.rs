//! A gateway that is configured as one of its own servers, directly or through others.

use serde_json::{Value, json};
use tidings_testkit::*;

/// A free port. Another process may take it first; then the test fails at the start of its gateway.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

async fn one_tool() -> Server {
    Server::builder("alpha").echo("echo").stdio().await
}

fn listening(builder: GatewayBuilder, port: u16) -> GatewayBuilder {
    builder.arg("--listen").arg(&format!("127.0.0.1:{port}"))
}

fn failing(words: &'static str) -> impl Fn(&Value) -> bool {
    move |status| status["state"] == "failing" && status["error"].as_str().is_some_and(|error| error.contains(words))
}

/// What a new client is shown; lists wait until the servers have settled.
async fn tools(gateway: &Gateway) -> Vec<String> {
    let mut names = gateway.client().connect().await.names("tools").await;
    names.sort();
    names
}

// edges F2
#[tokio::test]
async fn a_gateway_refuses_its_own_url() {
    let server = one_tool().await;
    for host in ["127.0.0.1", "localhost", "0.0.0.0"] {
        let port = free_port();
        let own = format!("[servers.me]\nurl = \"http://{host}:{port}/mcp\"");
        let gateway = listening(Gateway::builder().server("alpha", &server).toml(&own), port).serve().await;
        gateway.wait_server("me", "refused", failing("is the address of this gateway")).await;
        assert_eq!(tools(&gateway).await, ["alpha__echo"], "{host}");
    }
}

// edges F2: by an address that the spelling does not give away.
#[tokio::test]
async fn a_gateway_recognises_itself_behind_another_address() {
    let server = one_tool().await;
    for era in ["auto", "legacy", "modern"] {
        let port = free_port();
        // It passes on whatever comes, as a proxy or a name of this machine does.
        let front = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = front.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = front.accept().await {
                tokio::spawn(async move {
                    let mut far = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
                    tokio::io::copy_bidirectional(&mut near, &mut far).await
                });
            }
        });
        let own = format!("[servers.me]\nurl = \"http://{address}/mcp\"\nera = \"{era}\"");
        let gateway = listening(Gateway::builder().server("alpha", &server).toml(&own), port).serve().await;
        gateway.wait_server("me", "refused", failing("leads back to this gateway")).await;
        assert_eq!(tools(&gateway).await, ["alpha__echo"], "{era}");
    }
}

// edges F2
#[tokio::test]
async fn the_own_url_can_not_be_added_either() {
    let server = one_tool().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let (status, answer) = gateway.api("PUT", "/servers/me", json!({ "url": gateway.url() })).await;
    assert_eq!(status, 422, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("is the address of this gateway"), "{answer}");
    assert_eq!(tools(&gateway).await, ["echo"]);
}

// edges F2
#[tokio::test]
async fn a_loop_of_two_gateways_is_cut_at_one_place() {
    let (alpha, beta) = (one_tool().await, Server::builder("beta").echo("other").stdio().await);
    let first = Gateway::builder().server("alpha", &alpha).quick().serve().await;
    let to_first = format!("[servers.first]\nurl = \"{}\"", first.url());
    let second = Gateway::builder().server("beta", &beta).toml(&to_first).quick().serve().await;
    assert_eq!(tools(&second).await, ["beta__other", "first__echo"]);
    let (status, answer) = first.api("PUT", "/servers/second", json!({ "url": second.url() })).await;
    assert_eq!(status, 502, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("leads back to this gateway"), "{answer}");
    assert_eq!(tools(&first).await, ["echo"]);
    assert_eq!(tools(&second).await, ["beta__other", "first__echo"]);
}

// edges F2: the loop closes when both are connected already, through a third one.
#[tokio::test]
async fn a_loop_that_closes_behind_a_connected_gateway_is_noticed_with_its_lists() {
    let (alpha, beta) = (one_tool().await, Server::builder("beta").echo("other").stdio().await);
    let ports = [free_port(), free_port()];
    let leads_to = |port: u16| format!("[servers.next]\nurl = \"http://127.0.0.1:{port}/mcp\"");
    // Each is the other's server from the beginning: whoever is first finds nobody, and tries again.
    let builder = Gateway::builder().server("alpha", &alpha).toml(&leads_to(ports[1])).quick();
    let first = listening(builder, ports[0]).without_waiting().serve().await;
    let builder = Gateway::builder().server("beta", &beta).toml(&leads_to(ports[0])).quick();
    let second = listening(builder, ports[1]).without_waiting().serve().await;
    let looped = |status: &Value| failing("leads back to this gateway")(status) || failing("in a loop")(status);
    within("one of them to refuse the other", async {
        loop {
            let states = [first.server_status("next").await, second.server_status("next").await];
            if states.iter().any(looped) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    for _ in 0..20 {
        for gateway in [&first, &second] {
            let shown = gateway.server_status("next").await;
            assert!(shown["tools"].as_u64().unwrap_or_default() <= 2, "{shown}");
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
}

// edges F2: a configuration that starts itself would start processes without end.
#[tokio::test]
async fn a_configuration_that_starts_itself_is_refused() {
    let gateway = Gateway::builder().toml("").serve().await;
    let (program, file) = (tidings().to_string_lossy(), gateway.config().to_string_lossy());
    let folder = TempDir::new();
    let data = folder.path().to_string_lossy();
    // A plain `tidings stdio` is left out when the file is read; this one is not recognised before it runs.
    let script = format!("exec {program} stdio --config {file} --data {data}");
    gateway.rewrite_config(&format!("[servers.me]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\n"));
    within("the server to be there", async {
        while !gateway.api("GET", "/servers", Value::Null).await.1.to_string().contains("\"me\"") {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    gateway.wait_server("me", "refused", failing("same configuration file")).await;
}
