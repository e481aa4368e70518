//! `GET /openapi.json`: the description of the API, for programs.

use axum::http::header;
use axum::response::{IntoResponse, Response};

/// The document, as it is served.
const DOCUMENT: &str = include_str!("openapi.json");

pub(crate) async fn show() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    // S4.3
    #[test]
    fn the_document_describes_every_route_and_no_other() {
        let document: Value = serde_json::from_str(DOCUMENT).expect("JSON");
        let paths = document["paths"].as_object().expect("paths");
        let described: BTreeSet<(String, String)> = paths
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().expect("a path item").keys().filter(|key| *key != "parameters");
                methods.map(|method| (method.to_uppercase(), path.clone()))
            })
            .collect();
        let served: BTreeSet<(String, String)> =
            crate::api().iter().map(|(method, path, _)| (method.to_string(), (*path).to_owned())).collect();
        assert_eq!(described, served);
    }

    #[test]
    fn every_reference_in_the_document_leads_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(members) => {
                    found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    members.values().for_each(|member| references(member, found));
                }
                Value::Array(items) => items.iter().for_each(|item| references(item, found)),
                _ => {}
            }
        }
        let document: Value = serde_json::from_str(DOCUMENT).expect("JSON");
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("a reference within the document");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}
