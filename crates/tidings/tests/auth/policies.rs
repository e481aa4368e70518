//! Rules of `[policy]`: what they deny does not exist, by whatever way it is asked for, and other rules are told to those whose view
//! they change.

use std::fmt::Write as _;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tidings_testkit::{
    Client, Exchange, Gateway, GatewayBuilder, PendingExchange, Server, ServerBuilder, Tool, is_modern,
};

use crate::{both_eras, error_about, everything, follow, hear, quick, told, with_token};

const UPDATED: &str = "notifications/resources/updated";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
pub(crate) const OPEN: &str = "crm+file:///open/r";
const SECRET: &str = "crm+file:///secret/r";

/// Support may not delete, and knows no secrets.
pub(crate) const RULES: &str = r#"
[[policy.rule]]
name = "support is careful"
who = ["group:support"]
except = ["group:ops"]
deny = ["crm/delete_*", "crm/*secret*"]
"#;

/// What stands around the rules in the file, so that others can take their place.
const BEGIN: &str = "# rules begin\n";
const END: &str = "# rules end\n";

/// A token `token-NAME` for each, in one group.
pub(crate) fn people(people: &[(&str, &str)]) -> String {
    let mut text = "[auth]\ntokens = [\n".to_owned();
    for (name, group) in people {
        let hash = digest(&SHA256, format!("token-{name}").as_bytes());
        let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(text, "{{ name = {name:?}, sha256 = \"{hash}\", groups = [{group:?}] }},");
    }
    text + "]\n"
}

pub(crate) fn crm() -> ServerBuilder {
    let tool =
        |name: &str, notes: Value| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": notes});
    Server::builder("crm")
        .tool_def(tool("get_customer", json!({"readOnlyHint": true})), |call| async move { call.ok_text("got") })
        .tool_def(tool("put_customer", json!({})), |call| async move { call.ok_text("put") })
        .tool_def(tool("delete_customer", json!({})), |call| async move { call.ok_text("deleted") })
        .prompt("greet", |call| async move { call.ok_message("hi") })
        .prompt("secret", |call| async move { call.ok_message("psst") })
        .resource("file:///open/r", "open")
        .resource("file:///secret/r", "secret")
        .template("file:///open/{x}", |uri| Some(uri.to_owned()))
        .template("file:///secret/{x}", |uri| Some(uri.to_owned()))
        .completion(|call| {
            let answer = call.ok(json!({"completion": {"values": ["v"], "total": 1}}));
            async move { answer }
        })
        .instructions("How to use crm.")
}

/// Ada of support and Dan of development, and rules.
pub(crate) fn ruled(rules: &str) -> GatewayBuilder {
    quick(&people(&[("ada", "support"), ("dan", "dev")])).toml(&format!("{BEGIN}{rules}{END}"))
}

/// Two servers, so that names have prefixes.
pub(crate) async fn with_other(gateway: GatewayBuilder, crm: &Server) -> (Server, Gateway) {
    let other = Server::builder("other").echo("echo").stdio().await;
    let gateway = gateway.server("crm", crm).server("other", &other).serve().await;
    (other, gateway)
}

// identity 8.8: each class its view, in both eras
#[tokio::test]
async fn lists_hold_what_the_rules_permit() {
    for crm in [crm().stdio().await, crm().modern_only().http().await] {
        let (_other, gateway) = with_other(ruled(RULES), &crm).await;
        for client in both_eras(&gateway, "ada").await {
            let seen = everything(&client).await;
            assert_eq!(seen[0], ["crm__get_customer", "crm__put_customer", "other__echo"]);
            assert_eq!(seen[1], ["crm__greet"]);
            assert_eq!(seen[2], [OPEN]);
            assert_eq!(seen[3], ["crm+file:///open/{x}"]);
        }
        for client in both_eras(&gateway, "dan").await {
            let seen = everything(&client).await;
            assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [4, 2, 2, 2]);
        }
    }
}

