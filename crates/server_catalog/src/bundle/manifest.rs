//! `manifest.json` of a bundle: from what it says to a command with its arguments and variables.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::BundleFault;
use crate::keys::{KeysError, put_list, put_pairs};
use crate::published::{InputSet, JoinedText, PublishedInput, literal};

/// The system's name in `platform_overrides`.
const PLATFORM: &str = if cfg!(target_os = "macos") {
    "darwin"
} else if cfg!(windows) {
    "win32"
} else {
    "linux"
};

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct BundleManifest {
    server: BundleServer,
    #[serde(default)]
    user_config: BTreeMap<String, UserSetting>,
}

#[derive(Clone, Debug, Deserialize)]
struct BundleServer {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    entry_point: String,
    mcp_config: Option<BundleCommand>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct BundleCommand {
    command: Option<String>,
    args: Option<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    platform_overrides: BTreeMap<String, BundleCommand>,
}

/// Something that the manifest asks its user for.
#[derive(Clone, Debug, Deserialize)]
struct UserSetting {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    sensitive: bool,
    default: Option<Value>,
}

impl UserSetting {
    fn input(&self) -> PublishedInput {
        let default = self.default.as_ref().map(|default| match default {
            Value::String(text) => text.clone(),
            // Several values are lines, as where somebody gives them.
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"),
            other => other.to_string(),
        });
        PublishedInput {
            description: self.description.clone(),
            is_required: self.required,
            is_secret: self.sensitive,
            format: matches!(self.kind.as_str(), "number" | "boolean").then(|| self.kind.clone()),
            default,
            ..PublishedInput::default()
        }
    }
}

/// The keys of a server that runs the bundle in `folder`.
pub(crate) fn manifest_keys(
    manifest: &BundleManifest,
    folder: &Path,
    id: &str,
    inputs: &InputSet<'_>,
) -> Result<Map<String, Value>, KeysError> {
    let unfetched = |fault: BundleFault| KeysError::Unfetched { id: id.to_owned(), reason: fault.to_string() };
    let (command, args, env) = command(manifest, folder).map_err(unfetched)?;
    let text = |template: &str| filled(template, manifest, folder, inputs);
    let mut keys = Map::new();
    let program = text(&command)?.iter().collect::<JoinedText>().into_text();
    // A path of the bundle counts from its folder, and not from where the gateway runs.
    let is_inside = program.contains('/') && !Path::new(&program).is_absolute();
    let program = if is_inside { folder.join(&program).display().to_string() } else { program };
    keys.insert("command".into(), program.into());
    let mut words = Vec::new();
    for arg in &args {
        words.extend(text(arg)?);
    }
    put_list(&mut keys, "args", words);
    let mut pairs = Vec::new();
    for (name, value) in &env {
        let values = text(value)?;
        // A variable that is set to nothing is not the same as one that is not set.
        if !values.is_empty() {
            pairs.push((name.clone(), values.join(",")));
        }
    }
    put_pairs(&mut keys, "env", pairs);
    Ok(keys)
}

type CommandParts = (String, Vec<String>, BTreeMap<String, String>);

/// The command for this system; made of the entry point where the manifest names none.
fn command(manifest: &BundleManifest, folder: &Path) -> Result<CommandParts, BundleFault> {
    let BundleServer { kind, entry_point, mcp_config } = &manifest.server;
    let config = mcp_config.clone().unwrap_or_default();
    let own = config.platform_overrides.get(PLATFORM).cloned().unwrap_or_default();
    let mut env = config.env;
    env.extend(own.env);
    if let Some(command) = own.command.or(config.command) {
        // Its own arguments replace the others as a whole, where variables of the environment are replaced one by one.
        return Ok((command, own.args.or(config.args).unwrap_or_default(), env));
    }
    if entry_point.is_empty() {
        return Err(BundleFault::Manifest("it names neither a command nor an entry point".to_owned()));
    }
    let entry = format!("${{__dirname}}/{entry_point}");
    Ok(match kind.as_str() {
        "node" => ("node".to_owned(), vec![entry], env),
        "python" => ("python3".to_owned(), vec![entry], env),
        "uv" => {
            let directory = folder.display().to_string();
            ("uv".to_owned(), vec!["run".to_owned(), "--directory".to_owned(), directory, entry], env)
        }
        "binary" => (entry, Vec::new(), env),
        other => return Err(BundleFault::Manifest(format!("{other:?} is no kind of server that is known here"))),
    })
}

/// A text of the manifest with its placeholders filled in. Several values of a setting that stands alone are several words; none of
/// a setting that has no value.
fn filled(
    template: &str,
    manifest: &BundleManifest,
    folder: &Path,
    inputs: &InputSet<'_>,
) -> Result<Vec<String>, KeysError> {
    let (mut text, mut rest) = (JoinedText::default(), template);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { break };
        text.push(&literal(before));
        rest = after;
        let home = |below: &str| format!("${{env:HOME}}{below}");
        match name {
            "__dirname" => text.push(&literal(&folder.display().to_string())),
            "HOME" => text.push(&home("")),
            "DESKTOP" => text.push(&home("/Desktop")),
            "DOCUMENTS" => text.push(&home("/Documents")),
            "DOWNLOADS" => text.push(&home("/Downloads")),
            "pathSeparator" | "/" => text.push("/"),
            _ => {
                let setting =
                    name.strip_prefix("user_config.").and_then(|key| Some((key, manifest.user_config.get(key)?)));
                let Some((key, setting)) = setting else {
                    // What is unknown stays as it was written; as a literal, because `${env:X}` of a publisher would be
                    // the gateway's own variable.
                    text.push(&literal(&format!("${{{name}}}")));
                    continue;
                };
                let Some(value) = inputs.value(key, &setting.input())? else { return Ok(Vec::new()) };
                // Anything beside it makes it a part of a word: then lines are not words of their own.
                if before.is_empty() && text.is_empty() && after.is_empty() {
                    return Ok(value.lines().map(str::to_owned).collect());
                }
                text.push(&value);
            }
        }
    }
    text.push(&literal(rest));
    Ok(vec![text.into_text()])
}
