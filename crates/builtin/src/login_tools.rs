//! `log_in`: where a person logs in to servers that know each person by their own account.
//!
//! Each person has a link of their own to this server. The gateway shows the tool for as long as a login of theirs is missing, and looks
//! again whenever that may have changed. What a call is answered with is its matter, too: it knows the page, and the client.

use std::future::Ready;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tidings_engine::{LocalServer, ServerAudience, Surroundings};
use tidings_hub::catalogue::OfferExposure;
use tidings_proto::{ListKind, Method};
use tidings_upstream::in_process::RequestError;
use tidings_upstream::{ConnectedLink, MessageSink};
use tidings_wire::encode_string;

use crate::local::{LocalAnswers, LocalOutcome, LocalRequest, connect_tools};

/// The name of the tool.
const LOG_IN: &str = "log_in";

/// The server of the tool.
pub struct LoginTools;

impl LocalServer for LoginTools {
    fn audience(&self) -> ServerAudience {
        // Everybody sees their own logins, and nobody another's.
        ServerAudience::Everybody
    }

    fn exposure(&self) -> OfferExposure {
        // Who sees nothing yet has nothing to search for.
        OfferExposure::OfItself
    }

    fn connect(&self, sink: Arc<dyn MessageSink>, surroundings: Surroundings) -> ConnectedLink {
        connect_tools(Arc::new(LoginToolSet { surroundings }), sink, None::<Ready<()>>)
    }
}

struct LoginToolSet {
    surroundings: Surroundings,
}

impl LocalAnswers for LoginToolSet {
    fn answer(self: Arc<Self>, request: LocalRequest) -> BoxFuture<'static, LocalOutcome> {
        Box::pin(async move {
            match request.method {
                Method::List(ListKind::Tools) => LocalOutcome::Result(self.list().to_string().into()),
                Method::ToolsCall => self.call(&request).await,
                other => RequestError::unknown_method(other).into(),
            }
        })
    }
}

impl LoginToolSet {
    fn list(&self) -> Value {
        let is_of_person = self.surroundings.is_of_person();
        let tools: Vec<Value> =
            is_of_person.then(|| definition(&self.surroundings.missing_logins())).into_iter().collect();
        json!({ "tools": tools })
    }

    async fn call(&self, request: &LocalRequest) -> LocalOutcome {
        let name = request.frame.param_str(&["name"]).unwrap_or_default();
        if name != LOG_IN {
            return RequestError::invalid_params(format!("unknown tool: {name}")).into();
        }
        let params = request.params();
        let arguments = params["arguments"].as_object().cloned().unwrap_or_default();
        if let Some(key) = arguments.keys().find(|key| *key != "server") {
            return failed(&format!("log_in has no argument \"{key}\"; its only one is \"server\""));
        }
        let mut missing = self.surroundings.missing_logins();
        let mut undecided = Vec::new();
        if missing.is_empty() {
            // That none is missing is known only after their servers have answered: the first call of a person may come before that.
            undecided = self.surroundings.undecided_logins(request.call).await;
            missing = self.surroundings.missing_logins();
        }
        match (arguments.get("server").and_then(Value::as_str), &missing[..]) {
            (_, []) if !undecided.is_empty() => failed(&format!(
                "it is not known yet whether a login of yours is missing: no answer from {}; call log_in again later",
                undecided.join(", ")
            )),
            (_, []) => said("You are logged in: no login of yours is missing."),
            (Some(server), _) if missing.iter().any(|known| known == server) => {
                LocalOutcome::LoginWanted(server.to_owned())
            }
            (None, [only]) => LocalOutcome::LoginWanted(only.clone()),
            (Some(server), _) => failed(&format!(
                "no login to \"{server}\" is missing; the argument server is one of: {}",
                missing.join(", ")
            )),
            (None, _) => {
                failed(&format!("several logins are missing; the argument server is one of: {}", missing.join(", ")))
            }
        }
    }
}

fn definition(missing: &[String]) -> Value {
    json!({
        "name": LOG_IN,
        "title": "Log in",
        "description": "Logs the user in to a server behind this gateway that has to know them: gives the page where they do that. \
            Its tools are there afterwards.",
        "inputSchema": {
            "type": "object",
            "properties": { "server": { "type": "string", "enum": missing, "description": "The server; needed only where there are several." } },
            "additionalProperties": false,
        },
        "annotations": { "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true },
    })
}

fn said(text: &str) -> LocalOutcome {
    result(text, false)
}

fn failed(text: &str) -> LocalOutcome {
    result(text, true)
}

fn result(text: &str, is_error: bool) -> LocalOutcome {
    let text = encode_string(text);
    let result =
        format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":{text}}}],"isError":{is_error}}}"#);
    LocalOutcome::Result(result.into())
}
