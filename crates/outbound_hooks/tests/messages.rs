//! What receivers get: the bytes, and signatures as others check them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tidings_config::{NotifyFormat, NotifySettings};
use tidings_outbound_hooks::{MessageSender, MessageSigner, OutboundMessage};
use tidings_store::ChangeRow;

const NEW: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn settings(format: NotifyFormat) -> NotifySettings {
    NotifySettings {
        name: None,
        url: "http://127.0.0.1:1/".into(),
        secrets: vec![NEW.into()],
        format,
        servers: vec!["git*".into()],
        kinds: vec!["tools".into()],
        private: false,
    }
}

fn row(json: &Value) -> ChangeRow {
    ChangeRow { seq: json["seq"].as_u64().unwrap(), time: 0, json: Bytes::from(serde_json::to_vec(json).unwrap()) }
}

fn change(server: &str, kind: &str) -> Value {
    json!({
        "seq": 41, "prev": "ab", "time": "2026-11-17T04:00:00Z", "server": server, "kind": kind,
        "added": ["create <!channel> & more"], "removed": ["old\u{200b}_search"],
        "changed": [{ "name": "search", "fields": ["description"], "diff": [{ "field": "description", "before": "a", "after": "b" }] }],
        "severity": "suspect",
    })
}

fn sender() -> MessageSender {
    MessageSender::kept("0123456789ab4def8123456789abcdef".into())
}

// reach 3
#[test]
fn an_event_is_what_cloudevents_says_and_carries_the_record_as_it_is() {
    let row = row(&change("github", "tools"));
    let message = OutboundMessage::of(&row, &settings(NotifyFormat::CloudEvents), &sender()).unwrap();
    assert_eq!(message.content_type, "application/cloudevents+json");
    let expected = format!(
        "{{\"specversion\":\"1.0\",\"id\":\"msg_0123456789ab4def8123456789abcdef_41\",\
         \"source\":\"urn:uuid:01234567-89ab-4def-8123-456789abcdef\",\"type\":\"dev.tidings.change.v1\",\
         \"time\":\"2026-11-17T04:00:00Z\",\"subject\":\"github\",\"datacontenttype\":\"application/json\",\"data\":{}}}",
        std::str::from_utf8(&row.json).unwrap(),
    );
    assert_eq!(std::str::from_utf8(&message.body).unwrap(), expected);
}

#[test]
fn only_what_is_asked_for_is_told() {
    let told = |server, kind| {
        OutboundMessage::of(&row(&change(server, kind)), &settings(NotifyFormat::Slack), &sender()).is_some()
    };
    assert!(told("github", "tools"));
    assert!(!told("notes", "tools") && !told("github", "prompts"));
}

// reach 3
#[test]
fn slack_gets_names_that_can_not_hide_anything_or_call_anybody() {
    let message =
        OutboundMessage::of(&row(&change("github", "tools")), &settings(NotifyFormat::Slack), &sender()).unwrap();
    let text = "*`github`* tools (suspect)\n+ `create &lt;!channel&gt; &amp; more`\n− `old[U+200B]_search`\n~ `search`: `description`";
    let body = json!({ "text": text, "parse": "none", "unfurl_links": false, "unfurl_media": false });
    assert_eq!(serde_json::from_slice::<Value>(&message.body).unwrap(), body);
    assert_eq!(message.content_type, "application/json");
    let mut many = change("github", "tools");
    many["added"] = (0..25).map(|number| format!("tool{number}\nx")).collect();
    many["omitted"] = json!(7);
    let message = OutboundMessage::of(&row(&many), &settings(NotifyFormat::Slack), &sender()).unwrap();
    let text = serde_json::from_slice::<Value>(&message.body).unwrap()["text"].as_str().unwrap().to_owned();
    assert_eq!(text.lines().count(), 1 + 10 + 1 + 1 + 1, "{text}");
    assert!(text.ends_with("… and 22 more"), "{text}");
}

// reach 3
#[test]
fn no_name_becomes_a_link_in_slack() {
    let mut hostile = change("github", "tools");
    hostile["added"] = json!(["https://evil.example/login", "`https://evil.example`", "evil.example", "x` *y* `z", ""]);
    hostile["removed"] = json!(["<https://evil.example|Slack>"]);
    hostile["changed"] = json!([{ "name": "mailto:a@evil.example", "fields": ["http://evil.example"] }]);
    let message = OutboundMessage::of(&row(&hostile), &settings(NotifyFormat::Slack), &sender()).unwrap();
    let body: Value = serde_json::from_slice(&message.body).unwrap();
    let text = body["text"].as_str().unwrap();
    // Outside of code there are words of ours only.
    let outside: String = text.split('`').step_by(2).collect();
    assert!(!outside.contains("evil") && !outside.contains("http"), "{outside}");
    assert_eq!(text.matches('`').count() % 2, 0, "{text}");
    assert!(!text.contains('<') && text.contains("`(no name)`"), "{text}");
    assert_eq!(body["parse"], "none");
}

// reach 3
#[test]
fn the_library_of_standard_webhooks_accepts_our_signatures_also_while_a_secret_is_changed() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let headers = |secrets: &[&str], body: &[u8], id: &str| {
        let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", id.parse().unwrap());
        headers.insert("webhook-timestamp", now.into());
        headers.insert(
            "webhook-signature",
            MessageSigner::new(&secrets).sign("msg_1", now, body).unwrap().parse().unwrap(),
        );
        headers
    };
    let verify = |secret: &str, body: &[u8], headers: &HeaderMap| Webhook::new(secret).unwrap().verify(body, headers);
    let body = b"{\"a\":1}";
    verify(NEW, body, &headers(&[NEW], body, "msg_1")).unwrap();
    assert!(verify(OLD, body, &headers(&[NEW], body, "msg_1")).is_err());
    assert!(verify(NEW, b"{\"a\":2}", &headers(&[NEW], body, "msg_1")).is_err());
    assert!(verify(NEW, body, &headers(&[NEW], body, "msg_2")).is_err(), "the id is signed, too");
    let both = headers(&[NEW, OLD], body, "msg_1");
    verify(NEW, body, &both).unwrap();
    verify(OLD, body, &both).unwrap();
    assert!(MessageSigner::new(&[]).sign("msg_1", now, body).is_none());
}
