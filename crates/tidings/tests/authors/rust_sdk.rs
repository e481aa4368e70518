//! The examples as the client of the official Rust SDK sees them.

use rmcp::model::{CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams, ResourceContents};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde_json::json;
use tidings_testkit::{TempDir, tidings, within};
use tokio::process::Command;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/script-projects");

async fn visit(example: &str, state: &TempDir) -> RunningService<RoleClient, ()> {
    let mut command = Command::new(tidings());
    command
        .arg("project")
        .arg(format!("{EXAMPLES}/{example}"))
        .args(["--allow", "*", "--data"])
        .arg(state.join("data"));
    let transport = TokioChildProcess::builder(command).spawn().unwrap().0;
    within("a client", ().serve_with_lifecycle(transport, ClientLifecycleMode::Initialize)).await.unwrap()
}

// S0.9: a real client
#[tokio::test]
async fn the_sdks_client_uses_the_examples() {
    let state = TempDir::new();
    let client = visit("hello", &state).await;
    let arguments = serde_json::from_value(json!({ "name": "Ferris" })).unwrap();
    let hello = CallToolRequestParams::new("hello").with_arguments(arguments);
    let said = within("a result", client.call_tool(hello)).await.unwrap();
    assert_eq!(said.content[0].as_text().unwrap().text, "Hello, Ferris!");
    client.cancel().await.unwrap();

    let client = visit("resources", &state).await;
    let read =
        within("a result", client.read_resource(ReadResourceRequestParams::new("fortune://monday"))).await.unwrap();
    match &read.contents[0] {
        ResourceContents::TextResourceContents { text, .. } => assert_eq!(text, "Mondays are for reading.\n"),
        other => panic!("no text but {other:?}"),
    }
    client.cancel().await.unwrap();

    let client = visit("prompts", &state).await;
    let arguments = serde_json::from_value(json!({ "language": "Rust", "code": "()" })).unwrap();
    let review = GetPromptRequestParams::new("review").with_arguments(arguments);
    let got = within("a result", client.get_prompt(review)).await.unwrap();
    assert!(got.messages[0].content.as_text().unwrap().text.starts_with("Review this Rust code."));
    client.cancel().await.unwrap();
}
