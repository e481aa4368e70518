//! Where the URL of a server that was added at run time does not lead.

use serde_json::json;
use tidings_testkit::{Gateway, Server};

// trust T11
#[tokio::test]
async fn a_server_that_is_added_leads_into_no_private_network_that_its_url_does_not_show() {
    let inside = Server::builder("inside").echo("echo").http().await;
    let gateway = Gateway::builder().serve().await;
    let hidden = inside.url().replace("127.0.0.1", "2130706433");
    assert_ne!(hidden, inside.url());
    for url in [&hidden, &inside.url().replace("127.0.0.1", "0x7f.1")] {
        // To the resolver this is a name, which it answers with 127.0.0.1, as a hostile zone would.
        let (status, problem) = gateway.api("PUT", "/servers/evil", json!({ "url": url })).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(status >= 400 && detail.contains("private address 127.0.0.1"), "{status} {problem}");
        assert!(detail.contains("`private = true`"), "{problem}");
    }
    assert_eq!(inside.received().len(), 0, "nobody dialled it");
    // Where somebody declares it, in the URL or by the key, it is used.
    for server in [json!({ "url": inside.url() }), json!({ "url": hidden, "private": true })] {
        let (status, answer) = gateway.api("PUT", "/servers/meant", server.clone()).await;
        assert!(matches!(status, 200 | 201), "{server}: {status} {answer}");
    }
    assert!(inside.count("initialize") + inside.count("server/discover") > 0);
}

// trust T11
#[tokio::test]
async fn a_server_that_is_added_is_not_asked_where_clouds_hand_out_keys() {
    let gateway = Gateway::builder().serve().await;
    for host in ["169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "[::ffff:169.254.169.254]"] {
        let keys = json!({ "url": format!("http://{host}/latest/meta-data/") });
        let (status, problem) = gateway.api("PUT", "/servers/evil", keys).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(status >= 400 && detail.contains("clouds hand out keys"), "{host}: {status} {problem}");
    }
}

// trust T11
#[tokio::test]
async fn the_file_leads_where_it_says() {
    let inside = Server::builder("inside").echo("echo").http().await;
    let url = inside.url().replace("127.0.0.1", "2130706433");
    let toml = |private: &str| format!("[servers.inside]\nurl = {url:?}\n{private}");
    let gateway = Gateway::builder().toml(&toml("")).serve().await;
    gateway.wait_server("inside", "ready", |server| server["state"] == "ready").await;
    // Unless it says otherwise.
    gateway.rewrite_config(&toml("private = false\n"));
    let status =
        gateway.wait_server("inside", "refused", |server| server.to_string().contains("private address")).await;
    assert_ne!(status["state"], "ready");
}
