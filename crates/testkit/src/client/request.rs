//! One request in detail.

use bytes::Bytes;
use serde_json::Value;
use tidings_wire::{ByteSpan, ObjectEdit, Patch, RawId, get, request};

use super::exchange::{Exchange, PendingExchange};
use super::{Client, ClientShared, ClientTransport};
use crate::revision::{META_CAPABILITIES, META_CLIENT, META_LOG_LEVEL, META_VERSION};

/// A request in the making.
pub struct RequestBuilder<'a> {
    client: &'a Client,
    method: String,
    id: RawId,
    params: Bytes,
    headers: Vec<(String, String)>,
    bare: bool,
}

impl<'a> RequestBuilder<'a> {
    pub(super) fn new(client: &'a Client, method: &str, id: RawId) -> Self {
        let params = Bytes::from_static(b"{}");
        Self { client, method: method.to_owned(), id, params, headers: Vec::new(), bare: client.is_raw() }
    }

    /// The id as raw JSON: `"\"a\""`, `"7"`.
    pub fn id(mut self, raw: &str) -> Self {
        self.id = RawId::from_raw(raw.as_bytes()).expect("an id is a JSON string or number");
        self
    }

    /// The params as a value; their text is what serde_json writes.
    pub fn params(self, params: impl Into<Value>) -> Self {
        let text = params.into().to_string();
        self.params_raw(text)
    }

    /// The params, byte for byte (a modern client still adds to `_meta`, see [`RequestBuilder::bare`]).
    pub fn params_raw(mut self, params: impl Into<Bytes>) -> Self {
        self.params = params.into();
        self
    }

    /// Adds a progress token, as raw JSON.
    pub fn progress_token(mut self, raw: &str) -> Self {
        self.params = set_meta(&self.params, &[("progressToken", raw.to_owned())], true);
        self
    }

    /// HTTP: a header on top of (or in the place of) the usual ones; an empty value takes it away.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds nothing to the params.
    pub fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    /// Sends the request and does not wait for what comes back.
    pub fn start(self) -> PendingExchange {
        let shared = &self.client.shared;
        let params = if shared.is_modern() && !self.bare { modern_params(shared, &self.params) } else { self.params };
        let message = request(&self.id, &self.method, Some(&params));
        match &self.client.transport {
            ClientTransport::Http(http) => {
                http.send(shared, "POST", message, Some((&self.method, &params)), &self.headers, self.id)
            }
            ClientTransport::Stdio(stdio) => stdio.send(message, &self.method, self.id),
            ClientTransport::Sse(sse) => sse.send(message, &self.method, self.id),
        }
    }

    /// Sends it and waits for the response.
    pub async fn send(self) -> Exchange {
        self.start().finish().await
    }
}

impl Client {
    fn is_raw(&self) -> bool {
        match &self.transport {
            ClientTransport::Http(http) => http.is_raw(),
            ClientTransport::Stdio(stdio) => stdio.is_raw(),
            ClientTransport::Sse(sse) => sse.is_raw(),
        }
    }
}

/// The params with what every modern request carries, unless it is there already.
fn modern_params(shared: &ClientShared, params: &Bytes) -> Bytes {
    let quoted = |text: &str| Value::from(text).to_string();
    let mut members = vec![
        (META_VERSION, quoted(&shared.revision())),
        (META_CAPABILITIES, shared.capabilities.to_string()),
        (META_CLIENT, format!(r#"{{"name":{},"version":"1.0.0"}}"#, quoted(&shared.name))),
    ];
    if let Some(level) = &shared.log_level {
        members.push((META_LOG_LEVEL, quoted(level)));
    }
    set_meta(params, &members, false)
}

/// Sets members of `_meta`, all other bytes as they were.
fn set_meta(params: &Bytes, members: &[(&str, String)], replace: bool) -> Bytes {
    let span = ByteSpan::new(0, params.len());
    let mut patch = Patch::new();
    match get(params, span, "_meta") {
        Some(meta) => {
            let mut edit = ObjectEdit::new(params, meta);
            for (name, value) in members {
                if replace || edit.get(name).is_none() {
                    edit.set(name, value.clone());
                }
            }
            edit.finish(&mut patch);
        }
        None => {
            let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            let mut edit = ObjectEdit::new(params, span);
            edit.set("_meta", format!("{{{}}}", members.join(",")));
            edit.finish(&mut patch);
        }
    }
    patch.apply(params)
}
