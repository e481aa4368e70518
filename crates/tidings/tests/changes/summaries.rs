//! `dev.tidings/changes`: clients that ask find in the notification what changed; the others find what they always did.

use serde_json::{Value, json};
use tidings_testkit::*;

use crate::{add, described, full, put, quick};

const KEY: &str = "dev.tidings/changes";
const ALL: [&str; 3] = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];

fn method(kind: &str) -> String {
    format!("notifications/{kind}/list_changed")
}

/// A client that asks, in the way of its era.
fn asking(builder: ClientBuilder, modern: bool) -> ClientBuilder {
    if modern {
        builder.modern().capabilities(json!({"extensions": {KEY: {}}}))
    } else {
        builder.capabilities(json!({"experimental": {KEY: {}}}))
    }
}

/// Follows all lists, and waits for what is said at the beginning.
async fn follow(client: &Client) -> Option<PendingExchange> {
    if is_modern(&client.revision()) {
        let flags: Value = ALL.into_iter().map(|flag| (flag.to_owned(), json!(true))).collect();
        let mut listen = client.start("subscriptions/listen", json!({ "notifications": flags }));
        listen.next_method("notifications/subscriptions/acknowledged").await;
        return Some(listen);
    }
    let http = client.is_on_http();
    let stream = if http { Some(client.open_get().await) } else { None };
    for kind in ["tools", "prompts", "resources"] {
        let first = client.wait_for_method(&method(kind), 1).await;
        assert!(first.params_raw().is_empty() || first.params() == json!({}), "the first says all: {first:?}");
    }
    stream
}

fn nth(client: &Client, round: usize) -> usize {
    round + usize::from(!is_modern(&client.revision()))
}

async fn summary(client: &Client, kind: &str, round: usize) -> Value {
    client.wait_for_method(&method(kind), nth(client, round)).await.params()["_meta"][KEY].clone()
}

// S4.4
#[tokio::test]
async fn clients_of_both_eras_find_what_changed_under_the_names_they_know() {
    for server in [full().stdio().await, full().modern_only().http().await] {
        let other = Server::builder("two").echo("echo").stdio().await;
        let gateway = quick().server("one", &server).server("two", &other).serve().await;
        let mut clients = Vec::new();
        for modern in [false, true] {
            for builder in [gateway.client(), gateway.stdio()] {
                let client = asking(builder, modern).connect().await;
                let stream = follow(&client).await;
                clients.push((client, stream));
            }
        }
        server.put_tool(described("echo", "It says more now."));
        add(&server, "new");
        for (client, _) in &clients {
            let expected = json!({
                "added": ["one__new"], "removed": [],
                "changed": [{"name": "one__echo", "fields": ["description"]}],
            });
            let found = summary(client, "tools", 1).await;
            assert_eq!(found["added"], expected["added"]);
            assert_eq!(found["changed"][0]["name"], "one__echo");
            assert!(found["changed"][0]["fields"].as_array().unwrap().contains(&json!("description")), "{found}");
        }
        server.remove_tool("new");
        server.list_changed("tools");
        server.put_prompt(Tool::prompt("q", |call| async move { call.ok_message("new") }));
        server.list_changed("prompts");
        server.put_resource(Tool::resource("file:///u", "new"));
        server.put_template(Tool::template("file:///{x}", |_| None));
        server.list_changed("resources");
        for (client, _) in &clients {
            let of = |added: Value, removed: Value| json!({"added": added, "removed": removed, "changed": []});
            assert_eq!(summary(client, "tools", 2).await, of(json!([]), json!(["one__new"])));
            assert_eq!(summary(client, "prompts", 1).await, of(json!(["one__q"]), json!([])));
            let uris = json!(["one+file:///u", "one+file:///{x}"]);
            assert_eq!(summary(client, "resources", 1).await, of(uris, json!([])));
        }
    }
}

// S4.4
#[tokio::test]
async fn those_who_do_not_ask_get_the_plain_notification() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let legacy = gateway.client().connect().await;
    let _legacy = follow(&legacy).await;
    let modern = gateway.client().modern().connect().await;
    let _modern = follow(&modern).await;
    // It names the extension and does not declare it.
    let odd = gateway.client().modern().capabilities(json!({"extensions": {KEY: true}})).connect().await;
    let _odd = follow(&odd).await;
    add(&server, "new");
    let plain = legacy.wait_for_method(&method("tools"), 2).await;
    assert_eq!(plain.text(), r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    for client in [modern, odd] {
        let tagged = client.wait_for_method(&method("tools"), 1).await;
        let id = tagged.param_raw(&["_meta", "io.modelcontextprotocol/subscriptionId"]);
        let expected = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
        );
        assert_eq!(tagged.text(), expected);
    }
}

