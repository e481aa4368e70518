//! Whatever is inside a message crosses the gateway byte for byte, in every pair of eras: only the members that belong
//! to the gateway change (ids, progress tokens, names, the protocol's own `_meta` keys, `resultType` and its company).
//!
//! Line breaks between tokens count as blanks, since stdio and event streams have no place for them.

mod generate;
mod listed;
mod split;

use std::sync::{Arc, Mutex, PoisonError};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use tidings_testkit::{Client, Gateway, MODERN, ScriptedAnswer, Server, ServerBuilder};

use generate::{Case, case};
use split::members;

/// What the mirror says next: messages before its answer, and the answer with a hole for the id.
#[derive(Clone, Default)]
struct Lines {
    before: Vec<String>,
    answer: String,
}

type Prompter = Arc<Mutex<Lines>>;

const ID: &str = "@ID@";
const TOKEN: &str = "@TOKEN@";

fn mirror(name: &str, prompter: &Prompter) -> ServerBuilder {
    let prompter = Arc::clone(prompter);
    Server::builder(name).tool("mirror", move |call| {
        let lines = prompter.lock().unwrap_or_else(PoisonError::into_inner).clone();
        async move {
            let token = call.received().param_raw(&["_meta", "progressToken"]);
            for line in &lines.before {
                call.notify_raw(line.replace(TOKEN, &token));
            }
            ScriptedAnswer::Raw(lines.answer.replace(ID, call.id().as_str()).into())
        }
    })
}

/// One way through a gateway.
struct Way<'a> {
    label: String,
    client: &'a Client,
    server: &'a Server,
    modern_client: bool,
    modern_server: bool,
    tool: &'static str,
}