/// Every way to ask for something of a server by its name: what is denied, and the same of a server that is not there.
fn attacks(server: &str, item: &str, place: &str) -> Vec<(String, &'static str, Value)> {
    let mut requests = Vec::new();
    for tool in
        [format!("{server}__delete_{item}"), format!("{server}:delete_{item}"), format!("mcp_{server}_delete_{item}")]
    {
        requests.push((tool.clone(), "tools/call", json!({"name": tool, "arguments": {}})));
        // As a task (2025-11-25): its id would lead to the answer.
        requests.push((tool.clone(), "tools/call", json!({"name": tool, "arguments": {}, "task": {"ttl": 60_000}})));
    }
    let prompt = format!("{server}__{place}");
    requests.push((prompt.clone(), "prompts/get", json!({ "name": prompt })));
    let argument = json!({"name": "a", "value": "v"});
    let reference = json!({"type": "ref/prompt", "name": prompt});
    requests.push((prompt, "completion/complete", json!({"ref": reference, "argument": argument})));
    // Listed; made of a template; spelled otherwise.
    let paths =
        [format!("{place}/r"), format!("{place}/77"), format!("%73{}/r", &place[1..]), format!("open/../{place}/r")];
    for path in paths {
        let uri = format!("{server}+file:///{path}");
        requests.push((uri.clone(), "resources/read", json!({ "uri": uri })));
    }
    let template = format!("{server}+file:///{place}/{{x}}");
    let reference = json!({"type": "ref/resource", "uri": template});
    requests.push((template, "completion/complete", json!({"ref": reference, "argument": argument})));
    requests
}

async fn answered(client: &Client, requests: Vec<(String, &'static str, Value)>) -> Vec<(String, Exchange)> {
    let mut answers = Vec::new();
    for (name, method, params) in requests {
        answers.push((name, client.request(method, params).await));
    }
    answers
}

// identity 3: attack by direct call, by task, by prompt, by resource, template, spelling and completion
#[tokio::test]
async fn what_is_denied_is_as_unknown_as_what_does_not_exist() {
    for crm in [crm().stdio().await, crm().modern_only().http().await] {
        let (_other, gateway) = with_other(ruled(RULES), &crm).await;
        let before = crm.record().len();
        for client in both_eras(&gateway, "ada").await {
            let denied = answered(&client, attacks("crm", "customer", "secret")).await;
            let absent = answered(&client, attacks("nobody", "customer", "secret")).await;
            for ((name, refused), (other, unknown)) in denied.iter().zip(&absent) {
                assert!(!refused.error().is_null(), "{name}: {refused:?}");
                assert_eq!(error_about(refused, name), error_about(unknown, other), "{name} {}", client.revision());
                assert_eq!(refused.status, unknown.status, "{name}");
            }
        }
        let heard = crm.record().since(before);
        assert!(heard.iter().all(|r| r.method.ends_with("/list") || r.method == "ping"), "it hears nothing: {heard:?}");
        // The same requests are good ones: who may, can.
        for client in both_eras(&gateway, "dan").await {
            let plain = attacks("crm", "customer", "secret")
                .into_iter()
                .filter(|(name, _, params)| !name.contains('%') && !name.contains("..") && params["task"].is_null());
            for (name, answer) in answered(&client, plain.collect()).await {
                assert!(answer.response().error().is_null(), "{name}: {answer:?}");
            }
        }
    }
}

// identity 3: attack by the search's own tools
#[tokio::test]
async fn a_search_neither_finds_nor_calls_what_is_denied() {
    let crm = crm().stdio().await;
    let (_other, gateway) = with_other(ruled(RULES).toml("[gateway]\nexpose = \"both\""), &crm).await;
    let found = async |client: &Client| {
        let answer = client.call_tool("retrieve_tools", json!({"query": "delete customer", "limit": 20})).await;
        answer.text()
    };
    for client in both_eras(&gateway, "dan").await {
        assert!(found(&client).await.contains("crm__delete_customer"));
    }
    let before = crm.count("tools/call");
    for client in both_eras(&gateway, "ada").await {
        let text = found(&client).await;
        assert!(text.contains("crm__put_customer") && !text.contains("delete_customer"), "{text}");
        for name in ["crm__delete_customer", "crm:delete_customer", "delete_customer"] {
            let answer = client.call_tool("call_tool", json!({"name": name, "arguments": {}})).await;
            let text = answer.text();
            assert!(answer.result()["isError"] == true && text.starts_with("there is no tool"), "{text}");
            assert!(!text.replace(&format!("\"{name}\""), "").contains("delete_customer"), "{text}");
        }
    }
    assert_eq!(crm.count("tools/call"), before);
}

// identity 3: attack by subscription
#[tokio::test]
async fn what_is_denied_can_not_be_followed() {
    let crm = crm().stdio().await;
    let (_other, gateway) = with_other(ruled(RULES), &crm).await;
    let [legacy, modern] = both_eras(&gateway, "ada").await;
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let denied = legacy.request(method, json!({ "uri": SECRET })).await;
        let absent = legacy.request(method, json!({"uri": "nobody+file:///r"})).await;
        assert_eq!(error_about(&denied, SECRET), error_about(&absent, "nobody+file:///r"), "{method}");
    }
    let uris = json!({"notifications": {"resourceSubscriptions": [SECRET, OPEN, "crm+file:///%73ecret/r"]}});
    let mut listen = modern.start("subscriptions/listen", uris);
    let acknowledged = listen.next_method(ACKNOWLEDGED).await;
    assert_eq!(acknowledged.params()["notifications"], json!({"resourceSubscriptions": [OPEN]}));
}

