//! One JSON-RPC message: its bytes, and where its envelope members are.

use std::borrow::Cow;

use bytes::Bytes;

use crate::id::RawId;
use crate::patch::{ObjectEdit, Patch};
use crate::scan::{ByteSpan, JsonScanner, ScanError};
use crate::walk::{self, MemberIndex, MemberKey, ObjectMember, string_at};

/// Bounds on what is accepted.
#[derive(Clone, Copy, Debug)]
pub struct FrameLimits {
    /// The longest message in bytes.
    pub max_bytes: usize,
    /// How deep arrays and objects may be nested.
    pub max_depth: usize,
    /// The most messages in one batch.
    pub max_batch: usize,
}

impl Default for FrameLimits {
    fn default() -> Self {
        // The scanner recurses once per level, so the depth bounds the stack that a peer can make it use.
        Self { max_bytes: 64 << 20, max_depth: 256, max_batch: 256 }
    }
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// It has a method and an id: somebody waits for the answer.
    Request,
    /// It has a method and no id: nobody waits.
    Notification,
    /// It has an id and a result.
    Response,
    /// An error in the place of a result.
    Error,
}

/// What arrived: one message, or a batch of them.
#[derive(Clone, Debug)]
pub enum IncomingMessage {
    /// One message, the ordinary case.
    Single(Frame),
    /// Only revision 2025-03-26 has these. Each part succeeds or fails on its own.
    Batch(Vec<Result<Frame, FrameError>>),
}

/// A validated message: its bytes, and where the members of the envelope stand in them.
#[derive(Clone, Debug)]
pub struct Frame {
    bytes: Bytes,
    kind: FrameKind,
    id: Option<ByteSpan>,
    method: Option<ByteSpan>,
    params: Option<ByteSpan>,
    outcome: Option<ByteSpan>,
    /// The members of the params or of the result.
    index: MemberIndex,
    /// The members of the `_meta` in there.
    meta: MemberIndex,
}

/// The member of params and results that is asked for more than once.
const META: &[u8] = b"\"_meta\"";

/// Why bytes are not a message, with the request's id where it could still be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct FrameError {
    /// The rule that the message breaks.
    pub fault: FrameFault,
    /// Whom to answer. Where the text has a result or an error, it is the id of the request that this text answers.
    pub id: Option<RawId>,
}

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// The bytes are not JSON; the scanner says where.
    #[error(transparent)]
    Json(#[from] ScanError),
    /// The bytes are not UTF-8, so they can not be JSON text.
    #[error("invalid UTF-8 after {valid} bytes")]
    Utf8 {
        /// How many bytes were fine.
        valid: usize,
    },
    /// Longer than the limit.
    #[error("message of {len} bytes exceeds the limit of {limit}")]
    TooLong {
        /// The bytes that it has.
        len: usize,
        /// The bound that it breaks.
        limit: usize,
    },
    /// More messages in a batch than the limit.
    #[error("batch exceeds the limit of {limit} messages")]
    BatchTooLong {
        /// The bound that it breaks.
        limit: usize,
    },
    /// A batch without messages (`[]`), which JSON-RPC forbids.
    #[error("empty batch")]
    EmptyBatch,
    /// Neither an object nor an array.
    #[error("a message must be a JSON object")]
    NotAnObject,
    /// A member of the envelope, of the params, the result or the error, or of their `_meta`, stands twice: two readers
    /// could understand two different messages.
    #[error("duplicate member \"{0}\"")]
    DuplicateMember(Box<str>),
    /// `jsonrpc` is missing or not `"2.0"`.
    #[error("member \"jsonrpc\" must be \"2.0\"")]
    Version,
    /// The id is neither string nor number.
    #[error("member \"id\" must be a string or a number")]
    Id,
    /// The method is not a string.
    #[error("member \"method\" must be a string")]
    Method,
    /// The params are no object. JSON-RPC has arrays too, MCP has not.
    #[error("member \"params\" must be an object")]
    Params,
    /// Neither a request, a notification nor a response.
    #[error("neither a request, a notification nor a response")]
    Shape,
}

impl FrameFault {
    /// Whether the bytes could not be read as JSON at all (as opposed to JSON that is no message).
    pub fn is_parse_error(&self) -> bool {
        // What is too long was refused unread: nobody knows whether it is JSON.
        matches!(self, Self::Json(_) | Self::Utf8 { .. } | Self::TooLong { .. })
    }
}

impl From<FrameFault> for FrameError {
    fn from(fault: FrameFault) -> Self {
        Self { fault, id: None }
    }
}

const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
const JSONRPC: usize = 0;
const ID: usize = 1;
const METHOD: usize = 2;
const PARAMS: usize = 3;
const RESULT: usize = 4;
const ERROR: usize = 5;

