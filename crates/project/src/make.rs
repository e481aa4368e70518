//! From what authors write to what clients are shown. Registered and found entries go the same way.

mod completion;
mod icons;
mod prompt;
mod resource;
mod tool;

use std::path::Path;

use serde_json::{Map, Value};

pub(crate) use completion::completion;
pub(crate) use icons::icons;
pub(crate) use prompt::{body_of, prompt};
pub(crate) use resource::{ProviderNames, resource, template};
pub(crate) use tool::tool;

use crate::document::ObjectFacts;
use crate::problem::{ProjectFault, ProjectProblem};

/// Where an entry comes from.
pub(crate) struct EntryOrigin<'a> {
    pub(crate) facts: ObjectFacts<'a>,
    /// The project's folder; paths in messages count from it.
    pub(crate) root: &'a Path,
    /// Where relative paths of icons count from.
    pub(crate) base: &'a Path,
}

/// The longest name of a prompt or resource.
const LONGEST_NAME: usize = 256;

/// Whether clients can use it as the name of a tool.
fn check_tool_name(
    origin: &EntryOrigin<'_>,
    name: &str,
    problems: &mut Vec<ProjectProblem>,
) -> Result<(), ProjectProblem> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let possible = (1..=128).contains(&name.len()) && name.bytes().all(|byte| plain(byte) || byte == b'.');
    if !possible {
        return Err(origin.facts.problem(Some("name"), ProjectFault::Name(name.to_owned())));
    }
    // A warning only: the protocol allows it, but some clients cut or refuse such names.
    if name.len() > 64 || !name.bytes().all(plain) {
        problems.push(origin.facts.problem(Some("name"), ProjectFault::UnusualName(name.to_owned())));
    }
    Ok(())
}

/// Prompts and resources may be called anything that can be shown.
fn check_name(origin: &EntryOrigin<'_>, name: &str) -> Result<(), ProjectProblem> {
    let possible = !name.is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(char::is_control);
    if possible { Ok(()) } else { Err(origin.facts.problem(Some("name"), ProjectFault::Name(name.to_owned()))) }
}

/// Members that pass as they are, where they are objects.
fn pass_objects(origin: &EntryOrigin<'_>, into: &mut Map<String, Value>, problems: &mut Vec<ProjectProblem>) {
    for member in ["annotations", "_meta"] {
        if let Some(value) = origin.facts.object(member, problems) {
            into.insert(member.into(), value);
        }
    }
}

/// Members that pass as they are, where they are texts.
fn pass_texts(
    origin: &EntryOrigin<'_>,
    names: &[&str],
    into: &mut Map<String, Value>,
    problems: &mut Vec<ProjectProblem>,
) {
    for member in names {
        if let Some(text) = origin.facts.text(member, problems) {
            into.insert((*member).into(), text.into());
        }
    }
}

fn pass_icons(origin: &EntryOrigin<'_>, into: &mut Map<String, Value>, problems: &mut Vec<ProjectProblem>) {
    if let Some(icons) = icons(origin, problems) {
        into.insert("icons".into(), icons);
    }
}
