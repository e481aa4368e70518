//! `mcp_registry_*`: finding servers that could be added, adding and removing them, and seeing what there is.
//!
//! A change goes through the registry's one transaction, so it is answered only when it is committed and owed to every
//! client; it belongs to the gateway and not to the connection that asked (`docs/adr/0014-registry-changes-are-global.md`).
//! A call of `mcp_registry_exec` is not carried out here: the gateway is told which tool to call instead.

mod arguments;
mod browse;
mod change;
mod consent;
mod definitions;
mod environment;
mod launch;
mod pulls;
mod runner;
mod schemas;
mod show;

pub use consent::StartConsent;

use std::fmt::Display;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tidings_engine::{LocalServer, ServerAudience, Surroundings};
use tidings_inventory::{NameLocks, ServerRegistry};
use tidings_proto::{ListKind, Method, PublicName};
use tidings_server_catalog::EntryCatalogue;
use tidings_upstream::in_process::RequestError;
use tidings_upstream::{ConnectedLink, LinkConnector, MessageSink, ToolRedirect};
use tidings_wire::{Frame, encode_string, is_object};

use crate::displaced;
use crate::local::{LocalAnswers, LocalOutcome, LocalRequest, connect_tools};
use arguments::{ArgumentFault, ToolArguments};

/// The server of the registry tools.
pub struct RegistryTools {
    context: Arc<ToolContext>,
}

/// What the tools work with.
struct ToolContext {
    registry: ServerRegistry,
    entries: Arc<dyn EntryCatalogue>,
    /// Knows how downloads of images go.
    connector: LinkConnector,
    /// What is read of a server, changed and written back is one person's at a time.
    editing: NameLocks,
    /// Who has to say yes before something starts.
    consent: StartConsent,
}

impl RegistryTools {
    /// Changes the servers of this registry, and knows those of this catalogue. `connector` starts them.
    pub fn new(
        registry: ServerRegistry,
        entries: Arc<dyn EntryCatalogue>,
        connector: LinkConnector,
        consent: StartConsent,
    ) -> Self {
        Self { context: Arc::new(ToolContext { registry, entries, connector, editing: NameLocks::default(), consent }) }
    }
}

impl LocalServer for RegistryTools {
    fn audience(&self) -> ServerAudience {
        ServerAudience::Admins
    }

    fn connect(&self, sink: Arc<dyn MessageSink>, surroundings: Surroundings) -> ConnectedLink {
        let own = surroundings.server();
        let report = surroundings.catalogue().map(|catalogue| displaced::report(catalogue, own));
        connect_tools(Arc::new(RegistryToolSet { context: Arc::clone(&self.context), surroundings }), sink, report)
    }
}

struct RegistryToolSet {
    context: Arc<ToolContext>,
    surroundings: Surroundings,
}

/// What a tool has to say.
struct ToolReply {
    structured: Value,
    /// For people, where the structured content itself is not the best text.
    text: Option<String>,
    /// The structured content is the whole result: a question to whoever calls.
    is_question: bool,
}

impl ToolReply {
    fn asking(question: Value) -> Self {
        Self { structured: question, text: None, is_question: true }
    }
}

impl From<Value> for ToolReply {
    fn from(structured: Value) -> Self {
        Self { structured, text: None, is_question: false }
    }
}

/// Why a tool did not do what it was asked to, in words for the model that asked.
#[derive(Debug)]
struct ToolProblem(String);

impl<E: Display> From<E> for ToolProblem {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl LocalAnswers for RegistryToolSet {
    fn answer(self: Arc<Self>, request: LocalRequest) -> BoxFuture<'static, LocalOutcome> {
        Box::pin(async move {
            match request.method {
                Method::List(ListKind::Tools) => LocalOutcome::Result(definitions::list().to_string().into()),
                Method::ToolsCall => self.call(&request).await,
                other => RequestError::unknown_method(other).into(),
            }
        })
    }
}

