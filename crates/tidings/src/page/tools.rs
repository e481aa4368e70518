//! Tools: all of them, one of them, and trying one.

use std::sync::Arc;

use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tidings_admin::TryPhase;
use tidings_engine::Principal;
use tidings_page::{
    ConfirmScreen, PagePart, ROWS, ToolScreen, ToolStep, ToolView, ToolsScreen, TriedPhase, TriedScreen,
};
use tidings_proto::ListKind;
use tidings_store::DefinitionState;

use super::actions::to;
use super::entrance::{SentForm, Visitor};
use super::screens::ScreenQuery;
use super::{PageServer, html, views};

/// How many tools a search shows.
const FOUND: usize = 20;
/// How many states of a tool are shown.
const STEPS: usize = 20;
/// How many clients can be chosen from.
const CLIENTS: usize = 100;

/// `GET /tools`.
pub(super) async fn list(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(raw): RawQuery,
) -> Response {
    let asked = ScreenQuery::of(raw);
    let (query, from) = (asked.text("q").trim().to_owned(), asked.from());
    let shell = page.shell(visitor.form_token).await;
    let gateway = &page.0.gateway;
    let seen_by = asked.text("as").parse::<u64>().ok();
    let at = tidings_admin::moment(&asked.text("at"));
    let part = from..from + ROWS;
    let (found, total) = match (at, seen_by) {
        (Some(at), _) => match tidings_admin::tools_at(&page.0.changes, at, part).await {
            Ok((tools, total)) => (json!({ "tools": tools }), total),
            Err(error) => {
                let problem =
                    tidings_page::problem(&shell, "The change log can not be read", &error.to_string(), "/tools");
                return html(StatusCode::SERVICE_UNAVAILABLE, problem);
            }
        },
        (None, None) if !query.is_empty() => {
            let found = tidings_admin::tools(gateway, &page.0.index, Some(query.clone()), Some(FOUND)).await;
            (serde_json::from_str(&found).unwrap_or_default(), 0)
        }
        (None, seen_by) => {
            let shared = Arc::clone(&gateway.catalogue().borrow().snapshot);
            let snapshot = match seen_by.map(|id| gateway.seen_by_client(id)) {
                Some(None) => {
                    let detail = "The client is not connected: it left, or was connected before a restart.";
                    return html(
                        StatusCode::NOT_FOUND,
                        tidings_page::problem(&shell, "No such client", detail, "/tools"),
                    );
                }
                Some(Some(seen)) => seen,
                None => shared,
            };
            if query.is_empty() {
                let (found, total) = tidings_admin::tools_part(&snapshot, part);
                (serde_json::from_str(&found).unwrap_or_default(), total)
            } else {
                let found =
                    tidings_admin::tools_seen(&snapshot, &page.0.index, Some(query.clone()), Some(FOUND), None).await;
                (serde_json::from_str::<Value>(&found).unwrap_or_default(), 0)
            }
        }
    };
    let one = |tool: &Value| {
        // What was said then has the names that servers gave.
        let place = tool["name"].as_str().filter(|_| at.is_none()).and_then(|name| place_of(&page, name));
        views::tool(tool, place.map(|(_, local)| local))
    };
    let tools: Vec<ToolView> = found["tools"].as_array().into_iter().flatten().map(one).collect();
    let clients = gateway.connected_first(CLIENTS).into_iter();
    let clients = clients.map(|client| (client.id, client.name.unwrap_or_else(|| "unnamed".to_owned()))).collect();
    let part = PagePart { from, shown: tools.len(), total };
    html(StatusCode::OK, ToolsScreen { query, tools, part, seen_by, clients, at }.page(&shell))
}

/// `GET /tools/{server}/{local}`.
pub(super) async fn show(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    Path((server, local)): Path<(String, String)>,
    RawQuery(raw): RawQuery,
) -> Response {
    let at = tidings_admin::moment(&ScreenQuery::of(raw).text("at"));
    tool_page(&page, visitor, &server, &local, at, (StatusCode::OK, None)).await
}

