//! What a view makes of schemas accepts whatever the original accepts, judged by a validator that is not ours.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, OfferItem, ServerOffer};
use tidings_hub::client_profile::{SchemaRules, VIEW_META, ViewShape};
use tidings_proto::{FieldView, ListKind, Revision};

/// A tool as a client of this shape is shown it.
fn shown(tool: &Value, schema: SchemaRules) -> Value {
    let item = OfferItem::read(ListKind::Tools, Bytes::from(tool.to_string()), false).unwrap();
    let offer = ServerOffer::new(ServerId(0), "a").offering(ListKind::Tools, vec![item]);
    let whole = Arc::new(CatalogueSnapshot::new(vec![Arc::new(offer)], FieldView::Strict));
    let seen = whole.shaped(&Arc::new(ViewShape { schema, ..ViewShape::default() }));
    serde_json::from_slice(&seen.listing(ListKind::Tools, Revision::MODERN).page(None, 9).items).unwrap()
}

fn plain_top() -> SchemaRules {
    SchemaRules { no_top_combinators: true, ..SchemaRules::default() }
}

fn inlined() -> SchemaRules {
    SchemaRules { inline_refs: true, ..SchemaRules::default() }
}

fn both() -> SchemaRules {
    SchemaRules { inline_refs: true, no_top_combinators: true, object_output: true }
}

fn input(schema: &Value, rules: SchemaRules) -> Value {
    shown(&json!({"name": "t", "inputSchema": schema}), rules)["inputSchema"].take()
}

fn accepts(schema: &Value, instance: &Value) -> bool {
    jsonschema::validator_for(schema).unwrap().is_valid(instance)
}

/// Words that stand in a schema wherever it is.
fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!({"type": "string"})),
        Just(json!({"type": "integer", "minimum": 1})),
        Just(json!({"const": "x"})),
        Just(json!({"type": "string", "const": "y", "description": "The second."})),
        Just(json!({"enum": [1, "x", null]})),
        Just(json!({"$ref": "#/$defs/a"})),
        Just(json!({"$ref": "#/$defs/b", "description": "beside it"})),
        Just(json!({"$ref": "#/$defs/b", "maxProperties": 1})),
        Just(json!({"$ref": "#"})),
        Just(json!({"$ref": "#/properties/p"})),
        Just(json!({"$ref": "#/anyOf/0"})),
        Just(json!({"$ref": "https://example.com/elsewhere"})),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 24, 4, |inner| {
        let named = proptest::collection::btree_map("[pqr]", inner.clone(), 0..3);
        let closed = prop_oneof![Just(None), Just(Some(json!(false))), inner.clone().prop_map(Some)];
        let object = (named, closed, proptest::collection::vec("[pqr]", 0..2)).prop_map(|(named, closed, required)| {
            let mut schema = json!({"type": "object", "properties": named});
            if let Some(closed) = closed {
                schema["additionalProperties"] = closed;
            }
            if !required.is_empty() {
                schema["required"] = json!(required.into_iter().collect::<std::collections::BTreeSet<_>>());
            }
            schema
        });
        let some = proptest::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            4 => object,
            1 => some.clone().prop_map(|some| json!({"anyOf": some})),
            1 => some.clone().prop_map(|some| json!({"oneOf": some})),
            1 => some.clone().prop_map(|some| json!({"allOf": some})),
            1 => some.prop_map(|some| json!({"oneOf": some, "anyOf": [{}]})),
            1 => inner.clone().prop_map(|inner| json!({"not": inner})),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            1 => inner.clone().prop_map(|inner| json!({"items": inner, "type": "array"})),
            1 => (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({"allOf": [a], "properties": {"p": b}, "unevaluatedProperties": false})),
            1 => inner.prop_map(|inner| json!({"contains": inner, "maxContains": 1})),
        ]
    })
}

/// A whole input schema: with definitions, and with words of its own beside combinators.
fn root() -> impl Strategy<Value = Value> {
    let some = || proptest::option::of(proptest::collection::vec(schema(), 1..4));
    let parts = (schema(), schema(), schema(), some(), some(), some(), any::<[bool; 3]>());
    parts.prop_map(|(a, b, p, any_of, one_of, all_of, [closed, unevaluated, required])| {
        let mut root = json!({"type": "object", "$defs": {"a": a, "b": b}, "properties": {"p": p}});
        for (word, some) in [("anyOf", any_of), ("oneOf", one_of), ("allOf", all_of)] {
            if let Some(some) = some {
                root[word] = json!(some);
            }
        }
        if closed {
            root["additionalProperties"] = json!(false);
        }
        if unevaluated {
            root["unevaluatedProperties"] = json!(false);
        }
        if required {
            root["required"] = json!(["p"]);
        }
        root
    })
}