impl RegistryToolSet {
    async fn call(&self, request: &LocalRequest) -> LocalOutcome {
        let params = request.params();
        let name = params["name"].as_str().unwrap_or_default();
        // The router does not lead others here; what starts commands does not rely on that.
        if !self.surroundings.is_admin(request.call) {
            // The same words as for a tool that does not exist: who may not use it need not know of it.
            return RequestError::invalid_params(format!("unknown tool: {name}")).into();
        }
        if name == definitions::EXEC {
            return self.exec(request).await.unwrap_or_else(|problem| failed(&problem));
        }
        let known = definitions::parameters(name);
        let said = match ToolArguments::new(&params["arguments"], &known) {
            Err(fault) => Err(fault.into()),
            Ok(arguments) => match name {
                definitions::FIND => self.find(&arguments).await,
                definitions::LIST => self.list(&arguments).await,
                definitions::GET_DOCS => self.get_docs(&arguments).await,
                definitions::REFRESH => self.refresh(&arguments).await,
                definitions::ADD => self.add(request, &arguments).await,
                definitions::LAUNCH => self.launch(request, &arguments).await,
                definitions::REMOVE => self.remove(&arguments).await,
                definitions::CONFIG_SET => self.config_set(request, &arguments).await,
                definitions::ACTIVE => self.active(),
                definitions::STATUS => self.status(),
                other => return RequestError::invalid_params(format!("unknown tool: {other}")).into(),
            },
        };
        said.map_or_else(|problem| failed(&problem), |said| done(&said))
    }

    /// Has a tool called, in any spelling; its arguments are passed on as they were written.
    async fn exec(&self, request: &LocalRequest) -> Result<LocalOutcome, ToolProblem> {
        let frame = &request.frame;
        // What is not known here was meant for the tool, which would run without it.
        ToolArguments::new(&request.params()["arguments"], &definitions::parameters(definitions::EXEC))?;
        let name = frame.param_str(&["arguments", "tool_name"]).filter(|name| !name.is_empty());
        let name =
            name.ok_or(ArgumentFault::expected("tool_name", "the name of a tool, such as mcp_time_get_current_time"))?;
        let arguments = object(frame)?;
        match self.surroundings.find_tool(request.call, PublicName::new(&*name)).await {
            // A redirect to `mcp_registry_exec` would come back here.
            Some(route) if route.server == self.surroundings.server() => {
                Err(ToolProblem(format!("{} is called by its own name", route.local)))
            }
            Some(_) => Ok(LocalOutcome::Redirect(ToolRedirect { name: PublicName::new(name), arguments })),
            None => Err(ToolProblem(self.unknown_tool(request.call, &name).await)),
        }
    }

    /// Names that are spelled the same say so; else where to look.
    async fn unknown_tool(&self, call: u64, name: &str) -> String {
        let Some(view) = self.surroundings.view(call).await else { return "the gateway is shutting down".to_owned() };
        let snapshot = &view.snapshot;
        let mut meant = Vec::new();
        for offer in snapshot.offers() {
            let same = |item: &&tidings_hub::catalogue::OfferItem| format!("mcp_{}_{}", offer.prefix, item.key) == name;
            let items = offer.list(ListKind::Tools).items.iter().filter(same);
            let public = items.filter_map(|item| snapshot.public_name(ListKind::Tools, offer.server, &item.key));
            meant.extend(public.map(PublicName::as_str));
        }
        let name = encode_string(name);
        match meant.as_slice() {
            [] => format!("there is no tool {name}; {} shows the tools of every server", definitions::ACTIVE),
            several => format!("{name} can mean {}; use that name", several.join(" or ")),
        }
    }
}

/// The arguments for another tool, raw.
fn object(frame: &Frame) -> Result<Option<bytes::Bytes>, ArgumentFault> {
    match frame.param(&["arguments", "arguments"]) {
        Some(at) if is_object(frame.bytes(), at) => Ok(Some(frame.slice(at))),
        Some(at) if frame.raw(at) != b"null" => {
            Err(ArgumentFault::expected("arguments", "an object that fits the tool's inputSchema"))
        }
        _ => Ok(None),
    }
}

/// A result with structured content, and a text for clients that know no other.
fn done(said: &ToolReply) -> LocalOutcome {
    let structured = said.structured.to_string();
    if said.is_question {
        return LocalOutcome::Result(structured.into());
    }
    let text = encode_string(said.text.as_deref().unwrap_or(&structured));
    let content = format!(r#"[{{"type":"text","text":{text}}}]"#);
    LocalOutcome::Result(
        format!(r#"{{"resultType":"complete","content":{content},"structuredContent":{structured}}}"#).into(),
    )
}

/// A failure that the model can read and mend.
fn failed(problem: &ToolProblem) -> LocalOutcome {
    let text = encode_string(&problem.0);
    LocalOutcome::Result(
        format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":{text}}}],"isError":true}}"#).into(),
    )
}
