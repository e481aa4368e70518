//! Rules that ask for a scope: what they are about is listed, and a token without the scope is told which it needs.

use serde_json::{Value, json};
use tidings_testkit::{Client, Exchange, Gateway, Server};

use crate::policies::people;
use crate::providers::{Provider, bearing};
use crate::quick;

const WRITERS: &str = r#"
[[policy.rule]]
name = "writers"
who = ["*"]
allow = ["crm/put_*", "crm/*vault*"]
scope = "crm.write"
[[policy.rule]]
name = "deleters"
who = ["*"]
allow = ["crm/*delete*"]
scope = "crm.delete"
[[policy.rule]]
name = "nobody drops"
who = ["*"]
deny = ["crm/put_nothing"]
"#;

async fn crm() -> Server {
    let answer = |text: &'static str| move |call: tidings_testkit::ScriptedCall| async move { call.ok_text(text) };
    Server::builder("crm")
        .tool("get", answer("got"))
        .tool("put_one", answer("put"))
        .tool("put_and_delete", answer("both"))
        .tool("put_nothing", answer("never"))
        .prompt("put_prompt", |call| async move { call.ok_message("hi") })
        .resource("file:///vault/r", "treasure")
        .template("file:///vault/{x}", |uri| Some(uri.to_owned()))
        .completion(|call| {
            let answer = call.ok(json!({"completion": {"values": ["v"], "total": 1}}));
            async move { answer }
        })
        .stdio()
        .await
}

/// Every way to use what needs `crm.write`.
fn uses() -> Vec<(&'static str, Value)> {
    let argument = json!({"name": "a", "value": "v"});
    vec![
        ("tools/call", json!({"name": "put_one", "arguments": {}})),
        ("tools/call", json!({"name": "call_tool", "arguments": {"name": "put_one", "arguments": {}}})),
        ("prompts/get", json!({"name": "put_prompt"})),
        ("resources/read", json!({"uri": "file:///vault/r"})),
        ("resources/read", json!({"uri": "file:///vault/7"})),
        ("resources/read", json!({"uri": "file:///%76ault/r"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "file:///vault/{x}"}, "argument": argument}),
        ),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "put_prompt"}, "argument": argument})),
    ]
}

async fn with_scopes(gateway: &Gateway, provider: &Provider, scopes: &str) -> [Client; 2] {
    let token = provider.token(gateway, &json!({ "scope": scopes }));
    [bearing(gateway.client(), &token).connect().await, bearing(gateway.client().modern(), &token).connect().await]
}

fn assert_forbidden(answer: &Exchange, scopes: &str, what: &str) {
    assert_eq!((answer.status, answer.error_code()), (403, 403), "{what}: {answer:?}");
    assert_eq!(answer.error()["data"], json!({"error": "insufficient_scope", "scope": scopes}), "{what}");
    let challenge = answer.header("www-authenticate").unwrap_or_default();
    assert!(challenge.starts_with("Bearer error=\"insufficient_scope\", "), "{what}: {challenge}");
    assert!(challenge.contains(&format!("scope=\"{scopes}\"")), "{what}: {challenge}");
    assert!(challenge.contains("resource_metadata=\"http"), "{what}: {challenge}");
}

