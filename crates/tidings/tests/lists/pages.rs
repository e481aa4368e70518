//! Pages: ours to clients, and those of servers.

use std::time::Duration;

use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, Server, ServerBuilder, within};

fn with_items(name: &str, count: usize) -> ServerBuilder {
    (0..count).fold(Server::builder(name), |server, i| {
        server
            .echo(&format!("t{i}"))
            .resource(&format!("file:///{i}"), "x")
            .template(&format!("x{i}:///{{v}}"), |_| None)
            .prompt(&format!("p{i}"), |call| async move { call.ok_message("hi") })
    })
}

const METHODS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
    ("prompts/list", "prompts"),
];

/// The sizes of all pages, and all items.
async fn walk(client: &Client, method: &str, member: &str) -> (Vec<usize>, Vec<Value>) {
    let (mut sizes, mut items, mut params) = (Vec::new(), Vec::new(), json!({}));
    loop {
        let page = client.request(method, params).await.result();
        let found = page[member].as_array().cloned().unwrap_or_default();
        sizes.push(found.len());
        items.extend(found);
        match page.get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return (sizes, items),
        }
    }
}

// bridging A3 (cursor)
#[tokio::test]
async fn pages_cover_a_merged_list_exactly_once() {
    let one = with_items("one", 3).page_size(2).stdio().await;
    let two = with_items("two", 4).modern_only().page_size(1).http().await;
    let whole = Gateway::builder().server("one", &one).server("two", &two).serve().await;
    let small = "[gateway]\npage_size = 2";
    let paged = Gateway::builder().toml(small).server("one", &one).server("two", &two).serve().await;
    for modern in [false, true] {
        let client = |gateway: &Gateway| if modern { gateway.client().modern() } else { gateway.client() };
        let (whole, paged) = (client(&whole).connect().await, client(&paged).connect().await);
        for (method, member) in METHODS {
            let (sizes, all) = walk(&whole, method, member).await;
            assert_eq!(sizes, [7], "{method}");
            assert_eq!(walk(&paged, method, member).await, (vec![2, 2, 2, 1], all), "{method}");
        }
    }
}

// bridging A3 (cursor)
#[tokio::test]
async fn a_cursor_that_is_not_ours_or_of_another_list_is_refused() {
    let server = with_items("one", 3).stdio().await;
    let gateway = Gateway::builder().toml("[gateway]\npage_size = 1").server("one", &server).serve().await;
    let legacy = gateway.client().connect().await;
    let modern = gateway.client().modern().connect().await;
    let cursor = legacy.request("tools/list", json!({})).await.result()["nextCursor"].clone();
    assert!(legacy.request("tools/list", json!({ "cursor": cursor })).await.result()["tools"].is_array());
    let mut tampered = cursor.as_str().unwrap_or_default().to_owned();
    tampered.insert(tampered.len() / 2, 'x');
    for wrong in [json!(""), json!("from-1"), json!(7), json!(null), json!(tampered)] {
        for client in [&legacy, &modern] {
            for (method, _) in METHODS {
                let reply = client.request(method, json!({ "cursor": wrong })).await;
                assert_eq!((reply.status, reply.error_code()), (200, -32602), "{method} with {wrong}");
            }
        }
    }
    assert_eq!(legacy.request("prompts/list", json!({ "cursor": cursor })).await.error_code(), -32602);
    assert_eq!(modern.request("tools/list", json!({ "cursor": cursor })).await.error_code(), -32602);
}

/// A modern server whose lists everybody may share.
fn public(name: &str, tools: &[&str]) -> ServerBuilder {
    let tools: Vec<Value> = tools.iter().map(|tool| json!({"name": tool, "inputSchema": {"type": "object"}})).collect();
    Server::builder(name).modern_only().on_raw("tools/list", move |call| {
        let answer = call.ok(json!({"tools": tools, "ttlMs": 60_000, "cacheScope": "public"}));
        async move { answer }
    })
}

