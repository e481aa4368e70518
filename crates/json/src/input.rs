//! Reading JSON strictly, or lines of text.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use jaq_json::{Val, read};
use serde_json::Deserializer;
use serde_json::value::RawValue;

use crate::JsonFailure;
use crate::options::JsonOptions;

/// The values that a filter reads, one after the other; a text that can not be read ends them.
pub(crate) struct InputValues(VecDeque<Result<Val, String>>);

impl InputValues {
    /// Reads the files that were named, else `stdin`. Nothing is read that nobody asks for.
    pub(crate) fn new(options: &JsonOptions, stdin: &mut dyn io::Read) -> Result<Self, JsonFailure> {
        // `-n` alone is how scripts build values: it must not wait for a standard input that nobody closes.
        if options.null_input && !options.program.contains("input") {
            return Ok(Self(VecDeque::new()));
        }
        let mut texts = Vec::new();
        if options.files.is_empty() {
            let mut text = Vec::new();
            stdin.read_to_end(&mut text).map_err(|error| unreadable(Path::new("standard input"), &error))?;
            texts.push(text);
        }
        for file in &options.files {
            texts.push(read_file(file)?);
        }
        let text = texts.concat();
        Ok(Self(match (options.raw_input, options.slurp) {
            (true, true) => [Ok(Val::utf8_str(text))].into(),
            (true, false) => lines(&text).map(Ok).collect(),
            (false, true) => [values(&text).collect()].into(),
            (false, false) => values(&text).collect(),
        }))
    }
}

impl Iterator for InputValues {
    type Item = Result<Val, String>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.pop_front()
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = Val> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let some = (!text.is_empty()).then(|| text.split(|byte| *byte == b'\n'));
    some.into_iter().flatten().map(|line| Val::utf8_str(line.to_vec()))
}

/// How deep values may be nested: they are read, walked and written by recursion.
const DEEPEST: usize = 1000;

/// The values of a text; the first fault ends them.
pub(crate) fn values(text: &[u8]) -> impl Iterator<Item = Result<Val, String>> {
    // As jq does: what is not UTF-8 becomes the replacement character.
    let text = String::from_utf8_lossy(text).into_owned();
    let mut read = 0;
    let mut ended = false;
    std::iter::from_fn(move || {
        let rest = text.get(read..).filter(|_| !ended)?;
        // serde_json refuses what is not JSON; the filter's own reader is more generous.
        let mut raw = Deserializer::from_str(rest).into_iter::<&RawValue>();
        let value = match raw.next()? {
            // Checked on the text, before the reader that recurses sees it.
            Ok(raw) if depth(raw.get()) > DEEPEST => Err(format!("nested deeper than {DEEPEST}")),
            Ok(raw) => read::parse_single(raw.get().as_bytes()).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        read += raw.byte_offset();
        ended = value.is_err();
        Some(value)
    })
}

/// How deep a JSON text is nested.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// A text that is exactly one value.
pub(crate) fn single(text: &[u8]) -> Result<Val, String> {
    let mut all = values(text);
    match (all.next(), all.next()) {
        (Some(value), None) => value,
        (None, _) => Err("nothing there".into()),
        (Some(_), Some(_)) => Err("more than one value".into()),
    }
}

pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, JsonFailure> {
    std::fs::read(path).map_err(|error| unreadable(path, &error))
}

pub(crate) fn unreadable(path: &Path, problem: &impl ToString) -> JsonFailure {
    JsonFailure::Input { place: path.display().to_string(), problem: problem.to_string() }
}
