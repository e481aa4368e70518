//! Finding out which era a server speaks, and introducing ourselves in it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use tidings_proto::{Era, Method, Revision, capabilities, code, gateway_path, meta};
use tidings_wire::{Frame, FrameKind, RawId, request};

use crate::link::{Link, OutgoingRequest};
use crate::{EraChoice, LinkError};

/// How long a server may stay silent on the probe before it is taken for a legacy one.
const PROBE: Duration = Duration::from_secs(2);
/// The same for one that was a legacy server before. A modern one that is slower says so on `initialize`.
const PROBE_AGAIN: Duration = Duration::from_millis(500);
/// How long the whole introduction may take. Package runners may download first.
const INTRODUCTION: Duration = Duration::from_secs(60);

/// How many bytes a server may say of itself. It is kept for as long as the link lives.
const BUDGET: usize = 1 << 20;

// Each is used once per link: a late answer to the probe must not be taken for that to `initialize`.
const PROBE_ID: u64 = 1;
const INITIALIZE_ID: u64 = 2;
const MODERN_IDS: [u64; 2] = [3, 4];

/// How the gateway introduces itself to a server, in either era.
#[derive(Clone, Debug)]
pub struct OwnIntroduction {
    /// The `clientInfo` by which servers know the gateway.
    pub client_info: Value,
    /// The only client's capabilities and era, where there is only one; otherwise everything we can bridge is declared.
    pub only_client: Option<(Value, Era)>,
    /// The gateways that ask, ourselves last.
    pub gateways: Vec<String>,
    /// When the whole introduction must be over, where that is sooner than usual.
    pub deadline: Option<Instant>,
    /// Whether the server was a legacy one when it was last met.
    pub is_legacy: bool,
}

impl OwnIntroduction {
    /// Waits for an answer for as long as there is patience.
    async fn within<T>(&self, answer: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
        let begun = Instant::now();
        let usual = begun + INTRODUCTION;
        let until = self.deadline.map_or(usual, |deadline| deadline.min(usual));
        // What was really waited, because the deadline may be nearer than the usual limit.
        let late = || LinkError::HandshakeTimeout(begun.elapsed().as_secs_f64().round() as u64);
        tokio::time::timeout_at(until.into(), answer).await.unwrap_or_else(|_| Err(late()))
    }
}

/// What a server said of itself.
#[derive(Clone, Debug)]
pub struct ServerHello {
    /// The revision that is spoken.
    pub revision: Revision,
    /// The capabilities that the server declared.
    pub capabilities: Value,
    /// Its `serverInfo` as it was sent; an empty object where it named none.
    pub info: Value,
    /// What a model should know before it uses the server; `None` where it says nothing.
    pub instructions: Option<String>,
    /// If it is a gateway: its id and those of the gateways behind it.
    pub gateways: Vec<String>,
}

/// How the probe ended.
pub(crate) enum ProbeOutcome {
    Modern(Box<ServerHello>),
    Legacy,
    /// The server ended itself on the probe: it is legacy, but a new link is needed.
    Died,
}

/// The `_meta` of requests that the gateway itself makes of a modern server.
pub(crate) fn own_meta(introduction: &OwnIntroduction) -> Value {
    let capabilities = capabilities::towards_modern_server();
    let mut own = meta::own(Revision::MODERN, &introduction.client_info, &capabilities);
    own[meta::GATEWAYS] = json!(introduction.gateways);
    own
}

fn discover(id: u64, introduction: &OwnIntroduction) -> OutgoingRequest {
    let params = json!({ "_meta": own_meta(introduction) }).to_string();
    let bytes = request(&RawId::from(id), Method::Discover.as_str(), Some(params.as_bytes()));
    OutgoingRequest { id, method: Method::Discover, bytes, name: None, params: Vec::new(), trace: None }
}

/// An introduction that is too long is refused: what it says is kept.
fn fits(frame: Frame) -> Result<Frame, LinkError> {
    match frame.bytes().len() {
        // Handshakes are parsed as a whole, unlike calls: an answer of 64 MB would be one of a server gone wrong.
        0..=BUDGET => Ok(frame),
        len => {
            Err(LinkError::Refused(format!("its answer of {len} bytes exceeds the budget of {BUDGET} for a handshake")))
        }
    }
}

