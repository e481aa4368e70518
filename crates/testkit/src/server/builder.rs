//! Writing a server's script.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::answer::ScriptedAnswer;
use super::call::ScriptedCall;
use super::catalogue::{Prompt, Resource, ScriptedCatalogue, Template, Tool, handler, put};
use super::core::{MethodTrouble, ServerCore, ServerScript};
use super::{ScriptedEntry, Server};
use crate::gate::Gate;
use crate::received::ReceivedMessage;
use crate::revision::LEGACY;

/// A script in the making. Without further words: every legacy revision, no modern one.
pub struct ServerBuilder {
    name: String,
    script: ServerScript,
    catalogue: ScriptedCatalogue,
    capabilities: Option<Value>,
}

impl ServerBuilder {
    pub(crate) fn new(name: &str) -> Self {
        let script = ServerScript {
            revisions: LEGACY.iter().map(|r| (*r).to_owned()).collect(),
            modern: false,
            capabilities: Value::Null,
            instructions: None,
            page_size: usize::MAX,
            sessions: true,
            unknown_session: 404,
            forgetful: false,
            get_gate: None,
            ignore_eof: false,
            sse: false,
            sse_endpoint: "/messages".to_owned(),
            sse_posts: None,
            overrides: HashMap::new(),
            completion: None,
            trouble: HashMap::new(),
            http_hook: None,
        };
        Self { name: name.to_owned(), script, catalogue: ScriptedCatalogue::default(), capabilities: None }
    }

    /// The legacy revisions that it speaks; the last one is what it offers to a client that asks for another.
    pub fn revisions(mut self, revisions: &[&str]) -> Self {
        self.script.revisions = revisions.iter().map(|r| (*r).to_owned()).collect();
        self
    }

    /// Speaks the modern revision, too.
    pub fn modern(mut self) -> Self {
        self.script.modern = true;
        self
    }

    /// Speaks the modern revision only.
    pub fn modern_only(mut self) -> Self {
        self.script.revisions.clear();
        self.modern()
    }