// identity 3: a server that is alone speaks for itself, but not past the rules
#[tokio::test]
async fn a_server_that_is_alone_does_not_answer_for_what_is_denied() {
    let crm = crm().on_raw("crm/own", |call| async move { call.ok(json!({})) }).stdio().await;
    let gateway = ruled(RULES).server("crm", &crm).serve().await;
    let before = crm.record().len();
    for client in both_eras(&gateway, "ada").await {
        for (method, params) in [
            ("tools/call", json!({"name": "delete_customer", "arguments": {}})),
            // No list has it, and it fits what is denied.
            ("tools/call", json!({"name": "delete_everything", "arguments": {}})),
            ("prompts/get", json!({"name": "secret"})),
            ("resources/read", json!({"uri": "file:///secret/r"})),
            ("resources/read", json!({"uri": "file:///secret/unlisted"})),
            ("resources/read", json!({"uri": "FILE:///%73ecret/r"})),
        ] {
            let answer = client.request(method, params.clone()).await;
            assert!(!answer.error().is_null(), "{method} {params}: {answer:?}");
        }
        // What the gateway does not know it can not judge.
        assert!(!client.request("crm/own", json!({})).await.error().is_null());
    }
    let heard = crm.record().since(before);
    assert!(heard.iter().all(|r| r.method.ends_with("/list") || r.method == "ping"), "it hears nothing: {heard:?}");
    for client in both_eras(&gateway, "ada").await {
        assert_eq!(client.call_tool("get_customer", json!({})).await.text(), "got");
        let read = client.request("resources/read", json!({"uri": "file:///open/new"})).await;
        assert!(read.response().error().is_null(), "a template has it: {read:?}");
    }
    for client in both_eras(&gateway, "dan").await {
        assert_eq!(client.call_tool("delete_customer", json!({})).await.text(), "deleted");
        assert!(client.request("crm/own", json!({})).await.response().error().is_null());
    }
}

// identity 3: "support may only read", from nothing
#[tokio::test]
async fn support_may_only_read_where_annotations_are_trusted() {
    let rules = r#"
        [policy]
        default = "deny"
        [[policy.rule]]
        name = "developers"
        who = ["group:dev"]
        allow = ["*"]
        [[policy.rule]]
        name = "support reads"
        who = ["group:support"]
        allow = ["*"]
        read_only = true
    "#;
    let trusted = crm().stdio().await;
    let doubted = crm().stdio().await;
    let gateway =
        ruled(rules).server_with("crm", &trusted, "annotations = \"trust\"").server("crm2", &doubted).serve().await;
    for client in both_eras(&gateway, "ada").await {
        let seen = everything(&client).await;
        assert_eq!(seen, [vec!["crm__get_customer".to_owned()], vec![], vec![], vec![]]);
        assert_eq!(client.call_tool("crm__get_customer", json!({})).await.text(), "got");
        assert!(!client.call_tool("crm2__get_customer", json!({})).await.error().is_null());
        let said = if is_modern(&client.revision()) {
            client.request("server/discover", json!({})).await.result()
        } else {
            client.initialize_result()
        };
        assert!(!said.to_string().contains("crm2"), "{said}");
    }
    for client in both_eras(&gateway, "dan").await {
        assert_eq!(client.names("tools").await.len(), 6);
    }
    let explained = gateway.command(&["explain", "--as", "token:ada", "crm/put_customer"]).await;
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(text.contains("may not use the tool: no rule is about it"), "{text} {explained:?}");
    let explained = gateway.command(&["explain", "--as", "token:ada", "crm/get_customer", "--json"]).await;
    let said: Value = serde_json::from_slice(&explained.stdout).unwrap();
    assert_eq!(said["decisions"][0]["use"], json!({"allowed": true, "by": "rule", "rule": "support reads"}));
    let explained = gateway.command(&["explain", "--as", "group:support", "crm2/get_customer", "--json"]).await;
    let said: Value = serde_json::from_slice(&explained.stdout).unwrap();
    assert_eq!(said["decisions"][0]["use"], json!({"allowed": false, "by": "default", "rule": null}));
}