// identity 3, 2: a status that names all scopes, and a client that comes back with more of them
#[tokio::test]
async fn a_call_without_the_scope_of_a_rule_gets_403_and_with_a_larger_token_it_runs() {
    let (provider, crm) = (Provider::start().await, crm().await);
    let gateway = quick(&provider.toml()).toml(WRITERS).toml("[gateway]\nexpose = \"both\"").server("crm", &crm);
    let gateway = gateway.serve().await;
    let larger = format!("Bearer {}", provider.token(&gateway, &json!({"scope": "mcp crm.write offline_access"})));
    let before = crm.record().len();
    let clients = with_scopes(&gateway, &provider, "mcp offline_access").await;
    for client in &clients {
        let tools = client.names("tools").await;
        assert!(tools.contains(&"put_one".to_owned()), "it is listed: {tools:?}");
        assert!(!tools.contains(&"put_nothing".to_owned()), "a denial is a denial: {tools:?}");
        assert!(client.names("resources").await.contains(&"file:///vault/r".to_owned()));
        for (method, params) in uses() {
            let answer = client.request(method, params.clone()).await;
            assert_forbidden(&answer, "crm.write mcp", &format!("{method} {params} {}", client.revision()));
        }
        let both = client.call_tool("put_and_delete", json!({})).await;
        assert_forbidden(&both, "crm.delete crm.write mcp", "two rules");
        // What is denied needs no scope: nobody is told to get one.
        let denied = client.call_tool("put_nothing", json!({})).await;
        assert!(denied.status != 403 && denied.error_code() != 403 && !denied.error().is_null(), "{denied:?}");
        assert_eq!(client.call_tool("get", json!({})).await.text(), "got");
    }
    let used = |r: &tidings_testkit::ReceivedMessage| !(r.method.ends_with("/list") || r.method == "ping");
    let heard: Vec<_> = crm.record().since(before).into_iter().filter(used).collect();
    assert_eq!(heard.len(), 2, "nothing but `get` reached the server: {heard:?}");
    // The same clients, the legacy one in its session, come back with a larger token.
    for client in &clients {
        // Which spellings it understands is the server's matter.
        for (method, params) in uses().into_iter().filter(|(_, params)| !params.to_string().contains('%')) {
            let answer = client.call(method).params(params.clone()).header("authorization", &larger).send().await;
            assert_eq!(answer.status, 200, "{method} {params}: {answer:?}");
            assert!(answer.response().error().is_null(), "{method} {params}: {answer:?}");
        }
        let both = client.call("tools/call").params(json!({"name": "put_and_delete", "arguments": {}}));
        let both = both.header("authorization", &larger).send().await;
        assert_forbidden(&both, "crm.delete crm.write mcp", "one scope is still missing");
        // And with the smaller one it is refused again: the token of each request counts.
        let again = client.call_tool("put_one", json!({})).await;
        assert_forbidden(&again, "crm.write mcp", "the smaller token");
    }
}

// identity 3: a client that prefers event streams gets the status, too
#[tokio::test]
async fn a_client_that_prefers_streams_is_told_by_the_status() {
    let (provider, crm) = (Provider::start().await, crm().await);
    let gateway = quick(&provider.toml()).toml(WRITERS).server("crm", &crm).serve().await;
    let [legacy, _] = with_scopes(&gateway, &provider, "mcp").await;
    let call = legacy.call("tools/call").params(json!({"name": "put_one", "arguments": {}}));
    let answer = call.header("accept", "text/event-stream, application/json").send().await;
    assert_forbidden(&answer, "crm.write mcp", "a stream");
    let call = legacy.call("tools/call").params(json!({"name": "get", "arguments": {}}));
    assert_eq!(call.header("accept", "text/event-stream, application/json").send().await.text(), "got");
}

// identity 3: somebody else's session stays closed, and so does one's own with a smaller token
#[tokio::test]
async fn a_session_is_opened_by_more_scopes_of_the_same_person_and_by_nothing_else() {
    let (provider, crm) = (Provider::start().await, crm().await);
    let gateway = quick(&provider.toml()).toml(WRITERS).server("crm", &crm).serve().await;
    let [legacy, _] = with_scopes(&gateway, &provider, "mcp crm.write").await;
    for claims in [
        json!({"scope": "mcp crm.write crm.delete", "sub": "eve"}),
        json!({"scope": "mcp"}),
        json!({"scope": "mcp crm.write crm.delete", "groups": ["dev", "other"]}),
    ] {
        let token = format!("Bearer {}", provider.token(&gateway, &claims));
        let answer = legacy.call("tools/list").params(json!({})).header("authorization", &token).send().await;
        assert_eq!(answer.status, 404, "{claims}: {answer:?}");
    }
    let token = format!("Bearer {}", provider.token(&gateway, &json!({"scope": "mcp crm.write x"})));
    assert_eq!(legacy.call("tools/list").params(json!({})).header("authorization", &token).send().await.status, 200);
}

// identity 3: on standard input there is no status, and an error says the same
#[tokio::test]
async fn on_standard_input_the_error_names_the_scopes() {
    let crm = crm().await;
    for modern in [false, true] {
        let client = Gateway::builder().toml(WRITERS).server("crm", &crm).stdio();
        let client = if modern { client.modern() } else { client }.connect().await;
        let refused = client.call_tool("put_one", json!({})).await;
        assert_eq!(refused.error_code(), 403, "{refused:?}");
        assert_eq!(refused.error()["data"], json!({"error": "insufficient_scope", "scope": "crm.write"}));
        assert_eq!(client.call_tool("get", json!({})).await.text(), "got");
    }
}