impl IncomingMessage {
    /// Validates bytes as a message or a batch.
    pub fn parse(bytes: Bytes, limits: &FrameLimits) -> Result<Self, FrameError> {
        check_text(&bytes, limits)?;
        // Told by the first byte, so that a single message is scanned once, with its members found on the way.
        if first_byte(&bytes) == Some(b'[') {
            return Self::parse_batch(&bytes, limits);
        }
        Frame::parse_text(bytes, limits).map(Self::Single)
    }

    fn parse_batch(bytes: &Bytes, limits: &FrameLimits) -> Result<Self, FrameError> {
        let span = crate::scan::validate(bytes, limits.max_depth).map_err(FrameFault::Json)?;
        let mut parts = Vec::new();
        for element in walk::elements(bytes, span) {
            if parts.len() == limits.max_batch {
                return Err(FrameFault::BatchTooLong { limit: limits.max_batch }.into());
            }
            // Each part by itself: a faulty one is answered with its fault, and does not spoil the others.
            parts.push(Frame::parse_text(bytes.slice(element.range()), limits));
        }
        if parts.is_empty() { Err(FrameFault::EmptyBatch.into()) } else { Ok(Self::Batch(parts)) }
    }
}

fn first_byte(bytes: &[u8]) -> Option<u8> {
    bytes.iter().copied().find(|b| !b.is_ascii_whitespace())
}

fn check_text(bytes: &[u8], limits: &FrameLimits) -> Result<(), FrameFault> {
    if bytes.len() > limits.max_bytes {
        return Err(FrameFault::TooLong { len: bytes.len(), limit: limits.max_bytes });
    }
    // Once, here: everything after this may take spans for text.
    std::str::from_utf8(bytes).map(drop).map_err(|e| FrameFault::Utf8 { valid: e.valid_up_to() })
}

impl Frame {
    /// Validates bytes as a single message; a batch is an error.
    pub fn parse(bytes: impl Into<Bytes>, limits: &FrameLimits) -> Result<Self, FrameError> {
        let bytes = bytes.into();
        check_text(&bytes, limits)?;
        Self::parse_text(bytes, limits)
    }

    fn parse_text(bytes: Bytes, limits: &FrameLimits) -> Result<Self, FrameError> {
        let mut found = [None; 6];
        let (mut index, mut meta) = (MemberIndex::default(), MemberIndex::default());
        let read = envelope(&bytes, limits, &mut found, &mut index, &mut meta);
        // Also of a message that is refused: whoever sent it is answered under it.
        let id = found[ID].and_then(|span| RawId::from_raw(span.of(&bytes)));
        match read.and_then(|()| classify(&bytes, &found, id.is_some())) {
            Ok(kind) => {
                let frame = Self {
                    kind,
                    id: found[ID],
                    method: found[METHOD],
                    params: found[PARAMS],
                    // `classify` has seen to it that there is only one of them.
                    outcome: found[RESULT].or(found[ERROR]),
                    index,
                    meta,
                    bytes,
                };
                match frame.repeated() {
                    None => Ok(frame),
                    Some(name) => Err(FrameError { fault: FrameFault::DuplicateMember(name), id }),
                }
            }
            Err(fault) => Err(FrameError { fault, id }),
        }
    }

    /// A member that stands twice in the params, the result or the error, or in their `_meta`.
    fn repeated(&self) -> Option<Box<str>> {
        // Deeper down a repeated key is between client and server; up to here the gateway itself reads and replaces
        // members.
        let inside = |span| repeated(&self.bytes, &self.members(span));
        // An answer may have params that mean nothing, and they must not hide its result.
        let bodies = [self.params, self.outcome].into_iter().flatten();
        bodies.into_iter().find_map(|body| inside(body).or_else(|| inside(self.get(body, "_meta")?)))
    }

    /// The whole message as it arrived.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The whole message as it arrived.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Moves the message into memory of its own. Its bytes may be part of a large read buffer, which stays as long as
    /// they do; whoever keeps a frame for long should not keep that.
    pub fn compact(&mut self) {
        self.bytes = Bytes::copy_from_slice(&self.bytes);
    }

    /// Lets go of the message: from now on it has no members. For whoever has read all that it needs, and stays for long.
    pub fn forget(&mut self) {
        let (index, meta) = (MemberIndex::default(), MemberIndex::default());
        let bytes = Bytes::new();
        *self = Self { bytes, kind: self.kind, id: None, method: None, params: None, outcome: None, index, meta };
    }

    /// Whether it asks, tells or answers.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// The id, if any.
    pub fn id(&self) -> Option<RawId> {
        self.id.and_then(|span| RawId::from_raw(span.of(&self.bytes)))
    }

    /// Where the id is. That of an error may be `null`, which is no id: [`Self::id`] then is `None`, and this is not.
    pub fn id_span(&self) -> Option<ByteSpan> {
        self.id
    }

