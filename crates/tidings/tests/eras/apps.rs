//! MCP Apps behind a gateway with several servers, in both eras: pages are found, read and shown by their tools, whichever
//! server has them, and whoever has none is left alone.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tidings_testkit::*;

const APPS: &str = "io.modelcontextprotocol/ui";
const VENDOR: &str = "com.example/y";
/// As a server writes them: two servers have the same.
const PAGE: &str = "ui://app/page?a=1#top";
const HIDDEN: &str = "ui://app/never/listed";

/// What the host of apps declares, and something that nobody else knows.
fn host() -> Value {
    json!({"extensions": {APPS: {"mimeTypes": ["text/html;profile=mcp-app"]}, VENDOR: {}}, "experimental": {"z": {}}})
}

/// A server with an app: a page that is listed, one that is not, and tools that show them in every way there is.
fn app(name: &'static str, mime: &str) -> ServerBuilder {
    let named = |name: &str, meta: Value| json!({"name": name, "inputSchema": {"type": "object"}, "_meta": meta});
    let page = json!({"uri": PAGE, "name": "page", "mimeType": "text/html;profile=mcp-app",
        "_meta": {"ui": {"csp": {"connectDomains": ["https://x.example"]}, "domain": "d"}}});
    Server::builder(name)
        .capabilities(json!({"tools": {}, "resources": {}, "prompts": {}, "extensions": {APPS: {"mimeTypes": [mime]}}}))
        .tool_def(named("show", json!({"ui": {"resourceUri": PAGE, "visibility": ["model", "app"]}})), move |call| async move {
            call.ok(json!({
                "content": [
                    {"type": "text", "text": format!("see {PAGE}")},
                    {"type": "resource", "resource": {"uri": PAGE, "text": "<p>"}},
                    {"type": "resource_link", "uri": HIDDEN, "name": "hidden"},
                ],
                "structuredContent": {"uri": PAGE, "told": call.client_capabilities()},
                "_meta": {"ui": {"resourceUri": HIDDEN}, "ui/resourceUri": HIDDEN, "mine": PAGE},
            }))
        })
        .tool_def(named("old", json!({"ui/resourceUri": HIDDEN})), |call| async move { call.ok_text("old") })
        .prompt("ask", |call| async move {
            call.ok(json!({"messages": [{"role": "user", "content": {"type": "resource", "resource": {"uri": PAGE, "text": ""}}}]}))
        })
        .entry_resource(Resource::raw(&page.to_string(), |call| async move { call.ok(json!({})) }))
        .on_raw("resources/read", move |call| async move {
            let uri = call.params()["uri"].clone();
            let html = format!("<script>{name} {PAGE}</script>");
            let contents = json!({"uri": uri, "text": html, "_meta": {"ui": {"csp": {"resourceDomains": []}}}});
            call.ok(json!({"contents": [contents], "ttlMs": 0, "cacheScope": "private"}))
        })
}

