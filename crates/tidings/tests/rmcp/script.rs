//! The twin of the SDK's server, as a script on stdio.

use serde_json::{Value, json};
use tidings_testkit::{Resource, ScriptedAnswer, ScriptedCall, Server};

use crate::visit::{Doorman, Era};

/// Starts it, for clients of one era only.
pub(crate) async fn scripted(era: Era, doorman: Doorman) -> Server {
    let server = Server::builder("scripted")
        .hold("resources/subscribe", &doorman.agree)
        .hold("subscriptions/listen", &doorman.agree)
        .tool("echo", |call| async move { call.ok_text(&format!("scripted {}", call.arguments_raw())) })
        .tool("steps", |call| async move {
            for step in 1..=3 {
                call.progress(json!({"progress": step, "total": 3, "message": format!("scripted step {step}")}));
            }
            call.ok_text("scripted done")
        })
        .tool("wait", move |call| {
            let doorman = doorman.clone();
            async move {
                let who = call.argument("who").as_str().unwrap_or_default().to_owned();
                call.ok_text(&doorman.hold(&who, call.cancelled()).await)
            }
        })
        .tool("ask", |call| async move {
            match call.elicit(name_form()).await {
                Ok(answer) => {
                    call.ok_text(&format!("{} for scripted", answer["content"]["name"].as_str().unwrap_or("-")))
                }
                Err(error) => error.into(),
            }
        })
        .tool("think", |call| async move { think(&call).await.unwrap_or_else(Into::into) })
        .tool("form", |call| async move { form(&call) })
        .prompt("greet", |call| async move {
            call.ok_message(&format!("Greet {} for scripted", call.argument("name").as_str().unwrap_or("-")))
        })
        .prompt("form", |call| async move {
            answered_name(&call, "prompt", |name| call.ok_message(&format!("Greet {name} for scripted")))
        })
        .resource("memo://note", "a note of scripted")
        .entry_resource(Resource::raw(r#"{"uri": "memo://form", "name": "form"}"#, |call| async move {
            answered_name(&call, "resource", |name| call.ok_contents(name))
        }))
        .template("memo://page/{number}", |uri| Some(format!("page {} of scripted", uri.strip_prefix("memo://page/")?)))
        .completion(|call| async move {
            let params = call.params();
            let about = params["ref"]["name"].as_str().or(params["ref"]["uri"].as_str()).unwrap_or("-");
            let (name, value) = (params["argument"]["name"].as_str(), params["argument"]["value"].as_str());
            let value = format!("scripted: {about} {}={}", name.unwrap_or("-"), value.unwrap_or("-"));
            call.ok(json!({"completion": {"values": [value]}}))
        });
    match era {
        Era::Legacy => server,
        Era::Modern => server.modern_only(),
    }
    .stdio()
    .await
}

fn name_form() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"mode": "form", "message": "Name?", "requestedSchema": schema})
}

fn capital_question() -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": "Capital of France?"}});
    json!({"messages": [message], "maxTokens": 16})
}

async fn think(call: &ScriptedCall) -> Result<ScriptedAnswer, tidings_testkit::RpcError> {
    let thought = call.sample(capital_question()).await?;
    let roots = call.roots().await?;
    let said = (thought["content"]["text"].as_str(), roots["roots"][0]["uri"].as_str());
    Ok(call.ok_text(&format!("{} {}", said.0.unwrap_or("-"), said.1.unwrap_or("-"))))
}

/// Two rounds: three questions at once, then one.
fn form(call: &ScriptedCall) -> ScriptedAnswer {
    let state = call.request_state();
    let responses = call.input_responses();
    match state.as_str() {
        None => call.input_required(json!({"requestState": "first \"round\"\n", "inputRequests": {
            "form": {"method": "elicitation/create", "params": name_form()},
            "thought": {"method": "sampling/createMessage", "params": capital_question()},
            "roots": {"method": "roots/list", "params": {}},
        }})),
        Some("first \"round\"\n") => {
            let said = (&responses["thought"]["content"]["text"], &responses["roots"]["roots"][0]["uri"]);
            name_round(call, &format!("{} {}", said.0.as_str().unwrap_or("-"), said.1.as_str().unwrap_or("-")))
        }
        Some(_) => answered_name(call, "Paris file:///home/ferris", |name| {
            call.ok_text(&format!("{name} Paris file:///home/ferris"))
        }),
    }
}

fn name_round(call: &ScriptedCall, state: &str) -> ScriptedAnswer {
    let form = json!({"method": "elicitation/create", "params": name_form()});
    call.input_required(json!({"requestState": state, "inputRequests": {"form": form}}))
}

/// Asks for a name, or answers with it once the state came back as it was.
fn answered_name(call: &ScriptedCall, expected: &str, answer: impl FnOnce(&str) -> ScriptedAnswer) -> ScriptedAnswer {
    let state = call.request_state();
    match (state.as_str(), call.input_responses()["form"]["content"]["name"].as_str()) {
        (None, _) => name_round(call, expected),
        (Some(state), Some(name)) if state == expected => answer(name),
        (Some(state), name) => call.error(-32602, &format!("state {state:?}, name {name:?}"), None),
    }
}
