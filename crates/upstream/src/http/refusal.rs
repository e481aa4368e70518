//! Telling a session or an era that a server refuses from an error of the call itself.
//!
//! Nothing here is certain: servers say it with several statuses and in their own words. So whoever owns the link asks once more
//! by a request of its own before it acts, and until then what the server said may still be the answer.

use http::StatusCode;
use tidings_proto::{Era, code, meta};
use tidings_wire::{Frame, FrameKind, get};

use super::HttpLinkState;
use crate::LinkError;

/// How much of a body is searched for words.
const SEARCHED: usize = 2_048;

/// Whether a status alone says that a session that was good is refused.
pub(super) fn session_refused(state: &HttpLinkState, status: StatusCode) -> Option<LinkError> {
    let says_so =
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::GONE);
    (says_so && state.is_settled() && state.has_session()).then_some(LinkError::SessionRefused(status.as_u16()))
}

/// Whether an answer refuses the session or the era rather than the call.
pub(super) fn refused(
    state: &HttpLinkState,
    status: StatusCode,
    error: Option<&Frame>,
    body: &[u8],
) -> Option<LinkError> {
    // Before the introduction is over, a refusal is the handshake's to read.
    if !state.is_settled() {
        return None;
    }
    let code = error.and_then(error_code);
    let text = &body[..body.len().min(SEARCHED)];
    let wrong_era = || LinkError::WrongEra(excerpt(text));
    match state.era {
        Era::Legacy if code.is_some_and(code::is_modern) => Some(wrong_era()),
        // A modern server misses what every request of its era carries, and names it.
        Era::Legacy if code == Some(code::INVALID_PARAMS) && mentions(text, meta::PROTOCOL_VERSION.as_bytes()) => {
            Some(wrong_era())
        }
        Era::Legacy if status == StatusCode::BAD_REQUEST && mentions(text, b"session") => {
            Some(LinkError::SessionRefused(status.as_u16()))
        }
        Era::Legacy => session_refused(state, status),
        Era::Modern if code == Some(code::UNSUPPORTED_VERSION) => Some(wrong_era()),
        // A modern server has no sessions and is not initialized: only one of the old era misses that.
        Era::Modern if status.is_client_error() && (mentions(text, b"session") || mentions(text, b"initializ")) => {
            Some(wrong_era())
        }
        Era::Modern => None,
    }
}

fn error_code(frame: &Frame) -> Option<i64> {
    let error = frame.outcome().filter(|_| frame.kind() == FrameKind::Error)?;
    let at = get(frame.bytes(), error, "code")?;
    std::str::from_utf8(at.of(frame.bytes())).ok()?.parse().ok()
}

fn mentions(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
}

fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(200)]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderValue;

    use super::*;
    use crate::LIMITS;

    fn state(era: Era, session: bool, settled: bool) -> HttpLinkState {
        let value = || HeaderValue::from_static("x");
        HttpLinkState {
            era,
            revision: settled.then(value),
            held: None,
            session: session.then(value),
            headers: http::HeaderMap::new(),
        }
    }

    fn judge(state: &HttpLinkState, status: u16, body: &'static str) -> Option<LinkError> {
        let frame = Frame::parse(Bytes::from_static(body.as_bytes()), &LIMITS).ok();
        refused(state, StatusCode::from_u16(status).unwrap(), frame.as_ref(), body.as_bytes())
    }

    const NO_SESSION: &str =
        r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":7}"#;
    const MISSING: &str =
        r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}"#;
    const VERSION: &str =
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"Unsupported protocol version"}}"#;
    const NO_META: &str = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"_meta[io.modelcontextprotocol/protocolVersion] is missing"}}"#;
    const INVALID: &str = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"Invalid params"}}"#;

    // edges A1
    #[test]
    fn every_way_to_refuse_a_good_session_is_recognised() {
        let good = state(Era::Legacy, true, true);
        assert_eq!(judge(&good, 400, NO_SESSION), Some(LinkError::SessionRefused(400)));
        for status in [401, 404, 409, 410] {
            assert_eq!(judge(&good, status, "nothing to read"), Some(LinkError::SessionRefused(status)));
        }
        for (status, body) in [(400, INVALID), (422, "no"), (500, NO_SESSION), (502, "bad gateway"), (200, INVALID)] {
            assert_eq!(judge(&good, status, body), None, "{status} {body}");
        }
    }

    // edges A1
    #[test]
    fn before_the_introduction_and_without_a_session_a_status_means_only_itself() {
        assert_eq!(judge(&state(Era::Legacy, true, false), 400, NO_SESSION), None);
        assert_eq!(judge(&state(Era::Legacy, false, true), 404, "no such path"), None);
        assert_eq!(judge(&state(Era::Legacy, false, true), 400, MISSING), Some(LinkError::SessionRefused(400)));
    }

    // edges G3
    #[test]
    fn answers_of_the_other_era_are_recognised() {
        let wrong = |found: Option<LinkError>| matches!(found, Some(LinkError::WrongEra(_)));
        assert!(wrong(judge(&state(Era::Legacy, true, true), 400, VERSION)));
        assert!(wrong(judge(&state(Era::Legacy, true, true), 200, VERSION)));
        assert!(wrong(judge(&state(Era::Legacy, true, true), 400, NO_META)));
        let modern = state(Era::Modern, false, true);
        for (status, body) in [(400, NO_SESSION), (400, MISSING), (400, VERSION), (400, "Server not initialized")] {
            assert!(wrong(judge(&modern, status, body)), "{status} {body}");
        }
        for (status, body) in [(400, INVALID), (404, INVALID), (200, INVALID), (502, "no session")] {
            assert_eq!(judge(&modern, status, body), None, "{status} {body}");
        }
    }
}
