//! What a release asks for, and the values that it gets: given, taken from the gateway's environment by reference, or its default.

use std::cell::RefCell;
use std::collections::BTreeSet;

use tidings_config::EntryVariable;

use super::PublishedInput;
use crate::keys::KeysError;

/// Text of others that refers to nothing: without this, a publisher could name the gateway's own variables.
pub(crate) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// A text put together of pieces. What a piece refers to stands in it alone: the end of one and the beginning of the next are no
/// reference, whoever wrote them.
#[derive(Debug, Default)]
pub(crate) struct JoinedText(String);

impl JoinedText {
    pub(crate) fn push(&mut self, piece: &str) {
        if self.0.ends_with('$') && piece.starts_with('{') {
            // As `literal` writes the two where they stand together.
            self.0.push('$');
        }
        self.0.push_str(piece);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

impl<T: AsRef<str>> FromIterator<T> for JoinedText {
    fn from_iter<I: IntoIterator<Item = T>>(pieces: I) -> Self {
        let mut text = Self::default();
        pieces.into_iter().for_each(|piece| text.push(piece.as_ref()));
        text
    }
}

/// The values of one release that is about to be written down.
pub(crate) struct InputSet<'a> {
    id: &'a str,
    given: &'a [(String, String)],
    used: RefCell<BTreeSet<String>>,
    missing: RefCell<Vec<EntryVariable>>,
}

impl<'a> InputSet<'a> {
    pub(crate) fn new(id: &'a str, given: &'a [(String, String)]) -> Self {
        Self { id, given, used: RefCell::default(), missing: RefCell::default() }
    }

    /// The value of something that may be put together of variables. `None`: there is none, and it is left out.
    pub(crate) fn text(&self, key: &str, input: &PublishedInput) -> Result<Option<String>, KeysError> {
        match &input.value {
            Some(template) => self.filled(template, |name| input.variables.get(name)),
            None => self.value(key, input),
        }
    }

    /// A text with the values of its variables in the places of `{name}`.
    pub(crate) fn filled<'v>(
        &self,
        template: &str,
        variable: impl Fn(&str) -> Option<&'v PublishedInput>,
    ) -> Result<Option<String>, KeysError> {
        let (mut text, mut rest, mut is_whole) = (JoinedText::default(), template, true);
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { break };
            text.push(&literal(before));
            match variable(name) {
                Some(input) => match self.value(name, input)? {
                    Some(value) => text.push(&value),
                    // Read on all the same, so that everything that is missing is named at once.
                    None => is_whole = false,
                },
                // Braces of the publisher's own.
                None => text.push(&literal(&format!("{{{name}}}"))),
            }
            rest = after;
        }
        text.push(&literal(rest));
        Ok(is_whole.then(|| text.into_text()))
    }

    /// The value of one input.
    pub(crate) fn value(&self, key: &str, input: &PublishedInput) -> Result<Option<String>, KeysError> {
        if let Some((_, given)) = self.given.iter().find(|(name, _)| name == key) {
            self.used.borrow_mut().insert(key.to_owned());
            self.check(key, given, input)?;
            return Ok(Some(given.clone()));
        }
        // Never from the gateway's environment by itself: an entry of a stranger could name any variable, and have it sent to its server.
        if let Some(default) = &input.default {
            // The publisher's own word, so it refers to nothing.
            return Ok(Some(literal(default)));
        }
        if input.is_required {
            self.lacks(key, &input.description, input.is_secret);
        }
        Ok(None)
    }

    /// Notes something that is missing.
    pub(crate) fn lacks(&self, key: &str, description: &str, secret: bool) {
        let mut missing = self.missing.borrow_mut();
        if !missing.iter().any(|known| known.name == key) {
            let (name, description) = (key.to_owned(), description.to_owned());
            missing.push(EntryVariable { name, description, required: true, secret });
        }
    }

    /// What was given and nothing asked for.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &'a (String, String)> {
        let used = self.used.borrow().clone();
        self.given.iter().filter(move |(name, _)| !used.contains(name))
    }

    /// Fails if something is missing; all of it is named at once.
    pub(crate) fn complete(&self) -> Result<(), KeysError> {
        let missing = self.missing.borrow().clone();
        if missing.is_empty() { Ok(()) } else { Err(KeysError::MissingInputs { id: self.id.to_owned(), missing }) }
    }

    fn check(&self, key: &str, given: &str, input: &PublishedInput) -> Result<(), KeysError> {
        let (id, variable) = (self.id.to_owned(), key.to_owned());
        // What it leads to is known only where the server starts, so neither form nor choice can be checked.
        if is_reference(given) {
            return Ok(());
        }
        // It would stand in the store or in the file as it is.
        if input.is_secret {
            return Err(KeysError::PlainSecret { id, variable });
        }
        let fits = match input.format.as_deref() {
            Some("number") => given.parse::<f64>().is_ok(),
            Some("boolean") => matches!(given, "true" | "false"),
            _ => true,
        };
        if !fits {
            let format = input.format.clone().unwrap_or_default();
            return Err(KeysError::WrongFormat { id, variable, format });
        }
        if !input.choices.is_empty() && !input.choices.iter().any(|choice| choice == given) {
            return Err(KeysError::NotAChoice { id, variable, choices: input.choices.clone() });
        }
        Ok(())
    }
}

/// Whether a value refers to something that is kept elsewhere.
fn is_reference(text: &str) -> bool {
    ["${env:", "${file:", "${keyring:"]
        .iter()
        .any(|start| text.match_indices(start).any(|(at, _)| !text[..at].ends_with('$')))
}
