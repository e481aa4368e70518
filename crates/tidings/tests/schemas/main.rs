//! What leaves the gateway is what the official schema of the client's revision says, whatever revision the servers have.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod validator;

use serde_json::{Value, json};
use tidings_testkit::*;
use validator::Schema;

const REVISIONS: [(&str, &str); 5] = [
    (V2024_11_05, include_str!("2024-11-05.json")),
    (V2025_03_26, include_str!("2025-03-26.json")),
    (V2025_06_18, include_str!("2025-06-18.json")),
    (V2025_11_25, include_str!("2025-11-25.json")),
    (V2026_07_28, include_str!("2026-07-28.json")),
];

/// The name of the server of a revision.
fn name_of(revision: &str) -> String {
    format!("s{}", &revision[..7].replace('-', ""))
}

/// A server that uses what its revision has.
fn server(revision: &'static str) -> ServerBuilder {
    let since = move |first: &str| revision >= first;
    let mut tool = json!({"name": "rich", "description": "Rich.", "inputSchema": {"type": "object", "properties": {}}});
    if since(V2025_03_26) {
        tool["annotations"] = json!({"readOnlyHint": true, "title": "Rich"});
    }
    if since(V2025_06_18) {
        tool["title"] = json!("Rich");
        tool["outputSchema"] = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    }
    if since(V2025_11_25) {
        tool["icons"] = json!([{"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}]);
    }
    let builder = Server::builder(&name_of(revision))
        .tool_def(tool, move |call| async move {
            call.progress(1);
            call.log("warning", "a word");
            let mut content = vec![
                json!({"type": "text", "text": "text", "annotations": {"audience": ["user"], "priority": 0.5}}),
                json!({"type": "image", "data": "aGk=", "mimeType": "image/png"}),
                json!({"type": "resource", "resource": {"uri": "memo:///note", "text": "note"}}),
            ];
            if since(V2025_03_26) {
                content.push(json!({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}));
            }
            let mut result = json!({ "content": content });
            if since(V2025_06_18) {
                content.push(json!({"type": "resource_link", "uri": "memo:///note", "name": "note"}));
                result = json!({"content": content, "structuredContent": {"n": 1}, "_meta": {"example.com/x": 1}});
            }
            call.ok(result)
        })
        .tool("fails", |call| async move { call.error(-32000, "a reason", Some(json!({"why": 1}))) })
        .tool("ask", move |call| async move {
            let question = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}],
                "maxTokens": 10});
            if call.is_modern() {
                if call.input_responses().is_null() {
                    let asked = json!({"method": "sampling/createMessage", "params": question});
                    return call.input_required(json!({"inputRequests": {"q": asked}, "requestState": "s"}));
                }
                return call.ok_text("modern");
            }
            let (_, answer) = call.ask_raw("sampling/createMessage", question.to_string().as_bytes());
            answer.await.unwrap();
            call.ok_text("legacy")
        })
        .resource("memo:///note", "a note")
        .template("memo:///page/{n}", |uri| uri.ends_with('1').then(|| "page".to_owned()))
        .prompt("greet", |call| async move { call.ok_message("hello") })
        .completion(
            |call| async move { call.ok(json!({"completion": {"values": ["a"], "total": 1, "hasMore": false}})) },
        )
        .instructions("Be kind.");
    if is_modern(revision) { builder.modern_only() } else { builder.revisions(&[revision]) }
}

/// Checks what one client is sent.
struct Checker {
    revision: &'static str,
    schema: Schema,
    faults: Vec<String>,
    checked: usize,
}

impl Checker {
    fn check(&mut self, what: &str, definition: &str, value: &Value) {
        self.checked += 1;
        let faults = self.schema.faults(definition, value);
        self.faults.extend(faults.into_iter().map(|fault| format!("{} {what}: {fault}", self.revision)));
    }

    /// A whole message, by what it is.
    fn message(&mut self, message: &ReceivedMessage) {
        let value = message.value();
        let either =
            |schema: &Schema, new: &'static str, old: &'static str| if schema.defines(new) { new } else { old };
        let definition = if value.get("error").is_some() {
            either(&self.schema, "JSONRPCErrorResponse", "JSONRPCError").to_owned()
        } else if value.get("method").is_some() {
            let known = self.schema.of_method(&message.method).map(str::to_owned);
            let Some(known) = known else {
                self.faults.push(format!("{} has no method {}", self.revision, message.method));
                return;
            };
            known
        } else {
            either(&self.schema, "JSONRPCResultResponse", "JSONRPCResponse").to_owned()
        };
        self.check(&message.method, &definition, &value);
    }

    async fn ask(&mut self, client: &Client, method: &str, params: Value, definition: &str) {
        let answered = client.request(method, params.clone()).await;
        let result = answered.result();
        self.check(&format!("{method} {params}"), definition, &result);
    }