/// The file of the gateway with these rules in the place of others.
fn with_rules(gateway: &Gateway, rules: &str) -> String {
    let text = std::fs::read_to_string(gateway.config()).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap_or((&text, ""));
    let after = rest.split_once(END).map_or("", |(_, after)| after);
    format!("{before}\n{after}\n{BEGIN}{rules}{END}")
}

pub(crate) async fn followers(gateway: &Gateway, token: &str) -> Vec<(Client, PendingExchange)> {
    let mut clients = Vec::new();
    for client in both_eras(gateway, token).await {
        let stream = follow(&client).await;
        clients.push((client, stream));
    }
    clients
}

// identity 8.9: exactly those are told whose view differs, once; others hear nothing
#[tokio::test]
async fn other_rules_are_told_to_those_whose_view_they_change() {
    let crm = crm().stdio().await;
    let other = Server::builder("other").echo("echo").stdio().await;
    let gateway = quick(&people(&[("ada", "support"), ("dan", "dev")])).server("crm", &crm).server("other", &other);
    let gateway = gateway.serve().await;
    let (support, dev) = (followers(&gateway, "ada").await, followers(&gateway, "dan").await);
    for (client, _) in support.iter().chain(&dev) {
        assert_eq!(client.names("tools").await.len(), 4);
    }
    let rule = "[[policy.rule]]\nwho = [\"group:support\"]\ndeny = [\"crm/delete_customer\"]\n";
    gateway.rewrite_config(&with_rules(&gateway, rule));
    for (client, _) in &support {
        hear(client, "tools", 1).await;
        assert_eq!(client.names("tools").await, ["crm__get_customer", "crm__put_customer", "other__echo"]);
        assert!(!client.call_tool("crm__delete_customer", json!({})).await.error().is_null());
    }
    // The same in other words changes nobody's view.
    let same = "[[policy.rule]]\nname = \"again\"\nwho = [\"group:support\"]\ndeny = [\"cr*/delete_cust*\", \"crm/delete_customer\"]\n";
    gateway.rewrite_config(&with_rules(&gateway, same));
    gateway.stderr().wait_for_nth("the second reading", 2, |line| line.contains("configuration read again")).await;
    // Something that all of them see: it is the first that the others hear, and the second of those.
    other.put_tool(Tool::text_tool("news", "new"));
    assert!(other.list_changed("tools") > 0);
    for (client, _) in &dev {
        hear(client, "tools", 1).await;
        assert_eq!(client.names("tools").await.len(), 5);
    }
    for (client, _) in &support {
        hear(client, "tools", 2).await;
        assert_eq!(client.names("tools").await.len(), 4);
    }
    // The same rule about something else: nothing of what was made for the old one is left.
    gateway.rewrite_config(&with_rules(&gateway, &rule.replace("delete_customer", "put_customer")));
    for (client, _) in &support {
        hear(client, "tools", 3).await;
        let seen = client.names("tools").await;
        assert_eq!(seen, ["crm__get_customer", "crm__delete_customer", "other__echo", "other__news"]);
        assert_eq!(client.call_tool("crm__delete_customer", json!({})).await.text(), "deleted");
        assert!(!client.call_tool("crm__put_customer", json!({})).await.error().is_null());
    }
    for (client, _) in support.iter().chain(&dev) {
        assert_eq!((told(client, "prompts"), told(client, "resources")), (0, 0), "{}", client.revision());
    }
}

/// Clients of the group that loses a tool, and of another.
const MANY: usize = 1_000;
const OTHERS: usize = 200;

