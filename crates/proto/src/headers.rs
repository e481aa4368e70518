//! The names of HTTP headers, each written once, and the headers of modern requests that mirror the body.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidings_wire::{ByteSpan, get, get_path, members, string_at};

/// Which legacy session a request belongs to.
pub const SESSION_ID: &str = "mcp-session-id";
/// The revision that is spoken.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// Modern: repeats the method of the body, for those on the way who read headers only.
pub const METHOD: &str = "mcp-method";
/// Modern: the name or URI that the request is about.
pub const NAME: &str = "mcp-name";
/// Modern: what the headers of tool parameters begin with.
pub const PARAM_PREFIX: &str = "mcp-param-";
/// Where a stream of events is picked up again.
pub const LAST_EVENT_ID: &str = "last-event-id";

const MARK: &str = "=?base64?";
const END: &str = "?=";

/// Encodes a value for a header, by Base64 where plain text would not survive.
pub fn encode(value: &str) -> Cow<'_, str> {
    let plain = value.bytes().all(|b| (0x20..0x7f).contains(&b) || b == b'\t')
        // HTTP strips white space at both ends, so such a value would arrive as another one.
        && value.trim_matches([' ', '\t']).len() == value.len()
        // A value that looks encoded must be encoded, or it would be decoded at the other end.
        && !(value.starts_with(MARK) && value.ends_with(END));
    if plain { Cow::Borrowed(value) } else { Cow::Owned(format!("{MARK}{}{END}", STANDARD.encode(value))) }
}

/// Decodes a header value; `None` when it claims to be Base64 and is not, or is not ASCII.
pub fn decode(header: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(header).ok().filter(|t| t.is_ascii())?.trim_matches([' ', '\t']);
    match text.strip_prefix(MARK).and_then(|t| t.strip_suffix(END)) {
        None => Some(Cow::Borrowed(text)),
        Some(inner) => String::from_utf8(STANDARD.decode(inner).ok()?).ok().map(Cow::Owned),
    }
}

/// One tool parameter that is mirrored into a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeader {
    /// The part after `Mcp-Param-`, as declared.
    pub name: String,
    path: Vec<String>,
    integer: bool,
}

/// Why a tool's header annotations are not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationFault {
    /// Not an HTTP token.
    #[error("x-mcp-header \"{0}\" is not a valid header name")]
    Name(String),
    /// Twice, up to case.
    #[error("x-mcp-header \"{0}\" stands twice")]
    Duplicate(String),
    /// On something that is not a string, an integer or a boolean.
    #[error("x-mcp-header \"{0}\" is on a parameter that is not a string, integer or boolean")]
    Type(String),
    /// Reachable only through arrays, alternatives or references.
    #[error("an x-mcp-header stands where no fixed property path leads")]
    Place,
}

const ANNOTATION: &str = "x-mcp-header";

/// The annotated parameters of an input schema.
pub fn annotated(schema: &[u8]) -> Result<Vec<ParamHeader>, AnnotationFault> {
    // Nearly no schema has any, and walking all of them would cost every listing.
    if memchr::memmem::find(schema, ANNOTATION.as_bytes()).is_none() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    collect(schema, ByteSpan::new(0, schema.len()), &mut Vec::new(), &mut found)?;
    Ok(found)
}

fn collect(
    schema: &[u8],
    at: ByteSpan,
    path: &mut Vec<String>,
    found: &mut Vec<ParamHeader>,
) -> Result<(), AnnotationFault> {
    for member in members(schema, at) {
        let Some(key) = member.key.text(schema) else { continue };
        match &*key {
            "properties" => {
                for property in members(schema, member.value) {
                    let Some(name) = property.key.text(schema) else { continue };
                    path.push(name.into_owned());
                    collect(schema, property.value, path, found)?;
                    path.pop();
                }
            }
            ANNOTATION => {
                let header = parameter(schema, at, member.value, path)?;
                // HTTP does not tell the cases of header names apart.
                if found.iter().any(|other| other.name.eq_ignore_ascii_case(&header.name)) {
                    return Err(AnnotationFault::Duplicate(header.name));
                }
                found.push(header);
            }
            // Text that only mentions the word is fine; an annotation inside anything but `properties` is not.
            "description" | "title" | "default" | "const" | "enum" | "examples" | "$comment" => {}
            _ => {
                if holds_annotation(schema, member.value) {
                    return Err(AnnotationFault::Place);
                }
            }
        }
    }
    Ok(())
}

fn parameter(schema: &[u8], at: ByteSpan, value: ByteSpan, path: &[String]) -> Result<ParamHeader, AnnotationFault> {
    let name = string_at(schema, value).unwrap_or_default().into_owned();
    // RFC 9110: what a header name may consist of.
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(AnnotationFault::Name(name));
    }
    // On the schema itself, which is no parameter.
    if path.is_empty() {
        return Err(AnnotationFault::Place);
    }
    let kind = get(schema, at, "type").and_then(|t| string_at(schema, t));
    match kind.as_deref() {
        Some("string" | "boolean") => Ok(ParamHeader { name, path: path.to_vec(), integer: false }),
        Some("integer") => Ok(ParamHeader { name, path: path.to_vec(), integer: true }),
        _ => Err(AnnotationFault::Type(name)),
    }
}

fn holds_annotation(schema: &[u8], at: ByteSpan) -> bool {
    members(schema, at).any(|m| m.key.is(schema, ANNOTATION) || holds_annotation(schema, m.value))
        || tidings_wire::elements(schema, at).any(|element| holds_annotation(schema, element))
}

impl ParamHeader {
    /// The value in the arguments as header text; `None` when absent or null.
    pub fn value(&self, bytes: &[u8], arguments: ByteSpan) -> Option<String> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let raw = get_path(bytes, arguments, &path)?;
        match raw.of(bytes) {
            b"null" => None,
            text if text.first() == Some(&b'"') => string_at(bytes, raw).map(Cow::into_owned),
            text => std::str::from_utf8(text).ok().map(str::to_owned),
        }
    }

    /// Whether a decoded header says the same as the body. Integers compare as numbers.
    pub fn agrees(&self, header: &str, body: &str) -> bool {
        header == body || (self.integer && is_same_integer(header, body))
    }
}

fn is_same_integer(one: &str, other: &str) -> bool {
    match (one.parse::<i128>(), other.parse::<i128>()) {
        // As integers first: beyond 2^53 different ones are the same floating-point number.
        (Ok(one), Ok(other)) => one == other,
        // `10` and `1e1` are one integer in two spellings.
        _ => matches!((one.parse::<f64>(), other.parse::<f64>()), (Ok(one), Ok(other)) if one == other),
    }
}
