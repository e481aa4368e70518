//! Learning from use: what a caller calls after a search moves up for that caller, and for nobody else.

use ring::digest::{SHA256, digest};
use serde_json::json;
use tidings_testkit::{Client, Gateway, Server, within};

use crate::{call, exposing, found, tool};

const QUESTION: &str = "tell the customer";

/// Two tools that fit a question equally well; the order of names puts the first one first.
async fn twins() -> Server {
    let words = "Tells a customer something.";
    Server::builder("shop").entry_tool(tool("alpha_notice", words)).entry_tool(tool("beta_notice", words)).stdio().await
}

fn token(name: &str) -> String {
    let hash = digest(&SHA256, format!("token-{name}").as_bytes());
    let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{{ name = {name:?}, sha256 = \"{hash}\" }}")
}

async fn of(gateway: &Gateway, name: &str) -> Client {
    gateway.client().header("authorization", &format!("Bearer token-{name}")).connect().await
}

async fn learnt(gateway: &Gateway) -> u64 {
    crate::outside::api(gateway, "search").await.1["learnt"].as_u64().unwrap()
}

// issue 19
#[tokio::test]
async fn a_tool_that_was_used_after_a_question_comes_first_for_that_caller_alone() {
    let server = twins().await;
    let auth = format!("[auth]\ntokens = [{}, {}]", token("ann"), token("ben"));
    let gateway = exposing("search").toml(&auth).server("shop", &server).serve().await;
    let (ann, ben) = (of(&gateway, "ann").await, of(&gateway, "ben").await);
    assert_eq!(found(&ann, QUESTION).await, ["alpha_notice", "beta_notice"]);
    assert_eq!(call(&ann, "beta_notice", json!({"text": "x"})).await.text(), "beta_notice: x");
    assert_eq!(learnt(&gateway).await, 1);
    assert_eq!(found(&ann, "telling customers").await, ["beta_notice", "alpha_notice"], "also for a similar question");
    assert_eq!(found(&ben, QUESTION).await, ["alpha_notice", "beta_notice"], "nobody else learns of it");
    let data = gateway.data().to_str().unwrap();
    let mut forget = tokio::process::Command::new(tidings_testkit::tidings());
    let said = within("forget", forget.args(["search", "forget", "--data", data]).output()).await.unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains("Forgot 1 uses"), "{said:?}");
    assert_eq!(found(&ann, QUESTION).await, ["alpha_notice", "beta_notice"]);
    assert_eq!(learnt(&gateway).await, 0);
}

// issue 19
#[tokio::test]
async fn learning_can_be_switched_off() {
    let server = twins().await;
    let gateway = exposing("search").toml("[search]\nlearn = false").server("shop", &server).serve().await;
    let client = gateway.client().connect().await;
    found(&client, QUESTION).await;
    call(&client, "beta_notice", json!({})).await;
    assert_eq!(found(&client, QUESTION).await, ["alpha_notice", "beta_notice"]);
    assert_eq!(learnt(&gateway).await, 0);
}

// issue 19
#[tokio::test]
async fn what_was_learnt_outlives_the_gateway() {
    let server = twins().await;
    let gateway = exposing("search").server("shop", &server).serve().await;
    let client = gateway.client().connect().await;
    found(&client, QUESTION).await;
    call(&client, "beta_notice", json!({})).await;
    assert_eq!(found(&client, QUESTION).await[0], "beta_notice");
    gateway.terminate().await;
    let gateway = gateway.again().await;
    let client = gateway.client().connect().await;
    assert_eq!(found(&client, QUESTION).await[0], "beta_notice");
}
