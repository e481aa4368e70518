//! Headers that mirror the body.

use proptest::prelude::*;
use tidings_proto::headers::{AnnotationFault, annotated, decode, encode};
use tidings_wire::ByteSpan;

// The examples of the specification, "Value Encoding".
#[test]
fn values_that_a_header_can_not_carry_are_encoded() {
    for (value, header) in [
        ("us-west1", "us-west1"),
        ("two words", "two words"),
        ("", ""),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("\tx", "=?base64?CXg=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?SGVsbG8=?=", "=?base64?PT9iYXNlNjQ/U0dWc2JHOD0/PQ==?="),
        ("=?BASE64?literal?=", "=?BASE64?literal?="),
        ("=?base64?open", "=?base64?open"),
        ("42", "42"),
        ("true", "true"),
    ] {
        assert_eq!(encode(value), header);
        assert_eq!(decode(header.as_bytes()).as_deref(), Some(value), "{header}");
    }
}

#[test]
fn what_claims_to_be_encoded_and_is_not_is_refused() {
    for header in [
        "=?base64?!!!?=",
        "=?base64?SGVsbG8?=",
        "=?base64?SGVs bG8=?=",
        "=?base64?PT9iYXNlNjQ_bGl0ZXJhbD89?=",
        "=?base64?/w==?=",
    ] {
        assert_eq!(decode(header.as_bytes()), None, "{header}");
    }
    assert_eq!(decode("caf\u{e9}".as_bytes()), None, "not ASCII");
    assert_eq!(decode(b"\xff"), None);
    assert_eq!(decode(b"  us-west1\t").as_deref(), Some("us-west1"), "spaces around it are not part of it");
    assert_eq!(decode(b"=?base64??=").as_deref(), Some(""));
}

proptest! {
    #[test]
    fn any_text_comes_back(value in any::<String>()) {
        let header = encode(&value);
        prop_assert!(header.bytes().all(|b| (0x20..0x7f).contains(&b) || b == b'\t'));
        let back = decode(header.as_bytes()).unwrap();
        prop_assert_eq!(&*back, &*value);
    }
}

#[test]
fn annotations_are_found_along_property_paths() {
    let schema = br#"{"type":"object","description":"x-mcp-header is a word","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},
        "deep":{"type":"object","properties":{"count":{"type":"integer","x-mcp-header":"Count"}}},
        "dry":{"x-mcp-header":"Dry-Run","type":"boolean"},
        "x-mcp-header":{"type":"string"},
        "plain":{"type":"array","items":{"type":"string"}}}}"#;
    let found = annotated(schema).unwrap();
    assert_eq!(found.iter().map(|h| h.name.as_str()).collect::<Vec<_>>(), ["Region", "Count", "Dry-Run"]);
    let arguments = br#"{"region":"caf\u00e9","deep":{"count":42},"dry":false}"#;
    let whole = ByteSpan::new(0, arguments.len());
    let values: Vec<_> = found.iter().map(|h| h.value(arguments, whole).unwrap()).collect();
    assert_eq!(values, ["café", "42", "false"]);
    for nothing in [r#"{"region":null,"deep":{"count":null},"dry":null}"#, "{}"] {
        let whole = ByteSpan::new(0, nothing.len());
        assert!(found.iter().all(|h| h.value(nothing.as_bytes(), whole).is_none()), "{nothing}");
    }
    assert!(found[1].agrees("42.0", "42"), "integers are compared as numbers");
    assert!(!found[1].agrees("9007199254740993", "9007199254740992"), "also large ones");
    assert!(!found[1].agrees("43", "42"));
    assert!(!found[0].agrees("42.0", "42"), "strings are not");
    assert!(annotated(br#"{"type":"object"}"#).unwrap().is_empty());
}

#[test]
fn invalid_annotations_are_named() {
    let property = |text: &str| format!(r#"{{"properties":{{"a":{text}}}}}"#);
    let name = |name: &str| AnnotationFault::Name(name.into());
    let kind = AnnotationFault::Type("A".into());
    for (schema, fault) in [
        (property(r#"{"type":"string","x-mcp-header":""}"#), name("")),
        (property(r#"{"type":"string","x-mcp-header":"two words"}"#), name("two words")),
        (property(r#"{"type":"string","x-mcp-header":"a:b"}"#), name("a:b")),
        (property(r#"{"type":"string","x-mcp-header":"caf\u00e9"}"#), name("café")),
        (property(r#"{"type":"string","x-mcp-header":"a\r\nb"}"#), name("a\r\nb")),
        (property(r#"{"type":"string","x-mcp-header":7}"#), name("")),
        (property(r#"{"type":"number","x-mcp-header":"A"}"#), kind.clone()),
        (property(r#"{"type":"object","x-mcp-header":"A"}"#), kind.clone()),
        (property(r#"{"type":"array","x-mcp-header":"A"}"#), kind.clone()),
        (property(r#"{"type":["string","null"],"x-mcp-header":"A"}"#), kind.clone()),
        (property(r#"{"x-mcp-header":"A"}"#), kind),
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#
                .into(),
            AnnotationFault::Duplicate("a".into()),
        ),
        (property(r#"{"type":"array","items":{"type":"string","x-mcp-header":"A"}}"#), AnnotationFault::Place),
        (property(r#"{"anyOf":[{"type":"string","x-mcp-header":"A"}]}"#), AnnotationFault::Place),
        (r#"{"$defs":{"d":{"type":"string","x-mcp-header":"A"}}}"#.into(), AnnotationFault::Place),
        (r#"{"type":"string","x-mcp-header":"A"}"#.into(), AnnotationFault::Place),
    ] {
        assert_eq!(annotated(schema.as_bytes()), Err(fault), "{schema}");
    }
}
