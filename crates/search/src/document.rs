//! What is searched of a tool, and how it is read from the tool's definition.

use serde_json::Value;

use crate::model::{StaticModel, normalise};
use crate::words;

/// Parameters beyond this count add nothing to finding a tool; generated schemas may have thousands.
const MAX_PARAMETERS: usize = 256;
/// Schemas may refer to themselves through their definitions; deeper than this nobody searches.
const MAX_DEPTH: usize = 8;

/// What a description says after this many letters is detail, which blurs an average.
const MEANING_LETTERS: usize = 200;
/// A model that reads whole texts may read more.
const REMOTE_LETTERS: usize = 1_000;
/// The longest sentence that a small transformer is given.
const SENTENCE_LETTERS: usize = 300;
/// How much of what a server says of itself is searched.
const ABOUT_LETTERS: usize = 1_000;
/// Examples beyond this length are data.
const MAX_EXAMPLE: usize = 80;

/// How much of a tool's text a model is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeaningText {
    /// The description, up to a bound.
    Whole,
    /// Its first sentence: for a small model the rest is detail that costs time and blurs.
    FirstSentence,
}

/// Which tool a document is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocId {
    /// What the tool is put in and taken out by; unique in the catalogue.
    pub name: String,
    /// The server that offers it.
    pub server: String,
}

/// The searchable text of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDocument {
    /// Which tool this is.
    pub id: DocId,
    /// The server's own name for the tool, without the prefix of the public name.
    pub name: String,
    /// The title for people, if there is one.
    pub title: Option<String>,
    /// The description, empty if there is none.
    pub description: String,
    /// Words beside the text that it should be found by; tools have none.
    pub keywords: Vec<String>,
    /// What the server says of itself: its title and instructions.
    pub about: String,
    /// The parameters at all levels of the input schema.
    pub parameters: Vec<ToolParameter>,
}

/// One property of an input schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolParameter {
    /// The key of the parameter in the input schema.
    pub name: String,
    /// Its description and the values it may have, empty if neither is given.
    pub description: String,
}

impl ToolDocument {
    /// Reads what is searchable from a tool's definition as the server sent it.
    ///
    /// A definition that is not what it should be leaves fields empty: a tool with a strange schema is still found by name.
    #[must_use]
    pub fn from_tool(server: &str, public_name: &str, raw_definition: &[u8]) -> Self {
        let tool: Value = serde_json::from_slice(raw_definition).unwrap_or(Value::Null);
        let mut parameters = Vec::new();
        collect_parameters(&tool["inputSchema"], 0, &mut parameters);
        // Before revision 2025-06-18 a tool had its title in the annotations only.
        let title = text(&tool["title"]).or_else(|| text(&tool["annotations"]["title"]));
        Self {
            id: DocId { name: public_name.to_owned(), server: server.to_owned() },
            // A tool whose definition can not be read is still found by its public name.
            name: text(&tool["name"]).unwrap_or_else(|| public_name.to_owned()),
            title,
            description: text(&tool["description"]).unwrap_or_default(),
            keywords: Vec::new(),
            about: String::new(),
            parameters,
        }
    }

    /// The same tool of a server that says this of itself.
    #[must_use]
    pub fn about(mut self, about: &str) -> Self {
        self.about = beginning(about, ABOUT_LETTERS).to_owned();
        self
    }

    /// The vector of the tool: the average over its name and the beginning of its description, whose first sentence counts twice.
    pub(crate) fn embed(&self, model: &StaticModel) -> Option<Vec<f32>> {
        let description = beginning(&self.description, MEANING_LETTERS);
        let mut sum = vec![0.0; model.dimensions()];
        for text in [self.head().as_str(), first_sentence(description), description] {
            model.add(text, 1.0, &mut sum);
        }
        normalise(sum)
    }

    /// What is given to a model that reads whole texts.
    pub(crate) fn meaning_text(&self, reads: MeaningText) -> String {
        let description = match reads {
            MeaningText::Whole => beginning(&self.description, REMOTE_LETTERS),
            MeaningText::FirstSentence => beginning(first_sentence(self.description.trim()), SENTENCE_LETTERS),
        };
        format!("{}: {description}", self.head())
    }

    /// Server, name and title, in words.
    fn head(&self) -> String {
        let name = words::split(&self.name).join(" ");
        // A title that repeats the name would count the same words twice in the average.
        let title = self.title.as_deref().filter(|title| words::split(title) != words::split(&self.name));
        [self.id.server.as_str(), name.as_str(), title.unwrap_or_default()].join(" ").trim_end().to_owned()
    }
}

