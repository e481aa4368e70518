//! From a release to the keys of `[servers.X]`.

use serde_json::{Map, Value, json};

use super::arguments::words;
use super::inputs::{InputSet, literal};
use super::{PublishedPackage, PublishedServer, ReleaseWay};
use crate::keys::{ExtraKeys, KeysError, put_list, put_pairs};

/// Options of `npx`, `uvx` and `dnx` that decide nothing about what is run. Any other word could be taken for the package, name
/// another one, or start a shell.
const HARMLESS: [&str; 11] = [
    "-q",
    "--quiet",
    "--offline",
    "--prefer-offline",
    "--no-cache",
    "--native-tls",
    "--isolated",
    "--no-progress",
    "--prerelease",
    "--allow-roll-forward",
    "--no-update-notifier",
];
/// The domains of the public homes of packages. A publisher that names one of them names what package runners use anyway, and whoever
/// has set up a mirror keeps it.
const PUBLIC_HOMES: [&str; 3] = ["npmjs", "pypi", "nuget"];

/// What was found out about a way before its keys can be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResolvedWay {
    /// The digest of an image, as `sha256:…`.
    pub(crate) digest: Option<String>,
    /// The command, arguments and variables of a bundle that lies on this machine.
    pub(crate) bundle: Option<Map<String, Value>>,
}

/// The keys. `resolved` holds what only the network knows.
pub(crate) fn release_keys(
    server: &PublishedServer,
    way: &ReleaseWay<'_>,
    wishes: &ExtraKeys,
    inputs: &InputSet<'_>,
    resolved: ResolvedWay,
) -> Result<Value, KeysError> {
    let digest = resolved.digest.clone().or_else(|| way.digest());
    let mut keys = match way {
        ReleaseWay::Npm { package, spec } => {
            // Without `-y`, npx asks before it installs, on the input that carries the protocol.
            command(server, package, "npx", &["-y"], ("--registry", spec), inputs, wishes)?
        }
        ReleaseWay::Pypi { package, spec } => {
            command(server, package, "uvx", &[], ("--index-url", spec), inputs, wishes)?
        }
        ReleaseWay::Nuget { package, spec } => nuget(server, package, spec, inputs, wishes)?,
        ReleaseWay::Image { package, image } => {
            // There is one always: the publisher's own, or the one that `stock.rs` has asked for.
            let digest = digest.as_deref();
            container(server, package, &pinned(image, digest), inputs, wishes)?
        }
        ReleaseWay::Bundle { .. } => {
            let mut keys = resolved.bundle.unwrap_or_default();
            let more = wishes.args.iter().cloned().map(Value::from);
            if let Some(Value::Array(args)) = keys.get_mut("args") {
                args.extend(more);
            } else if !wishes.args.is_empty() {
                keys.insert("args".into(), more.collect());
            }
            keys
        }
        ReleaseWay::Remote { transport, url, is_sse } => {
            if !wishes.args.is_empty() {
                return Err(KeysError::NoArguments { id: server.name.clone() });
            }
            let url = inputs.filled(url, |name| transport.variables.get(name))?;
            let mut keys = Map::new();
            keys.insert("url".into(), url.unwrap_or_default().into());
            if *is_sse {
                keys.insert("type".into(), "sse".into());
            }
            put_pairs(&mut keys, "headers", pairs(&transport.headers, inputs)?);
            keys
        }
    };
    environment(server, way, inputs, &mut keys)?;
    // After everything was asked for, so that all that is missing is named in one answer.
    inputs.complete()?;
    keys.insert("entry".into(), server.name.as_str().into());
    keys.insert("release".into(), release(server, way, wishes, digest));
    Ok(Value::Object(keys))
}

/// What is needed to make the keys of the next release.
fn release(server: &PublishedServer, way: &ReleaseWay<'_>, wishes: &ExtraKeys, digest: Option<String>) -> Value {
    let mut release = Map::new();
    // A version is the publisher's text, too.
    release.insert("version".into(), literal(&server.version).into());
    release.insert("kind".into(), way.kind().into());
    release.extend(digest.map(|digest| ("digest".to_owned(), digest.into())));
    // As they were given, references and all: an upgrade makes the keys of the next release with them.
    put_pairs(&mut release, "inputs", wishes.environment.clone());
    put_list(&mut release, "args", wishes.args.clone());
    release.into()
}

