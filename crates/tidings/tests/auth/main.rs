//! Tokens through the real gateway: whoever may not use a server can not tell that it is there.
//!
//! That nothing is said of one server is shown by what is said of another, later.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod abandoned;
mod announcements;
mod built_ins;
mod coming;
mod doors;
mod introductions;
mod known_browsers;
mod limits;
mod login_command;
mod people_links;
mod people_logins;
mod policies;
mod policy_bypasses;
mod principals;
mod providers;
mod renewals;
mod ruled_skills;
mod scripted_provider;
mod sessions;
mod step_up;
mod subscriptions;
mod tls;
mod views;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tidings_testkit::{
    Client, ClientBuilder, Exchange, Gateway, GatewayBuilder, PendingExchange, Server, ServerBuilder, is_modern,
};

/// `[auth]` with a token `token-NAME` for each, and the servers it may use.
fn auth(tokens: &[(&str, &[&str], bool)]) -> String {
    let lines = tokens.iter().map(|(name, servers, admin)| {
        let hash = digest(&SHA256, format!("token-{name}").as_bytes());
        let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{{ name = {name:?}, sha256 = \"{hash}\", servers = {servers:?}, admin = {admin} }},\n")
    });
    format!("[auth]\ntokens = [\n{}]\n", lines.collect::<String>())
}

/// One who may use everything, and one each for the server `red` and for `blue`.
fn guarded() -> GatewayBuilder {
    quick(&auth(&[("all", &["*"], false), ("red", &["red"], false), ("blue", &["b*"], false), ("boss", &["*"], true)]))
}

/// The names in each of the four lists that a client sees.
async fn everything(client: &Client) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for kind in ["tools", "prompts", "resources", "templates"] {
        all.push(client.names(kind).await);
    }
    all
}

/// Short windows.
fn quick(toml: &str) -> GatewayBuilder {
    Gateway::builder().toml(toml).quick().toml("resource_quiet = \"20ms\"\nresource_max_wait = \"200ms\"")
}

/// A server with one of everything; its tool `own-NAME` has a name that no other server has.
fn full(name: &str) -> ServerBuilder {
    let own = name.to_owned();
    Server::builder(name)
        .echo("echo")
        .tool(&format!("own-{name}"), |call| async move { call.ok_text("done") })
        .prompt("greet", |call| async move { call.ok_message("hi") })
        .resource("file:///r", name)
        .template("file:///t/{x}", |uri| Some(uri.to_owned()))
        .completion(move |call| {
            let answer = call.ok(json!({"completion": {"values": [own], "total": 1}}));
            async move { answer }
        })
        .instructions(&format!("How to use {name}."))
}

/// A legacy server on a pipe and a modern one over HTTP, behind the tokens of [`guarded`].
async fn red_and_blue() -> (Server, Server, Gateway) {
    let red = full("red").stdio().await;
    let blue = full("blue").modern_only().http().await;
    let gateway = guarded().server("red", &red).server("blue", &blue).serve().await;
    (red, blue, gateway)
}

/// A client with the token of this name.
fn with_token(client: ClientBuilder, name: &str) -> ClientBuilder {
    client.header("authorization", &format!("Bearer token-{name}"))
}

/// A client of each era with a token.
async fn both_eras(gateway: &Gateway, token: &str) -> [Client; 2] {
    [with_token(gateway.client(), token).connect().await, with_token(gateway.client().modern(), token).connect().await]
}

fn notice(kind: &str) -> String {
    format!("notifications/{kind}/list_changed")
}

/// Follows all lists in the way of the client's era, and waits for what is said at the beginning.
async fn follow(client: &Client) -> PendingExchange {
    if is_modern(&client.revision()) {
        let flags = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
        let mut listen = client.start("subscriptions/listen", json!({ "notifications": flags }));
        listen.next_method("notifications/subscriptions/acknowledged").await;
        return listen;
    }
    let stream = client.open_get().await;
    for kind in ["tools", "prompts", "resources"] {
        client.wait_for_method(&notice(kind), 1).await;
    }
    stream
}

/// How often a client was told that this list changed, after the beginning.
fn told(client: &Client, kind: &str) -> usize {
    client.count(&notice(kind)) - usize::from(!is_modern(&client.revision()))
}

/// Waits for the `nth` notice of a list, after those of the beginning.
async fn hear(client: &Client, kind: &str, nth: usize) -> Value {
    let first = usize::from(!is_modern(&client.revision()));
    client.wait_for_method(&notice(kind), first + nth).await.params()
}

/// The error of an answer with one name put in the place of another, so that two can be compared.
fn error_about(answer: &Exchange, name: &str) -> String {
    answer.error().to_string().replace(name, "NAME")
}
