//! One thing that a server offers, and the many ways to write it down.

use serde_json::{Value, json};

use crate::kinds::{DefinitionView, SoakList};

/// What can change about an item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SoakItem {
    pub(crate) text: u64,
    pub(crate) schema: u64,
    pub(crate) icon: Option<u64>,
}

impl SoakItem {
    /// Its definition under a key, as a client of a view sees it.
    pub(crate) fn definition(&self, kind: SoakList, key: &str, view: DefinitionView) -> Value {
        let description = format!("says {}", self.text);
        let mut definition = match kind {
            SoakList::Tools => {
                let parameter = format!("p{}", self.schema);
                let schema = json!({"type": "object", "properties": {parameter: {"type": "string"}}});
                json!({"name": key, "description": description, "inputSchema": schema})
            }
            SoakList::Prompts => {
                let argument = json!({"name": format!("a{}", self.schema), "required": true});
                json!({"name": key, "description": description, "arguments": [argument]})
            }
            SoakList::Resources | SoakList::Templates => {
                let media = format!("text/x-{}", self.schema);
                json!({kind.key(): key, "name": "memo", "description": description, "mimeType": media})
            }
        };
        if let (DefinitionView::Whole, Some(icon)) = (view, self.icon) {
            definition["icons"] = json!([{"src": format!("https://example.com/{icon}.png")}]);
        }
        definition
    }
}

/// Writes a value down; every style says the same in other bytes.
pub(crate) fn written(value: &Value, style: u64) -> String {
    let space = if style & 1 == 0 { "" } else { " " };
    match value {
        Value::Object(members) => {
            let mut parts: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("{}:{space}{}", Value::from(name.as_str()), written(value, style)))
                .collect();
            // Another order of members is the same JSON value, and no change.
            let turn = usize::try_from(style >> 2).unwrap_or_default() % parts.len().max(1);
            parts.rotate_left(turn);
            format!("{{{space}{}{space}}}", parts.join(&format!("{space},{space}")))
        }
        Value::Array(items) => {
            let parts: Vec<String> = items.iter().map(|item| written(item, style)).collect();
            format!("[{space}{}]", parts.join(","))
        }
        // The first letter as an escape: other bytes, and the same text.
        Value::String(text) if style & 2 != 0 && text.starts_with(|first: char| first.is_ascii_alphanumeric()) => {
            format!("\"\\u{:04x}{}", u32::from(text.as_bytes()[0]), &value.to_string()[2..])
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_says_the_same_and_several_differ() {
        let item = SoakItem { text: 1, schema: 2, icon: Some(3) };
        for kind in SoakList::ALL {
            let value = item.definition(kind, "k", DefinitionView::Whole);
            let texts: Vec<String> = (0..32).map(|style| written(&value, style)).collect();
            for text in &texts {
                assert_eq!(serde_json::from_str::<Value>(text).ok(), Some(value.clone()), "{text}");
            }
            let different: std::collections::BTreeSet<&String> = texts.iter().collect();
            assert!(different.len() > 8, "{different:?}");
        }
    }
}