/// Variables of a command or container; what a URL has no place for is refused.
fn environment(
    server: &PublishedServer,
    way: &ReleaseWay<'_>,
    inputs: &InputSet<'_>,
    keys: &mut Map<String, Value>,
) -> Result<(), KeysError> {
    let Some(package) = way.package() else {
        // A key that goes nowhere would be missed only when the server refuses a call.
        return match inputs.unused().next() {
            Some((variable, _)) => {
                Err(KeysError::UnusedVariable { id: server.name.clone(), variable: variable.clone() })
            }
            None => Ok(()),
        };
    };
    let mut all = match keys.remove("env") {
        Some(Value::Object(env)) => env,
        _ => Map::new(),
    };
    for (name, value) in pairs(&package.environment_variables, inputs)? {
        all.insert(name, value.into());
    }
    for (name, value) in inputs.unused() {
        // What nobody asked for is taken as a variable: many servers read more than they publish.
        all.insert(name.clone(), value.as_str().into());
    }
    if !all.is_empty() {
        keys.insert("env".into(), all.into());
    }
    Ok(())
}

fn pairs(list: &[super::PublishedPair], inputs: &InputSet<'_>) -> Result<Vec<(String, String)>, KeysError> {
    let mut pairs = Vec::new();
    for pair in list {
        pairs.extend(inputs.text(&pair.name, &pair.input)?.map(|value| (pair.name.clone(), value)));
    }
    Ok(pairs)
}

/// `PROGRAM first… runtime… SPEC package…`; `index` is the option that names another registry of packages.
fn command(
    server: &PublishedServer,
    package: &PublishedPackage,
    program: &str,
    first: &[&str],
    (index, spec): (&str, &str),
    inputs: &InputSet<'_>,
    wishes: &ExtraKeys,
) -> Result<Map<String, Value>, KeysError> {
    let mut args: Vec<String> = first.iter().map(|word| (*word).to_owned()).collect();
    if let Some(base) = other_base(package) {
        args.extend([index.to_owned(), literal(base)]);
    }
    args.extend(runtime(server, package, inputs)?);
    args.push(spec.to_owned());
    args.extend(behind(package, inputs)?);
    args.extend(wishes.args.iter().cloned());
    Ok(started(program, args))
}

/// `dnx SPEC --yes runtime… -- package…`.
fn nuget(
    server: &PublishedServer,
    package: &PublishedPackage,
    spec: &str,
    inputs: &InputSet<'_>,
    wishes: &ExtraKeys,
) -> Result<Map<String, Value>, KeysError> {
    let mut args = vec![spec.to_owned(), "--yes".to_owned()];
    if let Some(base) = other_base(package) {
        args.extend(["--source".to_owned(), literal(base)]);
    }
    args.extend(runtime(server, package, inputs)?);
    let behind: Vec<String> = behind(package, inputs)?.into_iter().chain(wishes.args.iter().cloned()).collect();
    if !behind.is_empty() {
        args.push("--".to_owned());
        args.extend(behind);
    }
    Ok(started("dnx", args))
}

fn started(program: &str, args: Vec<String>) -> Map<String, Value> {
    let mut keys = Map::new();
    keys.insert("command".into(), program.into());
    put_list(&mut keys, "args", args);
    keys
}

fn other_base(package: &PublishedPackage) -> Option<&str> {
    let base = package.registry_base_url.as_deref()?.trim_end_matches('/');
    let host = base.strip_prefix("https://")?.split('/').next()?;
    let is_public = host.rsplit('.').nth(1).is_some_and(|domain| PUBLIC_HOMES.contains(&domain));
    (!is_public).then_some(base)
}

fn behind(package: &PublishedPackage, inputs: &InputSet<'_>) -> Result<Vec<String>, KeysError> {
    words(&package.package_arguments, package.runtime_arguments.len(), inputs)
}