// identity 8.9: the same with a thousand clients in the group that loses a tool
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_clients_are_told_of_other_rules_by_group() {
    raise_open_files();
    let crm = crm().stdio().await;
    let other = Server::builder("other").echo("echo").stdio().await;
    let gateway = quick(&people(&[("ada", "support"), ("dan", "dev")])).server("crm", &crm).server("other", &other);
    let gateway = gateway.serve().await;
    let (mut support, mut dev) = (Vec::new(), Vec::new());
    for number in 0..MANY + OTHERS {
        let is_other = number % (MANY / OTHERS + 1) == 0;
        let (token, group) = if is_other { ("dan", &mut dev) } else { ("ada", &mut support) };
        let client = with_token(gateway.client().modern(), token).connect().await;
        let listen = follow(&client).await;
        group.push((client, listen));
    }
    assert_eq!((support.len(), dev.len()), (MANY, OTHERS));
    let begun = std::time::Instant::now();
    let rule = "[[policy.rule]]\nwho = [\"group:support\"]\ndeny = [\"crm/delete_customer\"]\n";
    gateway.rewrite_config(&with_rules(&gateway, rule));
    for (client, _) in &support {
        hear(client, "tools", 1).await;
    }
    let took = begun.elapsed();
    println!("{} clients were told {} ms after the file was saved", support.len(), took.as_millis());
    assert_eq!(delivered(&gateway, "1").await, (MANY, MANY), "each within a second of the commit");
    // From the file to the last client in this process, which reads a thousand streams: true of a program as it is installed.
    assert!(cfg!(debug_assertions) || took <= Duration::from_secs(1), "{took:?}");
    // Something that all of them see: it is the first that the others hear, and the second of those.
    other.put_tool(Tool::text_tool("news", "new"));
    assert!(other.list_changed("tools") > 0);
    for (client, _) in &dev {
        hear(client, "tools", 1).await;
    }
    for (client, _) in &support {
        hear(client, "tools", 2).await;
    }
    let count = |clients: &[(Client, PendingExchange)], kind: &str| -> usize {
        clients.iter().map(|(client, _)| told(client, kind)).sum()
    };
    assert_eq!((count(&support, "tools"), count(&dev, "tools")), (2 * MANY, OTHERS));
    for kind in ["prompts", "resources"] {
        assert_eq!((count(&support, kind), count(&dev, kind)), (0, 0));
    }
}

/// Notices to modern clients that were handed over within so many seconds of their commit, and all of them.
async fn delivered(gateway: &Gateway, seconds: &str) -> (usize, usize) {
    let key = std::fs::read_to_string(gateway.data().join("admin.token")).unwrap();
    let asked = reqwest::Client::new().get(format!("{}/metrics", gateway.base_url())).bearer_auth(key.trim());
    let metrics = asked.send().await.unwrap().text().await.unwrap();
    let sample = |name: String| {
        let line =
            metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_else(|| panic!("{name} in {metrics}"));
        line.trim().parse().unwrap()
    };
    let name = "tidings_commit_to_delivery_seconds";
    (
        sample(format!("{name}_bucket{{era=\"modern\",le=\"{seconds}\"}}")),
        sample(format!("{name}_count{{era=\"modern\"}}")),
    )
}

/// Each client has a connection; many machines let a program have 1,024 files.
pub(crate) fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("room for the connections");
}

// identity 3: attack by a reload in the middle of a listen
#[tokio::test]
async fn who_follows_what_is_denied_later_hears_no_more_of_it() {
    let crm = crm().stdio().await;
    let (_other, gateway) = with_other(quick(&people(&[("ada", "support"), ("dan", "dev")])), &crm).await;
    let [legacy, modern] = both_eras(&gateway, "ada").await;
    let uris = json!({"notifications": {"resourcesListChanged": true, "resourceSubscriptions": [SECRET, OPEN]}});
    let mut listen = modern.start("subscriptions/listen", uris.clone());
    listen.next_method(ACKNOWLEDGED).await;
    let _stream = follow(&legacy).await;
    for uri in [SECRET, OPEN] {
        assert_eq!(legacy.request("resources/subscribe", json!({ "uri": uri })).await.result(), json!({}));
    }
    let dan = with_token(gateway.client().modern(), "dan").connect().await;
    let mut owned = dan.start("subscriptions/listen", uris);
    owned.next_method(ACKNOWLEDGED).await;
    gateway.rewrite_config(&with_rules(&gateway, RULES));
    hear(&legacy, "resources", 1).await;
    listen.next_method("notifications/resources/list_changed").await;
    assert!(crm.resource_updated("file:///secret/r") > 0);
    assert_eq!(owned.next_method(UPDATED).await.params()["uri"], SECRET);
    assert!(crm.resource_updated("file:///open/r") > 0);
    for client in [&legacy, &modern] {
        assert_eq!(client.wait_for_method(UPDATED, 1).await.params()["uri"], OPEN, "{}", client.revision());
        assert_eq!(client.count(UPDATED), 1);
    }
    assert_eq!(told(&dan, "resources"), 0, "its view is the same");
}

