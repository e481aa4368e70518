//! Takes values out of the tree one by one, and notes every fault on the way instead of stopping at the first.

pub(crate) mod forms;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{
    ConfigError, ConfigErrors, ConfigFault, ConfigPlace, ConfigWarning, TextPosition, WarningKind, closest,
};
use crate::expand::{ReferenceDialect, ReferenceExpander};
use crate::span::parse_duration;
use crate::tree::{ConfigNode, ConfigValue, TableEntry, key_path};

/// What has been noted so far.
#[derive(Default)]
pub(crate) struct ReadFindings {
    pub(crate) errors: Vec<ConfigError>,
    pub(crate) warnings: Vec<ConfigWarning>,
    pub(crate) places: BTreeMap<String, ConfigPlace>,
}

/// Whether a key belongs to a server, in any of the formats.
fn is_of_a_server(key: &str) -> bool {
    ["servers.", "mcpServers.", "mcp.servers."].iter().any(|section| key.starts_with(section))
}

/// One file being read.
pub(crate) struct FileReading<'a> {
    pub(crate) file: Option<PathBuf>,
    pub(crate) expander: ReferenceExpander<'a>,
    /// Set while a disabled server is read: what it refers to need not be there.
    pub(crate) lenient: Cell<bool>,
    /// Whether an enabled server may refer to what is not there: it can not be run then, but the others can.
    pub(crate) tolerant: bool,
    /// What the server that is read refers to and is not there.
    pub(crate) missing: RefCell<Vec<ConfigError>>,
    pub(crate) findings: RefCell<ReadFindings>,
}

impl FileReading<'_> {
    pub(crate) fn place(&self, position: Option<TextPosition>) -> ConfigPlace {
        ConfigPlace { file: self.file.clone(), position }
    }

    pub(crate) fn fault(&self, key: &str, at: Option<TextPosition>, fault: ConfigFault) {
        let error = ConfigError { place: self.place(at), key: key.to_owned(), fault };
        self.findings.borrow_mut().errors.push(error);
    }

    pub(crate) fn caution(&self, key: &str, at: Option<TextPosition>, caution: WarningKind) {
        let warning = ConfigWarning { place: self.place(at), key: key.to_owned(), caution };
        self.findings.borrow_mut().warnings.push(warning);
    }

    pub(crate) fn remember(&self, key: &str, at: Option<TextPosition>) {
        let place = self.place(at);
        self.findings.borrow_mut().places.insert(key.to_owned(), place);
    }

    pub(crate) fn is_native(&self) -> bool {
        self.expander.dialect != ReferenceDialect::Clients
    }

    fn wrong_type(&self, key: &str, node: &ConfigNode, expected: &'static str) {
        self.fault(key, node.at, ConfigFault::WrongType { expected, found: node.value.kind() });
    }

    fn text(&self, key: &str, node: &ConfigNode) -> Option<String> {
        let ConfigValue::Text(text) = &node.value else {
            self.wrong_type(key, node, "a string");
            return None;
        };
        match self.expander.expand(text) {
            Ok(text) => Some(text),
            // A disabled server keeps its references unresolved; they are resolved when it is enabled.
            Err(_) if self.lenient.get() => Some(text.clone()),
            Err(fault) if self.tolerant && fault.is_missing() && is_of_a_server(key) => {
                let error = ConfigError { place: self.place(node.at), key: key.to_owned(), fault };
                // Noted apart from the errors: the server becomes one that can not be run, and the file stays good.
                self.missing.borrow_mut().push(error);
                // What else there is to say of a text with holes is not worth it.
                self.lenient.set(true);
                Some(text.clone())
            }
            Err(fault) => {
                self.fault(key, node.at, fault);
                None
            }
        }
    }

    /// Why the server that was read last can not be run, if it is so.
    pub(crate) fn take_missing(&self) -> Option<String> {
        ConfigErrors::from_found(self.missing.take()).map(|errors| errors.to_string())
    }

    /// A string; client files may have numbers and booleans where strings belong.
    fn loose_text(&self, key: &str, node: &ConfigNode) -> Option<String> {
        match &node.value {
            ConfigValue::Integer(number) if !self.is_native() => Some(number.to_string()),
            ConfigValue::Boolean(value) if !self.is_native() => Some(value.to_string()),
            _ => self.text(key, node),
        }
    }
}

/// A table being read. Every key that is asked for is known; [`TableSection::finish`] reports the others.
pub(crate) struct TableSection<'r, 'a> {
    pub(crate) reading: &'r FileReading<'a>,
    pub(crate) path: String,
    pub(crate) at: Option<TextPosition>,
    entries: &'r [TableEntry],
    known: Vec<&'static str>,
    hidden: Vec<&'static str>,
}

impl<'r, 'a> TableSection<'r, 'a> {
    pub(crate) fn new(
        reading: &'r FileReading<'a>,
        path: String,
        at: Option<TextPosition>,
        entries: &'r [TableEntry],
    ) -> Self {
        Self { reading, path, at, entries, known: Vec::new(), hidden: Vec::new() }
    }