    async fn visit(&mut self, gateway: &Gateway, servers: &[Server]) {
        let modern = is_modern(self.revision);
        let capabilities = json!({"sampling": {}, "roots": {}});
        let client = gateway.client().revision(self.revision).capabilities(capabilities).connect().await;
        client.on_request(|_| {
            let content = json!({"type": "text", "text": "!"});
            ClientReply::Result(json!({"role": "assistant", "model": "m", "content": content}))
        });
        let mut listen = None;
        if modern {
            self.ask(&client, "server/discover", json!({}), "DiscoverResult").await;
            let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["s202411+memo:///note"]});
            let mut stream = client.start("subscriptions/listen", json!({ "notifications": wanted }));
            stream.next_method("notifications/subscriptions/acknowledged").await;
            listen = Some(stream);
        } else {
            self.check("initialize", "InitializeResult", &client.initialize_result());
            listen.replace(client.open_get().await);
            self.ask(&client, "ping", json!({}), "EmptyResult").await;
            self.ask(&client, "logging/setLevel", json!({"level": "debug"}), "EmptyResult").await;
            self.ask(&client, "resources/subscribe", json!({"uri": "s202411+memo:///note"}), "EmptyResult").await;
        }
        for (method, definition) in [
            ("tools/list", "ListToolsResult"),
            ("prompts/list", "ListPromptsResult"),
            ("resources/list", "ListResourcesResult"),
            ("resources/templates/list", "ListResourceTemplatesResult"),
        ] {
            self.ask(&client, method, json!({}), definition).await;
        }
        for (of, _) in REVISIONS {
            let name = name_of(of);
            let rich = json!({"name": format!("{name}__rich"), "arguments": {}});
            let rich = client.call("tools/call").params(rich).progress_token("7").send().await;
            self.check(&format!("tools/call of {of}"), "CallToolResult", &rich.result());
            let fails = client.call_tool(&format!("{name}__fails"), json!({})).await;
            assert_eq!(fails.error_code(), -32000, "{fails:?}");
            let prompt = json!({"name": format!("{name}__greet")});
            self.ask(&client, "prompts/get", prompt, "GetPromptResult").await;
            for uri in ["note", "page/1"] {
                let uri = json!({"uri": format!("{name}+memo:///{uri}")});
                self.ask(&client, "resources/read", uri, "ReadResourceResult").await;
            }
            let about = json!({"ref": {"type": "ref/prompt", "name": format!("{name}__greet")},
                "argument": {"name": "x", "value": "a"}});
            self.ask(&client, "completion/complete", about, "CompleteResult").await;
            let asked = client.call_tool(&format!("{name}__ask"), json!({})).await;
            // Between the eras such a question is refused with an error, which is checked with all messages.
            if is_modern(of) == modern {
                let definition = if modern { "InputRequiredResult" } else { "CallToolResult" };
                self.check(&format!("a question of {of}"), definition, &asked.result());
            }
        }
        client.request("tools/call", json!({"name": "nobody__knows", "arguments": {}})).await.error();
        client.request("resources/read", json!({"uri": "nobody+x:///y"})).await.error();
        for (number, server) in servers.iter().enumerate() {
            server.put_tool(Tool::text_tool(&format!("new_{number}_{}", self.revision), "new"));
            server.list_changed("tools");
        }
        client.wait_for_method("notifications/tools/list_changed", 1).await;
        eventually("a subscription", || (servers[0].resource_updated("memo:///note") > 0).then_some(())).await;
        client.wait_for_method("notifications/resources/updated", 1).await;
        for message in client.received() {
            self.message(&message);
        }
        drop(listen);
    }
}

// edges G1
#[tokio::test]
async fn every_message_to_a_client_is_valid_by_the_official_schema_of_its_revision() {
    let mut servers = Vec::new();
    // By default one revision is told of no changes.
    let mut gateway = Gateway::builder().quick().toml("suppress = []");
    for (revision, _) in REVISIONS {
        let server = server(revision).http().await;
        gateway = gateway.server(&name_of(revision), &server);
        servers.push(server);
    }
    let gateway = gateway.serve().await;
    let mut faults = Vec::new();
    for (revision, text) in REVISIONS {
        let mut checker = Checker { revision, schema: Schema::parse(text), faults: Vec::new(), checked: 0 };
        checker.visit(&gateway, &servers).await;
        assert!(checker.checked > 60, "{revision}: only {} were checked", checker.checked);
        faults.extend(checker.faults);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Whoever checks sees what is wrong.
#[test]
fn the_schemas_refuse_what_is_not_theirs() {
    let old = Schema::parse(REVISIONS[0].1);
    let audio = json!({"content": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]});
    assert!(!old.faults("CallToolResult", &audio).is_empty());
    let new = Schema::parse(REVISIONS[3].1);
    assert_eq!(new.faults("CallToolResult", &audio), Vec::<String>::new());
    assert!(!new.faults("ListToolsResult", &json!({"tools": [{"name": "x"}]})).is_empty());
    let twice = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -1, "message": "x"}});
    assert!(!old.faults("JSONRPCError", &twice).is_empty());
}