    /// Gives the message this id: in the place of the one it has (`null` included), else in front.
    pub fn set_id(&self, patch: &mut Patch, id: &RawId) {
        // White space may stand before the object.
        match (self.id, memchr::memchr(b'{', &self.bytes)) {
            (Some(span), _) => patch.replace(span, id.as_str().to_owned()),
            (None, Some(open)) => patch.insert(open + 1, format!("\"id\":{id},")),
            // A message is an object, so there is a brace.
            (None, None) => {}
        }
    }

    /// The method; empty for responses.
    pub fn method(&self) -> Cow<'_, str> {
        self.method.and_then(|span| string_at(&self.bytes, span)).unwrap_or_default()
    }

    /// Whether the method is this one.
    pub fn has_method(&self, name: &str) -> bool {
        let raw = self.method.map(|span| span.of(&self.bytes)).unwrap_or_default();
        // Written plainly it is compared as it stands; only one that is escaped has to be decoded.
        match raw {
            // In raw text a backslash begins an escape, so a name that has one never equals its own spelling.
            [b'"', plain @ .., b'"'] if plain == name.as_bytes() => !name.contains('\\'),
            _ => raw.contains(&b'\\') && self.method() == name,
        }
    }

    /// Where the value of `params` stands in the message; `None` when there is no such member.
    pub fn params(&self) -> Option<ByteSpan> {
        self.params
    }

    /// Where the result (or the error) is.
    pub fn outcome(&self) -> Option<ByteSpan> {
        self.outcome
    }

    /// The value at a path inside the params.
    pub fn param(&self, path: &[&str]) -> Option<ByteSpan> {
        path.iter().try_fold(self.params?, |at, name| self.get(at, name))
    }

    /// As [`get`](crate::get), without scanning what was remembered.
    pub fn get(&self, span: ByteSpan, name: &str) -> Option<ByteSpan> {
        // By place: a span that was not remembered is scanned, so the answer is the same either way.
        match self.remembered(span) {
            // The last one wins where a key stands twice, as everywhere.
            Some(members) => members.iter().rev().find(|member| member.key.is(&self.bytes, name)).map(|m| m.value),
            None => walk::get(&self.bytes, span, name),
        }
    }

    /// The members of the object at `span`.
    pub fn members(&self, span: ByteSpan) -> Cow<'_, [ObjectMember]> {
        match self.remembered(span) {
            Some(members) => Cow::Borrowed(members),
            None => walk::members(&self.bytes, span).collect(),
        }
    }

    /// Edits the object at `span`.
    pub fn edit(&self, span: ByteSpan) -> ObjectEdit<'_> {
        ObjectEdit::with(&self.bytes, span, self.members(span))
    }

    fn remembered(&self, span: ByteSpan) -> Option<&[ObjectMember]> {
        self.index.of(span).or_else(|| self.meta.of(span))
    }

    /// The string at a path inside the params.
    pub fn param_str(&self, path: &[&str]) -> Option<Cow<'_, str>> {
        string_at(&self.bytes, self.param(path)?)
    }

    /// The raw bytes of a span of this message.
    pub fn raw(&self, span: ByteSpan) -> &[u8] {
        span.of(&self.bytes)
    }

    /// A span of this message, sharing its memory.
    pub fn slice(&self, span: ByteSpan) -> Bytes {
        self.bytes.slice(span.range())
    }
}

/// Scans the envelope once; every value is validated on the way. On a fault, `found` holds the id only if it may be
/// answered.
fn envelope(
    bytes: &[u8],
    limits: &FrameLimits,
    found: &mut [Option<ByteSpan>; 6],
    index: &mut MemberIndex,
    meta: &mut MemberIndex,
) -> Result<(), FrameFault> {
    let mut duplicate = None;
    if let Err(fault) = scan_envelope(bytes, limits, found, (index, meta), &mut duplicate) {
        // Up to the place that is too deep the text is sound. Text that is not JSON has no id, whatever it looks like.
        let sound = matches!(fault, FrameFault::Json(ScanError::TooDeep { .. }) | FrameFault::DuplicateMember(_));
        // An error must not be sent under an id that perhaps nobody used.
        if duplicate == Some(ID) || !sound {
            found[ID] = None;
        }
        return Err(fault);
    }
    let Some(member) = duplicate else { return Ok(()) };
    if member == ID {
        found[ID] = None;
    }
    Err(FrameFault::DuplicateMember(MEMBERS[member].into()))
}

