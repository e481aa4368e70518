//! The file is applied while the gateway runs.

use serde_json::json;
use tidings_testkit::{Client, Gateway, GatewayBuilder, Server, ServerBuilder};

fn full(name: &str) -> ServerBuilder {
    Server::builder(name).echo("echo").resource("file:///r", "r")
}

fn table(name: &str, server: &Server) -> String {
    format!("[servers.{name}]\n{}\n", server.toml())
}

fn quick() -> GatewayBuilder {
    Gateway::builder().quick()
}

const QUICK: &str = "[notifications]\nlist_quiet = \"20ms\"\nlist_max_wait = \"200ms\"\n";

/// Clients of both eras on both transports; the first two are told what changes.
async fn clients(gateway: &Gateway) -> Vec<Client> {
    let clients = vec![
        gateway.client().connect().await,
        gateway.client().modern().connect().await,
        gateway.stdio().connect().await,
        gateway.stdio().modern().connect().await,
    ];
    for client in &clients {
        assert_eq!(client.names("tools").await, ["a__echo", "b__echo"]);
    }
    clients
}

/// Waits until a client's list is this.
async fn lists(client: &Client, tools: &[&str]) {
    for _ in 0..2_000 {
        if client.names("tools").await == tools {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{:?} instead of {tools:?}", client.names("tools").await);
}

// S4.3, bridging 14
#[tokio::test(flavor = "multi_thread")]
async fn a_saved_change_reaches_every_client_and_touches_only_what_changed() {
    let (a, b, c) = (full("a").stdio().await, full("b").stdio().await, full("c").http().await);
    let gateway = quick().server("a", &a).server("b", &b).serve().await;
    let clients = clients(&gateway).await;
    let listener = &clients[1];
    let mut listen = listener.start("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    listen.next_method("notifications/subscriptions/acknowledged").await;
    let before = a.processes().len();
    gateway.rewrite_config(&format!("{QUICK}{}{}", table("a", &a), table("c", &c)));
    listen.next_method("notifications/tools/list_changed").await;
    assert_eq!(listener.names("tools").await, ["a__echo", "c__echo"], "then it can be read");
    for client in &clients {
        lists(client, &["a__echo", "c__echo"]).await;
    }
    b.wait_all_exited().await;
    assert_eq!(a.processes().len(), before, "it was not touched");
    assert_eq!(listener.count("notifications/tools/list_changed"), 1);
    let (_, changes) = gateway.get_as_admin("/api/v1/changes").await;
    assert!(changes.contains(r#""server":"c","kind":"tools","added":["echo"]"#), "{changes}");
    assert!(changes.contains(r#""server":"b","kind":"tools","added":[],"removed":["echo"]"#), "{changes}");
    assert!(gateway.terminate().await.success());
}

// S4.3
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_changes_nothing_and_the_next_good_one_is_applied() {
    let (a, b, c) = (full("a").stdio().await, full("b").http().await, full("c").http().await);
    let gateway = quick().server("a", &a).server("b", &b).serve().await;
    let client = gateway.client().connect().await;
    gateway.rewrite_config("[servers.a]\ncomand = \"x\"\n");
    gateway
        .stderr()
        .wait_for("the fault in the log", |line| line.contains("tidings.toml:2:1") && line.contains("comand"))
        .await;
    assert_eq!(client.names("tools").await, ["a__echo", "b__echo"]);
    gateway.rewrite_config("[servers.a\n");
    gateway.stderr().wait_for("the next fault", |line| line.contains("tidings.toml:1")).await;
    gateway.rewrite_config(&format!("{QUICK}{}{}{}", table("a", &a), table("b", &b), table("c", &c)));
    lists(&client, &["a__echo", "b__echo", "c__echo"]).await;
    assert_eq!(a.processes().len(), 1);
    // Written in place, not renamed into it.
    std::fs::write(gateway.config(), format!("{QUICK}{}{}", table("a", &a), table("c", &c))).unwrap();
    lists(&client, &["a__echo", "c__echo"]).await;
    assert!(gateway.terminate().await.success());
}

// S4.3
#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_restart_is_named() {
    let a = full("a").http().await;
    let gateway = Gateway::builder().server("a", &a).serve().await;
    gateway.rewrite_config(&format!("[gateway]\npage_size = 3\n{}", table("a", &a)));
    gateway.stderr().wait_for("the section", |line| line.contains("[gateway]") && line.contains("restart")).await;
    assert!(gateway.terminate().await.success());
}

// S4.3: a link in the place of the file, as where configurations are mounted
#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_comes_to_point_elsewhere_is_a_change() {
    let (a, b) = (full("a").http().await, full("b").http().await);
    let gateway = quick().server("a", &a).serve().await;
    let client = gateway.client().connect().await;
    assert_eq!(client.names("tools").await, ["echo"]);
    let folder = gateway.config().parent().unwrap();
    std::fs::create_dir(folder.join("mounted")).unwrap();
    let target = folder.join("mounted/new.toml");
    std::fs::write(&target, format!("{QUICK}{}{}", table("a", &a), table("b", &b))).unwrap();
    std::os::unix::fs::symlink(&target, folder.join("link")).unwrap();
    std::fs::rename(folder.join("link"), gateway.config()).unwrap();
    lists(&client, &["echo", "b__echo"]).await;
    assert!(gateway.terminate().await.success());
}

// S4.3
#[tokio::test(flavor = "multi_thread")]
async fn watches_of_the_file_come_and_go_with_their_webhooks() {
    let gateway = quick().toml("[watch.first]\nfile = \"./first.txt\"").serve().await;
    let folder = gateway.config().parent().unwrap().to_owned();
    std::fs::write(folder.join("second.txt"), "two").unwrap();
    let client = gateway.client().modern().connect().await;
    let watch = |name: &str| format!("[watch.{name}]\nfile = \"./{name}.txt\"\n");
    gateway.rewrite_config(&format!(
        "{QUICK}{}[watch.hook]\nwebhook = \"deploys\"\nsecret = \"geheim-geheim\"\n",
        watch("second")
    ));
    eventually_reads(&client, "watch://second", "two").await;
    gateway.rewrite_config(QUICK);
    for _ in 0..2_000 {
        if client.list("resources").await.is_empty() {
            assert!(gateway.terminate().await.success());
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{:?}", client.list("resources").await);
}

async fn eventually_reads(client: &Client, uri: &str, text: &str) {
    for _ in 0..2_000 {
        let answer = client.request("resources/read", json!({ "uri": uri })).await;
        if answer.response().text().contains(text) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{uri} never read {text}");
}

// S4.3
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_reads_the_file_again() {
    let a = full("a").http().await;
    let gateway = quick().server("a", &a).serve().await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(gateway.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    gateway.stderr().wait_for("the reading", |line| line.contains("configuration read again")).await;
    assert_eq!(gateway.client().connect().await.names("tools").await, ["echo"]);
    assert!(gateway.terminate().await.success());
}
