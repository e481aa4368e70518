//! From an entry to the keys of `[servers.X]`.

use serde_json::{Map, Value, json};
use tidings_config::{EntryCommand, EntryVariable};

use crate::catalogue::CatalogEntry;

/// What the one who adds a server wants besides the entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtraKeys {
    /// Arguments after those of the entry.
    pub args: Vec<String>,
    /// Environment variables and their values.
    pub environment: Vec<(String, String)>,
    /// Which of several ways to run it, such as `npm`; by default the first.
    pub kind: Option<String>,
}

/// Why an entry can not be run as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// Variables that it does not work without.
    #[error(
        "{id} needs {}; give it in `environment`, or set it where the gateway runs",
        .missing.iter().map(described).collect::<Vec<_>>().join(" and ")
    )]
    MissingVariables {
        /// The entry of the catalogue that was to be added.
        id: String,
        /// The variables that nobody set.
        missing: Vec<EntryVariable>,
    },
    /// What a release that anybody may have published does not work without. Nothing of it is taken from the environment unasked.
    #[error(
        "{id} needs {}; give it by name, as `${{env:NAME}}` if it is set where the gateway runs",
        .missing.iter().map(described).collect::<Vec<_>>().join(" and ")
    )]
    MissingInputs {
        /// The entry of the catalogue that was to be added.
        id: String,
        /// The inputs that nobody gave.
        missing: Vec<EntryVariable>,
    },
    /// Arguments that only the caller can know.
    #[error("{id} needs `args`: {description}")]
    MissingArguments {
        /// The entry of the catalogue that was to be added.
        id: String,
        /// What the missing arguments are, in the words of the entry.
        description: String,
    },
    /// A release that can not be run as it was published.
    #[error("{id} can not be run here{}: {}", .kind.as_deref().map(|kind| format!(" as {kind}")).unwrap_or_default(), .reasons.join("; "))]
    NoWay {
        /// The entry of the catalogue that was to be added.
        id: String,
        /// The kind of package that was asked for, if one was.
        kind: Option<String>,
        /// Why each of its packages and remotes does not do.
        reasons: Vec<String>,
    },
    /// A secret that was given as it is.
    #[error(
        "{variable} of {id} is a secret and would be kept as it is; set it where the gateway runs, and give it as \
         ${{env:NAME}} or ${{file:PATH}}"
    )]
    PlainSecret {
        /// The entry of the catalogue that was to be added.
        id: String,
        /// The variable that is a secret.
        variable: String,
    },
    /// A value that its entry does not know.
    #[error("{variable} of {id} is one of {}", .choices.join(", "))]
    NotAChoice {
        /// The entry of the catalogue that was to be added.
        id: String,
        /// What was given a wrong value.
        variable: String,
        /// The values that there are.
        choices: Vec<String>,
    },
    /// A value that is no number, or neither true nor false.
    #[error("{variable} of {id} is a {format}")]
    WrongFormat {
        /// The entry of the catalogue that was to be added.
        id: String,
        /// What was given a wrong value.
        variable: String,
        /// What its entry expects.
        format: String,
    },
    /// An argument of the publisher that would run something else than the pinned package.
    #[error(
        "{id} asks for \"{argument}\", which would decide what is run; add it by hand: tidings add NAME -- COMMAND"
    )]
    RuntimeArgument {
        /// The entry of the catalogue that was to be added.
        id: String,
        /// The argument that is refused.
        argument: String,
    },
    /// What it runs could not be had.
    #[error("what {id} runs can not be had: {reason}")]
    Unfetched {
        /// The entry of the catalogue that was to be added.
        id: String,
        /// What the network, or the check of the file, says.
        reason: String,
    },
    /// Arguments for a URL.
    #[error("{id} is reached by a URL and takes no `args`")]
    NoArguments {
        /// The entry of the catalogue that was to be added.
        id: String,
    },
    /// A variable for a URL that none of its headers uses.
    #[error("{id} is reached by a URL, and none of its headers uses {variable}")]
    UnusedVariable {
        /// The entry of the catalogue that was to be added.
        id: String,
        /// The variable that was given.
        variable: String,
    },
}

fn described(variable: &EntryVariable) -> String {
    match variable.description.as_str() {
        "" => variable.name.clone(),
        description => format!("{} ({description})", variable.name),
    }
}

/// The prefix of a server that is added without one: the last part of its id, in characters that names may have.
pub fn default_prefix(id: &str) -> String {
    let last = id.rsplit('/').next().unwrap_or(id);
    last.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect()
}