// identity 3: rules that are only tried count what a scope would have kept, and `explain` names the scope
#[tokio::test]
async fn a_scope_is_tried_and_explained() {
    let (provider, crm) = (Provider::start().await, crm().await);
    let rules = format!("[policy]\nmode = \"report\"\n{WRITERS}");
    let gateway = quick(&provider.toml()).toml(&rules).server("crm", &crm).serve().await;
    for client in with_scopes(&gateway, &provider, "mcp").await {
        assert_eq!(client.call_tool("put_one", json!({})).await.text(), "put");
    }
    let (_, metrics) = gateway.get_as_admin("/metrics").await;
    assert!(metrics.contains("tidings_policy_would_deny_total{rule=\"writers\"} 2\n"), "{metrics}");
    let explained = gateway.command(&["explain", "--as", "scope:mcp", "crm/put_one", "--json"]).await;
    let said: Value = serde_json::from_slice(&explained.stdout).unwrap();
    let expected = json!({"allowed": false, "by": "scope", "rule": "writers", "scope": "crm.write"});
    assert_eq!(said["decisions"][0]["use"], expected);
    assert_eq!(said["decisions"][0]["see"]["allowed"], json!(true));
    let explained = gateway.command(&["explain", "--as", "scope:crm.write", "crm/put_one"]).await;
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(text.contains("may use the tool: rule \"writers\""), "{text}");
}

// identity 3: who would gain or lose what
#[tokio::test]
async fn other_rules_are_compared_with_those_that_hold() {
    let crm = crm().await;
    let gateway = quick(&people(&[("ada", "support"), ("dan", "dev")])).toml(WRITERS).server("crm", &crm).serve().await;
    let file = gateway.data().join("new.toml");
    let rules = r#"
        [servers.elsewhere]
        url = "${NOT_SET_ANYWHERE}"
        [[policy.rule]]
        name = "support"
        who = ["group:support"]
        deny = ["crm/get"]
        [[policy.rule]]
        name = "prompts"
        who = ["*"]
        allow = ["crm/put_prompt"]
        scope = "crm.write"
    "#;
    std::fs::write(&file, rules).unwrap();
    let path = file.to_str().unwrap();
    let said = gateway.command(&["explain", "--with", path, "--json"]).await;
    let said: Value = serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
    let of = |who: &str| {
        let people = said["changed"].as_array().unwrap().iter();
        people.clone().find(|person| person["who"] == who).cloned().unwrap_or_else(|| panic!("{who}: {said:#}"))
    };
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|item| item["item"].as_str().unwrap().to_owned()).collect()
    };
    let ada = of("token:ada");
    assert_eq!(ada["loses"], json!([{"item": "crm/get", "kind": "tool", "to": ["see", "use"]}]));
    assert_eq!(
        names(&ada["gains"]),
        ["crm/put_and_delete", "crm/put_nothing", "crm/put_one", "crm/file:///vault/r", "crm/file:///vault/{x}"]
    );
    assert_eq!(ada["gains"][1]["to"], json!(["see", "use"]));
    assert_eq!(ada["gains"][2]["to"], json!(["use"]), "it was seen already");
    assert_eq!(of("token:dan")["loses"], json!([]));
    assert_eq!(of("scope:crm.write")["gains"].as_array().unwrap().len(), 2, "{said:#}");
    // One person and one item; and in words.
    let said = gateway.command(&["explain", "--with", path, "--as", "group:support", "crm/get"]).await;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.contains("group:support\n  would lose crm/get (tool): see, use\n"), "{text}");
    let said = gateway.command(&["explain", "--with", path, "--as", "group:dev", "crm/get"]).await;
    assert_eq!(String::from_utf8_lossy(&said.stdout), "Nobody would gain or lose anything that is listed now.\n");
    // The rules that hold are the same as before.
    let (status, _) = gateway.api("POST", "/explain", json!({"policy": "[policy]\ndefault = \"deny\""})).await;
    assert_eq!(status, 200);
    let ada = crate::with_token(gateway.client(), "ada").connect().await;
    assert_eq!(ada.call_tool("get", json!({})).await.text(), "got");
    // Faults name the file and the line.
    std::fs::write(&file, "[policy]\ndefault = \"maybe\"\n").unwrap();
    let said = gateway.command(&["explain", "--with", path]).await;
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && text.contains("new.toml:2:11: policy.default: expected"), "{text}");
    let (status, said) = gateway.api("POST", "/explain", json!({"policy": "[gateway]"})).await;
    assert_eq!(status, 400, "{said}");
    assert!(said["detail"].as_str().unwrap().contains("the key `policy` is missing"), "{said}");
}