async fn tool_page(
    page: &PageServer,
    visitor: Visitor,
    server: &str,
    local: &str,
    at: Option<Timestamp>,
    (status, said): (StatusCode, Option<String>),
) -> Response {
    let shell = page.shell(visitor.form_token).await;
    let (name, now) = current(page, server, local).unzip();
    let found = tidings_admin::states(&page.0.gateway, &page.0.changes, "tools", server, local).await;
    let states = found.unwrap_or_default();
    if now.is_none() && states.is_empty() {
        let detail = format!("There is no tool \"{local}\" of \"{server}\", and none is remembered.");
        return html(StatusCode::NOT_FOUND, tidings_page::problem(&shell, "No such tool", &detail, "/tools"));
    }
    let definition = match at {
        None => now.clone(),
        Some(at) => {
            let then = states.iter().find(|state| state.since <= tidings_admin::millis(at));
            match then {
                Some(state) => said_by(page, state).await,
                None => None,
            }
        }
    };
    let steps = steps(page, &states).await;
    let destructive = now.as_ref().is_some_and(may_destroy);
    let (server, local) = (server.to_owned(), local.to_owned());
    html(status, ToolScreen { server, local, name, at, definition, steps, destructive, said }.page(&shell))
}

/// The public name and the definition of a tool that is there.
fn current(page: &PageServer, server: &str, local: &str) -> Option<(String, Value)> {
    let snapshot = Arc::clone(&page.0.gateway.catalogue().borrow().snapshot);
    let offer = snapshot.offers().iter().find(|offer| *offer.name == *server)?;
    let item = offer.list(ListKind::Tools).items.iter().find(|item| item.key.as_str() == local)?;
    let name = snapshot.public_name(ListKind::Tools, offer.server, &item.key)?.to_string();
    Some((name, serde_json::from_slice(&item.raw).unwrap_or_default()))
}

async fn said_by(page: &PageServer, state: &DefinitionState) -> Option<Value> {
    let said = tidings_admin::definition(&page.0.changes, state.digest?).await.ok()?;
    said.is_object().then_some(said)
}

async fn steps(page: &PageServer, states: &[DefinitionState]) -> Vec<ToolStep> {
    let mut said = Vec::new();
    for state in states.iter().take(STEPS + 1) {
        said.push(said_by(page, state).await);
    }
    let step = |at: usize| {
        let since = Timestamp::from_millisecond(i64::try_from(states[at].since).ok()?).ok()?;
        let before = said.get(at + 1).cloned().flatten();
        Some(ToolStep { since, before, after: said[at].clone(), first: at + 1 == states.len() })
    };
    (0..states.len().min(STEPS)).filter_map(step).collect()
}

/// What a tool says that is not known to only read, and not known to only add.
fn may_destroy(tool: &Value) -> bool {
    let hints = &tool["annotations"];
    hints["readOnlyHint"] != true && hints["destructiveHint"] != false
}

