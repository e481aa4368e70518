//! The `_meta` object: which keys the protocol owns, and what a modern request must say about itself.

use serde_json::{Value, json};
use tidings_wire::{ByteSpan, Frame, RawId, is_object, string_at};

use crate::Revision;

/// Every key the protocol owns starts like this.
pub const RESERVED: &str = "io.modelcontextprotocol/";
/// The request's protocol version.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Who sends the request.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// What the sender can do.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Which log messages the sender wants for this request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The member that says which server answers.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Which `subscriptions/listen` a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Where the identity of the server behind the gateway is found.
pub const UPSTREAM_INFO: &str = "dev.tidings/upstreamInfo";
/// What changed: declared by clients that want it, and where they find it in a `list_changed`.
pub const CHANGES: &str = "dev.tidings/changes";
/// That the client is to be told on the channel of Claude Code: declared in its name by `tidings stdio --channel`.
pub const CHANNEL: &str = "dev.tidings/channel";
/// That a list which the client has read is old, on the result of one of its calls.
pub const STALE: &str = "dev.tidings/stale";
/// Marks a request by which somebody looks at what a client would see: it is no request of that client.
pub const LOOK: &str = "dev.tidings/look";
/// Which gateways a message comes through: told by a gateway to its servers, and answered by those that are gateways.
pub const GATEWAYS: &str = "dev.tidings/gateways";
/// The token that ties progress to a request.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// The span that a request belongs to (SEP-414); HTTP has a header of the same name.
pub const TRACE_PARENT: &str = "traceparent";
/// What vendors keep of its trace.
pub const TRACE_STATE: &str = "tracestate";

/// The `_meta` of a modern request that we make ourselves.
pub fn own(revision: Revision, client_info: &Value, capabilities: &Value) -> Value {
    json!({ PROTOCOL_VERSION: revision.as_str(), CLIENT_INFO: client_info, CLIENT_CAPABILITIES: capabilities })
}

/// What a modern request says about itself, as spans of its frame.
#[derive(Clone, Debug)]
pub struct ModernMeta {
    /// The version it claims.
    pub version: String,
    /// Where `clientInfo` stands, if it was given; checked to be an object.
    pub client_info: Option<ByteSpan>,
    /// Where `clientCapabilities` stands; checked to be an object.
    pub capabilities: ByteSpan,
    /// `logLevel`, raw, if given.
    pub log_level: Option<ByteSpan>,
}

/// A modern request that does not say what it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaFault {
    /// The request has no `_meta` object, which every modern request needs.
    #[error("params._meta must be an object with the protocol version and the client capabilities")]
    Missing,
    /// `_meta` does not name the protocol version.
    #[error("params._meta[\"io.modelcontextprotocol/protocolVersion\"] is missing")]
    NoVersion,
    /// The version is not a string.
    #[error("params._meta[\"io.modelcontextprotocol/protocolVersion\"] must be a string")]
    Version,
    /// No capabilities, or not an object.
    #[error("params._meta[\"io.modelcontextprotocol/clientCapabilities\"] must be an object")]
    Capabilities,
    /// The client info is not an object.
    #[error("params._meta[\"io.modelcontextprotocol/clientInfo\"] must be an object")]
    ClientInfo,
}

/// Where the `_meta` object of a request's params is.
pub fn meta_span(frame: &Frame) -> Option<ByteSpan> {
    frame.param(&["_meta"]).filter(|span| is_object(frame.bytes(), *span))
}

/// Whether the message carries a modern protocol version, whatever it is.
pub fn is_modern(frame: &Frame) -> bool {
    meta_span(frame).is_some_and(|meta| frame.get(meta, PROTOCOL_VERSION).is_some())
}

impl MetaFault {
    /// Whether the message claims nothing modern at all.
    pub fn is_absence(self) -> bool {
        matches!(self, Self::Missing | Self::NoVersion)
    }
}

impl ModernMeta {
    /// Reads the required members.
    pub fn read(frame: &Frame) -> Result<Self, MetaFault> {
        let bytes = frame.bytes();
        let meta = meta_span(frame).ok_or(MetaFault::Missing)?;
        let (mut version, mut client_info, mut capabilities, mut log_level) = (None, None, None, None);
        // One walk for all four: this runs for every modern request.
        for member in &*frame.members(meta) {
            for (name, found) in [
                (PROTOCOL_VERSION, &mut version),
                (CLIENT_INFO, &mut client_info),
                (CLIENT_CAPABILITIES, &mut capabilities),
                (LOG_LEVEL, &mut log_level),
            ] {
                if member.key.is(bytes, name) {
                    *found = Some(member.value);
                }
            }
        }
        // The version first: without it the message may not be modern at all, and is judged as legacy.
        let version = version.ok_or(MetaFault::NoVersion)?;
        let version = string_at(bytes, version).ok_or(MetaFault::Version)?.into_owned();
        let capabilities = capabilities.filter(|span| is_object(bytes, *span)).ok_or(MetaFault::Capabilities)?;
        // Optional in the protocol, but not of another type.
        if client_info.is_some_and(|span| !is_object(bytes, span)) {
            return Err(MetaFault::ClientInfo);
        }
        Ok(Self { version, client_info, capabilities, log_level })
    }
}

/// The progress token of a request, with its JSON type.
pub fn progress_token(frame: &Frame) -> Option<RawId> {
    let meta = meta_span(frame)?;
    // With its JSON type: `1` and `"1"` are two tokens to a client.
    RawId::from_raw(frame.raw(frame.get(meta, PROGRESS_TOKEN)?))
}
