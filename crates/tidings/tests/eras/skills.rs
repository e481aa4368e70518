//! Skills behind a gateway: with one server and with several, in both eras, every skill is found, got and read, and nothing of it is
//! changed but its URIs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tidings_testkit::*;

const SKILLS: &str = "io.modelcontextprotocol/skills";
/// As servers write them: all have the same.
const GIT: &str = "skill://git/SKILL.md";
const RULES: &str = "skill://git/references/rules.md";
const DAILY: &str = "skill://reports/daily/SKILL.md";
/// In no list.
const HIDDEN: &str = "skill://acme/hidden/SKILL.md";

fn entry(uri: &str) -> Option<Value> {
    let digest = format!("sha256:{}", "0".repeat(64));
    Some(match uri {
        GIT => json!({
            "uri": GIT,
            "frontmatter": {"name": "git", "description": format!("see {RULES}"), "x": 1.50},
            "resources": [{"uri": GIT, "digest": digest, "size": 5}, {"uri": RULES, "digest": digest, "size": 7}],
        }),
        DAILY => {
            json!({"uri": DAILY, "frontmatter": {"name": "daily", "description": "d"}, "resources": "dynamic"})
        }
        HIDDEN => {
            json!({"uri": HIDDEN, "frontmatter": {"name": "hidden", "description": "h"}, "resources": "dynamic"})
        }
        _ => return None,
    })
}

/// The same in the words of the gateway.
fn shown(server: &str, uri: &str) -> Value {
    let mut entry = entry(uri).unwrap();
    let prefix = |uri: &mut Value| *uri = format!("{server}+{}", uri.as_str().unwrap()).into();
    prefix(&mut entry["uri"]);
    entry["resources"].as_array_mut().into_iter().flatten().for_each(|file| prefix(&mut file["uri"]));
    entry
}

/// What modern answers have beside what they are about.
fn whole(call: &ScriptedCall, mut result: Value) -> ScriptedAnswer {
    if call.is_modern() {
        result["ttlMs"] = 300_000.into();
        result["cacheScope"] = "public".into();
    }
    call.ok(result)
}

/// A server whose list of skills has two pages: the cursor of the second is the empty text.
fn skilled(name: &'static str, settings: &Value) -> ServerBuilder {
    Server::builder(name)
        .capabilities(json!({"tools": {}, "resources": {}, "extensions": {SKILLS: settings}}))
        .echo("echo")
        .resource(GIT, "git")
        .on_raw("resources/read", move |call| async move {
            let uri = call.params()["uri"].clone();
            whole(&call, json!({"contents": [{"uri": uri, "text": format!("{name} has {GIT}")}]}))
        })
        .on_raw("skills/list", |call| async move {
            match call.params().get("cursor") {
                None => whole(&call, json!({"skills": [entry(GIT)], "nextCursor": ""})),
                Some(cursor) if cursor == "" => whole(&call, json!({"skills": [entry(DAILY)]})),
                Some(_) => call.error(-32602, "not my cursor", None),
            }
        })
        .on_raw("skills/get", |call| async move {
            match entry(call.params()["uri"].as_str().unwrap()) {
                Some(entry) => whole(&call, json!({"skill": entry})),
                None => call.error(-32602, "no such skill", None),
            }
        })
        .on_raw("resources/directory/read", |call| async move {
            let at = call.params()["uri"].clone();
            let children =
                json!([{"uri": RULES, "name": "rules.md"}, {"uri": "skill://git/references/more", "name": "more"}]);
            match (at.as_str(), call.params()["cursor"].as_str()) {
                (Some("skill://git/references"), None) => {
                    call.ok(json!({"resources": [children[0]], "nextCursor": "c"}))
                }
                (Some("skill://git/references"), Some("c")) => call.ok(json!({"resources": [children[1]]})),
                _ => call.error(-32602, "no folder", None),
            }
        })
}

async fn clients(gateway: &Gateway) -> Vec<Client> {
    let host = json!({"extensions": {SKILLS: {}}});
    vec![
        gateway.client().connect().await,
        gateway.client().modern().capabilities(host.clone()).connect().await,
        gateway.stdio().capabilities(host).connect().await,
        gateway.stdio().modern().connect().await,
    ]
}

fn is_modern(client: &Client) -> bool {
    client.revision() == V2026_07_28
}

async fn told(client: &Client) -> Value {
    let hello = match is_modern(client) {
        true => client.request("server/discover", json!({})).await.result(),
        false => client.initialize_result(),
    };
    hello["capabilities"]["extensions"][SKILLS].clone()
}

