//! Limits of `[limits]`: so many in a time and at a time, each person by themselves.

use serde_json::json;
use tidings_testkit::{Gate, Gateway, Server};

use crate::policies::people;
use crate::{both_eras, quick};

// identity 4: `isError` for tools, code 429 for the rest, HTTP 200
#[tokio::test]
async fn who_is_over_a_limit_is_told_when_to_try_again_and_the_others_go_on() {
    let limits = "[[limits.rule]]\nname = \"careful\"\nwho = [\"group:support\"]\nwhat = [\"crm/*\"]\nrate = \"2/h\"\n";
    let crm = Server::builder("crm").echo("echo").prompt("greet", |call| async move { call.ok_message("hi") });
    let crm = crm.stdio().await;
    let other = Server::builder("other").echo("echo").stdio().await;
    let gateway = quick(&people(&[("ada", "support"), ("dan", "dev")])).toml(limits);
    let gateway = gateway.server("crm", &crm).server("other", &other).serve().await;
    let ada = both_eras(&gateway, "ada").await;
    for client in &ada {
        let answer = client.call_tool("crm__echo", json!({"a": 1})).await;
        assert_eq!(answer.result()["isError"], json!(null), "{answer:?}");
    }
    let before = crm.record().len();
    for client in &ada {
        let answer = client.call_tool("crm__echo", json!({})).await;
        assert_eq!((answer.result()["isError"].clone(), answer.status), (json!(true), 200), "{answer:?}");
        assert!(
            answer.text().starts_with("over the limit \"careful\" (2 in 3600 s); try again in "),
            "{}",
            answer.text()
        );
        let answer = client.request("prompts/get", json!({"name": "crm__greet"})).await;
        assert_eq!((answer.error_code(), answer.status), (429, 200), "{answer:?}");
        let wait = answer.error()["data"]["retryAfterMs"].as_u64().unwrap();
        assert!((1_000_000..=1_800_000).contains(&wait), "{wait}");
        // What the limit is not about.
        assert_eq!(client.call_tool("other__echo", json!({"a": 1})).await.result()["isError"], json!(null));
    }
    assert_eq!(crm.record().since(before).iter().filter(|r| r.method == "tools/call").count(), 0);
    for client in both_eras(&gateway, "dan").await {
        for _ in 0..3 {
            assert_eq!(client.call_tool("crm__echo", json!({})).await.result()["isError"], json!(null));
        }
    }
    let (_, metrics) = gateway.get_as_admin("/metrics").await;
    assert!(metrics.contains("tidings_limit_refused_total{limit=\"careful\"} "), "{metrics}");
    // Others in their place hold at once.
    let text = std::fs::read_to_string(gateway.config()).unwrap();
    gateway.rewrite_config(&text.replace("careful", "generous").replace("2/h", "100/h"));
    gateway.stderr().wait_for("the reading", |line| line.contains("configuration read again")).await;
    for client in &ada {
        assert_eq!(client.call_tool("crm__echo", json!({})).await.result()["isError"], json!(null));
    }
}

// identity 4: at a time
#[tokio::test]
async fn a_place_among_those_that_run_is_given_back() {
    let gate = Gate::new();
    let held = gate.clone();
    let crm = Server::builder("crm")
        .tool("slow", move |call| {
            let held = held.clone();
            async move {
                held.wait().await;
                call.ok_text("done")
            }
        })
        .stdio()
        .await;
    let limits = "[limits]\nprincipal = { concurrent = 1 }\n";
    let gateway = quick(&people(&[("ada", "support"), ("dan", "dev")])).toml(limits).server("crm", &crm).serve().await;
    let [legacy, modern] = both_eras(&gateway, "ada").await;
    let first = legacy.start("tools/call", json!({"name": "slow", "arguments": {}}));
    crm.wait_for_method("tools/call", 1).await;
    let refused = modern.call_tool("slow", json!({})).await;
    assert_eq!(refused.result()["isError"], json!(true));
    assert!(refused.text().contains("over the limit \"principal\" (1 at a time)"), "{}", refused.text());
    gate.open();
    assert_eq!(first.finish().await.text(), "done");
    assert_eq!(modern.call_tool("slow", json!({})).await.text(), "done");
}

// identity 4: one person at a pipe is counted like everybody else
#[tokio::test]
async fn limits_hold_on_standard_input() {
    let limits = "[limits]\nprincipal = { rate = \"2/h\" }\n[[limits.rule]]\nname = \"greetings\"\nwho = [\"*\"]\n\
                  what = [\"crm/greet\"]\nper_day = 1\n";
    let crm = Server::builder("crm").echo("echo").prompt("greet", |call| async move { call.ok_message("hi") });
    let crm = crm.stdio().await;
    for modern in [false, true] {
        let client = Gateway::builder().toml(limits).server("crm", &crm).stdio();
        let client = if modern { client.modern() } else { client }.connect().await;
        assert!(client.request("prompts/get", json!({"name": "greet"})).await.response().error().is_null());
        let refused = client.request("prompts/get", json!({"name": "greet"})).await;
        assert_eq!(refused.error_code(), 429, "{refused:?}");
        assert!(refused.error()["message"].as_str().unwrap().contains("\"greetings\""), "{refused:?}");
        assert_eq!(client.call_tool("echo", json!({})).await.result()["isError"], json!(null));
        let refused = client.call_tool("echo", json!({})).await;
        assert_eq!(refused.result()["isError"], json!(true), "{refused:?}");
        assert!(refused.text().starts_with("over the limit \"principal\" (2 in 3600 s)"), "{}", refused.text());
    }
    // Nobody is counted without limits.
    let client = Gateway::builder().server("crm", &crm).stdio().connect().await;
    for _ in 0..5 {
        assert_eq!(client.call_tool("echo", json!({})).await.result()["isError"], json!(null));
    }
}