/// The keys of a server that runs this entry. `is_set` tells whether the gateway's own environment has a variable: then
/// the server gets it by reference, and the value is written nowhere.
pub fn server_keys(
    entry: &CatalogEntry,
    wishes: &ExtraKeys,
    is_set: &dyn Fn(&str) -> bool,
) -> Result<Value, KeysError> {
    check_arguments(entry, wishes)?;
    let environment = environment(entry, wishes, is_set)?;
    let mut keys = match &entry.run {
        // Without `-y`, npx asks before it installs, on the input that carries the protocol.
        EntryCommand::Npm { package, args } => command("npx", &["-y", package], args, wishes),
        EntryCommand::Pypi { package, args } => command("uvx", &[package], args, wishes),
        EntryCommand::Nuget { package, args } => command("dnx", &[package, "--yes", "--"], args, wishes),
        // Only registries have them, and those entries are made into keys by their release.
        EntryCommand::Bundle { url } => {
            let reasons = vec![format!("{url} has to be fetched first")];
            return Err(KeysError::NoWay { id: entry.id.clone(), kind: wishes.kind.clone(), reasons });
        }
        EntryCommand::Command { command: program, args } => command(program, &[], args, wishes),
        EntryCommand::Container { image, args, network, read_only, volumes } => {
            let mut keys = object(json!({ "container": image }));
            put_list(&mut keys, "args", args.iter().chain(&wishes.args).cloned().collect());
            put_list(&mut keys, "volumes", volumes.clone());
            // Only what differs from what every container gets.
            keys.extend(network.then(|| ("network".to_owned(), true.into())));
            keys.extend((!read_only).then(|| ("read_only".to_owned(), false.into())));
            keys
        }
        EntryCommand::Url { url, headers } => {
            let headers = filled_in(entry, headers, wishes)?;
            let mut keys = object(json!({ "url": url }));
            put_pairs(&mut keys, "headers", headers);
            keys
        }
    };
    if !matches!(entry.run, EntryCommand::Url { .. }) {
        put_pairs(&mut keys, "env", environment);
    }
    // The server may get any name; by this it is known which entry it was made of.
    keys.insert("entry".into(), entry.id.as_str().into());
    Ok(Value::Object(keys))
}

fn check_arguments(entry: &CatalogEntry, wishes: &ExtraKeys) -> Result<(), KeysError> {
    if matches!(entry.run, EntryCommand::Url { .. }) && !wishes.args.is_empty() {
        return Err(KeysError::NoArguments { id: entry.id.clone() });
    }
    match &entry.arguments {
        Some(needed) if needed.required && wishes.args.is_empty() => {
            Err(KeysError::MissingArguments { id: entry.id.clone(), description: needed.description.clone() })
        }
        _ => Ok(()),
    }
}

/// What was given, and references to what the gateway's own environment has.
fn environment(
    entry: &CatalogEntry,
    wishes: &ExtraKeys,
    is_set: &dyn Fn(&str) -> bool,
) -> Result<Vec<(String, String)>, KeysError> {
    let given = |name: &str| wishes.environment.iter().any(|(own, _)| own == name);
    let missing: Vec<EntryVariable> = entry
        .variables
        .iter()
        .filter(|variable| variable.required && !given(&variable.name) && !is_set(&variable.name))
        .cloned()
        .collect();
    if !missing.is_empty() {
        return Err(KeysError::MissingVariables { id: entry.id.clone(), missing });
    }
    let inherited = entry.variables.iter().map(|variable| &variable.name);
    // Optional variables too, but only those that are set: a reference to nothing would keep the server from starting.
    let inherited = inherited.filter(|name| !given(name) && is_set(name));
    let inherited = inherited.map(|name| (name.clone(), format!("${{env:{name}}}")));
    Ok(wishes.environment.iter().cloned().chain(inherited).collect())
}

/// The headers with the values that were given in the place of their references.
fn filled_in(
    entry: &CatalogEntry,
    headers: &[(String, String)],
    wishes: &ExtraKeys,
) -> Result<Vec<(String, String)>, KeysError> {
    let mut headers = headers.to_vec();
    for (name, value) in &wishes.environment {
        let reference = format!("${{env:{name}}}");
        if !headers.iter().any(|(_, text)| text.contains(&reference)) {
            // A key that goes nowhere would be missed only when the server refuses a call.
            return Err(KeysError::UnusedVariable { id: entry.id.clone(), variable: name.clone() });
        }
        headers.iter_mut().for_each(|(_, text)| *text = text.replace(&reference, value));
    }
    Ok(headers)
}

fn command(program: &str, first: &[&str], args: &[String], wishes: &ExtraKeys) -> Map<String, Value> {
    let mut keys = object(json!({ "command": program }));
    let first = first.iter().map(|arg| (*arg).to_owned());
    put_list(&mut keys, "args", first.chain(args.iter().chain(&wishes.args).cloned()).collect());
    keys
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

pub(crate) fn put_list(keys: &mut Map<String, Value>, key: &str, list: Vec<String>) {
    if !list.is_empty() {
        keys.insert(key.into(), list.into());
    }
}

pub(crate) fn put_pairs(keys: &mut Map<String, Value>, key: &str, pairs: Vec<(String, String)>) {
    if !pairs.is_empty() {
        let pairs: Map<String, Value> = pairs.into_iter().map(|(name, value)| (name, value.into())).collect();
        keys.insert(key.into(), pairs.into());
    }
}

#[cfg(test)]
mod tests;
