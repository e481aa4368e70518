//! What is posted to webhooks, at replicas that did not receive it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::json;
use tidings_testkit::{Client, Gateway, NatsServer, V2025_11_25};

use crate::{Fleet, replica_with};

const HOOKS: &str = "[watch.deploys]\nwebhook = \"ci\"\nsecret = \"s3\"\npointer = \"/repo\"\n";

async fn begin(names: &[&str]) -> Option<Fleet> {
    let nats = NatsServer::start()?;
    let url = nats.url();
    let starting = names.iter().map(|name| replica_with(&url, name, HOOKS, &[]).serve());
    let replicas = futures_util::future::join_all(starting).await;
    let fleet = Fleet { nats, replicas };
    for place in 0..names.len() {
        fleet
            .wait(place, "all are there", |cluster| {
                let replicas = cluster["replicas"].as_array().unwrap();
                replicas.iter().filter(|one| one["state"] == "connected").count() == names.len()
            })
            .await;
    }
    Some(fleet)
}

fn tag(signed: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"s3"), signed)
}

/// Posts a body to a replica, signed as GitHub does.
async fn post(gateway: &Gateway, body: &str) -> u16 {
    let poster = Client::http(format!("{}/hooks/ci", gateway.base_url())).raw().connect().await;
    let hex: String = tag(body.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let signature = format!("sha256={hex}");
    let headers = [("x-hub-signature-256", signature.as_str()), ("content-type", "application/json")];
    poster.post_raw(body.to_owned(), &headers).await.status
}

/// Posts a body by the headers of Standard Webhooks.
async fn post_with_id(gateway: &Gateway, id: &str, body: &str) -> u16 {
    let poster = Client::http(format!("{}/hooks/ci", gateway.base_url())).raw().connect().await;
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().to_string();
    let signature = format!("v1,{}", STANDARD.encode(tag(format!("{id}.{time}.{body}").as_bytes())));
    let headers = [("webhook-id", id), ("webhook-timestamp", &time), ("webhook-signature", &signature)];
    poster.post_raw(body.to_owned(), &headers).await.status
}

async fn text(client: &Client, uri: &str) -> String {
    client.request("resources/read", json!({ "uri": uri })).await.text()
}

// cluster: watches
#[tokio::test(flavor = "multi_thread")]
async fn what_is_posted_to_one_replica_is_read_at_all_and_told_once() {
    let Some(fleet) = begin(&["a", "b", "c"]).await else { return };
    let connecting = fleet.replicas.iter().map(|gateway| gateway.client().modern().connect());
    let clients = futures_util::future::join_all(connecting).await;
    let mut listens = Vec::new();
    for client in &clients {
        let wanted = json!({"notifications": {"resourceSubscriptions": ["watch://deploys"]}});
        let mut listen = client.start("subscriptions/listen", wanted);
        listen.next_method("notifications/subscriptions/acknowledged").await;
        listens.push(listen);
    }
    for round in 1..=6 {
        let body = json!({"repo": format!("r{}", round % 2), "round": round}).to_string();
        assert_eq!(post(&fleet.replicas[round % 3], &body).await, 204);
        // At once: whoever was answered may ask anywhere.
        for client in &clients {
            assert_eq!(text(client, "watch://deploys").await, body);
            assert_eq!(text(client, &format!("watch://deploys/r{}", round % 2)).await, body);
        }
        for client in &clients {
            client.wait_for_method("notifications/resources/updated", round).await;
        }
        // The same once more changes nothing.
        assert_eq!(post(&fleet.replicas[(round + 1) % 3], &body).await, 204);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    for client in &clients {
        assert_eq!(client.count("notifications/resources/updated"), 6, "once each");
    }
    drop(listens);
}

// cluster: watches
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_is_repeated_at_another_replica_is_known_there() {
    let Some(fleet) = begin(&["a", "b"]).await else { return };
    let [one, other] = &fleet.replicas[..] else { return };
    assert_eq!(post_with_id(one, "first", r#"{"repo":"x","n":1}"#).await, 204);
    assert_eq!(post_with_id(other, "second", r#"{"repo":"y","n":2}"#).await, 204);
    assert_eq!(post_with_id(other, "first", r#"{"repo":"x","n":1}"#).await, 204, "it was taken before");
    let client = one.client().revision(V2025_11_25).connect().await;
    assert_eq!(text(&client, "watch://deploys").await, r#"{"repo":"y","n":2}"#);
    assert_eq!(text(&client, "watch://deploys/x").await, r#"{"repo":"x","n":1}"#);
}

// cluster: watches
#[tokio::test(flavor = "multi_thread")]
async fn what_was_posted_outlives_the_replica_that_received_it() {
    let Some(fleet) = begin(&["a", "b"]).await else { return };
    for n in 1..=3 {
        assert_eq!(post(&fleet.replicas[0], &format!(r#"{{"repo":"r{n}"}}"#)).await, 204);
    }
    fleet.replicas[0].kill().await;
    let late = replica_with(&fleet.nats.url(), "c", HOOKS, &[]).serve().await;
    late.wait_ready().await;
    for gateway in [&fleet.replicas[1], &late] {
        let client = gateway.client().modern().connect().await;
        assert_eq!(text(&client, "watch://deploys").await, r#"{"repo":"r3"}"#);
        for n in 1..=3 {
            assert_eq!(text(&client, &format!("watch://deploys/r{n}")).await, format!(r#"{{"repo":"r{n}"}}"#));
        }
    }
    assert_eq!(post(&late, r#"{"repo":"r1","again":true}"#).await, 204);
    let client = fleet.replicas[1].client().modern().connect().await;
    assert_eq!(text(&client, "watch://deploys/r1").await, r#"{"repo":"r1","again":true}"#);
    assert_eq!(text(&client, "watch://deploys/r3").await, r#"{"repo":"r3"}"#);
}

// cluster: watches
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_cut_off_takes_no_deliveries() {
    let Some(fleet) = begin(&["a", "b"]).await else { return };
    let gateway = &fleet.replicas[0];
    assert_eq!(post(gateway, r#"{"n":1}"#).await, 204);
    fleet.nats.pause();
    fleet
        .wait(0, "it notices", |cluster| {
            cluster["replicas"].as_array().unwrap().iter().any(|one| one["state"] == "isolated")
        })
        .await;
    assert_eq!(post(gateway, r#"{"n":2}"#).await, 503);
    let client = gateway.client().modern().connect().await;
    assert_eq!(text(&client, "watch://deploys").await, r#"{"n":1}"#, "what it knows is still read");
    fleet.nats.resume();
    fleet
        .wait(0, "it is back", |cluster| {
            let replicas = cluster["replicas"].as_array().unwrap();
            replicas.iter().filter(|one| one["state"] == "connected").count() == 2
        })
        .await;
    assert_eq!(text(&client, "watch://deploys").await, r#"{"n":1}"#, "what was refused was not taken");
    assert_eq!(post(gateway, r#"{"n":3}"#).await, 204);
    let there = fleet.replicas[1].client().modern().connect().await;
    assert_eq!(text(&there, "watch://deploys").await, r#"{"n":3}"#);
}
