//! JSON that authors write, with the lines of its members.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::problem::{ProjectFault, ProjectProblem};

/// A time that is longer than this is a slip of the pen.
const LONGEST: u64 = 86_400;

/// A JSON object and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct JsonDocument {
    /// Relative to the project.
    pub(crate) file: PathBuf,
    /// The line in the file on which the text begins.
    first_line: usize,
    text: String,
    pub(crate) members: Map<String, Value>,
}

impl JsonDocument {
    pub(crate) fn parse(file: PathBuf, first_line: usize, text: String) -> Result<Self, ProjectProblem> {
        let problem = |line: Option<usize>, fault| ProjectProblem { file: file.clone(), line, fault };
        // Some editors write it; only `register.json` is strict about it.
        let plain = text.strip_prefix('\u{feff}').unwrap_or(&text);
        match serde_json::from_str(plain) {
            Ok(Value::Object(members)) => Ok(Self { file, first_line, text, members }),
            Ok(_) => Err(problem(Some(first_line), ProjectFault::NotAnObject("the whole".into()))),
            Err(error) => {
                let line = first_line + error.line().saturating_sub(1);
                Err(problem(Some(line), ProjectFault::Json(reason(&error))))
            }
        }
    }

    /// A document of a file that the author did not write: every member is absent.
    pub(crate) fn empty(file: PathBuf) -> Self {
        Self::made(file, Map::new())
    }

    /// Made by a program: there are no lines.
    pub(crate) fn made(file: PathBuf, members: Map<String, Value>) -> Self {
        Self { file, first_line: 1, text: String::new(), members }
    }

    /// The members of the whole document, with the places of problems in them.
    pub(crate) fn facts(&self) -> ObjectFacts<'_> {
        ObjectFacts { document: self, members: &self.members, anchor: None }
    }

    /// The members of one of its entries.
    pub(crate) fn entry<'a>(&'a self, members: &'a Map<String, Value>) -> ObjectFacts<'a> {
        let anchor = members.get("name").and_then(Value::as_str).map(|name| Value::from(name).to_string());
        ObjectFacts { document: self, members, anchor }
    }

    /// The line on which a member is first named.
    fn line_of(&self, anchor: Option<&str>, member: Option<&str>) -> Option<usize> {
        if self.text.is_empty() {
            return None;
        }
        // A search in the text and not a parser with positions: good enough for an author to find the place.
        let start = anchor.and_then(|anchor| self.text.find(anchor)).unwrap_or(0);
        let at = match member {
            None => Some(start),
            Some(member) => {
                let quoted = Value::from(member).to_string();
                let after = self.text[start..].find(&quoted).map(|at| start + at);
                after.or_else(|| self.text.find(&quoted)).or(Some(start))
            }
        }?;
        Some(self.first_line + self.text[..at].matches('\n').count())
    }
}

/// The reason without the place, which stands elsewhere.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// The members of an object and where to find them.
#[derive(Clone, Debug)]
pub(crate) struct ObjectFacts<'a> {
    document: &'a JsonDocument,
    pub(crate) members: &'a Map<String, Value>,
    anchor: Option<String>,
}

impl ObjectFacts<'_> {
    /// A problem with a member, or with the whole.
    pub(crate) fn problem(&self, member: Option<&str>, fault: ProjectFault) -> ProjectProblem {
        let line = self.document.line_of(self.anchor.as_deref(), member);
        ProjectProblem { file: self.document.file.clone(), line, fault }
    }

    /// A member; `null` counts as absent.
    pub(crate) fn get(&self, member: &str) -> Option<&Value> {
        // Generators write `null` where they have nothing to say.
        self.members.get(member).filter(|value| !value.is_null())
    }

    fn wrong(&self, member: &str, wanted: &'static str, problems: &mut Vec<ProjectProblem>) {
        problems.push(self.problem(Some(member), ProjectFault::Field { field: member.to_owned(), wanted }));
    }

    /// A text that is not empty.
    pub(crate) fn text(&self, member: &str, problems: &mut Vec<ProjectProblem>) -> Option<String> {
        match self.get(member)? {
            Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
            _ => {
                self.wrong(member, "a string", problems);
                None
            }
        }
    }

    pub(crate) fn object(&self, member: &str, problems: &mut Vec<ProjectProblem>) -> Option<Value> {
        let value = self.get(member)?;
        if !value.is_object() {
            self.wrong(member, "an object", problems);
            return None;
        }
        Some(value.clone())
    }

    pub(crate) fn array(&self, member: &str, problems: &mut Vec<ProjectProblem>) -> Option<Vec<Value>> {
        match self.get(member)? {
            Value::Array(items) => Some(items.clone()),
            _ => {
                self.wrong(member, "an array", problems);
                None
            }
        }
    }

    /// Also as a text of digits.
    pub(crate) fn seconds(&self, member: &str, problems: &mut Vec<ProjectProblem>) -> Option<Duration> {
        let value = self.get(member)?;
        // Shell scripts that write JSON often quote numbers.
        let seconds = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
        match seconds {
            Some(seconds) if (1..=LONGEST).contains(&seconds) => Some(Duration::from_secs(seconds)),
            _ => {
                // What a shell script writes for a variable that is not set; it counts as absent.
                if value.as_str() != Some("") {
                    self.wrong(member, "a whole number of seconds from 1 to 86400", problems);
                }
                None
            }
        }
    }

    /// Also as a text.
    pub(crate) fn flag(&self, member: &str, problems: &mut Vec<ProjectProblem>) -> Option<bool> {
        match self.get(member)? {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) if text == "true" => Some(true),
            Value::String(text) if text.is_empty() || text == "false" => Some(false),
            _ => {
                self.wrong(member, "true or false", problems);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parse_error_has_its_line() {
        let fault = JsonDocument::parse("a.json".into(), 1, "{\n  \"name\": \"x\",\n  oops\n}".into()).unwrap_err();
        assert_eq!(fault.line, Some(3));
        assert!(fault.to_string().starts_with("a.json:3: is not JSON: "), "{fault}");
    }

    #[test]
    fn a_member_of_the_wrong_type_is_named_with_its_line() {
        let text = "{\n  \"name\": \"x\",\n  \"timeoutSecs\": \"soon\"\n}";
        let document = JsonDocument::parse("a.json".into(), 1, text.into()).unwrap();
        let mut problems = Vec::new();
        assert_eq!(document.facts().seconds("timeoutSecs", &mut problems), None);
        assert_eq!(problems[0].line, Some(3));
        assert!(problems[0].to_string().contains("`timeoutSecs` is not a whole number"), "{}", problems[0]);
    }

    #[test]
    fn a_member_of_an_entry_is_found_after_the_name_of_the_entry() {
        let text = "{\"tools\": [\n{\"name\": \"a\", \"path\": \"a.sh\"},\n{\"name\": \"b\",\n\"path\": 7}]}";
        let document = JsonDocument::parse("r.json".into(), 1, text.into()).unwrap();
        let entry = document.members["tools"][1].as_object().unwrap();
        let mut problems = Vec::new();
        assert_eq!(document.entry(entry).text("path", &mut problems), None);
        assert_eq!(problems[0].line, Some(4));
    }

    #[test]
    fn numbers_and_flags_may_be_written_as_text() {
        let document = JsonDocument::parse("a".into(), 1, r#"{"t": "30", "f": "true"}"#.into()).unwrap();
        let mut problems = Vec::new();
        assert_eq!(document.facts().seconds("t", &mut problems), Some(Duration::from_secs(30)));
        assert_eq!(document.facts().flag("f", &mut problems), Some(true));
        assert!(problems.is_empty());
    }
}
