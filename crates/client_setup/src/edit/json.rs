//! JSON with comments, through a syntax tree that keeps every token.

use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use jsonc_parser::{ParseOptions, json};
use serde_json::Value;

use super::EditError;

fn parsed(text: &str) -> Result<CstRootNode, EditError> {
    // What JSON5 allows besides is an error for the clients, too.
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
        ..ParseOptions::default()
    };
    CstRootNode::parse(text, &options).map_err(|error| EditError::Unreadable(error.to_string()))
}

pub(super) fn tree(text: &str) -> Result<Value, EditError> {
    match parsed(text)?.value() {
        None => Ok(Value::Null),
        Some(node) => node.to_serde_value().ok_or_else(|| EditError::Unreadable("a value has no meaning".to_owned())),
    }
}

fn root(text: &str) -> Result<(CstRootNode, CstObject), EditError> {
    let root = parsed(text)?;
    let object = root.object_value_or_create();
    let object = object.ok_or_else(|| EditError::Unusual("it does not begin with {".to_owned()))?;
    Ok((root, object))
}

pub(super) fn set(text: &str, key: &str, name: &str, entry: &Value) -> Result<String, EditError> {
    let (root, object) = root(text)?;
    if object.get(key).and_then(|member| member.value()).is_some_and(|value| value.as_null_keyword().is_some()) {
        return Err(EditError::Unusual(format!("`{key}` is null")));
    }
    let members = object.object_value_or_create(key);
    let members = members.ok_or_else(|| EditError::Unusual(format!("`{key}` is not an object")))?;
    match members.get(name) {
        Some(known) => known.set_value(input(entry)),
        None => _ = members.append(name, input(entry)),
    }
    Ok(ended(text, root.to_string()))
}

pub(super) fn remove(text: &str, key: &str, name: &str) -> Result<String, EditError> {
    let (root, object) = root(text)?;
    if let Some(known) = object.object_value(key).and_then(|members| members.get(name)) {
        known.remove();
    }
    Ok(root.to_string())
}

pub(super) fn with_input(text: &str, id: &str) -> Result<String, EditError> {
    let (root, object) = root(text)?;
    let inputs = object.array_value_or_create("inputs");
    let inputs = inputs.ok_or_else(|| EditError::Unusual("`inputs` is not an array".to_owned()))?;
    let is_it = |value: &Value| value["id"] == id;
    if !inputs.elements().iter().any(|element| element.to_serde_value().as_ref().is_some_and(is_it)) {
        inputs.append(json!({
            "type": "promptString",
            "id": id,
            "description": "Token for Tidings",
            "password": true
        }));
    }
    Ok(ended(text, root.to_string()))
}

pub(super) fn without_input(text: &str, id: &str) -> Result<String, EditError> {
    let (root, object) = root(text)?;
    for element in object.array_value("inputs").into_iter().flat_map(|inputs| inputs.elements()) {
        if element.to_serde_value().is_some_and(|value| value["id"] == id) {
            element.remove();
        }
    }
    Ok(root.to_string())
}

/// A file that was made here ends with a line end.
fn ended(before: &str, mut after: String) -> String {
    if before.is_empty() && !after.ends_with('\n') {
        after.push('\n');
    }
    after
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}
