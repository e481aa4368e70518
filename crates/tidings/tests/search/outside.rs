//! The same search from outside: `GET /api/v1/tools` and `tidings tools`.

use std::process::Output;

use serde_json::{Value, json};
use tidings_testkit::{Gateway, Server};

use crate::{exposing, names, office};

/// The status, and the body as JSON, of a call to the API.
pub(crate) async fn api(gateway: &Gateway, path: &str) -> (u16, Value) {
    let token = std::fs::read_to_string(gateway.data().join("admin.token")).unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = http.get(format!("{}/api/v1/{path}", gateway.base_url())).bearer_auth(token.trim());
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    assert_eq!(kind, if status == 200 { "application/json" } else { "application/problem+json" });
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

async fn tidings(arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(tidings_testkit::tidings());
    tidings_testkit::within("tidings tools", command.arg("tools").args(arguments).output()).await.unwrap()
}

// S3.8
#[tokio::test]
async fn the_api_lists_all_tools_or_those_that_fit() {
    for expose in ["all", "search"] {
        let server = office().stdio().await;
        let other = Server::builder("other").echo("echo").http().await;
        let gateway = exposing(expose).server("office", &server).server("other", &other).serve().await;
        let (status, all) = api(&gateway, "tools").await;
        let all = all["tools"].as_array().unwrap().clone();
        assert_eq!((status, all.len()), (200, if expose == "all" { 5 } else { 7 }));
        assert!(names(&all).contains(&"other__echo") && all[0].get("score").is_none());
        let (_, fit) = api(&gateway, "tools?q=reserve%20a+room").await;
        assert_eq!(fit["tools"][0]["name"], "office__book_room");
        assert_eq!(fit["tools"][0]["server"], "office");
        assert!(fit["tools"][0]["inputSchema"].is_object() && fit["tools"][0]["score"].is_number());
        assert_eq!(api(&gateway, "tools?q=xylophone").await, (200, json!({"tools": []})));
        assert_eq!(api(&gateway, "tools?q=office&limit=1").await.1["tools"].as_array().unwrap().len(), 1);
        for wrong in ["tools?q=", "tools?q=%FF", "tools?limit=0", "tools?query=a"] {
            let (status, problem) = api(&gateway, wrong).await;
            assert_eq!((status, &problem["status"]), (400, &json!(400)), "{wrong}");
            assert!(problem["detail"].as_str().unwrap().contains('`'), "names the parameter: {problem}");
        }
        assert_eq!(gateway.get("/api/v1/tools").await.0, 401, "not without the token");
    }
}

// S3.8
#[tokio::test]
async fn the_command_line_asks_the_running_gateway_or_its_own() {
    let server = office().stdio().await;
    let gateway = exposing("all").server("office", &server).serve().await;
    let data = gateway.data().to_str().unwrap();
    let config = gateway.config().to_str().unwrap();
    for place in [vec!["--data", data], vec!["--data", data, "--config", config]] {
        let ask = |more: &[&'static str]| {
            let arguments: Vec<&str> = place.iter().copied().chain(more.iter().copied()).collect();
            async move { tidings(&arguments).await }
        };
        let text = |output: Output| String::from_utf8(output.stdout).unwrap();
        let all = text(ask(&[]).await);
        let first: Vec<&str> = all.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(first, ["book_room", "createInvoice", "list_holidays", "send_message"], "{all}");
        let fit = text(ask(&["reserve", "a room"]).await);
        let lines: Vec<&str> = fit.lines().collect();
        assert_eq!(lines[0], "book_room  Reserves a meeting room for some hours.");
        assert_eq!(lines[1].trim(), "of office, with text?");
        let found: Value = serde_json::from_str(&text(ask(&["--json", "bill a customer"]).await)).unwrap();
        assert_eq!(found["tools"][0]["name"], "createInvoice");
        let nothing = ask(&["xylophone"]).await;
        assert_eq!(nothing.status.code(), Some(1));
        assert!(String::from_utf8(nothing.stderr).unwrap().contains("no tool fits \"xylophone\""));
    }
    let started = server.processes().len();
    assert!(tidings(&["--data", data, "room"]).await.status.success());
    assert_eq!(server.processes().len(), started, "the running gateway was asked, nothing was started");
}