fn beginning(text: &str, letters: usize) -> &str {
    let end = text.char_indices().nth(letters).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

fn first_sentence(text: &str) -> &str {
    let end = text.find('\n').into_iter().chain(text.find(". ").map(|at| at + 1)).min();
    &text[..end.unwrap_or(text.len())]
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Walks a schema: properties, and the places where a schema holds further schemas.
fn collect_parameters(schema: &Value, depth: usize, found: &mut Vec<ToolParameter>) {
    if depth > MAX_DEPTH {
        return;
    }
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            if found.len() == MAX_PARAMETERS {
                return;
            }
            found.push(ToolParameter { name: name.clone(), description: describe(property) });
            collect_parameters(property, depth + 1, found);
        }
    }
    for key in ["items", "additionalProperties"] {
        collect_parameters_of_object(&schema[key], depth, found);
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        for branch in schema[key].as_array().into_iter().flatten() {
            collect_parameters(branch, depth + 1, found);
        }
    }
    // References are not followed; the definitions they lead to are read where they stand.
    for key in ["$defs", "definitions"] {
        for definition in schema[key].as_object().into_iter().flat_map(|map| map.values()) {
            collect_parameters(definition, depth + 1, found);
        }
    }
}

fn collect_parameters_of_object(schema: &Value, depth: usize, found: &mut Vec<ToolParameter>) {
    // Looking up a key of `null` gives `null` again, so an absent schema would be walked to the full depth, twice per
    // level.
    if schema.is_object() {
        collect_parameters(schema, depth + 1, found);
    }
}

/// The description of a property, its title, the values it may have, and examples of them.
fn describe(property: &Value) -> String {
    let mut description = text(&property["description"]).unwrap_or_default();
    let title = property["title"].as_str();
    let choices = property["enum"].as_array().into_iter().flatten();
    let branches = ["anyOf", "oneOf"].into_iter().filter_map(|key| property[key].as_array()).flatten();
    let choices = choices.chain(branches.map(|branch| &branch["const"])).chain([&property["const"]]);
    let examples = property["examples"].as_array().into_iter().flatten().chain([&property["default"]]);
    let examples = examples.filter_map(Value::as_str).filter(|example| example.len() <= MAX_EXAMPLE);
    for word in title.into_iter().chain(choices.filter_map(Value::as_str)).chain(examples) {
        description.push(' ');
        description.push_str(word);
    }
    description
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_parameters_and_choices_are_read() {
        let raw = br#"{"name":"edit","title":"Edit","description":"d","inputSchema":{"type":"object","properties":{
            "edits":{"type":"array","items":{"type":"object","properties":{"oldText":{"description":"before"}}}},
            "mode":{"enum":["dry","real"]}},"$defs":{"Range":{"properties":{"from":{}}}}}}"#;
        let document = ToolDocument::from_tool("fs", "fs__edit", raw);
        let names: Vec<_> = document.parameters.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["edits", "oldText", "mode", "from"]);
        assert_eq!(document.parameters[1].description, "before");
        assert_eq!(document.parameters[2].description, " dry real");
        assert_eq!((document.name.as_str(), document.title.as_deref()), ("edit", Some("Edit")));
    }

    #[test]
    fn choices_examples_and_titles_of_parameters_are_searched_and_data_is_not() {
        let long = "x".repeat(MAX_EXAMPLE + 1);
        let raw = serde_json::json!({"name": "paint", "inputSchema": {"properties": {"colour": {"title": "Shade",
            "oneOf": [{"const": "crimson"}, {"const": "teal"}], "examples": ["navy", 7, long], "default": "beige"}}}});
        let document = ToolDocument::from_tool("art", "art__paint", raw.to_string().as_bytes());
        assert_eq!(document.parameters[0].description, " Shade crimson teal navy beige");
    }

    #[test]
    fn the_first_sentence_ends_at_a_full_stop_or_a_line() {
        for (text, first) in [("One. Two.", "One."), ("One\nTwo", "One"), ("v1.2 of it", "v1.2 of it"), ("", "")] {
            assert_eq!(first_sentence(text), first);
        }
    }

    #[test]
    fn a_broken_definition_is_still_found_by_name() {
        let document = ToolDocument::from_tool("fs", "fs__edit", b"{not json");
        assert_eq!(document.name, "fs__edit");
        assert!(document.description.is_empty() && document.parameters.is_empty());
    }
}
