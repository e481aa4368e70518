//! Tasks in both spellings.

use proptest::prelude::*;
use serde_json::{Value, json as value};
use tidings_proto::task::{
    RELATED, TASKS, TaskFacts, TaskInside, TaskSpelling, TaskStatus, TaskSupport, as_core, declares_core,
    declares_extension, is_required_by, related, with_related,
};

use crate::frame;

const SPELLINGS: [TaskSpelling; 2] = [TaskSpelling::Core, TaskSpelling::Extension];

fn answer(result: &str) -> tidings_wire::Frame {
    frame(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#))
}

fn facts() -> impl Strategy<Value = TaskFacts> {
    let text = "[a-z \"\\\\\u{e4}]{1,12}";
    let number = proptest::option::of(0..u64::from(u32::MAX));
    (text, 0..5usize, proptest::option::of(text), text, text, number.clone(), number).prop_map(
        |(id, status, message, created, updated, ttl, poll)| TaskFacts {
            id: id.into(),
            status: TaskStatus::ALL[status],
            message: message.map(Into::into),
            created: created.into(),
            updated: updated.into(),
            ttl,
            poll,
        },
    )
}

proptest! {
    // bridging B7
    #[test]
    fn a_task_survives_the_way_through_both_spellings(facts in facts()) {
        for spelling in SPELLINGS {
            let created = answer(&facts.as_created(&facts.id, spelling));
            let there = TaskFacts::created(&created, spelling).unwrap();
            prop_assert_eq!(&there, &facts);
            for other in SPELLINGS {
                let told = answer(&there.as_told(&there.id, other, None));
                prop_assert_eq!(TaskFacts::told(&told, other), Some(facts.clone()));
                prop_assert_eq!(TaskFacts::created(&told, other), None, "an answer to tasks/get makes no task");
            }
        }
    }
}

#[test]
fn each_spelling_has_its_own_members() {
    let facts = TaskFacts {
        id: "t".into(),
        status: TaskStatus::Working,
        message: Some("m".into()),
        created: "c".into(),
        updated: "u".into(),
        ttl: None,
        poll: Some(7),
    };
    let read = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let common =
        value!({"taskId": "x", "status": "working", "statusMessage": "m", "createdAt": "c", "lastUpdatedAt": "u"});
    let with = |more: Value| {
        let mut all = common.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let core = with(value!({"ttl": null, "pollInterval": 7}));
    assert_eq!(read(facts.as_created("x", TaskSpelling::Core)), value!({"task": core}));
    assert_eq!(read(facts.as_told("x", TaskSpelling::Core, Some(&TaskInside::Result(b"{}")))), core);
    let extension = value!({"ttlMs": null, "pollIntervalMs": 7, "resultType": "task"});
    assert_eq!(read(facts.as_created("x", TaskSpelling::Extension)), with(extension));
    let told = value!({"ttlMs": null, "pollIntervalMs": 7, "resultType": "complete", "result": {"content": []}});
    let inside = TaskInside::Result(br#"{"content":[]}"#);
    assert_eq!(read(facts.as_told("x", TaskSpelling::Extension, Some(&inside))), with(told));
}

#[test]
fn what_is_inside_a_task_depends_on_its_status() {
    for (status, inside) in [
        ("working", None),
        ("cancelled", None),
        ("completed", Some(TaskInside::Result(b"{\"a\":1}"))),
        ("failed", Some(TaskInside::Error(b"{\"b\":1}"))),
        ("input_required", Some(TaskInside::Questions(b"{\"c\":1}"))),
    ] {
        let frame = answer(&format!(
            r#"{{"taskId":"t","status":"{status}","result":{{"a":1}},"error":{{"b":1}},"inputRequests":{{"c":1}}}}"#
        ));
        assert_eq!(TaskInside::read(&frame), inside, "{status}");
        assert_eq!(TaskStatus::parse(status).unwrap().is_terminal(), !matches!(status, "working" | "input_required"));
    }
}

#[test]
fn what_is_no_task_is_not_read_as_one() {
    for result in [
        r#"{"content":[]}"#,
        r#"{"task":[]}"#,
        r#"{"task":{"taskId":1,"status":"working"}}"#,
        r#"{"task":{"taskId":"t","status":"odd"}}"#,
        r#"{"resultType":"complete","taskId":"t","status":"working"}"#,
    ] {
        for spelling in SPELLINGS {
            assert_eq!(TaskFacts::created(&answer(result), spelling), None, "{result}");
        }
    }
    let short = answer(r#"{"task":{"taskId":"t","status":"working","ttl":6e4}}"#);
    let facts = TaskFacts::created(&short, TaskSpelling::Core).unwrap();
    assert_eq!((facts.ttl, &*facts.created), (Some(60_000), "1970-01-01T00:00:00Z"), "a careless server is understood");
}

#[test]
fn what_is_declared_is_found() {
    assert!(declares_core(&value!({"tasks": {"requests": {"tools": {"call": {}}}}})));
    for less in [value!({}), value!({"tasks": {}}), value!({"tasks": {"list": {}, "requests": {"tools": {}}}})] {
        assert!(!declares_core(&less), "{less}");
    }
    assert!(declares_extension(&value!({"extensions": {TASKS: {}}})));
    assert!(!declares_extension(&value!({"extensions": {}, "tasks": {}})));
    for (support, is) in [
        (value!({"execution": {"taskSupport": "required"}}), TaskSupport::Required),
        (value!({"execution": {"taskSupport": "optional"}}), TaskSupport::Optional),
        (value!({"execution": {"taskSupport": "forbidden"}}), TaskSupport::Forbidden),
        (value!({"name": "t"}), TaskSupport::Forbidden),
    ] {
        assert_eq!(TaskSupport::of_tool(support.to_string().as_bytes()), is);
    }
    let refused = |code: i64, data: Value| {
        frame(&value!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "m", "data": data}}).to_string())
    };
    let tasks = value!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
    assert!(is_required_by(&refused(-32021, tasks.clone())));
    assert!(!is_required_by(&refused(-32603, tasks)));
    assert!(!is_required_by(&refused(-32021, value!({"requiredCapabilities": {"sampling": {}}}))));
    let message = value!({"jsonrpc": "2.0", "method": "m", "params": {"_meta": {RELATED: {"taskId": "t"}}}});
    assert_eq!(related(&frame(&message.to_string())).as_deref(), Some("t"));
}

// bridging B7, status
#[test]
fn a_tool_that_failed_has_failed_in_the_core_and_completed_in_the_extension() {
    let told = |status: &str, inside: &str| {
        let frame = answer(&format!(r#"{{"taskId":"t","status":"{status}"{inside}}}"#));
        as_core(TaskFacts::told(&frame, TaskSpelling::Extension).unwrap(), &frame).status
    };
    assert_eq!(told("completed", r#","result":{"isError":true}"#), TaskStatus::Failed);
    assert_eq!(told("completed", r#","result":{"isError":false}"#), TaskStatus::Completed);
    assert_eq!(told("completed", r#","result":{}"#), TaskStatus::Completed);
    assert_eq!(told("working", ""), TaskStatus::Working);
}

// bridging B7
#[test]
fn a_message_says_which_task_it_belongs_to() {
    for (message, place) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#, "params"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"_meta":{"b":2}}}"#, "params"),
        (r#"{"jsonrpc":"2.0","method":"m","params":{"a":1}}"#, "params"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#, "result"),
    ] {
        let before: Value = serde_json::from_str(message).unwrap();
        let mut after: Value = serde_json::from_slice(&with_related(&message.into(), "t")).unwrap();
        assert_eq!(after[place]["_meta"][RELATED], value!({"taskId": "t"}), "{after}");
        after[place]["_meta"].as_object_mut().unwrap().remove(RELATED);
        if after[place]["_meta"] == value!({}) {
            after[place].as_object_mut().unwrap().remove("_meta");
        }
        if after[place] == value!({}) {
            after.as_object_mut().unwrap().remove(place);
        }
        assert_eq!(after, before, "nothing else is changed");
    }
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#;
    assert_eq!(with_related(&error.into(), "t"), error);
}

#[test]
fn a_task_that_was_over_at_once_has_a_time() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_827_696, "2000-02-29T12:34:56Z"),
        (1_709_251_199, "2024-02-29T23:59:59Z"),
        (1_794_830_400, "2026-11-16T12:00:00Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
    ] {
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let facts = TaskFacts::finished("t", false, 5, at);
        assert_eq!((&*facts.created, &*facts.updated, facts.ttl), (text, text, Some(5)));
    }
}
