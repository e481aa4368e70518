//! The official Rust SDK as a real peer on both sides: its client at the gateway, its server behind it.

#![expect(deprecated, reason = "the SDK deprecates sampling and roots, which servers use all the same")]

#[path = "rmcp/following.rs"]
mod following;
#[path = "rmcp/guest.rs"]
mod guest;
#[path = "rmcp/house.rs"]
mod house;
#[path = "rmcp/questions.rs"]
mod questions;
#[path = "rmcp/races.rs"]
mod races;
#[path = "rmcp/script.rs"]
mod script;
#[expect(dead_code, reason = "the tests of tasks without the SDK use the rest")]
#[path = "tasks/jobs.rs"]
mod task_jobs;
#[path = "rmcp/tasks.rs"]
mod tasks;
#[path = "rmcp/visit.rs"]
mod visit;

use rmcp::ClientLifecycleMode;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorCode, GetPromptRequestParams,
    GetPromptResult, JsonObject, ProtocolVersion, ReadResourceRequestParams, ReadResourceResult, ResourceContents,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use serde_json::{Value, json};
use tidings_testkit::within;
use visit::{ERAS, Era, SERVERS, TOOLS, TRANSPORTS, Visit};

fn object(value: Value) -> JsonObject {
    serde_json::from_value(value).expect("an object")
}

fn tool(server: &str, name: &str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(format!("{server}__{name}")).with_arguments(object(arguments))
}

fn text(result: &CallToolResult) -> &str {
    assert_ne!(result.is_error, Some(true), "{result:?}");
    &result.content[0].as_text().expect("a text").text
}

fn prompt_text(result: &GetPromptResult) -> &str {
    &result.messages[0].content.as_text().expect("a text").text
}

fn contents(result: &ReadResourceResult) -> (&str, &str) {
    match &result.contents[0] {
        ResourceContents::TextResourceContents { uri, text, .. } => (uri, text),
        other => panic!("no text but {other:?}"),
    }
}

/// Every client, by every road, before servers of every era.
async fn every_visit(mut story: impl AsyncFnMut(Visit, Era)) {
    for client in ERAS {
        for over in TRANSPORTS {
            for servers in ERAS {
                story(Visit::pay(client, over, servers).await, client).await;
            }
        }
    }
}

async fn start(visit: &Visit, params: CallToolRequestParams) -> RequestHandle<RoleClient> {
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    visit.client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.expect("a request")
}

#[tokio::test]
async fn the_revision_is_the_one_that_the_client_asked_for() {
    let discover = ClientLifecycleMode::Auto { preferred_versions: vec![Era::Modern.version()], legacy_version: None };
    let initialize = ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25);
    let mut begins: Vec<_> = initialize.iter().map(|v| (v.clone(), ClientLifecycleMode::Initialize)).collect();
    begins.push((Era::Modern.version(), discover));
    for (version, lifecycle) in begins {
        for over in TRANSPORTS {
            let visit = Visit::pay_as(version.clone(), lifecycle.clone(), over, Era::Legacy).await;
            let peer = visit.client.peer_info().expect("a known peer");
            assert_eq!(peer.protocol_version, version);
            visit.leave().await;
        }
    }
}

#[tokio::test]
async fn the_lists_hold_what_both_servers_offer() {
    every_visit(async |visit, _| {
        let client = &visit.client;
        let expected = |item: &'static str| SERVERS.map(|server| format!("{server}__{item}"));
        // Each server's own order is kept, and the two of these have different ones.
        let mut tools: Vec<_> = client.list_all_tools().await.expect("tools").into_iter().map(|t| t.name).collect();
        tools.sort();
        let all: Vec<_> = SERVERS.iter().flat_map(|s| TOOLS.map(|t| format!("{s}__{t}"))).collect();
        assert_eq!(tools, all);
        let mut prompts: Vec<_> =
            client.list_all_prompts().await.expect("prompts").into_iter().map(|p| p.name).collect();
        prompts.sort();
        let [a, b] = expected("form");
        let [c, d] = expected("greet");
        assert_eq!(prompts, [a, c, b, d]);
        let resources = client.list_all_resources().await.expect("resources");
        let mut uris: Vec<_> = resources.iter().map(|r| r.uri.as_str()).collect();
        uris.sort_unstable();
        assert_eq!(uris, ["scripted+memo://form", "scripted+memo://note", "sdk+memo://form", "sdk+memo://note"]);
        let templates = client.list_all_resource_templates().await.expect("templates");
        let patterns: Vec<_> = templates.iter().map(|t| t.uri_template.as_str()).collect();
        assert_eq!(patterns, ["scripted+memo://page/{number}", "sdk+memo://page/{number}"]);
        visit.leave().await;
    })
    .await;
}