    /// The table in `node`, or a fault.
    pub(crate) fn of_node(
        reading: &'r FileReading<'a>,
        path: String,
        at: Option<TextPosition>,
        node: &'r ConfigNode,
    ) -> Option<Self> {
        if let ConfigValue::Table(entries) = &node.value {
            return Some(Self::new(reading, path, at, entries));
        }
        reading.wrong_type(&path, node, "a table");
        None
    }

    pub(crate) fn key(&self, key: &str) -> String {
        key_path(&self.path, key)
    }

    /// The entry of a key, which is known from now on. `null` in client files is like nothing.
    pub(crate) fn entry(&mut self, key: &'static str) -> Option<&'r TableEntry> {
        // A key that is asked for twice stands here twice: looking for it each time took a third of the reading of a long file.
        self.known.push(key);
        // A hidden key stays known, so that `finish` does not call it unknown.
        let entry = self.entries.iter().find(|entry| entry.key == key && !self.hidden.contains(&key))?;
        // Files of other clients write `null` for what is not set; TOML has none.
        (self.reading.is_native() || entry.node.value != ConfigValue::Null).then_some(entry)
    }

    /// Makes a key that was dealt with absent for everyone who asks later.
    pub(crate) fn hide(&mut self, key: &'static str) {
        self.hidden.push(key);
    }

    pub(crate) fn has(&mut self, key: &'static str) -> bool {
        self.entry(key).is_some()
    }

    /// Notes a fault at the value of a key, or at the section when the key is not there.
    pub(crate) fn fault(&self, key: &str, fault: ConfigFault) {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        match entry {
            Some(entry) => self.reading.fault(&self.key(key), entry.node.at, fault),
            None => self.reading.fault(&self.path, self.at, fault),
        }
    }

    pub(crate) fn caution(&self, key: &str, caution: WarningKind) {
        let at = self.entries.iter().find(|entry| entry.key == key).map_or(self.at, |entry| entry.at);
        self.reading.caution(&self.key(key), at, caution);
    }

    /// Notes where a key is, for notices that are given later.
    pub(crate) fn remember(&mut self, key: &'static str) {
        if let Some(entry) = self.entry(key) {
            self.reading.remember(&self.key(key), entry.at);
        }
    }

    /// A string that may be empty.
    pub(crate) fn any_text(&mut self, key: &'static str) -> Option<String> {
        let entry = self.entry(key)?;
        self.reading.text(&self.key(key), &entry.node)
    }

    /// A string that is not empty.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<String> {
        let text = self.any_text(key)?;
        // A server that is off may be unfinished.
        if text.trim().is_empty() && !self.reading.lenient.get() {
            self.fault(key, ConfigFault::Empty);
            return None;
        }
        Some(text)
    }

    /// A string that has to be there and is not empty.
    pub(crate) fn required_text(&mut self, key: &'static str) -> Option<String> {
        if !self.has(key) {
            self.fault(key, ConfigFault::MissingKey { key });
        }
        self.text(key)
    }

