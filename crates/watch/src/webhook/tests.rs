//! Deliveries as a client sees them.

use http::HeaderValue;
use ring::hmac;
use serde_json::json;
use tidings_engine::{Decided, DecisionFollower as _};

use super::*;
use crate::probe::ProbeLink;

const URI: &str = "watch://deploys";

fn hook(pointer: Option<&str>) -> Arc<WebhookSource> {
    let about = AboutResource { id: "deploys".to_owned(), ..AboutResource::default() };
    Arc::new(WebhookSource::new(
        about,
        WebhookWatch { name: "ci".to_owned(), secret: "s3".to_owned(), pointer: pointer.map(str::to_owned) },
    ))
}

fn post(hook: &WebhookSource, body: &str) {
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"s3"), body.as_bytes());
    let hex: String = signature.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut headers = HeaderMap::new();
    headers.insert("x-hub-signature-256", HeaderValue::try_from(format!("sha256={hex}")).unwrap());
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let taken = hook.take(&headers, Bytes::from(body.to_owned()), SystemTime::now());
    assert_eq!(taken.map(|(delivered, _)| delivered), Ok(DeliveryOutcome::Taken));
}

// S1.6
#[tokio::test]
async fn a_delivery_is_the_content_and_is_told_when_it_differs() {
    let hook = hook(None);
    let probe = ProbeLink::of_all(vec![hook.clone()]);
    assert_eq!(probe.text(URI).await.unwrap_err(), "nothing has been received yet");
    let mut heard = probe.listen(&[URI], true).await;
    post(&hook, "1");
    assert_eq!(heard.next().await, URI);
    assert_eq!(probe.text(URI).await.unwrap(), "1");
    post(&hook, "1");
    heard.nothing().await;
    post(&hook, "2");
    assert_eq!(heard.next().await, URI);
    let list = probe.ask("resources/list", json!({})).await;
    let item = &list["result"]["resources"][0];
    assert_eq!((item["size"].as_u64(), item["mimeType"].as_str()), (Some(1), Some("application/json")));
}

#[tokio::test]
async fn a_refused_delivery_changes_nothing() {
    let hook = hook(None);
    let probe = ProbeLink::of_all(vec![hook.clone()]);
    post(&hook, "1");
    let headers = HeaderMap::from_iter([("x-hub-signature-256".parse().unwrap(), "sha256=00".parse().unwrap())]);
    assert_eq!(hook.deliver(&headers, Bytes::from_static(b"2")).await, Err(BadSignature::Wrong.into()));
    assert_eq!(probe.text(URI).await.unwrap(), "1");
}

#[tokio::test]
async fn a_pointer_makes_a_resource_of_each_part() {
    let hook = hook(Some("/service"));
    let probe = ProbeLink::of_all(vec![hook.clone()]);
    let mut heard = probe.listen(&["watch://deploys/web", "watch://deploys/api"], true).await;
    post(&hook, r#"{"service":"web","n":1}"#);
    assert_eq!([heard.next().await, heard.next().await], ["list", "watch://deploys/web"]);
    post(&hook, r#"{"service":"a b","n":2}"#);
    assert_eq!(heard.next().await, "list");
    assert_eq!(probe.uris().await, [URI, "watch://deploys/a%20b", "watch://deploys/web"]);
    assert_eq!(probe.text("watch://deploys/web").await.unwrap(), r#"{"service":"web","n":1}"#);
    assert_eq!(probe.text(URI).await.unwrap(), r#"{"service":"a b","n":2}"#);
    post(&hook, r#"{"no":"part"}"#);
    post(&hook, "not json");
    heard.nothing().await;
}

#[test]
fn parts_are_bounded_and_the_oldest_goes_first() {
    let hook = hook(Some("/n"));
    for number in 0..=MOST_PARTS {
        post(&hook, &format!("{{\"n\":{number}}}"));
    }
    let state = hook.state();
    assert_eq!(state.parts.len(), MOST_PARTS);
    assert!(!state.parts.contains_key("watch://deploys/0") && state.parts.contains_key("watch://deploys/1"));
}

// A replica makes a second source of a watch for a file that is refused afterwards.
#[test]
fn a_source_that_was_made_in_vain_does_not_take_the_place_of_the_one_that_goes_on() {
    let hooks = SharedHooks::default();
    let (kept, refused) = (hook(None), hook(None));
    hooks.join(&kept);
    hooks.join(&refused);
    drop(refused);
    let mut deliveries = kept.deliveries.subscribe();
    deliveries.mark_unchanged();
    hooks.decided(&shared::hidden("deploys"), Some(&written("1", 1)));
    assert!(deliveries.has_changed().unwrap());
    assert_eq!(kept.state().last.as_ref().map(|last| last.content.bytes.clone()), Some(Bytes::from_static(b"1")));
    // One that joins later knows what was delivered before.
    let later = hook(None);
    hooks.join(&later);
    assert_eq!(later.state().last.as_ref().map(|last| last.number), Some(1));
}

/// What a replica reads in the log.
fn written(body: &str, n: u64) -> Decided {
    let value = format!("{{\"at\":1,\"ids\":[]}}\n{body}");
    Decided { n, value: Bytes::from(value) }
}