#[tokio::test]
async fn a_call_takes_its_arguments_there_and_its_result_back() {
    every_visit(async |visit, _| {
        let arguments = json!({"text": "é\u{1F980}\n", "big": u64::MAX, "nested": {"list": [1, null, true]}});
        for server in SERVERS {
            let called = visit.client.call_tool(tool(server, "echo", arguments.clone()));
            let result = within("a result", called).await.expect("a result");
            let (by, echoed) = text(&result).split_once(' ').expect("a name and an echo");
            assert_eq!(by, server);
            assert_eq!(serde_json::from_str::<Value>(echoed).expect("JSON"), arguments);
        }
        let unknown = visit.client.call_tool(tool("scripted", "nothing", json!({})));
        match within("an error", unknown).await {
            Err(ServiceError::McpError(error)) => assert_eq!(error.code, ErrorCode::INVALID_PARAMS),
            other => panic!("no error but {other:?}"),
        }
        visit.leave().await;
    })
    .await;
}

// S2.3, bridging 29
#[tokio::test]
async fn progress_arrives_under_the_token_of_its_call() {
    every_visit(async |mut visit, _| {
        let mut tokens = Vec::new();
        let mut calls = Vec::new();
        for server in SERVERS {
            let call = start(&visit, tool(server, "steps", json!({}))).await;
            tokens.push(call.progress_token.clone());
            calls.push(call.await_response());
        }
        for call in calls {
            within("a result", call).await.expect("a result");
        }
        let mut progress = Vec::new();
        for _ in 0..6 {
            let p = visit.seen.progress().await;
            let from = tokens.iter().position(|token| *token == p.progress_token).expect("a token of ours");
            assert_eq!(p.total, Some(3.0));
            progress.push((from, p.progress, p.message.unwrap_or_default()));
        }
        progress.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
        let expected: Vec<_> = (0..2)
            .flat_map(|from| [1, 2, 3].map(|step| (from, f64::from(step), format!("{} step {step}", SERVERS[from]))))
            .collect();
        assert_eq!(progress, expected);
        assert!(visit.seen.no_more_progress());
        visit.leave().await;
    })
    .await;
}

// S2.1, bridging 28
#[tokio::test]
async fn a_cancelled_call_ends_at_its_server_and_no_other_call_does() {
    every_visit(async |visit, _| {
        for (server, doorman) in SERVERS.into_iter().zip(&visit.doormen) {
            let first = start(&visit, tool(server, "wait", json!({"who": "first"}))).await;
            let second = start(&visit, tool(server, "wait", json!({"who": "second"}))).await;
            doorman.gate.reached(2).await;
            first.cancel(Some("no longer wanted".to_owned())).await.expect("a cancellation");
            assert_eq!(doorman.wait_cancelled().await, ["first"]);
            doorman.gate.open();
            let result = within("the other result", second.await_response()).await.expect("a result");
            let result: CallToolResult = serde_json::from_value(json!(result)).expect("a tool result");
            assert_eq!(text(&result), "second waited");
            assert_eq!(doorman.cancelled(), ["first"]);
        }
        visit.leave().await;
    })
    .await;
}

// bridging 41
#[tokio::test]
async fn a_resource_is_read_under_the_uri_that_was_listed() {
    every_visit(async |visit, era| {
        for server in SERVERS {
            for (path, expected) in [("note", format!("a note of {server}")), ("page/7", format!("page 7 of {server}"))]
            {
                let uri = format!("{server}+memo://{path}");
                let read = visit.client.read_resource(ReadResourceRequestParams::new(&uri));
                let result = within("contents", read).await.expect("contents");
                assert_eq!(contents(&result), (uri.as_str(), expected.as_str()));
            }
            let uri = format!("{server}+memo://gone");
            let read = visit.client.read_resource(ReadResourceRequestParams::new(&uri));
            let Err(ServiceError::McpError(error)) = within("an error", read).await else { panic!("no error") };
            let not_found = match era {
                Era::Legacy => ErrorCode::RESOURCE_NOT_FOUND,
                Era::Modern => ErrorCode::INVALID_PARAMS,
            };
            assert_eq!((error.code, &error.data.unwrap_or_default()["uri"]), (not_found, &json!(uri)));
        }
        visit.leave().await;
    })
    .await;
}

#[tokio::test]
async fn a_prompt_and_its_completion_find_their_server() {
    every_visit(async |visit, _| {
        for server in SERVERS {
            let greet = format!("{server}__greet");
            let params = GetPromptRequestParams::new(&greet).with_arguments(object(json!({"name": "Ferris"})));
            let prompt = within("a prompt", visit.client.get_prompt(params)).await.expect("a prompt");
            assert_eq!(prompt_text(&prompt), format!("Greet Ferris for {server}"));
            let values = visit.client.complete_prompt_simple(greet, "name", "Fe");
            assert_eq!(within("values", values).await.expect("values"), [format!("{server}: greet name=Fe")]);
            let template = format!("{server}+memo://page/{{number}}");
            let values = visit.client.complete_resource_simple(template, "number", "1");
            assert_eq!(
                within("values", values).await.expect("values"),
                [format!("{server}: memo://page/{{number}} number=1")]
            );
        }
        visit.leave().await;
    })
    .await;
}
