//! Data sources behind the real gateway.

mod doctor;
mod reload;

use std::process::{Command, Output};

use ring::hmac;
use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, PostgresServer, Server, TempDir, within};

async fn resources(client: &Client) -> Vec<Value> {
    let list = client.request("resources/list", json!({})).await.result();
    list["resources"].as_array().cloned().unwrap_or_default()
}

async fn uris(client: &Client) -> Vec<String> {
    resources(client).await.iter().map(|item| item["uri"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn text(client: &Client, uri: &str) -> String {
    let read = client.request("resources/read", json!({ "uri": uri })).await.result();
    read["contents"][0]["text"].as_str().unwrap_or_default().to_owned()
}

// S1.6
#[tokio::test]
async fn watches_stand_beside_servers_under_their_own_uris_in_both_eras() {
    let dir = TempDir::new();
    let file = dir.write("settings.json", "{\"a\":1}");
    let server = Server::builder("one").echo("echo").stdio().await;
    let watch = format!("[watch.settings]\nfile = {file:?}\ndescription = \"Settings.\"\n");
    let gateway = Gateway::builder().server("one", &server).toml(&watch).serve().await;
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        let items = resources(&client).await;
        assert_eq!(items[0]["uri"], "watch://settings");
        assert_eq!(
            (&items[0]["mimeType"], &items[0]["description"]),
            (&json!("application/json"), &json!("Settings."))
        );
        assert_eq!(text(&client, "watch://settings").await, "{\"a\":1}");
        let tools = client.request("tools/list", json!({})).await.result();
        assert_eq!(tools["tools"][0]["name"], "echo", "a server that is alone keeps its names");
    }
    let status = gateway.server_status("watch").await;
    assert_eq!((&status["source"], &status["resources"]), (&json!("built-in"), &json!(1)));
}

// S1.6
#[tokio::test]
async fn a_file_that_comes_into_a_watched_folder_is_announced_and_can_be_read() {
    let dir = TempDir::new();
    let watch = format!("[watch.docs]\nfile = {:?}\nuri = \"docs://all\"\n", dir.join("*.md"));
    let gateway = Gateway::builder().toml(&watch).serve().await;
    let client = gateway.client().modern().connect().await;
    assert!(uris(&client).await.is_empty(), "and no demo beside it");
    let filter = json!({ "notifications": { "resourcesListChanged": true } });
    let mut listen = client.call("subscriptions/listen").params(filter).start();
    listen.next_method("notifications/subscriptions/acknowledged").await;
    dir.write("a.md", "# A");
    listen.next_method("notifications/resources/list_changed").await;
    assert_eq!(uris(&client).await, ["docs://all/a.md"]);
    assert_eq!(text(&client, "docs://all/a.md").await, "# A");
    std::fs::remove_file(dir.join("a.md")).expect("it is there");
    listen.next_method("notifications/resources/list_changed").await;
    assert!(uris(&client).await.is_empty());
}

// S1.6
#[tokio::test]
async fn what_is_posted_with_the_right_signature_can_be_read() {
    let watch = "[watch.deploys]\nwebhook = \"ci\"\nsecret = \"${env:SECRET}\"\n";
    let gateway = Gateway::builder().toml(watch).env("SECRET", "s3").serve().await;
    let client = gateway.client().connect().await;
    let hook = |name: &str| Client::http(format!("{}/hooks/{name}", gateway.base_url())).raw().connect();
    let poster = hook("ci").await;
    let signature = |body: &str| {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"s3"), body.as_bytes());
        format!("sha256={}", tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    };
    let post = async |body: String, signed: &str| {
        let headers = [("x-hub-signature-256", signed), ("content-type", "application/json")];
        poster.post_raw(body, &headers).await.status
    };
    assert_eq!(post("{}".into(), &signature("other")).await, 401);
    assert_eq!(poster.post_raw("{}", &[]).await.status, 401);
    let long = "x".repeat((1 << 20) + 1);
    assert_eq!(post(long.clone(), &signature(&long)).await, 413);
    assert_eq!(hook("other").await.post_raw("{}", &[]).await.status, 404);
    assert_eq!(post("{\"ok\":true}".into(), &signature("{\"ok\":true}")).await, 204);
    assert_eq!(text(&client, "watch://deploys").await, "{\"ok\":true}");
}

// S1.6
#[tokio::test]
async fn rows_of_a_database_are_read_through_the_gateway() {
    let Some(server) = PostgresServer::start() else { return };
    server.sql("create table orders (id int)");
    server.sql("insert into orders values (7)");
    let (url, query) = (server.url(), "select * from orders");
    let watch = format!("[watch.orders]\npostgres = {url:?}\nquery = {query:?}\nchannel = \"orders_changed\"\n");
    let gateway = Gateway::builder().toml(&watch).serve().await;
    let client = gateway.client().modern().connect().await;
    assert_eq!(text(&client, "watch://orders").await, "[\n{\"id\":7}\n]");
}

fn check(toml: &str, arguments: &[&str]) -> Output {
    let dir = TempDir::new();
    let config = dir.write("tidings.toml", toml);
    let check =
        Command::new(tidings_testkit::tidings()).arg("check").arg("--config").arg(config).args(arguments).output();
    check.expect("tidings runs")
}

#[test]
fn check_says_what_is_wrong_with_a_watch_and_where() {
    let fine = check("[watch.a]\nfile = \"a\"\n", &[]);
    assert!(fine.status.success() && String::from_utf8_lossy(&fine.stdout).contains("1 watch"), "{fine:?}");
    let bad = check("[watch.a]\npostgres = \"postgresql://h/d?zzz=1\"\nquery = \"q\"\nchannel = \"c\"\n", &[]);
    let said = String::from_utf8_lossy(&bad.stdout).into_owned();
    assert!(!bad.status.success() && said.contains("tidings.toml:2:1: watch.a.postgres: "), "{said}");
}

#[tokio::test]
async fn webhooks_are_refused_over_stdio() {
    let toml = "[watch.ci]\nwebhook = \"ci\"\nsecret = \"s\"\n";
    assert!(check(toml, &[]).status.success());
    let refused = check(toml, &["--stdio"]);
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(
        !refused.status.success() && said.contains("tidings.toml:2:1: watch.ci.webhook: nobody can post"),
        "{said}"
    );
    let dir = TempDir::new();
    let config = dir.write("tidings.toml", toml);
    let mut stdio = tokio::process::Command::new(tidings_testkit::tidings());
    stdio.arg("stdio").arg("--config").arg(config).stdin(std::process::Stdio::null()).kill_on_drop(true);
    let output = within("the end of stdio", stdio.output()).await.expect("tidings runs");
    assert!(
        !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("nobody can post"),
        "{output:?}"
    );
}