// S4.4; bridging 6
#[tokio::test]
async fn what_was_missed_is_told_as_one_net_difference() {
    let server = full().stdio().await;
    let gateway = quick().toml("initial = \"never\"").server("one", &server).serve().await;
    let witness = gateway.client().modern().connect().await;
    let _stream = follow(&witness).await;
    let away = asking(gateway.client(), false).connect().await;
    let mut told = 0;
    let mut settle = async || {
        told += 1;
        witness.wait_for_method(&method("tools"), told).await;
    };
    for name in ["a", "b"] {
        add(&server, name);
        settle().await;
    }
    server.remove_tool("a");
    put(&server, described("b", "another"));
    settle().await;
    put(&server, described("echo", "another"));
    settle().await;
    let _stream = away.open_get().await;
    let notice = away.wait_for_method(&method("tools"), 1).await;
    let found = notice.params()["_meta"][KEY].clone();
    assert_eq!((&found["added"], &found["removed"]), (&json!(["b"]), &json!([])));
    assert_eq!(found["changed"][0]["name"], "echo");
    assert_eq!(away.count(&method("tools")), 1);
}

// S4.4; bridging 7
#[tokio::test]
async fn members_that_a_client_does_not_see_are_not_told() {
    let icon = |name: &str, src: &str, description: &str| {
        let icons = json!([{ "src": src }]);
        let tool = json!({"name": name, "description": description, "inputSchema": {"type": "object"}, "icons": icons});
        Tool::raw(&tool.to_string(), |call| async move { call.ok_text("") })
    };
    let server = full().entry_tool(icon("i", "https://a.example", "d")).entry_tool(icon("j", "https://a.example", "d"));
    let server = server.stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let old = asking(gateway.client().revision(V2025_06_18), false).connect().await;
    let _old = follow(&old).await;
    let new = asking(gateway.client(), true).connect().await;
    let _new = follow(&new).await;
    server.put_tool(icon("i", "https://b.example", "d"));
    put(&server, icon("j", "https://b.example", "e"));
    let changed = json!([{"name": "j", "fields": ["description"]}]);
    assert_eq!(summary(&old, "tools", 1).await["changed"], changed);
    let changed = json!([{"name": "i", "fields": ["icons"]}, {"name": "j", "fields": ["description", "icons"]}]);
    assert_eq!(summary(&new, "tools", 1).await["changed"], changed);
}

// S4.4
#[tokio::test]
async fn a_summary_is_bounded() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let client = asking(gateway.client(), true).connect().await;
    let _stream = follow(&client).await;
    server.set_tools((0..201).map(|i| Tool::text_tool(&format!("t{i:03}"), "new")).collect());
    server.list_changed("tools");
    let found = summary(&client, "tools", 1).await;
    assert_eq!(found["added"].as_array().unwrap().len(), 200);
    assert_eq!((&found["removed"], &found["truncated"]), (&json!(["echo"]), &json!(true)));
}

// S4.4
#[tokio::test]
async fn it_is_offered_to_those_who_ask_where_changes_are_told() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let (modern, legacy) = (json!({"extensions": {KEY: {}}}), json!({"experimental": {KEY: {}}}));
    let client = gateway.client().modern().capabilities(modern).connect().await;
    let discovered = client.request("server/discover", json!({})).await.result();
    assert_eq!(discovered["capabilities"]["extensions"], json!({KEY: {}}));
    let client = gateway.client().capabilities(legacy.clone()).connect().await;
    assert_eq!(client.initialize_result()["capabilities"]["experimental"], json!({KEY: {}}));
    let silent = gateway.client().revision(V2025_03_26).capabilities(legacy).connect().await;
    assert!(!silent.initialize_result().to_string().contains(KEY));
    // edges C9: it is nobody else's business.
    let other = gateway.client().modern().connect().await;
    assert!(!other.request("server/discover", json!({})).await.result().to_string().contains(KEY));
    assert!(!gateway.client().connect().await.initialize_result().to_string().contains(KEY));
}
