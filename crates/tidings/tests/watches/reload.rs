//! Watches that change while the gateway runs, and what stays.

use ring::hmac;
use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, PendingExchange, ReceivedMessage, Server, TempDir, within};

use crate::{resources, text};

const UPDATED: &str = "notifications/resources/updated";
const LIST_CHANGED: &str = "notifications/resources/list_changed";
const WINDOWS: &str = "[notifications]\nlist_quiet = \"20ms\"\nlist_max_wait = \"500ms\"\nresource_quiet = \"20ms\"\nresource_max_wait = \"200ms\"\n";

async fn post(gateway: &Gateway, hook: &str, body: &str) {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"s3"), body.as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let signed = format!("sha256={hex}");
    let poster = Client::http(format!("{}/hooks/{hook}", gateway.base_url())).raw().connect().await;
    let headers = [("x-hub-signature-256", signed.as_str()), ("content-type", "application/json")];
    assert_eq!(poster.post_raw(body.to_owned(), &headers).await.status, 204, "{body}");
}

async fn listen(client: &Client, uris: &[&str]) -> PendingExchange {
    let filter = json!({ "resourcesListChanged": true, "resourceSubscriptions": uris });
    let mut listen = client.start("subscriptions/listen", json!({ "notifications": filter }));
    let acknowledged = listen.next_method("notifications/subscriptions/acknowledged").await;
    assert_eq!(acknowledged.params()["notifications"]["resourceSubscriptions"], json!(uris));
    listen
}

fn uri(received: &ReceivedMessage) -> String {
    received.params()["uri"].as_str().unwrap_or_default().to_owned()
}

fn told(listen: &PendingExchange, method: &str) -> Vec<String> {
    listen.so_far().before_with(method).into_iter().map(uri).collect()
}