/// `POST /tools/{server}/{local}/try`.
pub(super) async fn begin(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    Extension(form): Extension<SentForm>,
    Path((server, local)): Path<(String, String)>,
) -> Response {
    let Some((name, tool)) = current(&page, &server, &local) else {
        let gone = Some("The tool is not there any more.".to_owned());
        return tool_page(&page, visitor, &server, &local, None, (StatusCode::CONFLICT, gone)).await;
    };
    let arguments = match arguments(&form, &tool["inputSchema"]) {
        Ok(arguments) => arguments,
        Err(fault) => {
            return tool_page(&page, visitor, &server, &local, None, (StatusCode::BAD_REQUEST, Some(fault))).await;
        }
    };
    let path = format!("/tools/{}/{}", crate::url_text::encode(&server), crate::url_text::encode(&local));
    if may_destroy(&tool) && form.get("sure") != "1" {
        let shell = page.shell(visitor.form_token).await;
        let screen = ConfirmScreen {
            title: format!("Call {name}?"),
            detail: "It does not say that it only reads: calling it may change or destroy something.".to_owned(),
            label: "Call it".to_owned(),
            action: format!("{path}/try"),
            fields: form.all().iter().filter(|(name, _)| name != "token").cloned().collect(),
            back: path,
        };
        return html(StatusCode::OK, screen.page(&shell));
    }
    match page.0.desk.begin(&page.0.gateway, Principal::local(), &name, arguments) {
        Ok(call) => to(&format!("/tries/{}", call.id)),
        Err(fault) => {
            let said = (StatusCode::SERVICE_UNAVAILABLE, Some(fault.to_string()));
            tool_page(&page, visitor, &server, &local, None, said).await
        }
    }
}

/// The arguments that a form means: all of them as JSON, or by field.
fn arguments(form: &SentForm, schema: &Value) -> Result<Value, String> {
    let whole = form.get("arguments").trim();
    if !whole.is_empty() {
        return match serde_json::from_str(whole) {
            Ok(arguments @ Value::Object(_)) => Ok(arguments),
            Ok(_) => Err("The arguments must be a JSON object.".to_owned()),
            Err(error) => Err(format!("The arguments are not JSON: {error}")),
        };
    }
    let mut out = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value(form.get(&format!("arg.{name}")), name, property, schema)? {
            out.insert(name.clone(), value);
        }
    }
    Ok(out.into())
}

/// What was typed into one field; nothing where it was left empty and need not be given.
fn value(typed: &str, name: &str, property: &Value, schema: &Value) -> Result<Option<Value>, String> {
    let required = schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let kind = property["type"].as_str();
    if typed.is_empty() && !(required && kind == Some("string")) {
        return if required { Err(format!("{name} has to be given.")) } else { Ok(None) };
    }
    if kind == Some("string") || (kind.is_none() && property["enum"].is_array()) {
        return Ok(Some(typed.into()));
    }
    serde_json::from_str(typed).map(Some).map_err(|error| format!("{name} is not JSON: {error}"))
}

/// `GET /tries/{id}`.
pub(super) async fn tried(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    Path(id): Path<u64>,
) -> Response {
    let mut shell = page.shell(visitor.form_token).await;
    let Some(call) = page.0.desk.get(id) else {
        let detail = "There is no such call now: only the last are remembered, and none over a restart.";
        return html(StatusCode::NOT_FOUND, tidings_page::problem(&shell, "No such call", detail, "/tools"));
    };
    let state = call.state();
    let screen = TriedScreen {
        id,
        tool: call.tool.clone(),
        back: place_of(&page, &call.tool),
        arguments: call.arguments.clone(),
        started: call.started,
        ended: state.ended,
        phase: match state.phase {
            TryPhase::Running => TriedPhase::Running,
            TryPhase::Asked { questions, .. } => TriedPhase::Asked(questions),
            TryPhase::Done(result) => TriedPhase::Done(result),
            TryPhase::Failed(error) => TriedPhase::Failed(error),
            TryPhase::Cancelled => TriedPhase::Cancelled,
        },
        progress: state.progress,
        messages: state.messages,
    };
    shell.refresh = screen.is_running();
    html(StatusCode::OK, screen.page(&shell))
}

/// The server of a tool, and what it calls it.
fn place_of(page: &PageServer, name: &str) -> Option<(String, String)> {
    let snapshot = Arc::clone(&page.0.gateway.catalogue().borrow().snapshot);
    let route = snapshot.tool(name)?;
    let offer = snapshot.offer(route.server)?;
    Some((offer.name.to_string(), route.local.to_string()))
}

