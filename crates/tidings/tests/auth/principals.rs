//! Two people at one server: what belongs to the call of one reaches nobody else.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tidings_testkit::{ClientReply, ReceivedMessage, ScriptedAnswer, ScriptedCall, Server};

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

/// A question that names the call that it belongs to.
fn form(who: &Value) -> Value {
    json!({"message": who, "requestedSchema": {"type": "object", "properties": {"who": {"type": "string"}}}})
}

/// Asks whoever calls who they are, in the middle of the call.
async fn asking(call: ScriptedCall) -> ScriptedAnswer {
    let who = call.argument("who");
    let answer = call.elicit(form(&who)).await.map_err(|error| format!("{error:?}"));
    call.ok_text(&format!("{who} {answer:?}"))
}

/// The same in the words of the modern era: the call ends with its question, and the next one brings the answer.
async fn asking_in_rounds(call: ScriptedCall) -> ScriptedAnswer {
    let (who, answers) = (call.argument("who"), call.input_responses());
    if answers.is_null() {
        let question = json!({"method": "elicitation/create", "params": form(&who)});
        return call.input_required(json!({"inputRequests": {"who": question}, "requestState": who}));
    }
    assert_eq!(call.request_state(), who, "the state of another call");
    call.ok_text(&format!("{who} {answers}"))
}

// identity 8.10: the same for clients that are asked by the answer to their request, in front of a server of either era
#[tokio::test]
async fn what_a_call_of_one_person_asks_reaches_nobody_else_in_the_modern_era() {
    let legacy = Server::builder("crm").tool("work", asking).http().await;
    let modern = Server::builder("crm").tool("work", asking_in_rounds).modern_only().http().await;
    for crm in [legacy, modern] {
        let gateway = quick(&people(&[("ada", "support"), ("dan", "dev")])).server("crm", &crm).serve().await;
        let mut clients = Vec::new();
        for who in ["ada", "dan"] {
            let client = gateway.client().modern().capabilities(json!({"elicitation": {"form": {}}}));
            clients.push((who, with_token(client, who).connect().await));
        }
        for round in 0..ROUNDS {
            let calls = clients.iter().flat_map(|(who, client)| {
                (0..AT_ONCE).map(move |n| async move {
                    let of = format!("{who} {round} {n}");
                    let answer = |_: &Value| json!({"action": "accept", "content": {"who": format!("by {of}")}});
                    let call = json!({"name": "work", "arguments": {"who": of}});
                    let (reply, asked) = client.rounds("tools/call", &call, answer).await;
                    let text = reply.text();
                    assert!(text.contains(&of) && text.contains(&format!("by {of}")), "{of}: {text}");
                    let questions: Vec<&Value> = asked
                        .iter()
                        .flat_map(|round| round.as_object().into_iter().flatten())
                        .map(|(_, question)| &question["params"]["message"])
                        .collect();
                    assert_eq!(questions, [&json!(of)], "what {who} was asked");
                })
            });
            join_all(calls).await;
        }
    }
}

async fn nobody_is_told_of_anothers_call(keys: &str) {
    let work = Server::builder("crm").tool("work", |call| async move {
        let who = call.argument("who");
        call.log("info", json!({ "who": who }));
        call.progress(1);
        let answer = call.elicit(form(&who)).await.map_err(|error| format!("{error:?}"));
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