async fn listed(client: &Client, fits: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let wait = async {
        loop {
            let found = resources(client).await;
            if fits(&found) {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    within("a list", wait).await
}

// edges D1, S4.3
#[tokio::test(flavor = "multi_thread")]
async fn editing_one_watch_touches_no_other() {
    let dir = TempDir::new();
    let (a, b) = (dir.write("a.txt", "a"), dir.write("b.txt", "b"));
    let hooks = "[watch.ci]\nwebhook = \"ci\"\nsecret = \"s3\"\n[watch.empty]\nwebhook = \"empty\"\nsecret = \"s3\"\n";
    let config = |path: &str, more: &str| format!("{WINDOWS}{hooks}[watch.file]\nfile = {path:?}\n{more}");
    let (a, b) = (a.to_str().expect("text"), b.to_str().expect("text"));
    let gateway = Gateway::builder().toml(&config(a, "")).serve().await;
    post(&gateway, "ci", "{\"n\":1}").await;
    let client = gateway.client().modern().connect().await;
    let mut follower = listen(&client, &["watch://ci", "watch://empty", "watch://file"]).await;
    let connects = gateway.server_status("watch").await["connects"].clone();
    // A description: the list says something else, no content does.
    gateway.rewrite_config(&config(a, "description = \"Other.\"\n"));
    listed(&client, |found| found.iter().any(|item| item["description"] == "Other.")).await;
    follower.next_method(LIST_CHANGED).await;
    // Another file: only its followers are told.
    gateway.rewrite_config(&config(b, "description = \"Other.\"\n"));
    assert_eq!(uri(&follower.next_method(UPDATED).await), "watch://file");
    assert_eq!(text(&client, "watch://file").await, "b");
    // It is watched, and so are the others.
    std::fs::write(b, "b2").expect("written");
    assert_eq!(uri(&follower.next_method(UPDATED).await), "watch://file");
    assert_eq!(text(&client, "watch://ci").await, "{\"n\":1}", "what was posted is still there");
    post(&gateway, "ci", "{\"n\":2}").await;
    assert_eq!(uri(&follower.next_method(UPDATED).await), "watch://ci");
    post(&gateway, "empty", "1").await;
    assert_eq!(uri(&follower.next_method(UPDATED).await), "watch://empty");
    // Added, and removed: whoever follows it is told that it is gone.
    let more = format!("description = \"Other.\"\n[watch.more]\nfile = {a:?}\n");
    gateway.rewrite_config(&config(b, &more));
    listed(&client, |found| found.iter().any(|item| item["uri"] == "watch://more")).await;
    let mut of_more = listen(&client, &["watch://more"]).await;
    gateway.rewrite_config(&config(b, "description = \"Other.\"\n"));
    assert_eq!(uri(&of_more.next_method(UPDATED).await), "watch://more");
    listed(&client, |found| !found.iter().any(|item| item["uri"] == "watch://more")).await;
    // Nothing else was told meanwhile, and the server of the watches never went away.
    post(&gateway, "ci", "{\"n\":3}").await;
    assert_eq!(uri(&follower.next_method(UPDATED).await), "watch://ci");
    let all = told(&follower, UPDATED);
    assert_eq!(all, ["watch://file", "watch://file", "watch://ci", "watch://empty", "watch://ci"]);
    assert_eq!(gateway.server_status("watch").await["connects"], connects);
}

// edges D1
#[tokio::test(flavor = "multi_thread")]
async fn what_webhooks_received_survives_a_restart_and_a_new_secret() {
    let config = |secret: &str| {
        format!(
            "{WINDOWS}[watch.ci]\nwebhook = \"ci\"\nsecret = {secret:?}\n[watch.svc]\nwebhook = \"svc\"\nsecret = \"s3\"\npointer = \"/service\"\n"
        )
    };
    let gateway = Gateway::builder().toml(&config("s3")).serve().await;
    post(&gateway, "ci", "{\"n\":1}").await;
    for (service, n) in [("web", 1), ("api", 1), ("web", 2)] {
        post(&gateway, "svc", &json!({ "service": service, "n": n }).to_string()).await;
    }
    let client = gateway.client().connect().await;
    let before = resources(&client).await;
    // Killed, not ended: what was answered 204 is on disk.
    gateway.kill().await;
    let gateway = gateway.again().await;
    let client = gateway.client().connect().await;
    assert_eq!(text(&client, "watch://ci").await, "{\"n\":1}");
    assert_eq!(text(&client, "watch://svc/web").await, json!({ "service": "web", "n": 2 }).to_string());
    assert_eq!(text(&client, "watch://svc/api").await, json!({ "service": "api", "n": 1 }).to_string());
    assert_eq!(text(&client, "watch://svc").await, json!({ "service": "web", "n": 2 }).to_string());
    assert_eq!(resources(&client).await, before, "with type, size and date");
    // Another secret is another way in to the same content.
    let modern = gateway.client().modern().connect().await;
    let mut follower = listen(&modern, &["watch://ci", "watch://svc"]).await;
    gateway.rewrite_config(&config("other"));
    let poster = Client::http(format!("{}/hooks/ci", gateway.base_url())).raw().connect().await;
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"other"), b"{}");
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let signed = format!("sha256={hex}");
    let headers = [("x-hub-signature-256", signed.as_str())];
    let accepted = async {
        while poster.post_raw("{}", &headers).await.status != 204 {
            assert_eq!(text(&client, "watch://ci").await, "{\"n\":1}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    within("the new secret", accepted).await;
    assert_eq!(uri(&follower.next_method(UPDATED).await), "watch://ci");
    assert_eq!(told(&follower, UPDATED), ["watch://ci"], "told of the delivery, and of nothing else");
}

// edges D2
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_asked_for_tells_the_size_a_file_has_now_and_nobody_is_told_of_that() {
    let dir = TempDir::new();
    let alone = dir.write("alone.txt", "1");
    std::fs::create_dir(dir.join("folder")).expect("a folder");
    dir.write("folder/one.txt", "1");
    let folder = format!("{}/", dir.join("folder").display());
    let toml = format!("{WINDOWS}[watch.alone]\nfile = {alone:?}\n[watch.folder]\nfile = {folder:?}\n");
    let gateway = Gateway::builder().toml(&toml).serve().await;
    let legacy = gateway.client().connect().await;
    let _stream = legacy.open_get().await;
    legacy.wait_for_method(LIST_CHANGED, 1).await;
    let client = gateway.client().modern().connect().await;
    let mut follower = listen(&client, &["watch://folder/one.txt"]).await;
    let details = |found: &[Value], name: &str| {
        let item = found.iter().find(|item| item["uri"] == name).expect("listed");
        (item["size"].as_u64(), item["annotations"]["lastModified"].clone())
    };
    let before = resources(&client).await;
    for content in ["22", "333", "4444"] {
        // Nobody follows the one, and somebody the other.
        std::fs::write(&alone, content).expect("written");
        std::fs::write(dir.join("folder/one.txt"), content).expect("written");
        for reader in [&client, &legacy] {
            let found = resources(reader).await;
            for name in ["watch://alone", "watch://folder/one.txt"] {
                let (size, modified) = details(&found, name);
                assert_eq!(size, Some(content.len() as u64), "{name}");
                assert_ne!(modified, details(&before, name).1, "{name}");
            }
        }
        assert_eq!(uri(&follower.next_method(UPDATED).await), "watch://folder/one.txt");
    }
    // A file more is announced, and it is the first thing that is.
    dir.write("folder/two.txt", "2");
    follower.next_method(LIST_CHANGED).await;
    legacy.wait_for_method(LIST_CHANGED, 2).await;
    assert_eq!(follower.so_far().before_with(LIST_CHANGED).len(), 1);
    let (_, changes) = gateway.get_as_admin("/api/v1/changes").await;
    assert!(!changes.contains("lastModified"), "content is no change of the list: {changes}");
}

// edges D1, S4.3
#[tokio::test(flavor = "multi_thread")]
async fn the_first_watches_come_also_when_the_file_that_brought_them_was_refused_before() {
    let lister = Server::builder("a").resource("b+file:///x", "x").http().await;
    let clashing = Server::builder("b").resource("file:///y", "y").http().await;
    let listed_as_its_own = format!("{WINDOWS}[servers.a]\nuris = \"transparent\"\n{}", lister.toml());
    let watches = format!("{listed_as_its_own}[watch.ci]\nwebhook = \"ci\"\nsecret = \"s3\"\n");
    let gateway = Gateway::builder().toml(&listed_as_its_own).serve().await;
    let client = gateway.client().modern().connect().await;
    let filter = json!({ "notifications": { "resourcesListChanged": true } });
    let mut follower = client.start("subscriptions/listen", filter);
    follower.next_method("notifications/subscriptions/acknowledged").await;
    // A server whose URIs could not be told from those of another: nothing of this file is applied.
    gateway.rewrite_config(&format!("{watches}[servers.b]\n{}", clashing.toml()));
    gateway.stderr().wait_for("the refusal", |line| line.contains("not applied") && line.contains("prefix")).await;
    let poster = Client::http(format!("{}/hooks/ci", gateway.base_url())).raw().connect().await;
    assert_eq!(poster.post_raw("{}", &[]).await.status, 404, "its webhook is not there either");
    gateway.rewrite_config(&watches);
    let found = listed(&client, |found| found.len() == 2).await;
    assert!(found.iter().any(|item| item["uri"] == "watch://ci"), "{found:?}");
    follower.next_method(LIST_CHANGED).await;
    post(&gateway, "ci", "{\"n\":1}").await;
    assert_eq!(text(&client, "watch://ci").await, "{\"n\":1}");
    assert!(gateway.terminate().await.success());
}
