//! Modern clients: each request stands for itself; closing its stream cancels it.

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http::header::{HeaderMap, HeaderName};
use tidings_engine::{Caller, Exchange, Reply};
use tidings_proto::meta::{MetaFault, ModernMeta};
use tidings_proto::refusal::Refusal;
use tidings_proto::{Era, Method, Revision, code, headers};
use tidings_wire::{Frame, one_line, sse};

use super::body::{self, KEEP_ALIVE, QUIET};
use super::endpoint::{Endpoint, Received, VERSION};

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

impl Endpoint {
    pub(super) async fn modern(
        &self,
        received: &Received<'_>,
        frame: Frame,
        meta: Result<ModernMeta, MetaFault>,
    ) -> Response<Body> {
        let Some(id) = frame.id() else { return body::empty(400) };
        match self.admit(received, &frame, meta) {
            Ok((caller, method)) => {
                let exchange = self.gateway.request(caller, frame, method, id);
                self.respond(exchange).await
            }
            Err(refusal) => {
                let status = if matches!(refusal, Refusal::UnknownMethod(_)) { 404 } else { 400 };
                body::json(status, refusal.respond(&id, Era::Modern).into())
            }
        }
    }

    /// The checks, in the order that decides which error a request with several faults gets.
    fn admit(
        &self,
        received: &Received<'_>,
        frame: &Frame,
        meta: Result<ModernMeta, MetaFault>,
    ) -> Result<(Caller, Method), Refusal> {
        let meta = meta.map_err(|fault| Refusal::InvalidParams(fault.to_string()))?;
        match received.header(VERSION) {
            None => return Err(Refusal::HeaderMismatch("MCP-Protocol-Version is missing".into())),
            Some(header) if header != meta.version => {
                let text = format!("MCP-Protocol-Version is {header}, the body says {}", meta.version);
                return Err(Refusal::HeaderMismatch(text));
            }
            Some(_) => {}
        }
        if meta.version != Revision::MODERN.as_str() {
            return Err(Refusal::UnsupportedVersion(meta.version));
        }
        let name = frame.method();
        mirrors(received.headers, &METHOD, "Mcp-Method", &name)?;
        let method = Method::parse(&name).filter(|method| method.is_modern());
        if let Some(param) = method.and_then(Method::name_param) {
            let value = frame
                .param_str(&[param])
                .ok_or_else(|| Refusal::InvalidParams(format!("params.{param} must be a string")))?;
            mirrors(received.headers, &NAME, "Mcp-Name", &value)?;
        }
        let method = method.ok_or_else(|| Refusal::UnknownMethod(name.into_owned()))?;
        if method == Method::ToolsCall {
            self.check_params(received, frame)?;
        }
        let level = crate::stdio::log_level(frame, &meta)?;
        let caller = self.gateway.modern_caller(None, received.principal, level, meta.capabilities);
        Ok((Caller::Modern(caller), method))
    }

    /// Tool parameters that the tool's schema mirrors into headers.
    fn check_params(&self, received: &Received<'_>, frame: &Frame) -> Result<(), Refusal> {
        let Some(tool) = frame.param_str(&["name"]) else { return Ok(()) };
        for param in self.gateway.param_headers(received.principal, &tool) {
            let label = format!("Mcp-Param-{}", param.name);
            let body = frame.param(&["arguments"]).and_then(|at| param.value(frame.bytes(), at));
            let header = match received.headers.get(&label) {
                None => None,
                Some(value) => Some(
                    headers::decode(value.as_bytes())
                        .ok_or_else(|| Refusal::HeaderMismatch(format!("{label} holds invalid characters")))?,
                ),
            };
            match (header, body) {
                (None, None) => {}
                (Some(header), Some(body)) if param.agrees(&header, &body) => {}
                (None, Some(_)) => return Err(Refusal::HeaderMismatch(format!("{label} is missing"))),
                (Some(_), _) => return Err(Refusal::HeaderMismatch(format!("{label} differs from the body"))),
            }
        }
        Ok(())
    }

    /// Headers wait for the first thing to say, so that an error can still have its status.
    async fn respond(&self, mut exchange: Exchange) -> Response<Body> {
        let first = tokio::select! {
            first = exchange.next() => Some(first),
            () = self.gateway.long_while(QUIET) => None,
        };
        match first {
            Some(Reply::Answer(answer)) => body::json(answer.error.map_or(200, code::modern_status), answer.payload),
            Some(Reply::Cancelled) => body::events(stream::empty()),
            first => body::events(stream::unfold((Some(exchange), first), |(exchange, early)| async move {
                let mut exchange = exchange?;
                let (chunk, over) = match early {
                    Some(reply) => event(reply),
                    None => tokio::select! {
                        reply = exchange.following() => event(reply),
                        () = tokio::time::sleep(QUIET) => (Some(Bytes::from_static(KEEP_ALIVE)), false),
                    },
                };
                Some((chunk.unwrap_or_default(), (Some(exchange).filter(|_| !over), None)))
            })),
        }
    }
}

fn mirrors(given: &HeaderMap, name: &HeaderName, label: &str, body: &str) -> Result<(), Refusal> {
    let Some(value) = given.get(name) else { return Err(Refusal::HeaderMismatch(format!("{label} is missing"))) };
    match headers::decode(value.as_bytes()) {
        Some(header) if header == body => Ok(()),
        Some(header) => Err(Refusal::HeaderMismatch(format!("{label} is '{header}', the body says '{body}'"))),
        None => Err(Refusal::HeaderMismatch(format!("{label} holds invalid characters"))),
    }
}

/// A reply as an event, and whether it is the last.
fn event(reply: Reply) -> (Option<Bytes>, bool) {
    match reply {
        Reply::Message(message) => (Some(sse::encode(None, None, &one_line(&message))), false),
        Reply::Answer(answer) => (Some(sse::encode(None, None, &one_line(&answer.payload.to_bytes()))), true),
        Reply::Cancelled => (None, true),
        Reply::Opened | Reply::Interrupted(_) => (None, false),
    }
}