/// Every page of the list, as results.
async fn pages(client: &Client) -> Vec<Value> {
    let mut pages: Vec<Value> = Vec::new();
    let mut params = json!({});
    loop {
        pages.push(client.request("skills/list", params.clone()).await.result());
        match pages.last().unwrap().get("nextCursor") {
            None => return pages,
            Some(cursor) => params["cursor"] = cursor.clone(),
        }
        assert!(pages.len() < 20, "it comes to no end: {pages:?}");
    }
}

fn skills(pages: &[Value]) -> Vec<Value> {
    pages.iter().flat_map(|page| page["skills"].as_array().unwrap().clone()).collect()
}

// reach 4
#[tokio::test]
async fn the_skills_of_several_servers_are_listed_got_and_read() {
    for modern_first in [true, false] {
        let (one, two) = (skilled("first", &json!({"directoryRead": true})), skilled("second", &json!({})));
        let (one, two) = match modern_first {
            true => (one.modern_only().http().await, two.stdio().await),
            false => (one.http().await, two.modern_only().stdio().await),
        };
        let plain = Server::builder("third").echo("echo").stdio().await;
        let gateway = Gateway::builder().server("one", &one).server("two", &two).server("three", &plain);
        let gateway = gateway.serve().await;
        for client in clients(&gateway).await {
            if client.is_on_http() || is_modern(&client) {
                assert_eq!(told(&client).await, json!({"directoryRead": true}));
            } else {
                // Let in while the servers start, and told because it asks.
                assert!(told(&client).await.is_object());
            }
            let before = [one.count("skills/list"), two.count("skills/list")];
            let pages = pages(&client).await;
            let all = [shown("one", GIT), shown("one", DAILY), shown("two", GIT), shown("two", DAILY)];
            assert_eq!(skills(&pages), all, "in the order of the servers, each entry as it is");
            assert_eq!([one.count("skills/list"), two.count("skills/list")], [before[0] + 2, before[1] + 2]);
            for page in &pages {
                let hints = [page.get("resultType"), page.get("ttlMs"), page.get("cacheScope")];
                let expected = [json!("complete"), json!(0), json!("private")];
                // None of the servers can say how long the whole is good.
                assert_eq!(hints, expected.each_ref().map(|hint| is_modern(&client).then_some(hint)), "{page}");
            }
            for (name, who, server) in [("one", "first", &one), ("two", "second", &two)] {
                for uri in [GIT, DAILY, HIDDEN] {
                    let got = client.request("skills/get", json!({"uri": format!("{name}+{uri}")})).await.result();
                    assert_eq!(got["skill"], shown(name, uri));
                    assert_eq!(got.get("cacheScope").is_some(), is_modern(&client), "{got}");
                    let asked = server.received().into_iter().rfind(|got| got.method == "skills/get").unwrap();
                    assert_eq!(asked.params()["uri"], uri);
                }
                let read = client.request("resources/read", json!({"uri": format!("{name}+{RULES}")})).await.result();
                let content = &read["contents"][0];
                assert_eq!(content["uri"], format!("{name}+{RULES}"));
                assert_eq!(content["text"], format!("{who} has {GIT}"), "digests are over these bytes");
                let unknown = client.request("skills/get", json!({"uri": format!("{name}+skill://no/SKILL.md")})).await;
                assert_eq!(unknown.error_code(), -32602);
            }
            let folder = json!({"uri": "one+skill://git/references"});
            let first = client.request("resources/directory/read", folder.clone()).await.result();
            assert_eq!(first["resources"], json!([{"uri": format!("one+{RULES}"), "name": "rules.md"}]));
            let more = json!({"uri": folder["uri"], "cursor": first["nextCursor"]});
            let last = client.request("resources/directory/read", more).await.result();
            assert_eq!(last["resources"][0]["uri"], "one+skill://git/references/more");
            assert_eq!(last.get("nextCursor"), None);
            let file = json!({"uri": format!("one+{RULES}")});
            assert_eq!(client.request("resources/directory/read", file).await.error_code(), -32602);
            // Who does not say that it has folders is not asked for them.
            let other = json!({"uri": "two+skill://git/references"});
            assert_eq!(client.request("resources/directory/read", other).await.error_code(), -32601);
            for (uri, code) in [(GIT, -32602), ("three+skill://git/SKILL.md", -32602), ("", -32602)] {
                assert_eq!(client.request("skills/get", json!({"uri": uri})).await.error_code(), code, "{uri}");
            }
            for cursor in ["", "after:x", "c1.AAAA"] {
                let refused = client.request("skills/list", json!({"cursor": cursor})).await;
                assert_eq!(refused.error_code(), -32602, "{cursor}");
            }
        }
        assert_eq!(two.count("resources/directory/read"), 0);
        for method in ["skills/list", "skills/get", "resources/directory/read"] {
            assert_eq!(plain.count(method), 0, "{method}");
        }
    }
}