// bridging 43
#[tokio::test]
async fn the_next_page_is_valid_when_a_server_is_gone_and_has_the_same_scope() {
    let one = public("one", &["a", "b"]).stdio().await;
    let two = public("two", &["c", "d"]).stdio().await;
    let gateway =
        Gateway::builder().toml("[gateway]\npage_size = 1").server("one", &one).server("two", &two).serve().await;
    let client = gateway.client().modern().connect().await;
    let first = client.request("tools/list", json!({})).await.result();
    assert_eq!((&first["tools"][0]["name"], &first["cacheScope"]), (&json!("one__a"), &json!("public")));
    assert!(first["ttlMs"].as_u64().is_some_and(|ttl| ttl > 0), "{first}");
    one.kill().await;
    within("the list to be stale", async {
        while client.request("tools/list", json!({})).await.result()["ttlMs"] != 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let (mut page, mut rest) = (first, Vec::new());
    while let Some(cursor) = page.get("nextCursor") {
        page = client.request("tools/list", json!({ "cursor": cursor })).await.result();
        assert_eq!(page["cacheScope"], "public", "{page}");
        assert_eq!(page["ttlMs"], 0, "not for later use: {page}");
        rest.push(page["tools"][0]["name"].clone());
    }
    assert_eq!(rest, ["one__b", "two__c", "two__d"], "its last lists are served on");
}

// bridging A3 (caching)
#[tokio::test]
async fn a_list_is_as_fresh_and_as_public_as_its_least_server() {
    let (shared, own) = (public("shared", &["a"]).http().await, with_items("own", 1).stdio().await);
    let alone = Gateway::builder().server("shared", &shared).serve().await;
    let both = Gateway::builder().server("shared", &shared).server("own", &own).serve().await;
    let hints = |page: Value| (page["ttlMs"].clone(), page["cacheScope"].clone());
    let modern = alone.client().modern().connect().await;
    let (ttl, scope) = hints(modern.request("tools/list", json!({})).await.result());
    assert!(ttl.as_u64().is_some_and(|ttl| ttl > 0 && ttl <= 60_000) && scope == "public", "{ttl} {scope}");
    let modern = both.client().modern().connect().await;
    let page = modern.request("tools/list", json!({})).await.result();
    assert_eq!(hints(page), (json!(0), json!("private")), "a legacy server says nothing, which means this");
    let legacy = both.client().connect().await;
    let page = legacy.request("tools/list", json!({})).await.result();
    assert!(["resultType", "ttlMs", "cacheScope"].iter().all(|name| page.get(name).is_none()), "{page}");
}

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

// bridging A3 (cursor)
#[tokio::test]
async fn an_empty_cursor_of_a_server_is_a_cursor() {
    let server = Server::builder("one")
        .on_raw("tools/list", |call| async move {
            match call.params()["cursor"].as_str() {
                None => call.ok(json!({"tools": [tool("a")], "nextCursor": ""})),
                Some("") => call.ok(json!({"tools": [tool("b")], "nextCursor": "last"})),
                Some(_) => call.ok(json!({"tools": [tool("c")]})),
            }
        })
        .stdio()
        .await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    assert_eq!(gateway.client().connect().await.names("tools").await, ["a", "b", "c"]);
    let cursors: Vec<_> = server.received().iter().filter(|r| r.method == "tools/list").map(|r| r.params()).collect();
    assert_eq!(cursors, [json!({}), json!({"cursor": ""}), json!({"cursor": "last"})]);
}

// bridging A3 (cursor)
#[tokio::test]
async fn a_server_that_pages_in_circles_costs_only_that_list() {
    let circle =
        |call: tidings_testkit::ScriptedCall| async move { call.ok(json!({"tools": [tool("a")], "nextCursor": "x"})) };
    let server = Server::builder("one").on_raw("tools/list", circle).resource("file:///r", "r").stdio().await;
    let other = with_items("two", 1).stdio().await;
    let gateway = Gateway::builder().server("one", &server).server("two", &other).serve().await;
    let client = gateway.client().connect().await;
    assert_eq!(client.names("tools").await, ["two__t0"]);
    assert_eq!(client.names("resources").await, ["one+file:///r", "two+file:///0"]);
    assert!(server.count("tools/list") <= 3, "it is noticed soon");
}

// reach 2
#[tokio::test]
async fn clients_that_read_one_page_get_everything_on_it() {
    let server = with_items("one", 5).stdio().await;
    for (name, expected) in [
        ("gemini-cli-mcp-client", vec![5]),
        ("Zed", vec![5]),
        // Older ones read the first page only, and one page does no harm to those that read on.
        ("codex-mcp-client", vec![5]),
        ("opencode", vec![2, 2, 1]),
        ("nobody-knows-it", vec![2, 2, 1]),
    ] {
        let gateway = Gateway::builder().toml("[gateway]\npage_size = 2").server("one", &server);
        let client = gateway.stdio().raw().connect().await;
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": name, "version": "1.0.0"},
        });
        client.request("initialize", hello).await.result();
        client.notify("notifications/initialized", json!({})).await;
        for (method, member) in METHODS {
            assert_eq!(walk(&client, method, member).await.0, expected, "{name}: {method}");
        }
    }
}