/// A repeated member is only noted, so that text which is not JSON is never reported as JSON that is no message. A
/// repeated id outranks the others: with it nobody can be answered.
fn scan_envelope(
    bytes: &[u8],
    limits: &FrameLimits,
    found: &mut [Option<ByteSpan>; 6],
    (index, meta): (&mut MemberIndex, &mut MemberIndex),
    duplicate: &mut Option<usize>,
) -> Result<(), FrameFault> {
    let mut scanner = JsonScanner::new(bytes, limits.max_depth);
    // Members that JSON-RPC does not have. Nearly no message has any, so nothing is allocated.
    let mut others = Vec::new();
    scanner.space();
    // Still scanned to its end, so that text which is not JSON is called that.
    if scanner.peek() != Some(b'{') {
        scanner.value()?;
        scanner.finish()?;
        return Err(FrameFault::NotAnObject);
    }
    scanner.pos += 1;
    // The envelope counts as a level, as it does for everybody who measures depth.
    scanner.enter()?;
    scanner.space();
    if scanner.peek() == Some(b'}') {
        scanner.pos += 1;
        return Ok(scanner.finish()?);
    }
    loop {
        let key = scanner.key()?;
        let value = match key.span.of(bytes) {
            // The members that the gateway will look for are remembered while the scanner is there anyway.
            b"\"params\"" | b"\"result\"" => scanner.indexed_value(index, Some((META, &mut *meta)))?,
            _ => scanner.value()?,
        };
        match envelope_member(bytes, key) {
            Some(i) => {
                // A repeated id counts more than any other: it decides whether an error can be addressed.
                if found[i].replace(value).is_some() && (i == ID || duplicate.is_none()) {
                    *duplicate = Some(i);
                }
            }
            None => others.push(ObjectMember { key, value }),
        }
        if !scanner.more(b'}')? {
            scanner.finish()?;
            return match repeated(bytes, &others).filter(|_| duplicate.is_none()) {
                Some(name) => Err(FrameFault::DuplicateMember(name)),
                None => Ok(()),
            };
        }
    }
}

/// The name of a member that stands twice, however it is spelled.
fn repeated(bytes: &[u8], members: &[ObjectMember]) -> Option<Box<str>> {
    /// Up to here, comparing each with each is faster than a set.
    const FEW: usize = 16;
    /// How much of a name is worth repeating in an error.
    const SHOWN: usize = 64;
    let shown = |key: MemberKey| {
        let name = key.text(bytes).unwrap_or_default();
        name.chars().take(SHOWN).collect::<String>().into_boxed_str()
    };
    // Comparing each pair beats filling a set, up to about here.
    if members.len() <= FEW {
        let twin =
            |(i, member): (usize, &ObjectMember)| members[..i].iter().any(|other| other.key.same(member.key, bytes));
        return members.iter().enumerate().find(|m| twin(*m)).map(|(_, member)| shown(member.key));
    }
    let mut seen = std::collections::HashSet::with_capacity(members.len());
    members.iter().find(|member| member.key.text(bytes).is_some_and(|name| !seen.insert(name))).map(|m| shown(m.key))
}

/// Which envelope member a key names.
fn envelope_member(bytes: &[u8], key: MemberKey) -> Option<usize> {
    if key.escaped {
        return MEMBERS.iter().position(|name| key.is(bytes, name));
    }
    Some(match key.span.of(bytes) {
        b"\"jsonrpc\"" => JSONRPC,
        b"\"id\"" => ID,
        b"\"method\"" => METHOD,
        b"\"params\"" => PARAMS,
        b"\"result\"" => RESULT,
        b"\"error\"" => ERROR,
        _ => return None,
    })
}

fn classify(bytes: &[u8], found: &[Option<ByteSpan>; 6], has_id: bool) -> Result<FrameKind, FrameFault> {
    if found[JSONRPC].is_none_or(|span| span.of(bytes) != b"\"2.0\"") {
        return Err(FrameFault::Version);
    }
    let id = found[ID].map(|span| span.of(bytes));
    // Only an error response may have `null`, where the server could not read the request's id.
    if id.is_some() && !has_id && (found[METHOD].is_some() || id != Some(b"null")) {
        return Err(FrameFault::Id);
    }
    if found[METHOD].is_some_and(|span| string_at(bytes, span).is_none()) {
        return Err(FrameFault::Method);
    }
    if found[PARAMS].is_some_and(|span| !walk::is_object(bytes, span)) {
        return Err(FrameFault::Params);
    }
    match (found[METHOD], found[RESULT], found[ERROR]) {
        (Some(_), None, None) if has_id => Ok(FrameKind::Request),
        (Some(_), None, None) => Ok(FrameKind::Notification),
        // Whether the result is an object is not asked here: the call that it answers must end, with an error if need
        // be.
        (None, Some(_), None) if has_id => Ok(FrameKind::Response),
        (None, None, Some(span)) if walk::is_object(bytes, span) => Ok(FrameKind::Error),
        _ => Err(FrameFault::Shape),
    }
}