// reach 4: alone, a server speaks for itself to clients of its era; into the other one skills are carried.
#[tokio::test]
async fn the_skills_of_the_only_server_pass_as_they_are() {
    let settings = json!({"directoryRead": true, "x": [1]});
    for modern in [true, false] {
        let server = skilled("first", &settings);
        let server = if modern { server.modern_only().http().await } else { server.stdio().await };
        let gateway = Gateway::builder().server("one", &server).serve().await;
        for client in clients(&gateway).await {
            let same = is_modern(&client) == modern;
            assert_eq!(told(&client).await, if same { settings.clone() } else { json!({"directoryRead": true}) });
            let pages = pages(&client).await;
            assert_eq!(skills(&pages), [entry(GIT).unwrap(), entry(DAILY).unwrap()]);
            assert_eq!(pages[0]["nextCursor"], "", "its own");
            // A server of the old era says nothing of how long it is good.
            let good = is_modern(&client).then(|| if modern { json!(300_000) } else { json!(0) });
            assert_eq!(pages[0].get("ttlMs"), good.as_ref());
            let got = client.request("skills/get", json!({"uri": HIDDEN})).await.result();
            assert_eq!(got["skill"], entry(HIDDEN).unwrap());
            assert_eq!(client.request("skills/get", json!({"uri": "skill://no/SKILL.md"})).await.error_code(), -32602);
            let folder = json!({"uri": "skill://git/references"});
            let children = client.request("resources/directory/read", folder).await.result();
            assert_eq!((&children["resources"][0]["uri"], &children["nextCursor"]), (&json!(RULES), &json!("c")));
        }
    }
}

// reach 4: a server of both eras may have skills in one of them only.
#[tokio::test]
async fn skills_are_asked_for_where_they_were_declared() {
    let both = skilled("first", &json!({})).modern().on_raw("skills/list", |call| async move {
        match call.is_modern() {
            true => whole(&call, json!({"skills": [entry(GIT)]})),
            false => call.error(-32601, "not in this era", None),
        }
    });
    let (both, plain) = (both.http().await, Server::builder("two").echo("echo").stdio().await);
    let gateway = Gateway::builder().server("one", &both).server("two", &plain).serve().await;
    for client in clients(&gateway).await {
        // Makes the link of the client's own era.
        client.call_tool("one__echo", json!({"text": "x"})).await.result();
        assert_eq!(skills(&pages(&client).await), [shown("one", GIT)]);
    }
}

// reach 4: what one server has does not depend on another.
#[tokio::test]
async fn a_server_that_does_not_answer_is_passed_over() {
    let broken =
        || skilled("first", &json!({})).on_raw("skills/list", |call| async move { call.error(-32000, "x", None) });
    let silent = || skilled("second", &json!({})).silent_on("skills/list");
    let (broken, silent) = (broken().stdio().await, silent().modern_only().http().await);
    let (good, plain) =
        (skilled("third", &json!({})).stdio().await, Server::builder("four").echo("echo").stdio().await);
    let quick = "timeout = \"300ms\"";
    let gateway = Gateway::builder().server("one", &broken).server_with("two", &silent, quick).server("three", &good);
    let gateway = gateway.serve().await;
    for client in clients(&gateway).await {
        let pages = pages(&client).await;
        assert_eq!(skills(&pages), [shown("three", GIT), shown("three", DAILY)], "{pages:?}");
    }
    // Whoever has all of the list speaks for itself.
    let gateway = Gateway::builder().server("one", &broken).server("four", &plain).serve().await;
    for client in clients(&gateway).await {
        assert_eq!(client.request("skills/list", json!({})).await.error_code(), -32000);
    }
}

// reach 4; bridging A3
#[tokio::test]
async fn without_skills_there_are_none() {
    let gate = Gate::new();
    let one = Server::builder("first").echo("echo").hold("initialize", &gate).stdio().await;
    let two = Server::builder("second").echo("echo").modern_only().http().await;
    let gateway = Gateway::builder().server("one", &one).server("two", &two).without_waiting().serve().await;
    one.wait_for_method("initialize", 1).await;
    // It asks while nobody knows whether there are some: it could not be told later.
    let host = gateway.client().capabilities(json!({"extensions": {SKILLS: {}}})).connect().await;
    assert_eq!(told(&host).await, json!({}));
    let other = gateway.client().connect().await;
    assert_eq!(told(&other).await, Value::Null);
    gate.open();
    assert_eq!(host.request("skills/list", json!({})).await.result(), json!({"skills": []}));
    for client in [other, gateway.client().modern().connect().await] {
        assert_eq!(told(&client).await, Value::Null);
        let refused = client.request("skills/list", json!({})).await.response().error();
        assert_eq!(refused["code"], -32601, "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("no server declares skills"), "{refused}");
    }
    assert_eq!((one.count("skills/list"), two.count("skills/list")), (0, 0));
}
