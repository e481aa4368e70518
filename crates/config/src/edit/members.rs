//! The members of a JSON object in the order and the words of the file.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

#[derive(Debug, Default)]
pub(super) struct RawMembers(Vec<(String, String)>);

impl RawMembers {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, raw)| raw.as_str())
    }

    /// Changes a member in its place, or adds it at the end.
    pub(super) fn set(&mut self, name: &str, raw: String) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = raw,
            None => self.0.push((name.to_owned(), raw)),
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// The object as text, at a depth of indentation. Values that are new have none of their own yet.
    pub(super) fn to_text(&self, depth: usize) -> String {
        if self.0.is_empty() {
            return "{}".to_owned();
        }
        let inner = "  ".repeat(depth + 1);
        let member = |(name, raw): &(String, String)| {
            let name = serde_json::Value::from(name.as_str());
            // What was in the file has the indentation of its depth already; a new value is indented from zero.
            let is_new = raw.contains("\n  \"") && !raw.contains(&format!("\n{inner}"));
            let raw = if is_new { raw.replace('\n', &format!("\n{inner}")) } else { raw.clone() };
            format!("{inner}{name}: {raw}")
        };
        let members: Vec<String> = self.0.iter().map(member).collect();
        format!("{{\n{}\n{}}}", members.join(",\n"), "  ".repeat(depth))
    }
}

impl<'de> Deserialize<'de> for RawMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = RawMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawMembers, A::Error> {
                let mut members = Vec::new();
                while let Some((name, raw)) = map.next_entry::<String, Box<RawValue>>()? {
                    members.push((name, raw.get().to_owned()));
                }
                Ok(RawMembers(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}