/// Arguments of the program that runs the package. What makes it run something else is refused.
fn runtime(
    server: &PublishedServer,
    package: &PublishedPackage,
    inputs: &InputSet<'_>,
) -> Result<Vec<String>, KeysError> {
    let words = words(&package.runtime_arguments, 0, inputs)?;
    // `npx` and `dnx` are given it in its own place, and `uvx` needs none.
    let words: Vec<String> = words.into_iter().filter(|word| !matches!(word.as_str(), "-y" | "--yes")).collect();
    match words.iter().find(|word| !HARMLESS.contains(&word.as_str())) {
        Some(word) => Err(KeysError::RuntimeArgument { id: server.name.clone(), argument: word.clone() }),
        None => Ok(words),
    }
}

/// The image by its digest: a tag may lead elsewhere tomorrow.
fn pinned(image: &str, digest: Option<&str>) -> String {
    let name = image.split('@').next().unwrap_or(image);
    let Some(digest) = digest else { return image.to_owned() };
    let slash = name.rfind('/').map_or(0, |at| at + 1);
    // After the last slash: a colon before it is the port of a registry.
    let end = name[slash..].find(':').map_or(name.len(), |at| slash + at);
    format!("{}@{digest}", &name[..end])
}

/// What `docker run` would have been told, as keys; what has no key is refused.
fn container(
    server: &PublishedServer,
    package: &PublishedPackage,
    image: &str,
    inputs: &InputSet<'_>,
    wishes: &ExtraKeys,
) -> Result<Map<String, Value>, KeysError> {
    let mut keys = Map::new();
    keys.insert("container".into(), image.into());
    // As everywhere else where the image is run: its publisher counts on it.
    let (mut volumes, mut env, mut network) = (Vec::new(), Vec::new(), json!(true));
    let refused =
        |argument: &str| KeysError::RuntimeArgument { id: server.name.clone(), argument: argument.to_owned() };
    let mut rest = words(&package.runtime_arguments, 0, inputs)?.into_iter();
    while let Some(word) = rest.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if word.starts_with("--") => (option.to_owned(), Some(value.to_owned())),
            _ => (word.clone(), None),
        };
        let mut value = || value.clone().or_else(|| rest.next()).ok_or_else(|| refused(&word));
        match option.as_str() {
            // What the gateway tells the runtime anyway, or what makes no difference to a server.
            "run" | "-i" | "--interactive" | "--rm" | "--init" => {}
            "-v" | "--volume" => volumes.push(value()?),
            "--mount" => volumes.push(mounted(&value()?).ok_or_else(|| refused(&word))?),
            "-e" | "--env" => {
                let pair = value()?;
                // A name alone would have the value taken from the gateway's own environment.
                let (name, value) = pair.split_once('=').ok_or_else(|| refused(&pair))?;
                env.push((name.to_owned(), value.to_owned()));
            }
            "--network" | "--net" => match value()?.as_str() {
                "none" => network = json!(false),
                "bridge" | "default" => {}
                // `host` and the network of another container lead past what keeps a container apart.
                other => return Err(refused(&format!("{option} {other}"))),
            },
            _ => return Err(refused(&word)),
        }
    }
    let args = words(&package.package_arguments, package.runtime_arguments.len(), inputs)?;
    put_list(&mut keys, "args", args.into_iter().chain(wishes.args.iter().cloned()).collect());
    put_list(&mut keys, "volumes", volumes);
    put_pairs(&mut keys, "env", env);
    if network == true {
        keys.insert("network".into(), network);
    }
    Ok(keys)
}

/// `type=bind,src=A,dst=B[,ro]` as `A:B[:ro]`.
fn mounted(text: &str) -> Option<String> {
    let (mut from, mut to, mut read_only) = (None, None, false);
    for part in text.split(',') {
        match part.split_once('=').unwrap_or((part, "true")) {
            ("type", "bind" | "volume") => {}
            ("src" | "source", value) => from = Some(value),
            ("dst" | "destination" | "target", value) => to = Some(value),
            ("ro" | "readonly", value) => read_only = value == "true",
            // What is not known here may be what makes the mount safe, so it is not left out.
            _ => return None,
        }
    }
    Some(format!("{}:{}{}", from?, to?, if read_only { ":ro" } else { "" }))
}