fn instance() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!("x")),
        Just(json!("y")),
        Just(json!(0)),
        Just(json!(2)),
        Just(json!(null)),
        Just(json!([])),
        Just(json!(["x", 2]))
    ];
    let value = leaf.prop_recursive(2, 8, 3, |inner| {
        proptest::collection::btree_map("[pqr]", inner, 0..3).prop_map(|members| json!(members))
    });
    proptest::collection::btree_map("[pqr]", value, 0..4).prop_map(|members| json!(members))
}

/// A validator for schemas that may refer to elsewhere, which accepts anything.
fn original(schema: &Value) -> Option<jsonschema::Validator> {
    let anything = jsonschema::Resource::from_contents(json!({}));
    let registry = jsonschema::Registry::new().add("https://example.com/elsewhere", anything).ok()?.prepare().ok()?;
    // A pointer that leads nowhere is no schema.
    jsonschema::options().with_registry(&registry).build(schema).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::default() })]

    // reach 2, reach 8.2
    #[test]
    fn what_the_original_accepts_is_accepted(schema in root(), instances in proptest::collection::vec(instance(), 1..24)) {
        let Some(before) = original(&schema) else { return Ok(()) };
        for rules in [plain_top(), inlined(), both()] {
            let after_schema = input(&schema, rules);
            let Some(after) = original(&after_schema) else {
                return Err(TestCaseError::fail(format!("{after_schema} is no schema")));
            };
            for instance in instances.iter().filter(|instance| before.is_valid(instance)) {
                prop_assert!(after.is_valid(instance), "{instance}\n{schema}\n{after_schema}");
            }
            if rules.no_top_combinators {
                prop_assert!(["anyOf", "oneOf", "allOf"].iter().all(|word| after_schema.get(word).is_none()));
                // Nothing that had to be there is hidden.
                let required = |schema: &Value| schema["required"].as_array().cloned().unwrap_or_default();
                let after = required(&after_schema);
                prop_assert!(required(&schema).iter().all(|name| after.contains(name)));
            }
            if rules.inline_refs {
                let text = after_schema.to_string();
                prop_assert!(!text.contains("\"$ref\"") && !text.contains("\"$defs\""), "{text}");
            }
        }
    }
}

// reach 2
#[test]
fn branches_that_tell_themselves_apart_become_one_list_of_properties() {
    let schema = json!({"type": "object", "oneOf": [
        {"properties": {"kind": {"const": "file"}, "path": {"type": "string"}}, "required": ["kind", "path"],
            "additionalProperties": false},
        {"properties": {"kind": {"const": "url"}, "url": {"type": "string"}}, "required": ["kind", "url"],
            "additionalProperties": false},
    ]});
    let tool = shown(&json!({"name": "t", "description": "Opens it.", "inputSchema": schema}), plain_top());
    let expected = json!({"type": "object", "required": ["kind"], "properties": {
        "kind": {"enum": ["file", "url"]}, "path": {"type": "string"}, "url": {"type": "string"}}});
    assert_eq!(tool["inputSchema"], expected);
    let text = tool["description"].as_str().unwrap();
    assert!(text.starts_with("Opens it.\n\nThe arguments must also fit this JSON Schema: {\"oneOf\":["), "{text}");
    assert_eq!(tool["_meta"][VIEW_META], json!({"inputSchema": ["widened"]}));
}

// reach 2
#[test]
fn a_property_that_some_branch_leaves_open_is_shown_as_anything() {
    let schema = json!({"type": "object", "anyOf": [
        {"properties": {"id": {"type": "integer", "description": "Its number."}}, "required": ["id"]},
        {"properties": {"name": {"type": "string"}}, "required": ["name"]},
    ]});
    let seen = input(&schema, plain_top());
    assert_eq!(seen["properties"], json!({"id": {"description": "Its number."}, "name": {}}));
    assert!(accepts(&seen, &json!({"id": "no number", "name": "x"})), "as the second branch does");
}

