//! Revisions, codes and what a refusal says.

use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, Revision, code};
use tidings_wire::RawId;

use crate::json;

#[test]
fn a_legacy_session_speaks_what_was_asked_for_or_the_latest_legacy_revision() {
    for revision in Revision::ALL {
        let expected = if revision.era() == Era::Legacy { revision } else { Revision::LATEST_LEGACY };
        assert_eq!(Revision::negotiate(revision.as_str()), expected);
        assert_eq!(Revision::parse(revision.as_str()), Some(revision));
    }
    for unknown in ["", "1999-01-01", "2099-01-01", "DRAFT"] {
        assert_eq!(Revision::negotiate(unknown), Revision::LATEST_LEGACY);
        assert_eq!(Revision::parse(unknown), None);
    }
    assert!(Revision::ALL.is_sorted());
}

#[test]
fn statuses_of_errors_for_modern_clients() {
    for (code, status) in [(-32601, 404), (-32020, 400), (-32021, 400), (-32022, 400), (-32602, 200), (-32603, 200)] {
        assert_eq!(code::modern_status(code), status, "{code}");
        assert_eq!(code::is_modern(code), (-32022..=-32020).contains(&code));
    }
}

// bridging 41
#[test]
fn refusals_have_the_code_of_the_callers_era() {
    let down = RequestRefusal::ServerDown { server: "alpha".into(), reason: "exited (exit status: 3)".into() };
    let unknown = RequestRefusal::UnknownResource("file:///x".into());
    for (refusal, legacy, modern) in [
        (RequestRefusal::UnknownMethod("x/y".into()), -32601, -32601),
        (RequestRefusal::Unroutable { method: "x/y".into(), reason: "why" }, -32601, -32601),
        (unknown.clone(), -32002, -32602),
        (RequestRefusal::UnknownTool("t".into()), -32602, -32602),
        (RequestRefusal::InvalidCursor, -32602, -32602),
        (RequestRefusal::HeaderMismatch("h".into()), -32020, -32020),
        (RequestRefusal::UnsupportedVersion("v".into()), -32022, -32022),
        (down.clone(), -32603, -32603),
        (RequestRefusal::TimedOut { server: "alpha".into(), seconds: 3 }, -32603, -32603),
        (RequestRefusal::TooMany { limit: 7 }, -32603, -32603),
    ] {
        assert_eq!((refusal.code(Era::Legacy), refusal.code(Era::Modern)), (legacy, modern), "{refusal}");
    }
    let id = RawId::from_raw(b"\"7\"").unwrap();
    let answer = json(down.respond(&id, Era::Legacy));
    assert_eq!(answer["id"], "7");
    assert_eq!(answer["error"]["message"], "server \"alpha\" exited (exit status: 3)");
    assert_eq!(json(unknown.respond(&id, Era::Modern))["error"]["data"]["uri"], "file:///x");
    let version = json(RequestRefusal::UnsupportedVersion("v999".into()).respond(&id, Era::Modern));
    assert_eq!(version["error"]["data"], serde_json::json!({"supported": ["2026-07-28"], "requested": "v999"}));
}