/// Asks whether the server is modern. Only an answer that no legacy server gives counts as yes.
pub(crate) async fn probe(link: &dyn Link, introduction: &OwnIntroduction) -> Result<ProbeOutcome, LinkError> {
    let call = link.call(discover(PROBE_ID, introduction));
    let patience = if introduction.is_legacy { PROBE_AGAIN } else { PROBE };
    let answer = async { fits(call.answer().await?) };
    match tokio::time::timeout(patience, answer).await {
        // Silence is no answer of the modern era; some legacy servers ignore what comes before `initialize`.
        Err(_) => Ok(ProbeOutcome::Legacy),
        Ok(Ok(frame)) => match read_discover(&frame) {
            DiscoverOutcome::Hello(hello) => Ok(ProbeOutcome::Modern(hello)),
            DiscoverOutcome::TryAgain => {
                introduce_modern(link, introduction).await.map(|hello| ProbeOutcome::Modern(Box::new(hello)))
            }
            DiscoverOutcome::OtherModern(reason) => Err(LinkError::Refused(reason)),
            DiscoverOutcome::NotModern => Ok(ProbeOutcome::Legacy),
        },
        // A crash on an unknown method looks just like a lost connection.
        Ok(Err(LinkError::Exited { .. } | LinkError::Lost)) => Ok(ProbeOutcome::Died),
        // A legacy HTTP server refuses what has no session.
        Ok(Err(LinkError::Status { status, .. })) if (400..500).contains(&status) => Ok(ProbeOutcome::Legacy),
        // Whatever it is, no modern server answers so; `initialize` will tell.
        Ok(Err(LinkError::Protocol(_))) => Ok(ProbeOutcome::Legacy),
        Ok(Err(error)) => Err(error),
    }
}

/// The modern introduction, when the era is known.
pub async fn introduce_modern(link: &dyn Link, introduction: &OwnIntroduction) -> Result<ServerHello, LinkError> {
    // Twice: the first may be refused for its version though the list of versions has it.
    for id in MODERN_IDS {
        let frame = fits(introduction.within(link.call(discover(id, introduction)).answer()).await?)?;
        match read_discover(&frame) {
            DiscoverOutcome::Hello(hello) => return Ok(*hello),
            DiscoverOutcome::TryAgain => {}
            DiscoverOutcome::OtherModern(reason) => return Err(LinkError::Refused(reason)),
            DiscoverOutcome::NotModern if frame.kind() == FrameKind::Error => {
                let ErrorAnswer { code, message } = ErrorAnswer::read(&frame);
                return Err(LinkError::Refused(format!("it does not answer server/discover: {message} ({code})")));
            }
            DiscoverOutcome::NotModern => return Err(LinkError::Refused("it does not answer server/discover".into())),
        }
    }
    Err(LinkError::Refused("it refuses a protocol version that it says it supports".into()))
}

/// What became of the legacy introduction.
pub(crate) enum InitializeOutcome {
    Hello(Box<ServerHello>),
    /// It answered `initialize` as only a modern server does: the probe came too late.
    IsModern,
}

/// The legacy introduction, up to the server's answer.
pub(crate) async fn introduce_legacy(
    link: &dyn Link,
    introduction: &OwnIntroduction,
) -> Result<InitializeOutcome, LinkError> {
    let revision = Revision::LATEST_LEGACY;
    let declared = match &introduction.only_client {
        // With one client the server is told what that client can do, and nothing that nobody could answer.
        Some((own, era)) => capabilities::of_client(own, *era, revision),
        None => capabilities::towards_legacy_server(revision),
    };
    let params = json!({
        "protocolVersion": revision.as_str(),
        "capabilities": declared,
        "clientInfo": introduction.client_info,
        // A gateway refuses itself by it; other servers ignore unknown members of `_meta`.
        "_meta": { meta::GATEWAYS: introduction.gateways },
    })
    .to_string();
    let bytes = request(&RawId::from(INITIALIZE_ID), Method::Initialize.as_str(), Some(params.as_bytes()));
    let outgoing = OutgoingRequest {
        id: INITIALIZE_ID,
        method: Method::Initialize,
        bytes,
        name: None,
        params: Vec::new(),
        trace: None,
    };
    let frame = fits(introduction.within(link.call(outgoing).answer()).await?)?;
    if frame.kind() == FrameKind::Error {
        let ErrorAnswer { code, message } = ErrorAnswer::read(&frame);
        return if code::is_modern(code) {
            Ok(InitializeOutcome::IsModern)
        } else {
            Err(LinkError::Refused(format!("{message} ({code})")))
        };
    }
    let hello = read_initialize(&frame)?;
    Ok(InitializeOutcome::Hello(Box::new(hello)))
}

