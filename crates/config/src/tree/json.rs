//! JSON text to tree.
//!
//! Comments and trailing commas are let through, because the editors whose files are read here write them.

use super::{ConfigNode, ConfigValue, LineStarts, SyntaxError, TableEntry};

/// Deeper nesting than this is refused, so that a hostile file can not exhaust the stack.
const MAX_DEPTH: usize = 64;

/// Parses a JSON document.
pub(crate) fn parse(text: &str) -> Result<ConfigNode, SyntaxError> {
    // Editors on Windows begin files with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parser = JsonParser { text, at: 0, lines: LineStarts::of(text) };
    let node = parser.value(0)?;
    parser.skip_blank()?;
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.error("expected the end of the file")),
    }
}

/// The tree of a value that was parsed elsewhere and has no positions.
pub(crate) fn from_value(value: &serde_json::Value) -> ConfigNode {
    use serde_json::Value as Json;
    let value = match value {
        Json::Null => ConfigValue::Null,
        Json::Bool(value) => ConfigValue::Boolean(*value),
        Json::Number(number) => number.as_i64().map_or(ConfigValue::Other("a decimal number"), ConfigValue::Integer),
        Json::String(text) => ConfigValue::Text(text.clone()),
        Json::Array(items) => ConfigValue::List(items.iter().map(from_value).collect()),
        Json::Object(map) => {
            let entry = |(key, value): (&String, _)| TableEntry { key: key.clone(), at: None, node: from_value(value) };
            ConfigValue::Table(map.iter().map(entry).collect())
        }
    };
    ConfigNode { at: None, value }
}

struct JsonParser<'t> {
    text: &'t str,
    at: usize,
    lines: LineStarts<'t>,
}