// reach 2
#[test]
fn a_definition_takes_the_place_of_what_refers_to_it_and_a_circle_is_cut() {
    let schema = json!({"type": "object", "properties": {"tree": {"$ref": "#/$defs/Node", "description": "The root."}},
        "$defs": {"Node": {"type": "object", "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}}});
    let expected = json!({"type": "object", "properties": {"tree": {"description": "The root.", "type": "object",
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {}}}}}});
    assert_eq!(input(&schema, inlined()), expected);
}

// reach 2
#[test]
fn an_output_schema_that_is_no_object_is_left_out_and_one_that_is_stays() {
    let rules = SchemaRules { object_output: true, ..SchemaRules::default() };
    let tool =
        json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}, "_meta": {"x": 1}});
    let seen = shown(&tool, rules);
    assert_eq!(seen.get("outputSchema"), None);
    assert_eq!(seen["_meta"], json!({"x": 1, VIEW_META: {"outputSchema": ["dropped"]}}));
    let fine = json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}});
    assert_eq!(shown(&fine, rules)["outputSchema"], fine["outputSchema"]);
    // A reference is followed first.
    let referring = json!({"name": "t", "inputSchema": {"type": "object"},
        "outputSchema": {"$ref": "#/$defs/R", "$defs": {"R": {"type": "object"}}}});
    assert_eq!(shown(&referring, both())["outputSchema"], json!({"type": "object"}));
}

// reach 2
#[test]
fn a_schema_that_needs_no_change_keeps_every_byte() {
    let raw = r#"{"name":"t","inputSchema":{"type" : "object", "properties":{"n":{"default":1.0}}}}"#;
    let item = OfferItem::read(ListKind::Tools, Bytes::from_static(raw.as_bytes()), false).unwrap();
    let offer = ServerOffer { bare: true, ..ServerOffer::new(ServerId(0), "a").offering(ListKind::Tools, vec![item]) };
    let whole = Arc::new(CatalogueSnapshot::new(vec![Arc::new(offer)], FieldView::Strict));
    let seen = whole.shaped(&Arc::new(ViewShape { schema: both(), ..ViewShape::default() }));
    assert_eq!(seen.listing(ListKind::Tools, Revision::MODERN).page(None, 9).items, raw);
}

// reach 2
#[test]
fn a_rule_that_is_too_long_is_not_written_out() {
    let branch = |n: usize| json!({"properties": {format!("p{n}"): {"description": "d".repeat(100)}}});
    let schema = json!({"type": "object", "anyOf": (0..40).map(branch).collect::<Vec<_>>()});
    let tool = shown(&json!({"name": "t", "inputSchema": schema}), plain_top());
    assert!(tool["description"].as_str().unwrap().len() < 200);
    assert_eq!(tool["inputSchema"]["properties"].as_object().unwrap().len(), 40);
}

/// What a hostile server may list costs neither memory nor time nor the stack.
// reach 8.2
#[test]
fn hostile_schemas_are_cut() {
    let begun = std::time::Instant::now();
    // A long list of words that is referred to from everywhere: 100 kB that would become 30 MB.
    let words: Vec<String> = (0..1_000).map(|n| format!("word{n}")).collect();
    let properties: serde_json::Map<String, Value> =
        (0..3_000).map(|n| (format!("p{n}"), json!({"$ref": "#/$defs/w"}))).collect();
    let bomb = json!({"type": "object", "properties": properties, "required": ["p7"], "$defs": {"w": {"enum": words}}});
    assert!(bomb.to_string().len() < 128 << 10, "it is looked into");
    let wide = input(&bomb, inlined());
    assert!(wide.to_string().len() < 8 << 20, "{} bytes", wide.to_string().len());
    assert_eq!(wide["required"], json!(["p7"]));
    assert!(accepts(&wide, &json!({"p7": "word1", "p2999": "word4"})));

    // References in schemas in references: deeper than a stack, and than what clients read.
    let nested = |inner: Value| (0..30).fold(inner, |inner, _| json!({"properties": {"x": inner}}));
    let mut definitions = serde_json::Map::new();
    for n in 0..24 {
        definitions.insert(format!("d{n}"), nested(json!({"$ref": format!("#/$defs/d{}", n + 1)})));
    }
    let deep = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
    assert!(accepts(&input(&deep, both()), &json!({"x": {"x": {}}})));

    // Members without end.
    let many: serde_json::Map<String, Value> = (0..200_000).map(|n| (format!("p{n}"), json!({}))).collect();
    let long = json!({"type": "object", "required": ["p1"], "anyOf": [{"properties": many}, {"required": ["q"]}]});
    let tool = shown(&json!({"name": "t", "inputSchema": long}), plain_top());
    assert_eq!(tool["inputSchema"], json!({"type": "object", "required": ["p1"]}));
    assert_eq!(tool["_meta"][VIEW_META]["inputSchema"], json!(["cut"]));
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
}