/// Which era to begin with: as configured, else as the server spoke the last time. `None`: find out.
pub(crate) fn first_try(choice: EraChoice, known: Option<Era>) -> Option<Era> {
    match choice {
        EraChoice::Auto => known,
        EraChoice::Modern => Some(Era::Modern),
        EraChoice::Legacy => Some(Era::Legacy),
    }
}

enum DiscoverOutcome {
    Hello(Box<ServerHello>),
    /// It refused the version, and named that very version as one it supports.
    TryAgain,
    OtherModern(String),
    NotModern,
}

fn read_discover(frame: &Frame) -> DiscoverOutcome {
    if frame.kind() == FrameKind::Error {
        let ErrorAnswer { code, message } = ErrorAnswer::read(frame);
        let supported = outcome(frame).and_then(|error| newest_common(&error["data"]["supported"]));
        return match (code, supported.map(Revision::era)) {
            (code::UNSUPPORTED_VERSION, Some(Era::Modern)) => DiscoverOutcome::TryAgain,
            // It answers the probe in modern words but speaks only legacy revisions.
            (code::UNSUPPORTED_VERSION, Some(Era::Legacy)) => DiscoverOutcome::NotModern,
            _ if code::is_modern(code) => DiscoverOutcome::OtherModern(format!("{message} ({code})")),
            _ => DiscoverOutcome::NotModern,
        };
    }
    let Some(result) = outcome(frame) else { return DiscoverOutcome::NotModern };
    let Some(versions) = result.get("supportedVersions").filter(|versions| versions.is_array()) else {
        return DiscoverOutcome::NotModern;
    };
    let revision = match newest_common(versions) {
        Some(revision) if revision.era() == Era::Modern => revision,
        Some(_) => return DiscoverOutcome::NotModern,
        None => return DiscoverOutcome::OtherModern(format!("it speaks only {versions}")),
    };
    let info = result.get("_meta").and_then(|m| m.get(meta::SERVER_INFO)).cloned().unwrap_or_else(|| json!({}));
    DiscoverOutcome::Hello(Box::new(ServerHello {
        revision,
        capabilities: result.get("capabilities").cloned().unwrap_or_else(|| json!({})),
        info,
        instructions: result.get("instructions").and_then(Value::as_str).map(str::to_owned),
        gateways: gateway_path::answering(&result),
    }))
}

/// The newest revision of ours among the versions that a server lists. One that answers the probe may speak legacy only.
fn newest_common(versions: &Value) -> Option<Revision> {
    // Servers of both eras list both; the newest that we know decides.
    versions.as_array()?.iter().filter_map(|version| Revision::parse(version.as_str()?)).max()
}

fn read_initialize(frame: &Frame) -> Result<ServerHello, LinkError> {
    let result = outcome(frame).ok_or_else(|| LinkError::Protocol("no result of initialize".into()))?;
    let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    // A modern version is no answer here: that era has no `initialize`.
    let revision = Revision::parse_legacy(version)
        .ok_or_else(|| LinkError::Refused(format!("it offers the unknown protocol version \"{version}\"")))?;
    Ok(ServerHello {
        revision,
        capabilities: result.get("capabilities").cloned().unwrap_or_else(|| json!({})),
        info: result.get("serverInfo").cloned().unwrap_or_else(|| json!({})),
        instructions: result.get("instructions").and_then(Value::as_str).map(str::to_owned),
        gateways: gateway_path::answering(&result),
    })
}

fn outcome(frame: &Frame) -> Option<Value> {
    let raw: Bytes = frame.slice(frame.outcome()?);
    serde_json::from_slice(&raw).ok()
}

/// What a server answers in the place of a result.
struct ErrorAnswer {
    code: i64,
    message: String,
}

impl ErrorAnswer {
    fn read(frame: &Frame) -> Self {
        let error = outcome(frame).unwrap_or_default();
        Self {
            code: error.get("code").and_then(Value::as_i64).unwrap_or(code::INTERNAL_ERROR),
            message: error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
        }
    }
}