impl JsonParser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn error(&self, message: &str) -> SyntaxError {
        SyntaxError { at: Some(self.lines.position(self.at)), message: message.to_owned() }
    }

    fn skip_blank(&mut self) -> Result<(), SyntaxError> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
            let blank = rest.len() - trimmed.len();
            let comment = if trimmed.starts_with("//") {
                trimmed.find('\n').unwrap_or(trimmed.len())
            } else if let Some(body) = trimmed.strip_prefix("/*") {
                // `end` counts from behind the opening; both marks are two bytes long.
                body.find("*/").map(|end| end + 4).ok_or_else(|| self.error("this comment has no end"))?
            } else {
                0
            };
            self.at += blank + comment;
            if comment == 0 {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<ConfigNode, SyntaxError> {
        self.skip_blank()?;
        if depth > MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        let at = Some(self.lines.position(self.at));
        let value = match self.peek() {
            Some(b'{') => self.table(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => ConfigValue::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", ConfigValue::Boolean(true))?,
            Some(b'f') => self.word("false", ConfigValue::Boolean(false))?,
            Some(b'n') => self.word("null", ConfigValue::Null)?,
            Some(_) => return Err(self.error("expected a JSON value")),
            None => return Err(self.error("expected a JSON value, found the end of the file")),
        };
        Ok(ConfigNode { at, value })
    }

    fn table(&mut self, depth: usize) -> Result<ConfigValue, SyntaxError> {
        let mut entries: Vec<TableEntry> = Vec::new();
        self.at += 1;
        loop {
            self.skip_blank()?;
            if self.take(b'}') {
                return Ok(ConfigValue::Table(entries));
            }
            if self.peek() != Some(b'"') {
                return Err(self.error("expected a key in double quotes, or \"}\""));
            }
            let at = self.lines.position(self.at);
            let key = self.string()?;
            // JSON parsers disagree on which of two counts, so neither does.
            if entries.iter().any(|entry| entry.key == key) {
                return Err(SyntaxError { at: Some(at), message: format!("the key \"{key}\" is written twice") });
            }
            self.skip_blank()?;
            if !self.take(b':') {
                return Err(self.error("expected \":\" after the key"));
            }
            let node = self.value(depth + 1)?;
            entries.push(TableEntry { key, at: Some(at), node });
            self.skip_blank()?;
            if !self.take(b',') && self.peek() != Some(b'}') {
                return Err(self.error("expected \",\" or \"}\""));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<ConfigValue, SyntaxError> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.skip_blank()?;
            if self.take(b']') {
                return Ok(ConfigValue::List(items));
            }
            items.push(self.value(depth + 1)?);
            self.skip_blank()?;
            if !self.take(b',') && self.peek() != Some(b']') {
                return Err(self.error("expected \",\" or \"]\""));
            }
        }
    }

    /// Finds the end of the string here and leaves its escapes to `serde_json`.
    fn string(&mut self) -> Result<String, SyntaxError> {
        let bytes = self.rest().as_bytes();
        let mut end = 1;
        loop {
            match bytes.get(end) {
                // The escaped byte is skipped, which may be a quote.
                Some(b'\\') => end += 2,
                Some(b'"') => break,
                Some(b'\n') | None => return Err(self.error("this string has no end")),
                Some(_) => end += 1,
            }
        }
        let literal = &self.rest()[..=end];
        let text = serde_json::from_str(literal)
            .map_err(|_| self.error("this string has a wrong escape or a control character"))?;
        self.at += end + 1;
        Ok(text)
    }

    fn number(&mut self) -> Result<ConfigValue, SyntaxError> {
        let is_part = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
        let length = self.rest().bytes().take_while(is_part).count();
        let literal = &self.rest()[..length];
        let number: serde_json::Number =
            serde_json::from_str(literal).map_err(|_| self.error("this is not a number"))?;
        self.at += length;
        Ok(number.as_i64().map_or(ConfigValue::Other("a decimal number"), ConfigValue::Integer))
    }

    fn word(&mut self, word: &str, value: ConfigValue) -> Result<ConfigValue, SyntaxError> {
        if !self.rest().starts_with(word) {
            return Err(self.error("expected a JSON value"));
        }
        self.at += word.len();
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_position() {
        let node = parse("{\n  \"b\": {\"x\": [1, true, null]},\n  \"a\": \"t\\u00e9\"\n}").unwrap();
        let ConfigValue::Table(entries) = node.value else { panic!("not a table") };
        let seen: Vec<_> = entries.iter().map(|entry| (entry.key.as_str(), entry.at.unwrap().to_string())).collect();
        assert_eq!(seen, [("b", "2:3".to_owned()), ("a", "3:3".to_owned())]);
        assert_eq!(entries[1].node.value, ConfigValue::Text("té".to_owned()));
    }

    #[test]
    fn comments_and_trailing_commas_pass() {
        let node = parse("// top\n{ /* in */ \"a\": [1, 2,], }\n// end").unwrap();
        let ConfigValue::Table(entries) = node.value else { panic!("not a table") };
        assert_eq!(entries.len(), 1);
    }

    #[test]
    fn broken_text_is_refused_with_its_position() {
        let table = [
            ("", "1:1", "found the end"),
            ("{\"a\": }", "1:7", "a JSON value"),
            ("{\n \"a\": 1\n \"b\": 2}", "3:2", "\",\" or \"}\""),
            ("{\"a\": \"x\n\"}", "1:7", "no end"),
            ("{\"a\": 1, \"a\": 2}", "1:10", "twice"),
            ("{\"a\": \"\\q\"}", "1:7", "wrong escape"),
            ("{} x", "1:4", "end of the file"),
            ("[1", "1:3", "\",\" or \"]\""),
            ("/* ", "1:1", "no end"),
            ("{a: 1}", "1:2", "double quotes"),
            ("\"\\", "1:1", "no end"),
        ];
        for (text, at, message) in table {
            let error = parse(text).unwrap_err();
            assert_eq!(error.at.unwrap().to_string(), at, "{text}");
            assert!(error.message.contains(message), "{text}: {}", error.message);
        }
        assert!(parse(&"[".repeat(100_000)).unwrap_err().message.contains("deeply"));
    }
}
