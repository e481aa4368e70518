//! Whatever comes in, what leaves is a message that nobody can misunderstand.

use proptest::prelude::*;
use proptest::sample::select;
use tidings_proto::content::ContentView;
use tidings_proto::outbound::{self, RequestChanges, RequestDestination, RequestTarget, RequestingClient, StateChange};
use tidings_proto::outcome::{self, AnswerReader, answer_of_client};
use tidings_proto::{Era, FieldView, ListKind, LogLevel, Method, Revision, UriMap};
use tidings_wire::{Frame, FrameKind, FrameLimits, RawId, check_outgoing};

const META: &str = "io.modelcontextprotocol";

fn space() -> impl Strategy<Value = &'static str> {
    select(vec!["", "", " ", "\n  ", "\t"])
}

/// The id as servers send it back: ours, none, `null` (as frameworks do that answer before they have read it), in any place.
fn id_member() -> impl Strategy<Value = &'static str> {
    select(vec!["", r#""id":null,"#, r#""id" : null ,"#, r#""\u0069d":null,"#, r#""id":77,"#, r#""id":"77","#])
}

fn error() -> impl Strategy<Value = String> {
    let code =
        select(vec!["-32700", "-32600", "-32602", "-32002", "-32020", "-32021", "-32042", "7", "1.5", "null", "\"x\""]);
    let message = select(vec![r#","message":"why""#, r#","message":null"#, "", r#","message":"a\u0000\ud83d\ude00""#]);
    let data = select(vec![
        "",
        r#","data":{"uri":"f://x"}"#,
        r#","data":{"elicitations":[{"url":"https://a.example"}]}"#,
        r#","data":[1,null]"#,
    ]);
    let without_code = prop_oneof![9 => Just(true), 1 => Just(false)];
    (code, message, data, without_code).prop_map(|(code, message, data, with_code)| match with_code {
        true => format!(r#""error":{{"code":{code}{message}{data}}}"#),
        false => format!(r#""error":{{"extra":1{message}{data}}}"#),
    })
}

fn result() -> impl Strategy<Value = String> {
    let member = select(vec![
        r#""content":[{"type":"text","text":"a"},{"type":"resource_link","uri":"f://x","name":"n"}]"#,
        r#""content":7"#,
        r#""structuredContent":[1]"#,
        r#""structuredContent":{"a":1,"a":2}"#,
        r#""resultType":"complete""#,
        r#""resultType":"input_required","requestState":"s","inputRequests":{}"#,
        r#""resultType":"odd""#,
        r#""ttlMs":5,"cacheScope":"public""#,
        r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"},"x":1}"#,
        r#""_meta":3"#,
        r#""messages":[{"role":"user","content":{"type":"text","text":"m"}}]"#,
        r#""contents":[{"uri":"f://x","text":"t"}]"#,
    ]);
    let object = prop::collection::vec(member, 0..4).prop_map(|all| format!(r#""result":{{{}}}"#, all.join(",")));
    prop_oneof![9 => object, 1 => select(vec![r#""result":null"#, r#""result":[]"#, r#""result":"x""#]).prop_map(str::to_owned)]
}

/// An answer as it may come: any id, any white space, members in another order.
fn answer() -> impl Strategy<Value = String> {
    (space(), id_member(), prop_oneof![error(), result()], any::<bool>()).prop_map(|(space, id, outcome, swapped)| {
        match swapped {
            false => format!(r#"{space}{{{space}"jsonrpc":"2.0",{id}{outcome}}}{space}"#),
            true => format!(r#"{space}{{{id}{outcome}{space},{space}"jsonrpc":"2.0"}}"#),
        }
    })
}

fn method() -> impl Strategy<Value = Method> {
    select(vec![
        Method::ToolsCall,
        Method::PromptsGet,
        Method::ResourcesRead,
        Method::Complete,
        Method::List(ListKind::Tools),
        Method::Discover,
    ])
}

fn caller_id() -> impl Strategy<Value = RawId> {
    select(vec!["1004", "\"mine\"", "0", "\"\\u0000 {\"", "-1"])
        .prop_map(|raw| RawId::from_raw(raw.as_bytes()).unwrap())
}

/// Fit to leave, an answer, and of exactly this id. A parser that takes the last of several members, and one that takes the
/// first, see the same.
fn is_answer_to(bytes: &bytes::Bytes, id: &RawId) -> Result<(), TestCaseError> {
    prop_assert_eq!(check_outgoing(bytes), Ok(()), "{:?}", bytes);
    let frame = Frame::parse(bytes.clone(), &FrameLimits::default()).unwrap();
    prop_assert!(matches!(frame.kind(), FrameKind::Response | FrameKind::Error));
    prop_assert_eq!(frame.id(), Some(id.clone()));
    let members = tidings_wire::members(bytes, tidings_wire::validate(bytes, 256).unwrap());
    let ids = members.filter(|member| member.key.is(bytes, "id")).count();
    prop_assert_eq!(ids, 1, "{:?}", bytes);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    // edges G1
    #[test]
    fn every_answer_to_a_client_has_the_callers_id_once(
        answer in answer(),
        id in caller_id(),
        method in method(),
        from in select(vec![Era::Legacy, Era::Modern]),
        revision in select(Revision::ALL.to_vec()),
        view in select(vec![FieldView::Strict, FieldView::Pass]),
        transparent in any::<bool>(),
        flags in any::<[bool; 3]>(),
    ) {
        let Ok(frame) = Frame::parse(answer, &FrameLimits::default()) else { return Ok(()) };
        let uris = if transparent { UriMap::Transparent } else { UriMap::Prefix("up".into()) };
        let [url_elicitation, private, named] = flags;
        let reader = AnswerReader {
            method,
            from,
            content: ContentView { uris: &uris, revision, view },
            identity: named.then_some(br#"{"name":"tidings","version":"1"}"#),
            url_elicitation,
            asker: named.then_some("up"),
            private,
            verbatim: false,
            seal: &|inner| format!("sealed({inner})"),
            tasks: tidings_proto::outcome::TaskIds::Absent,
            part: None,
        };
        let answer = outcome::translate(&frame, &id, &reader);
        is_answer_to(&answer.payload.to_bytes(), &id)?;
    }

    // edges G1
    #[test]
    fn every_answer_of_a_client_has_the_servers_id_once(answer in answer(), id in caller_id()) {
        let Ok(frame) = Frame::parse(answer, &FrameLimits::default()) else { return Ok(()) };
        is_answer_to(&answer_of_client(&frame, &id), &id)?;
    }

    // edges G1
    #[test]
    fn every_request_to_a_server_has_our_id_once_and_is_well_formed(
        space in space(),
        id in caller_id(),
        params in prop::option::of(params()),
        method in method(),
        era in select(vec![Era::Legacy, Era::Modern]),
        revision in select(Revision::ALL.to_vec()),
        target in prop::option::of((select(vec!["name", "uri"]), any::<bool>())),
        responses in select(vec![None, Some(&br#"{"k":{"action":"cancel"}}"#[..])]),
        state in select(vec![StateChange::Keep, StateChange::Remove, StateChange::Set("inner")]),
    ) {
        let params = params.map(|params| format!(r#","params":{space}{params}"#)).unwrap_or_default();
        let text = format!(r#"{space}{{"jsonrpc":"2.0",{space}"id":{id},"method":"{}"{params}}}"#, method.as_str());
        let Ok(frame) = Frame::parse(text, &FrameLimits::default()) else { return Ok(()) };
        let requester = RequestingClient {
            era,
            info: (era == Era::Legacy).then_some(br#"{"name":"c","version":"1"}"#),
            capabilities: b"{}",
            alone: false,
            log_level: (era == Era::Legacy).then_some(LogLevel::Info),
        };
        let target = target.map(|(member, in_ref)| RequestTarget { member, in_ref, local: tidings_proto::LocalName::new("lo\"cal") });
        let to = RequestDestination { revision, id: 77 };
        let bytes = outbound::translate(&frame, method, target.as_ref(), &requester, to, RequestChanges { state, responses, ..RequestChanges::default() });
        prop_assert_eq!(check_outgoing(&bytes), Ok(()), "{:?}", bytes);
        let sent = Frame::parse(bytes, &FrameLimits::default()).unwrap();
        prop_assert_eq!((sent.kind(), sent.id().and_then(|id| id.as_u64())), (FrameKind::Request, Some(77)));
        let meta = sent.param(&["_meta"]).map(|at| sent.members(at).into_owned()).unwrap_or_default();
        let reserved = |m: &tidings_wire::ObjectMember| m.key.text(sent.bytes()).is_some_and(|key| key.starts_with(META));
        // Every modern request says which revision it is; no legacy server ever sees the reserved names.
        match revision.era() {
            Era::Modern if era == Era::Legacy => prop_assert!(meta.iter().any(reserved), "{:?}", sent.bytes()),
            Era::Modern => {}
            Era::Legacy => prop_assert!(!meta.iter().any(reserved), "{:?}", sent.bytes()),
        }
    }
}

fn params() -> impl Strategy<Value = String> {
    let member = select(vec![
        r#""name":"up__t""#,
        r#""uri":"up+f://x""#,
        r#""arguments":{"a":1,"a":2}"#,
        r#""ref":{"type":"ref/prompt","name":"up__p"}"#,
        r#""ref":{"name":"a","name":"b","uri":"x"}"#,
        r#""ref":7"#,
        r#""requestState":"sealed""#,
        r#""inputResponses":{}"#,
        r#""task":{}"#,
        r#""context":{}"#,
        r#""_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{},"experimental":{}}}"#,
        r#""_meta":{"progressToken":"p","io.modelcontextprotocol/related-task":{}}"#,
        r#""_meta":null"#,
        r#""_meta":{}"#,
    ]);
    prop::collection::vec(member, 0..5).prop_map(|all| format!("{{{}}}", all.join(" , ")))
}