struct Setting {
    apps: [(&'static str, Server); 2],
    plain: Server,
    gateway: Gateway,
}

/// Two servers with apps and one without, of both eras: `modern_first` says of which the first is.
async fn setting(modern_first: bool) -> Setting {
    let (one, two) = (app("first", "text/html;profile=mcp-app"), app("second", "text/x-other"));
    let (one, two) = match modern_first {
        true => (one.modern_only().http().await, two.stdio().await),
        false => (one.http().await, two.modern_only().stdio().await),
    };
    let plain = Server::builder("third").echo("echo").resource("file:///x", "x");
    let plain = if modern_first { plain.stdio().await } else { plain.modern_only().http().await };
    let gateway = Gateway::builder().server("one", &one).server("two", &two).server("three", &plain).serve().await;
    Setting { apps: [("one", one), ("two", two)], plain, gateway }
}

async fn hosts(gateway: &Gateway) -> Vec<Client> {
    vec![
        gateway.client().capabilities(host()).connect().await,
        gateway.client().revision(V2025_06_18).capabilities(host()).connect().await,
        gateway.client().modern().capabilities(host()).connect().await,
        gateway.stdio().capabilities(host()).connect().await,
        gateway.stdio().modern().capabilities(host()).connect().await,
    ]
}

async fn told(client: &Client) -> Value {
    let hello = match client.revision().as_str() {
        V2026_07_28 => client.request("server/discover", json!({})).await.result(),
        _ => client.initialize_result(),
    };
    hello["capabilities"]["extensions"].clone()
}

async fn read(client: &Client, uri: &str) -> Value {
    client.request("resources/read", json!({"uri": uri})).await.result()["contents"][0].clone()
}

// reach 4; bridging A3
#[tokio::test]
async fn the_app_of_each_server_is_listed_read_and_called() {
    for modern_first in [true, false] {
        let setting = setting(modern_first).await;
        for client in hosts(&setting.gateway).await {
            let whole = json!({APPS: {"mimeTypes": ["text/html;profile=mcp-app", "text/x-other"]}});
            // On stdio the servers are still starting when the client is let in.
            assert!(told(&client).await.get(APPS).is_some());
            let (tools, pages) = (client.list("tools").await, client.list("resources").await);
            if client.revision() == V2026_07_28 {
                assert_eq!(told(&client).await, whole);
            }
            for (name, server) in &setting.apps {
                let (page, hidden) = (format!("ui://{name}/app/page?a=1#top"), format!("ui://{name}/app/never/listed"));
                let tool = |tool: &str| tools.iter().find(|item| item["name"] == format!("{name}__{tool}")).unwrap();
                let shown = json!({"ui": {"resourceUri": page, "visibility": ["model", "app"]}});
                assert_eq!(tool("show")["_meta"], shown);
                assert_eq!(tool("old")["_meta"], json!({"ui/resourceUri": hidden}));
                let listed = pages.iter().find(|item| item["uri"] == page).unwrap();
                let csp = json!({"ui": {"csp": {"connectDomains": ["https://x.example"]}, "domain": "d"}});
                assert_eq!((&listed["mimeType"], &listed["_meta"]), (&json!("text/html;profile=mcp-app"), &csp));

                // Read as it stands in the list, as it stands in a tool, and in the case of another program.
                let who = if *name == "one" { "first" } else { "second" };
                for (uri, local) in
                    [(page.clone(), PAGE), (hidden.clone(), HIDDEN), (page.replace(name, &name.to_uppercase()), PAGE)]
                {
                    let content = read(&client, &uri).await;
                    assert_eq!(content["text"], format!("<script>{who} {PAGE}</script>"), "the page is not touched");
                    assert_eq!(content["_meta"], json!({"ui": {"csp": {"resourceDomains": []}}}));
                    let asked = server.received().into_iter().rfind(|got| got.method == "resources/read").unwrap();
                    assert_eq!(asked.params()["uri"], local);
                    assert_eq!(content["uri"], uri.replace(&name.to_uppercase(), name));
                }

                let result = client.call_tool(&format!("{name}__show"), json!({})).await.result();
                let content = &result["content"];
                assert_eq!(content[0]["text"], format!("see {PAGE}"), "text is not touched");
                assert_eq!((&content[1]["resource"]["uri"], &content[2]["uri"]), (&json!(page), &json!(hidden)));
                assert_eq!(result["structuredContent"]["uri"], PAGE, "nor is structured content");
                let meta = &result["_meta"];
                assert_eq!((&meta["ui"]["resourceUri"], &meta["ui/resourceUri"]), (&json!(hidden), &json!(hidden)));
                assert_eq!(meta["mine"], PAGE, "nor is what the gateway does not know");
                let extensions = &result["structuredContent"]["told"]["extensions"];
                assert_eq!(extensions, &json!({APPS: host()["extensions"][APPS]}));
                let prompt = client.request("prompts/get", json!({"name": format!("{name}__ask")})).await.result();
                assert_eq!(prompt["messages"][0]["content"]["resource"]["uri"], page);
            }
        }
    }
}

// reach 4
#[tokio::test]
async fn a_server_without_extensions_is_unaffected() {
    for modern_first in [true, false] {
        let setting = setting(modern_first).await;
        for client in hosts(&setting.gateway).await {
            let tools = client.list("tools").await;
            let echo = tools.iter().find(|tool| tool["name"] == "three__echo").unwrap();
            assert_eq!(echo.get("_meta"), None);
            client.call_tool("three__echo", json!({"text": "x"})).await.result();
            assert_eq!(read(&client, "three+file:///x").await["uri"], "three+file:///x");
            // A page of its own it has none, listed or not; the others are not asked.
            let before: Vec<usize> = setting.apps.iter().map(|(_, server)| server.count("resources/read")).collect();
            for uri in ["ui://three/none", PAGE] {
                let code = client.request("resources/read", json!({"uri": uri})).await.error_code();
                assert!([-32002, -32602].contains(&code), "{uri}: {code}");
            }
            let after: Vec<usize> = setting.apps.iter().map(|(_, server)| server.count("resources/read")).collect();
            assert_eq!(before, after);
        }
        for got in setting.plain.received() {
            let said = got.value().to_string();
            assert!(!said.contains(VENDOR) && !said.contains("experimental"), "{said}");
            assert!(!said.contains("ui://app"), "{said}");
        }
    }
}

// reach 4; bridging A3: capabilities of the old era are frozen, so what is asked for while servers start is promised.
#[tokio::test]
async fn a_host_that_is_let_in_before_the_servers_is_told_of_apps_if_it_asks() {
    let gate = Gate::new();
    let (one, two) = (app("first", "a").hold("initialize", &gate).stdio().await, Server::builder("two").stdio().await);
    let gateway = Gateway::builder().server("one", &one).server("two", &two).without_waiting().serve().await;
    one.wait_for_method("initialize", 1).await;
    let host = gateway.client().capabilities(host()).connect().await;
    assert_eq!(told(&host).await, json!({APPS: {"mimeTypes": ["text/html;profile=mcp-app"]}}));
    assert_eq!(told(&gateway.client().connect().await).await, Value::Null, "it does not know what that is");
    gate.open();
    assert!(host.names("tools").await.contains(&"one__show".to_owned()));
    for (revision, knows) in [(V2024_11_05, false), (V2025_03_26, false), (V2025_06_18, true), (V2025_11_25, true)] {
        let later = gateway.client().revision(revision).connect().await;
        let expected = if knows { json!({APPS: {"mimeTypes": ["a"]}}) } else { Value::Null };
        assert_eq!(told(&later).await, expected, "{revision}");
    }
}

// reach 4: alone, a server of the other era is carried as far as the gateway knows the extension.
#[tokio::test]
async fn apps_of_the_only_server_cross_the_eras() {
    for (server, modern) in
        [(app("first", "a").stdio().await, false), (app("first", "a").modern_only().stdio().await, true)]
    {
        let gateway = Gateway::builder().server("one", &server).serve().await;
        for client in hosts(&gateway).await {
            let said = told(&client).await;
            assert_eq!(said, json!({APPS: {"mimeTypes": ["a"]}}));
            let tool = client.list("tools").await.into_iter().find(|tool| tool["name"] == "show").unwrap();
            assert_eq!(tool["_meta"]["ui"]["resourceUri"], PAGE, "alone, it is as the server says");
            assert_eq!(read(&client, HIDDEN).await["uri"], HIDDEN);
            let result = client.call_tool("show", json!({})).await.result();
            let told = &result["structuredContent"]["told"]["extensions"];
            assert_eq!(told[APPS], host()["extensions"][APPS]);
            // Of one era, what they agree on is theirs; also a pipe with one client on both sides.
            let theirs = modern == (client.revision() == V2026_07_28) && (modern || !client.is_on_http());
            assert_eq!(told.get(VENDOR).is_some(), theirs, "{} {modern}", client.revision());
        }
    }
}
