//! What a server offers: definitions as raw text, with their handlers.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use tidings_wire::{get, string_at, validate};

use super::answer::{RpcError, ScriptedAnswer};
use super::call::ScriptedCall;

pub(crate) type Handler = Arc<dyn Fn(ScriptedCall) -> BoxFuture<'static, ScriptedAnswer> + Send + Sync>;

pub(crate) fn handler<F, Fut>(function: F) -> Handler
where
    F: Fn(ScriptedCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ScriptedAnswer> + Send + 'static,
{
    Arc::new(move |call| Box::pin(function(call)))
}

/// One thing in a list: its key (name, URI or template), its definition as raw JSON, and what it does.
#[derive(Clone)]
pub struct ScriptedEntry {
    pub(crate) key: String,
    pub(crate) definition: String,
    pub(crate) handler: Handler,
}

/// An entry of `tools`, keyed by its name.
pub type Tool = ScriptedEntry;
/// An entry of `resources`, keyed by its URI.
pub type Resource = ScriptedEntry;
/// An entry of `resourceTemplates`, keyed by its pattern.
pub type Template = ScriptedEntry;
/// An entry of `prompts`, keyed by its name.
pub type Prompt = ScriptedEntry;

impl ScriptedEntry {
    /// From a definition as raw JSON, listed byte for byte. Its key is `name`, or `uri`, or `uriTemplate`.
    pub fn raw<F, Fut>(definition: &str, function: F) -> Self
    where
        F: Fn(ScriptedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ScriptedAnswer> + Send + 'static,
    {
        let bytes = definition.as_bytes();
        let whole = validate(bytes, 256).unwrap_or_else(|e| panic!("{e} in {definition}"));
        // `name` last: resources and templates have one, too, but are not read by it.
        let key = ["uriTemplate", "uri", "name"].iter().find_map(|member| string_at(bytes, get(bytes, whole, member)?));
        Self {
            key: key.expect("a definition has a name or a URI").into_owned(),
            definition: definition.to_owned(),
            handler: handler(function),
        }
    }

    /// A tool that takes anything.
    pub fn tool<F, Fut>(name: &str, function: F) -> Self
    where
        F: Fn(ScriptedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ScriptedAnswer> + Send + 'static,
    {
        let definition = json!({"name": name, "description": name, "inputSchema": {"type": "object"}});
        Self::raw(&definition.to_string(), function)
    }

    /// A tool that answers with a text.
    pub fn text_tool(name: &str, text: &str) -> Self {
        let text = text.to_owned();
        Self::tool(name, move |call| {
            let answer = call.ok_text(&text);
            async move { answer }
        })
    }

    /// A resource that always has this text.
    pub fn resource(uri: &str, text: &str) -> Self {
        let text = text.to_owned();
        Self::raw(&json!({"uri": uri, "name": uri}).to_string(), move |call| {
            let answer = call.ok_contents(&text);
            async move { answer }
        })
    }

    /// A template whose content is a function of the URI; `None` is "not found".
    pub fn template(pattern: &str, read: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::raw(&json!({"uriTemplate": pattern, "name": pattern}).to_string(), move |call| {
            let uri = call.param_str("uri");
            let answer = match read(&uri) {
                Some(text) => call.ok_contents(&text),
                None => not_found(&call, &uri).into(),
            };
            async move { answer }
        })
    }

    /// A prompt that says nothing of its arguments.
    pub fn prompt<F, Fut>(name: &str, function: F) -> Self
    where
        F: Fn(ScriptedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ScriptedAnswer> + Send + 'static,
    {
        Self::raw(&json!({ "name": name }).to_string(), function)
    }
}

/// The error of a resource that is not there, as the caller's era has it.
pub(crate) fn not_found(call: &ScriptedCall, uri: &str) -> RpcError {
    // The modern era replaced the code of its own, -32002, by invalid params.
    let code = if call.is_modern() { -32602 } else { -32002 };
    RpcError::with_data(code, "Resource not found", json!({ "uri": uri }))
}

/// Everything a server offers.
#[derive(Clone, Default)]
pub(crate) struct ScriptedCatalogue {
    pub(crate) tools: Vec<Tool>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<Template>,
    pub(crate) prompts: Vec<Prompt>,
}

/// Adds an entry, in the place of the one with its key.
pub(crate) fn put(entries: &mut Vec<ScriptedEntry>, entry: ScriptedEntry) {
    match entries.iter_mut().find(|old| old.key == entry.key) {
        Some(old) => *old = entry,
        None => entries.push(entry),
    }
}

impl ScriptedCatalogue {
    /// A list by the name of its member in a result.
    pub(crate) fn list_mut(&mut self, kind: &str) -> &mut Vec<ScriptedEntry> {
        match kind {
            "tools" => &mut self.tools,
            "resources" => &mut self.resources,
            "resourceTemplates" => &mut self.templates,
            "prompts" => &mut self.prompts,
            other => panic!("there is no list of {other}"),
        }
    }

    /// What reads a URI: a resource, else the first template whose fixed beginning fits.
    pub(crate) fn reader(&self, uri: &str) -> Option<&ScriptedEntry> {
        let fits = |template: &&ScriptedEntry| uri.starts_with(template.key.split('{').next().unwrap_or_default());
        self.resources.iter().find(|r| r.key == uri).or_else(|| self.templates.iter().find(fits))
    }
}
