//! Two people at one server: what belongs to the call of one reaches nobody else.

use serde_json::{Value, json};
use tidings_testkit::{ClientReply, ReceivedMessage, Server};

use crate::policies::people;
use crate::{quick, with_token};

/// Calls of each person, as many at a time as there are in a round.
const ROUNDS: usize = 50;
const AT_ONCE: usize = 20;

/// Whose call a message says that it belongs to.
fn named(message: &ReceivedMessage) -> Option<Value> {
    let params = message.params();
    match message.method.as_str() {
        "notifications/message" => Some(params["data"]["who"].clone()),
        "notifications/progress" => Some(params["progressToken"].clone()),
        "elicitation/create" => Some(params["message"].clone()),
        _ => None,
    }
}

// identity 8.10: questions, logs and progress of two principals over one shared server, and over a link of each
#[tokio::test]
async fn what_belongs_to_the_call_of_one_person_reaches_nobody_else() {
    nobody_is_told_of_anothers_call("").await;
}

// identity 5, 8.10
#[tokio::test]
async fn what_belongs_to_the_call_of_one_person_reaches_nobody_else_over_links_of_their_own() {
    nobody_is_told_of_anothers_call("isolation = \"principal\"\n").await;
}

async fn nobody_is_told_of_anothers_call(keys: &str) {
    let work = Server::builder("crm").tool("work", |call| async move {
        let who = call.argument("who");
        call.log("info", json!({ "who": who }));
        call.progress(1);
        let form =
            json!({"message": who, "requestedSchema": {"type": "object", "properties": {"who": {"type": "string"}}}});
        let answer = call.elicit(form).await.map_err(|error| format!("{error:?}"));
        call.progress(2);
        call.ok_text(&format!("{who} {answer:?}"))
    });
    let crm = work.http().await;
    let gateway = quick(&people(&[("ada", "support"), ("dan", "dev")])).server_with("crm", &crm, keys).serve().await;
    let mut clients = Vec::new();
    for who in ["ada", "dan"] {
        let client = gateway.client().capabilities(json!({"elicitation": {}}));
        let client = with_token(client, who).connect().await;
        client.on_request(move |_| {
            ClientReply::Result(json!({"action": "accept", "content": {"who": format!("by {who}")}}))
        });
        clients.push((who, client));
    }
    for round in 0..ROUNDS {
        let calls = clients.iter().flat_map(|(who, client)| {
            (0..AT_ONCE).map(move |n| {
                let of = format!("{who} {round} {n}");
                let call = client.call("tools/call").params(json!({"name": "work", "arguments": {"who": of}}));
                (*who, of.clone(), call.progress_token(&Value::from(of).to_string()).start())
            })
        });
        // All of them are begun before the first is waited for.
        for (who, of, call) in calls.collect::<Vec<_>>() {
            let answer = call.finish().await;
            let text = answer.text();
            assert!(text.contains(&of) && text.contains(&format!("by {who}")), "{text}");
            let named: Vec<Value> = answer.before.iter().filter_map(named).collect();
            assert!(named.len() >= 3 && named.iter().all(|named| *named == json!(of)), "{of}: {named:?}");
        }
    }
    // Nor on another stream of theirs.
    for (who, client) in &clients {
        for of in client.received().iter().filter_map(named) {
            assert!(of.as_str().is_some_and(|of| of.starts_with(who)), "{who} was told of {of}");
        }
    }
}
