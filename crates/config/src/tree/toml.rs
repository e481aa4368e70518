//! TOML text to tree.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ConfigNode, ConfigValue, LineStarts, SyntaxError, TableEntry};

/// Parses a TOML document. What can be recovered around syntax errors is given too, so that one run reports more.
pub(crate) fn parse(text: &str) -> (Vec<TableEntry>, Vec<SyntaxError>) {
    let lines = LineStarts::of(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    let errors = errors.iter().map(|error| SyntaxError {
        at: error.span().map(|span| lines.position(span.start)),
        message: error.message().trim().replace('\n', ", "),
    });
    (entries(table.get_ref(), &lines), errors.collect())
}

fn entries(table: &DeTable<'_>, lines: &LineStarts<'_>) -> Vec<TableEntry> {
    let mut pairs: Vec<_> = table.iter().collect();
    // The parser sorts by name; the plan keeps the order of the file.
    pairs.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &Spanned<std::borrow::Cow<'_, str>> = key;
        TableEntry {
            key: key.get_ref().to_string(),
            at: Some(lines.position(key.span().start)),
            node: node(value, lines),
        }
    };
    pairs.into_iter().map(entry).collect()
}

fn node(value: &Spanned<DeValue<'_>>, lines: &LineStarts<'_>) -> ConfigNode {
    let at = Some(lines.position(value.span().start));
    let value = match value.get_ref() {
        DeValue::String(text) => ConfigValue::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(ConfigValue::Other("a number that is too large"), ConfigValue::Integer),
        DeValue::Boolean(value) => ConfigValue::Boolean(*value),
        DeValue::Array(items) => ConfigValue::List(items.iter().map(|item| node(item, lines)).collect()),
        DeValue::Table(table) => ConfigValue::Table(entries(table, lines)),
        DeValue::Float(_) => ConfigValue::Other("a decimal number"),
        DeValue::Datetime(_) => ConfigValue::Other("a date"),
    };
    ConfigNode { at, value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::TextPosition;

    #[test]
    fn tables_keep_the_order_of_the_file_and_their_lines() {
        let (entries, errors) = parse("[servers.zebra]\ncommand = \"z\"\n\n[servers.ape]\ncommand = \"a\"\n");
        assert_eq!(errors, []);
        let ConfigValue::Table(servers) = &entries[0].node.value else { panic!("not a table") };
        let names: Vec<_> = servers.iter().map(|entry| (entry.key.as_str(), entry.at)).collect();
        let at = |line| Some(TextPosition { line, column: 10 });
        assert_eq!(names, [("zebra", at(1)), ("ape", at(4))]);
    }

    #[test]
    fn several_syntax_errors_are_reported_at_once() {
        let (_, errors) = parse("a = \nb = 1\nc = [\n\n");
        let lines: Vec<_> = errors.iter().filter_map(|error| error.at).map(|at| at.line).collect();
        assert!(lines.contains(&1) && lines.contains(&3), "{errors:?}");
    }
}