fn flat(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// The members of `_meta` that a client of this era sends.
fn meta(case: &Case, modern: bool, token: &str) -> String {
    let Case { space, value, .. } = case;
    let own = format!(r#"{space}"com.example/trace":{space}{value}{space},"progressToken"{space}:{token}"#);
    if !modern {
        return format!("{{{own}}}");
    }
    let version = format!(r#""io.modelcontextprotocol/protocolVersion":{space}"{MODERN}""#);
    let rest = r#""io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}"#;
    format!("{{{version},{own},{rest}}}")
}

/// A call, around its `_meta`.
fn call(case: &Case, id: &str, tool: &str) -> (String, String) {
    let Case { space, string, value, object, .. } = case;
    let head = format!(
        r#"{{{space}"method":"tools/call",{space}"id":{id}{space},"params":{space}{{"arguments":{object},"unknown":{value}{space},"name":{space}"{tool}","_meta":"#
    );
    (head, format!(r#"{space},{string}:{value}}}{space},"jsonrpc":"2.0","extra":{value}}}"#))
}

/// The notifications that precede an answer.
fn notices(case: &Case, token: &str) -> Vec<String> {
    if !case.streamed {
        return Vec::new();
    }
    let Case { space, value, object, .. } = case;
    vec![
        format!(r#"{{"params":{space}{{"odd":{object}}},{space}"method":"notifications/vendor/odd","jsonrpc":"2.0"}}"#),
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"unknown":{value},"progress":1{space},"progressToken":{token}}}}}"#
        ),
    ]
}

/// A result as a server of this era gives it.
fn result(case: &Case, modern: bool) -> String {
    let Case { space, string, value, object, .. } = case;
    let era = if modern { r#""resultType":"complete","ttlMs":5,"cacheScope":"private","# } else { "" };
    format!(
        r#"{{{space}"structuredContent":{object},{era}{space}"content":[{{"type":"text","text":{string},"unknown":{value}}}]{space},"unknown":{value},"_meta":{{"com.example/r":{value}}}}}"#
    )
}

fn answer(case: &Case, id: &str, result: &str) -> String {
    let space = &case.space;
    format!(r#"{{{space}"result":{space}{result},"id":{space}{id}{space},"jsonrpc":"2.0"}}"#)
}

fn failure(case: &Case, id: &str) -> String {
    let Case { space, string, value, .. } = case;
    format!(
        r#"{{"id":{id},{space}"error":{{"message":{string},"data":{value}{space},"code":-32050}},"jsonrpc":{space}"2.0"}}"#
    )
}

async fn travel(way: &Way<'_>, case: &Case, prompter: &Prompter, fails: bool) -> Result<(), TestCaseError> {
    let spoken = if fails { failure(case, ID) } else { answer(case, ID, &result(case, way.modern_server)) };
    *prompter.lock().unwrap_or_else(PoisonError::into_inner) = Lines { before: notices(case, TOKEN), answer: spoken };
    let id = r#""c\u00e9""#;
    let (head, tail) = call(case, id, way.tool);
    let body = format!("{head}{}{tail}", meta(case, way.modern_client, &case.token));
    let place = way.server.record().len();
    let mut headers = vec![("mcp-method", "tools/call"), ("mcp-name", way.tool)];
    headers.retain(|_| way.modern_client);
    let exchange = way.client.post_raw(body, &headers).await;

    let seen = way.server.record().since(place);
    let seen = seen.iter().find(|r| r.method == "tools/call");
    let Some(seen) = seen else { return Err(TestCaseError::fail(format!("{}: no call: {exchange:?}", way.label))) };
    let minted = seen.id.as_ref().map(|id| id.as_str().to_owned()).unwrap_or_default();
    let (head, tail) = call(case, &minted, "mirror");
    let (head, tail, text) = (flat(&head), flat(&tail), flat(seen.text()));
    if way.modern_client == way.modern_server {
        let meta = flat(&meta(case, way.modern_server, &minted));
        prop_assert_eq!(&text, &format!("{head}{meta}{tail}"), "{}: request", way.label);
    } else {
        let inner = text.strip_prefix(&head).and_then(|rest| rest.strip_suffix(&tail));
        prop_assert!(inner.is_some(), "{}: request {text}\nhead {head}\ntail {tail}", way.label);
        let mut kept = members(inner.unwrap_or_default());
        kept.retain(|(key, _)| !key.starts_with("\"io.modelcontextprotocol/"));
        prop_assert_eq!(kept, members(&flat(&meta(case, false, &minted))), "{}: _meta", way.label);
    }

    let before: Vec<String> = exchange.before.iter().map(|message| message.text().to_owned()).collect();
    let expected: Vec<String> = notices(case, &case.token).iter().map(|text| flat(text)).collect();
    prop_assert_eq!(before, expected, "{}: notifications", way.label);

    let text = flat(exchange.response().text());
    if fails {
        prop_assert_eq!(text, flat(&failure(case, id)), "{}: error", way.label);
    } else if way.modern_client == way.modern_server {
        prop_assert_eq!(text, flat(&answer(case, id, &result(case, way.modern_server))), "{}: result", way.label);
    } else {
        let envelope = flat(&answer(case, id, ID));
        let (head, tail) = envelope.split_once(ID).unwrap_or_default();
        let inner = text.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail));
        prop_assert!(inner.is_some(), "{}: answer {text}", way.label);
        let mut kept = members(inner.unwrap_or_default());
        let marked = kept.iter().any(|member| member == &(r#""resultType""#.into(), r#""complete""#.into()));
        prop_assert_eq!(marked, way.modern_client, "{}: resultType", way.label);
        kept.retain(|(key, _)| key != r#""resultType""#);
        prop_assert_eq!(kept, members(&flat(&result(case, false))), "{}: result", way.label);
    }
    Ok(())
}

/// A gateway with a legacy and a modern client.
struct Post {
    _gateway: Gateway,
    legacy: Client,
    modern: Client,
}

impl Post {
    async fn new(servers: &[(&str, &Server)]) -> Self {
        let builder = servers.iter().fold(Gateway::builder(), |builder, (name, server)| builder.server(name, server));
        let gateway = builder.serve().await;
        let legacy = gateway.client().capabilities(json!({})).connect().await;
        let modern = gateway.client().modern().connect().await;
        Self { _gateway: gateway, legacy, modern }
    }

    fn ways<'a>(&'a self, label: &str, server: &'a Server, modern_server: bool, tool: &'static str) -> [Way<'a>; 2] {
        [(&self.legacy, false), (&self.modern, true)].map(|(client, modern_client)| {
            let era = |modern: bool| if modern { "modern" } else { "legacy" };
            let label = format!("{label}, {} to {}", era(modern_client), era(modern_server));
            Way { label, client, server, modern_client, modern_server, tool }
        })
    }
}

// S2.4, S2.7, bridging A3
#[test]
fn any_json_crosses_byte_for_byte_in_every_pair_of_eras() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let prompter = Prompter::default();
    let (servers, posts) = runtime.block_on(async {
        let old_alone = mirror("old-alone", &prompter).stdio().await;
        let new_alone = mirror("new-alone", &prompter).modern_only().http().await;
        let old = mirror("old", &prompter).http().await;
        let new = mirror("new", &prompter).modern_only().stdio().await;
        let posts = [
            Post::new(&[("old", &old_alone)]).await,
            Post::new(&[("new", &new_alone)]).await,
            Post::new(&[("old", &old), ("new", &new)]).await,
        ];
        ([old_alone, new_alone, old, new], posts)
    });
    let [old_alone, new_alone, old, new] = &servers;
    let mut ways = Vec::new();
    ways.extend(posts[0].ways("alone", old_alone, false, "mirror"));
    ways.extend(posts[1].ways("alone", new_alone, true, "mirror"));
    ways.extend(posts[2].ways("prefixed", old, false, "old__mirror"));
    ways.extend(posts[2].ways("prefixed", new, true, "new__mirror"));
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&case(), |case| {
        runtime.block_on(async {
            for way in &ways {
                travel(way, &case, &prompter, false).await?;
                travel(way, &case, &prompter, true).await?;
            }
            Ok(())
        })
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let _inside = runtime.enter();
    drop(ways);
    drop((posts, servers));
}
