//! Arguments of a release: words for a program, never a line for a shell.

use super::inputs::InputSet;
use super::{PublishedArgument, PublishedInput};
use crate::keys::KeysError;

/// What an argument is asked for by: its name without dashes, or what its publisher calls its value.
pub(super) fn own_key(argument: &PublishedArgument, index: usize) -> String {
    let name = argument.name.as_deref().map(|name| name.trim_start_matches('-'));
    let hint = argument.value_hint.as_deref();
    let key = if argument.kind == "named" { name.or(hint) } else { hint.or(name) };
    key.filter(|key| !key.is_empty()).map_or_else(|| format!("argument_{}", index + 1), str::to_owned)
}

impl PublishedArgument {
    /// A name that takes no value: nothing is said of one, and it has to be there.
    pub(super) fn is_bare_flag(&self) -> bool {
        let PublishedInput { format, value, default, choices, variables, is_required, .. } = &self.input;
        self.kind == "named"
            && *is_required
            && self.value_hint.is_none()
            && (format.is_none() && value.is_none() && default.is_none())
            && (choices.is_empty() && variables.is_empty())
    }
}

/// The words of all arguments, in their order.
pub(super) fn words(list: &[PublishedArgument], first: usize, inputs: &InputSet<'_>) -> Result<Vec<String>, KeysError> {
    let mut words = Vec::new();
    for (index, argument) in list.iter().enumerate() {
        let name = argument.name.as_deref().map(super::literal).filter(|_| argument.kind == "named");
        if argument.is_bare_flag() {
            words.extend(name);
            continue;
        }
        let Some(value) = inputs.text(&own_key(argument, first + index), &argument.input)? else { continue };
        if name.is_some() && argument.input.format.as_deref() == Some("boolean") {
            // A switch: it stands there, or it does not.
            words.extend(name.filter(|_| value == "true"));
            continue;
        }
        let values: Vec<&str> = if argument.is_repeated { value.lines().collect() } else { vec![&value] };
        for value in values {
            words.extend(name.clone());
            words.push(value.to_owned());
        }
    }
    Ok(words)
}