    pub(crate) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let entry = self.entry(key)?;
        if let ConfigValue::Boolean(value) = entry.node.value {
            return Some(value);
        }
        self.reading.wrong_type(&self.key(key), &entry.node, "true or false");
        None
    }

    pub(crate) fn integer(&mut self, key: &'static str, min: i64, max: i64) -> Option<i64> {
        let entry = self.entry(key)?;
        match entry.node.value {
            ConfigValue::Integer(number) if (min..=max).contains(&number) => return Some(number),
            ConfigValue::Integer(_) => self.fault(key, ConfigFault::OutOfRange { min, max }),
            _ => self.reading.wrong_type(&self.key(key), &entry.node, "an integer"),
        }
        None
    }

    /// A span of time, which may be zero.
    pub(crate) fn duration(&mut self, key: &'static str) -> Option<Duration> {
        let entry = self.entry(key)?;
        match &entry.node.value {
            // Only zero needs no unit.
            ConfigValue::Integer(0) => Some(Duration::ZERO),
            ConfigValue::Text(written) => {
                let text = self.reading.text(&self.key(key), &entry.node)?;
                let duration = parse_duration(&text).ok();
                if duration.is_none() {
                    // The text as written, not what its references gave: that may be a secret.
                    self.fault(key, ConfigFault::BadDuration { found: written.clone() });
                }
                duration
            }
            _ => {
                self.reading.wrong_type(&self.key(key), &entry.node, "a duration such as \"5s\"");
                None
            }
        }
    }

    /// A span of time longer than zero.
    pub(crate) fn positive_duration(&mut self, key: &'static str) -> Option<Duration> {
        let duration = self.duration(key)?;
        if duration.is_zero() {
            self.fault(key, ConfigFault::ZeroDuration);
            return None;
        }
        Some(duration)
    }

    /// Refuses a maximum below what it limits.
    pub(crate) fn not_below(
        &self,
        key: &'static str,
        max: Option<Duration>,
        other: &'static str,
        limited: Option<Duration>,
    ) {
        if let (Some(max), Some(limited)) = (max, limited)
            && max < limited
        {
            self.fault(key, ConfigFault::BelowOther { other });
        }
    }

    /// One of several words.
    pub(crate) fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&'static str, T)]) -> Option<T> {
        let entry = self.entry(key)?;
        let text = self.reading.text(&self.key(key), &entry.node)?;
        let chosen = choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if chosen.is_none() {
            // As above: a message shows what is written in the file.
            let ConfigValue::Text(written) = &entry.node.value else { return None };
            let choices = choices.iter().map(|(word, _)| *word).collect();
            self.fault(key, ConfigFault::NotOneOf { found: written.clone(), choices });
        }
        chosen
    }

    /// A list of strings.
    pub(crate) fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        let nodes = self.list(key, "a list of strings")?;
        let path = self.key(key);
        let text = |(index, node)| self.reading.loose_text(&format!("{path}[{index}]"), node);
        Some(nodes.iter().enumerate().filter_map(text).collect())
    }

    pub(crate) fn list(&mut self, key: &'static str, expected: &'static str) -> Option<&'r [ConfigNode]> {
        let entry = self.entry(key)?;
        if let ConfigValue::List(nodes) = &entry.node.value {
            return Some(nodes);
        }
        self.reading.wrong_type(&self.key(key), &entry.node, expected);
        None
    }

    /// A table of strings; `objection` may object to a name or a value.
    pub(crate) fn pairs(
        &mut self,
        key: &'static str,
        objection: fn(&str, &str) -> Option<ConfigFault>,
    ) -> Vec<(String, String)> {
        let Some(section) = self.section(key) else { return Vec::new() };
        let reading = self.reading;
        let pair = |entry: &TableEntry| {
            if entry.node.value == ConfigValue::Null && !reading.is_native() {
                return None;
            }
            let path = section.key(&entry.key);
            let value = reading.loose_text(&path, &entry.node)?;
            if let Some(fault) = objection(&entry.key, &value) {
                reading.fault(&path, entry.at, fault);
            }
            // Kept in spite of the objection: a fault keeps the whole file from being used.
            Some((entry.key.clone(), value))
        };
        section.entries.iter().filter_map(pair).collect()
    }

    /// A table below this one.
    pub(crate) fn section(&mut self, key: &'static str) -> Option<TableSection<'r, 'a>> {
        let entry = self.entry(key)?;
        TableSection::of_node(self.reading, self.key(key), entry.at, &entry.node)
    }

    /// The tables below this one under names of the user's choice.
    pub(crate) fn named_sections(&self) -> Vec<(&'r str, TableSection<'r, 'a>)> {
        let named = |entry: &'r TableEntry| {
            let path = self.key(&entry.key);
            if entry.key.trim().is_empty() {
                self.reading.fault(&path, entry.at, ConfigFault::Empty);
                return None;
            }
            let section = TableSection::of_node(self.reading, path, entry.at, &entry.node)?;
            section.reading.remember(&section.path, section.at);
            Some((entry.key.as_str(), section))
        };
        self.entries.iter().filter_map(named).collect()
    }

    /// Which one of several keys says what this is.
    pub(crate) fn kind(&mut self, choices: &'static [&'static str]) -> Option<&'static str> {
        let present: Vec<_> = choices.iter().copied().filter(|key| self.has(key)).collect();
        match present[..] {
            [] => self.reading.fault(&self.path, self.at, ConfigFault::NoKind { choices }),
            [kind] => return Some(kind),
            [first, second, ..] => self.reading.fault(&self.path, self.at, ConfigFault::TwoKinds { first, second }),
        }
        None
    }

    /// Refuses keys that do not go with the kind of thing this is.
    pub(crate) fn refuse(&mut self, kind: &'static str, keys: &[&'static str]) {
        for key in keys {
            if self.has(key) {
                if self.reading.is_native() {
                    self.fault(key, ConfigFault::DoesNotApply { kind });
                } else {
                    // Files of other programs may have keys that mean something there.
                    self.caution(key, WarningKind::IgnoredKey);
                }
            }
        }
    }

    /// Reports the keys that nothing asked for.
    pub(crate) fn finish(mut self) {
        // Nearly every table is clean, and making the list of words costs.
        if self.entries.iter().all(|entry| self.known.contains(&entry.key.as_str())) {
            return;
        }
        let mut seen = HashSet::new();
        // In the order in which they were asked for: that is the order in which users are shown them.
        self.known.retain(|key| seen.insert(*key));
        for entry in self.entries.iter().filter(|entry| !self.known.contains(&entry.key.as_str())) {
            let path = self.key(&entry.key);
            if self.reading.is_native() {
                let fault =
                    ConfigFault::UnknownKey { suggestion: closest(&entry.key, &self.known), known: self.known.clone() };
                self.reading.fault(&path, entry.at, fault);
            } else {
                self.reading.caution(&path, entry.at, WarningKind::IgnoredKey);
            }
        }
    }
}