// identity 7: broken rules leave the old ones
#[tokio::test]
async fn rules_with_a_fault_leave_those_that_hold() {
    let crm = crm().stdio().await;
    let (_other, gateway) = with_other(ruled(RULES), &crm).await;
    gateway.rewrite_config(&with_rules(&gateway, "[[policy.rule]]\nwho = [\"group:support\"]\nallow = [\"delete\"]\n"));
    gateway.stderr().wait_for("the fault", |line| line.contains("policy.rule[0].allow: expected items")).await;
    for client in both_eras(&gateway, "ada").await {
        assert!(!client.names("tools").await.contains(&"crm__delete_customer".to_owned()));
        assert!(!client.call_tool("crm__delete_customer", json!({})).await.error().is_null());
    }
}

// identity 3: report
#[tokio::test]
async fn rules_that_are_only_tried_keep_nothing_and_are_recorded() {
    let crm = crm().stdio().await;
    let (_other, gateway) = with_other(ruled(&format!("[policy]\nmode = \"report\"\n{RULES}")), &crm).await;
    for client in both_eras(&gateway, "ada").await {
        assert_eq!(client.names("tools").await.len(), 4);
        assert_eq!(client.call_tool("crm__delete_customer", json!({})).await.text(), "deleted");
        assert_eq!(client.call_tool("crm__get_customer", json!({})).await.text(), "got");
    }
    let (_, metrics) = gateway.get_as_admin("/metrics").await;
    for line in ["{rule=\"support is careful\"} 2\n", "{rule=\"default\"} 0\n"] {
        assert!(metrics.contains(&format!("tidings_policy_would_deny_total{line}")), "{metrics}");
    }
    let recorded = async || {
        let (_, records) = gateway.api("GET", "/audit?limit=100", Value::Null).await;
        let records = records["records"].as_array().cloned().unwrap_or_default();
        records.into_iter().filter(|record| record["would_deny"] == "support is careful").collect::<Vec<_>>()
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while recorded().await.len() < 2 {
        assert!(std::time::Instant::now() < deadline, "{:?}", recorded().await);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(recorded().await.iter().all(|record| record["name"] == "crm__delete_customer"));
}

// identity 3: `to`
#[tokio::test]
async fn what_may_be_seen_and_not_used_is_listed_and_can_not_be_called() {
    let rules = "[[policy.rule]]\nwho = [\"group:support\"]\ndeny = [\"crm/delete_*\"]\nto = [\"use\"]\n\
                 [[policy.rule]]\nwho = [\"group:support\"]\ndeny = [\"crm/put_*\"]\nto = [\"see\"]\n\
                 [[policy.rule]]\nwho = [\"group:support\"]\ndeny = [\"crm/*secret*\"]\nto = [\"follow\"]\n";
    let crm = crm().modern_only().http().await;
    let (_other, gateway) = with_other(ruled(rules), &crm).await;
    for client in both_eras(&gateway, "ada").await {
        assert_eq!(client.names("tools").await, ["crm__get_customer", "crm__delete_customer", "other__echo"]);
        assert!(!client.call_tool("crm__delete_customer", json!({})).await.error().is_null());
        assert_eq!(client.call_tool("crm__put_customer", json!({})).await.text(), "put");
        let read = client.request("resources/read", json!({ "uri": SECRET })).await;
        assert!(read.response().error().is_null(), "it may be read: {read:?}");
    }
    // And what may be read and not followed.
    let [legacy, modern] = both_eras(&gateway, "ada").await;
    assert!(!legacy.request("resources/subscribe", json!({ "uri": SECRET })).await.error().is_null());
    let uris = json!({"notifications": {"resourceSubscriptions": [SECRET, OPEN]}});
    let mut listen = modern.start("subscriptions/listen", uris);
    let acknowledged = listen.next_method(ACKNOWLEDGED).await;
    assert_eq!(acknowledged.params()["notifications"], json!({"resourceSubscriptions": [OPEN]}));
}