    /// A tool that takes anything.
    pub fn tool<F, Fut>(self, name: &str, function: F) -> Self
    where
        F: Fn(ScriptedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ScriptedAnswer> + Send + 'static,
    {
        self.entry_tool(Tool::tool(name, function))
    }

    /// A tool with its full definition.
    pub fn tool_def<F, Fut>(self, definition: impl Into<Value>, function: F) -> Self
    where
        F: Fn(ScriptedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ScriptedAnswer> + Send + 'static,
    {
        self.tool_raw(&definition.into().to_string(), function)
    }

    /// A tool whose definition is listed byte for byte.
    pub fn tool_raw<F, Fut>(self, definition: &str, function: F) -> Self
    where
        F: Fn(ScriptedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ScriptedAnswer> + Send + 'static,
    {
        self.entry_tool(Tool::raw(definition, function))
    }

    /// A tool that was made elsewhere.
    pub fn entry_tool(mut self, tool: Tool) -> Self {
        put(&mut self.catalogue.tools, tool);
        self
    }

    /// A tool that answers with its arguments as text, byte for byte.
    pub fn echo(self, name: &str) -> Self {
        self.tool(name, |call| async move { call.ok_text(&call.arguments_raw()) })
    }

    /// Adds a resource that always has this text.
    pub fn resource(self, uri: &str, text: &str) -> Self {
        self.entry_resource(Resource::resource(uri, text))
    }

    /// A resource that was made elsewhere.
    pub fn entry_resource(mut self, resource: Resource) -> Self {
        put(&mut self.catalogue.resources, resource);
        self
    }

    /// A template whose content is a function of the URI; `None` is "not found".
    pub fn template(mut self, pattern: &str, read: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        put(&mut self.catalogue.templates, Template::template(pattern, read));
        self
    }

    /// Adds a prompt without arguments; `function` answers `prompts/get`.
    pub fn prompt<F, Fut>(mut self, name: &str, function: F) -> Self
    where
        F: Fn(ScriptedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ScriptedAnswer> + Send + 'static,
    {
        put(&mut self.catalogue.prompts, Prompt::prompt(name, function));
        self
    }

    /// A prompt, resource or tool from a definition that is listed byte for byte; `kind` is the name of its list.
    pub fn entry(mut self, kind: &str, entry: ScriptedEntry) -> Self {
        put(self.catalogue.list_mut(kind), entry);
        self
    }

    /// What answers `completion/complete`.
    pub fn completion<F, Fut>(mut self, function: F) -> Self
    where
        F: Fn(ScriptedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ScriptedAnswer> + Send + 'static,
    {
        self.script.completion = Some(handler(function));
        self
    }

    /// Its capabilities, when they should not follow from what it offers.
    pub fn capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// What it tells clients as `instructions`.
    pub fn instructions(mut self, text: &str) -> Self {
        self.script.instructions = Some(text.to_owned());
        self
    }

    /// How many items a page of its lists has.
    pub fn page_size(mut self, items: usize) -> Self {
        self.script.page_size = items;
        self
    }

    /// HTTP, legacy: gives out no session ids.
    pub fn without_sessions(mut self) -> Self {
        self.script.sessions = false;
        self
    }

    /// HTTP, legacy: refuses a session that it does not know with this status, on POST and GET. Servers differ; 404 is usual.
    pub fn refuses_sessions_with(mut self, status: u16) -> Self {
        self.script.unknown_session = status;
        self
    }

    /// HTTP, legacy: what it says by itself is lost while its client has no GET stream open, as with most servers.
    pub fn forgetful(mut self) -> Self {
        self.script.forgetful = true;
        self
    }

    /// HTTP, legacy: holds every request for the GET stream at a gate before it is answered.
    pub fn hold_get(mut self, gate: &Gate) -> Self {
        self.script.get_gate = Some(gate.clone());
        self
    }

    /// stdio: the process stays when its stdin ends.
    pub fn ignore_eof(mut self) -> Self {
        self.script.ignore_eof = true;
        self
    }

    /// Full control over a method.
    pub fn on_raw<F, Fut>(mut self, method: &str, function: F) -> Self
    where
        F: Fn(ScriptedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ScriptedAnswer> + Send + 'static,
    {
        self.script.overrides.insert(method.to_owned(), handler(function));
        self
    }

    /// HTTP: a look at every request before anything else; an answer other than `None` is final.
    pub fn on_http(
        mut self,
        hook: impl Fn(&ReceivedMessage) -> Option<ScriptedAnswer> + Send + Sync + 'static,
    ) -> Self {
        self.script.http_hook = Some(Arc::new(hook));
        self
    }

    /// Begins to handle a method this much later.
    pub fn delay(self, method: &str, delay: Duration) -> Self {
        self.trouble(method, |trouble| trouble.delay = Some(delay))
    }

    /// Holds every request of a method at a gate before it is handled.
    pub fn hold(self, method: &str, gate: &Gate) -> Self {
        let gate = gate.clone();
        self.trouble(method, |trouble| trouble.hold = Some(gate))
    }

    /// Never answers a method.
    pub fn silent_on(self, method: &str) -> Self {
        self.trouble(method, |trouble| trouble.silent = true)
    }

    /// Dies of a method: the process exits with this code, or the port closes.
    pub fn exit_on(self, method: &str, code: u8) -> Self {
        self.trouble(method, |trouble| trouble.exit = Some(code))
    }

    fn trouble(mut self, method: &str, change: impl FnOnce(&mut MethodTrouble)) -> Self {
        change(self.script.trouble.entry(method.to_owned()).or_default());
        self
    }

    /// Starts it on HTTP, at a free port.
    pub async fn http(self) -> Server {
        Server::start_http(self.core()).await
    }

    /// HTTP+SSE: names another address for messages in its `endpoint` event; `?session=` and the session follow it.
    pub fn sse_endpoint(mut self, endpoint: &str) -> Self {
        self.script.sse_endpoint = endpoint.to_owned();
        self
    }

    /// HTTP+SSE: answers the POST of a tool call only when the gate lets it, whatever its stream says before.
    pub fn sse_posts(mut self, gate: &Gate) -> Self {
        self.script.sse_posts = Some(gate.clone());
        self
    }

    /// Starts it on HTTP+SSE alone, at a free port: a stream at `/sse`, messages at `/messages`.
    pub async fn sse(mut self) -> Server {
        self.script.sse = true;
        Server::start_http(self.core()).await
    }

    /// Starts it on stdio: it waits for [`Server::command`] to be run.
    pub async fn stdio(self) -> Server {
        Server::start_stdio(self.core())
    }

    fn core(mut self) -> ServerCore {
        self.script.capabilities = self.capabilities.take().unwrap_or_else(|| self.implied_capabilities());
        ServerCore::new(self.name, self.script, self.catalogue)
    }

    fn implied_capabilities(&self) -> Value {
        // Tools also where there are none yet: many tests add the first one later.
        let mut capabilities = json!({"tools": {"listChanged": true}, "logging": {}});
        if !self.catalogue.resources.is_empty() || !self.catalogue.templates.is_empty() {
            capabilities["resources"] = json!({"listChanged": true, "subscribe": true});
        }
        if !self.catalogue.prompts.is_empty() {
            capabilities["prompts"] = json!({"listChanged": true});
        }
        if self.script.completion.is_some() {
            capabilities["completions"] = json!({});
        }
        capabilities
    }
}