/// `POST /tries/{id}/{action}`: answers or cancels.
pub(super) async fn act(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    Extension(form): Extension<SentForm>,
    Path((id, action)): Path<(u64, String)>,
) -> Response {
    let done = match action.as_str() {
        "cancel" => page.0.desk.cancel(id).map_err(|fault| fault.to_string()),
        "answer" => match page.0.desk.get(id).map(|call| call.state().phase) {
            Some(TryPhase::Asked { questions, .. }) => answers(&form, &questions).and_then(|answers| {
                page.0.desk.answer(&page.0.gateway, id, answers).map_err(|fault| fault.to_string())
            }),
            _ => Err("The call asks nothing now.".to_owned()),
        },
        _ => return (StatusCode::NOT_FOUND, "There is no such action.\n").into_response(),
    };
    match done {
        Ok(()) => to(&format!("/tries/{id}")),
        Err(fault) => {
            let shell = page.shell(visitor.form_token).await;
            let back = format!("/tries/{id}");
            html(StatusCode::CONFLICT, tidings_page::problem(&shell, "That could not be done", &fault, &back))
        }
    }
}

/// An answer for each question. What a page can not answer is declined.
fn answers(form: &SentForm, questions: &Value) -> Result<Value, String> {
    let accepted = form.get("action") == "accept";
    let mut out = Map::new();
    for (key, question) in questions.as_object().into_iter().flatten() {
        let answer = if question["method"] != "elicitation/create" || !accepted {
            json!({ "action": "decline" })
        } else {
            let schema = &question["params"]["requestedSchema"];
            let mut content = Map::new();
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(value) = value(form.get(&format!("q.{key}.{name}")), name, property, schema)? {
                    content.insert(name.clone(), value);
                }
            }
            json!({ "action": "accept", "content": content })
        };
        out.insert(key.clone(), answer);
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_arguments_of_their_types() {
        let schema = json!({ "properties": {
            "text": { "type": "string" }, "count": { "type": "integer" }, "on": { "type": "boolean" },
            "deep": { "type": "object" }, "left": { "type": "string" },
        }, "required": ["text", "count"] });
        let form = |fields: &[(&str, &str)]| SentForm::of(fields);
        let given = form(&[("arg.text", "12"), ("arg.count", "3"), ("arg.on", "true"), ("arg.deep", "{\"a\":[1]}")]);
        assert_eq!(
            arguments(&given, &schema),
            Ok(json!({ "text": "12", "count": 3, "on": true, "deep": { "a": [1] } }))
        );
        assert_eq!(arguments(&form(&[("arguments", "{\"x\":1}")]), &schema), Ok(json!({ "x": 1 })));
        for wrong in [&[("arg.text", "a")][..], &[("arg.text", "a"), ("arg.count", "many")], &[("arguments", "[1]")]] {
            assert!(arguments(&form(wrong), &schema).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn only_what_says_that_it_reads_or_adds_is_called_at_once() {
        assert!(may_destroy(&json!({})) && may_destroy(&json!({ "annotations": { "destructiveHint": true } })));
        assert!(!may_destroy(&json!({ "annotations": { "readOnlyHint": true } })));
        assert!(!may_destroy(&json!({ "annotations": { "destructiveHint": false } })));
    }

    #[test]
    fn questions_are_answered_by_key_and_what_a_page_can_not_answer_is_declined() {
        let questions = json!({
            "a": { "method": "elicitation/create", "params": { "requestedSchema": { "properties": { "n": { "type": "integer" } }, "required": ["n"] } } },
            "b": { "method": "sampling/createMessage", "params": {} },
        });
        let form = SentForm::of(&[("action", "accept"), ("q.a.n", "7")]);
        let expected = json!({ "a": { "action": "accept", "content": { "n": 7 } }, "b": { "action": "decline" } });
        assert_eq!(answers(&form, &questions), Ok(expected));
        let declined = answers(&SentForm::of(&[("action", "decline")]), &questions).expect("answers");
        assert_eq!(declined["a"], json!({ "action": "decline" }));
    }
}
