//! Pages of a project for clients that show them (MCP Apps), and what a script hears of its caller and of its helpers.

use serde_json::{Value, json};
use tidings_testkit::ClientReply;

use crate::Project;

const MIME_TYPE: &str = "text/html;profile=mcp-app";

fn weather() -> Project {
    let project = Project::new();
    project
        .write("server.d/server.meta.json", r#"{"name": "my-server"}"#)
        .write("resources/dashboard.txt", "a resource of the same name")
        .tool("weather", "mcp_result_success '{\"degrees\": 7}'")
        .about("weather", r#"{"name": "forecast", "description": "d", "_meta": {"mine": 1}}"#)
        .write("tools/weather/ui/index.html", "<!DOCTYPE html><title>Weather</title>")
        .write(
            "tools/weather/ui/ui.meta.json",
            r#"{"description": "A card", "meta": {"csp": {"connectDomains": ["https://api.example"]}, "prefersBorder": false}}"#,
        )
        .tool("other", "echo other")
        .about("other", r#"{"name": "other", "description": "d", "_meta": {"ui": {"resourceUri": "ui://my-server/dashboard"}}}"#)
        .write("tools/other/ui/index.html", "<html></html>")
        .write(
            "ui/dashboard/ui.meta.json",
            r#"{"template": "data-table", "config": {"title": "Users", "columns": [{"key": "id", "sortable": true}]}}"#,
        )
        .write("ui/broken/ui.meta.json", r#"{"template": "pie-chart"}"#)
        .write("ui/outside/ui.meta.json", r#"{"entrypoint": "../../server.d/server.meta.json"}"#);
    project
}

// edges E
#[tokio::test]
async fn a_folder_with_a_page_is_a_resource_and_its_tool_names_it() {
    let project = weather();
    for builder in [project.stdio(), project.stdio().modern()] {
        let client = builder.connect().await;
        let tools = client.list("tools").await;
        let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{tools:?}"));
        assert_eq!(
            tool("forecast")["_meta"],
            json!({"mine": 1, "ui": {"resourceUri": "ui://my-server/weather", "visibility": ["model", "app"]}})
        );
        assert_eq!(
            tool("other")["_meta"]["ui"],
            json!({"resourceUri": "ui://my-server/dashboard"}),
            "the author's word"
        );
        assert_eq!(tools.len(), 2, "a page is no tool: {tools:?}");

        let resources = client.list("resources").await;
        let pages: Vec<&Value> = resources.iter().filter(|one| one["mimeType"] == MIME_TYPE).collect();
        let uris: Vec<&str> = pages.iter().map(|one| one["uri"].as_str().unwrap()).collect();
        assert_eq!(uris, ["ui://my-server/dashboard", "ui://my-server/other", "ui://my-server/weather"]);
        let csp = json!({"connectDomains": ["https://api.example"]});
        assert_eq!(pages[2]["_meta"]["ui"], json!({"csp": csp, "permissions": {}, "prefersBorder": false}));
        assert_eq!((&pages[2]["name"], &pages[2]["description"]), (&json!("weather"), &json!("A card")));
        assert_eq!(pages[1]["_meta"]["ui"], json!({"csp": {}, "permissions": {}, "prefersBorder": true}));
        assert_eq!(pages[1]["description"], "UI resource for other");

        let read = |uri: &'static str| client.request("resources/read", json!({ "uri": uri }));
        let card = read("ui://my-server/weather").await.result()["contents"][0].clone();
        assert_eq!(
            (&card["mimeType"], &card["text"]),
            (&json!(MIME_TYPE), &json!("<!DOCTYPE html><title>Weather</title>"))
        );
        assert_eq!(card["_meta"]["ui"]["csp"], csp);
        for other in ["ui://weather", "ui://another-name/weather"] {
            let same = read(other).await.result()["contents"][0].clone();
            assert_eq!((&same["uri"], &same["text"]), (&json!(other), &card["text"]));
        }
        let table = read("ui://my-server/dashboard").await.result()["contents"][0]["text"].as_str().unwrap().to_owned();
        assert!(table.starts_with("<!DOCTYPE html>") && table.contains("<title>Users</title>"), "{table}");
        assert!(table.contains(r#""key":"id""#) && table.contains("ui/initialize"), "{table}");
        for absent in ["ui://my-server/broken", "ui://my-server/outside"] {
            assert!(
                read(absent).await.response.is_some_and(|answer| answer.value().get("error").is_some()),
                "{absent}"
            );
        }
    }
}

// edges E
#[tokio::test]
async fn what_is_wrong_with_a_page_is_named_and_a_new_page_is_announced() {
    let project = weather();
    let mut command = tokio::process::Command::new(tidings_testkit::tidings());
    let validated = command.args(["project", "validate"]).arg(project.root()).output().await.unwrap();
    let said = String::from_utf8(validated.stdout).unwrap();
    assert!(said.contains("ui/broken/ui.meta.json") && said.contains("data-table"), "{said}");
    assert!(said.contains("ui/outside/ui.meta.json"), "{said}");

    let client = project.client().await;
    let before = client.list("resources").await.len();
    client.wait_for_method("notifications/resources/list_changed", 1).await;
    project.write("ui/new/index.html", "<html>new</html>");
    client.wait_for_method("notifications/resources/list_changed", 2).await;
    assert_eq!(client.list("resources").await.len(), before + 1);
}

// edges E
#[tokio::test]
async fn a_declined_question_reaches_the_script() {
    let project = Project::new();
    project.tool("ask", "answer=\"$(mcp_elicit_confirm 'Sure?')\"; echo \"$? $answer\"");
    for action in ["decline", "cancel"] {
        let client = project.stdio().capabilities(json!({"elicitation": {"form": {}}})).connect().await;
        client.on_request(move |_| ClientReply::Result(json!({ "action": action })));
        let said = client.call_tool("ask", json!({})).await.text();
        assert_eq!(said.trim(), format!("0 {{\"action\":\"{action}\",\"content\":null}}"));
    }
}

// edges E
#[tokio::test]
async fn a_script_that_goes_on_after_its_answer_is_answered_with_that() {
    let project = Project::new();
    let schema = r#"{"name": "stop", "description": "d", "outputSchema": {"type": "object", "required": ["success"]}}"#;
    project
        .tool(
            "stop",
            "answer=\"$(mcp_elicit_confirm 'Sure?')\"
             case \"$answer\" in *decline*) mcp_result_success '{\"message\": \"stopped: declined\"}' ;; esac
             mcp_error late 'and went on'",
        )
        .about("stop", schema);
    for builder in [project.stdio().capabilities(json!({"elicitation": {"form": {}}})), project.stdio()] {
        let client = builder.connect().await;
        client.on_request(|_| ClientReply::Result(json!({ "action": "decline" })));
        let result = client.call_tool("stop", json!({})).await.result();
        assert_eq!(result["structuredContent"]["result"]["message"], "stopped: declined", "{result}");
        assert_eq!(result["isError"], false, "{result}");
        assert!(result["content"][1]["text"].as_str().unwrap().contains("and went on"), "{result}");
    }
}

// edges E
#[tokio::test]
async fn a_refused_download_reaches_the_caller_as_content() {
    let project = Project::new();
    project
        .tool("kind", "mcp_download_safe --url http://x.example/ --out out")
        .tool("blocked", "mcp_download_safe --url https://x.example/ --out out")
        .tool("odd", "mcp_download_safe --alow x.example")
        .tool("fails", "path=\"$(mcp_download_safe_or_fail --url https://localhost/ --out out)\"; echo \"$path\"");
    let client = project.client().await;
    for (tool, kind, words) in [
        ("kind", "invalid_url", "URL must use https://"),
        ("blocked", "host_blocked", "Host blocked by policy: x.example is not allowed"),
        ("odd", "invalid_params", "Unknown option: --alow"),
    ] {
        let result = client.call_tool(tool, json!({})).await.result();
        let refused = &result["structuredContent"];
        assert_eq!((&refused["success"], &refused["error"]["type"]), (&json!(false), &json!(kind)), "{result}");
        assert!(refused["error"]["message"].as_str().unwrap().starts_with(words), "{result}");
    }
    let failed = client.call_tool("fails", json!({})).await.error();
    assert!(
        failed["message"].as_str().unwrap().starts_with("Download failed (host_blocked): Host blocked"),
        "{failed}"
    );
}

// edges E
#[tokio::test]
async fn a_prompt_that_is_got_has_its_description() {
    let project = Project::new();
    project
        .write("prompts/greet.txt", "Hello {{name}}")
        .write("prompts/greet.meta.json", r#"{"name": "greet", "description": "Greets somebody."}"#);
    for builder in [project.stdio(), project.stdio().modern()] {
        let client = builder.connect().await;
        let got = client.request("prompts/get", json!({"name": "greet", "arguments": {"name": "Ann"}})).await.result();
        assert_eq!(got["description"], "Greets somebody.", "{got}");
    }
}
