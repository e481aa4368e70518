//! A release as an entry of the catalogue: what it is found by, and what it asks for.

use tidings_config::{CatalogueEntry, EntryCommand, EntryVariable};

use super::arguments::own_key;
use super::{PublishedInput, PublishedServer, ReleaseState, ReleaseStatus, ReleaseWay, choose};

/// The entry of a release; `None` when there is no way here to run it.
pub(crate) fn entry(server: &PublishedServer, state: &ReleaseState) -> Option<CatalogueEntry> {
    let way = choose(server, None).ok()?;
    let docs = [warning(state), server.website_url.clone().map(|url| format!("Website: {url}"))];
    let docs: Vec<String> = docs.into_iter().flatten().collect();
    Some(CatalogueEntry {
        id: server.name.clone(),
        name: server.title.clone().unwrap_or_else(|| last_part(&server.name).to_owned()),
        description: server.description.clone(),
        categories: Vec::new(),
        tags: vec![format!("version {}", server.version)],
        // Anybody may publish: a registry proves who owns a name, and vouches for nothing.
        official: false,
        featured: false,
        repository: server.repository.as_ref().and_then(|repository| repository.url.clone()),
        docs: (!docs.is_empty()).then(|| docs.join("\n\n")),
        run: run(&way),
        variables: variables(&way),
        arguments: None,
    })
}

/// What somebody should know before the release is used.
pub(super) fn warning(state: &ReleaseState) -> Option<String> {
    (state.status != ReleaseStatus::Active).then(|| {
        let message = state.message.as_deref().unwrap_or("its publisher gives no reason");
        format!("**{}**: {message}", state.status.word())
    })
}

fn run(way: &ReleaseWay<'_>) -> EntryCommand {
    let args = Vec::new();
    match way {
        ReleaseWay::Npm { package, spec } => EntryCommand::Npm { package: spec.clone(), args: fixed(package) },
        ReleaseWay::Pypi { package, spec } => EntryCommand::Pypi { package: spec.clone(), args: fixed(package) },
        ReleaseWay::Nuget { package, spec } => EntryCommand::Nuget { package: spec.clone(), args: fixed(package) },
        ReleaseWay::Image { image, .. } => EntryCommand::Container {
            image: (*image).to_owned(),
            args,
            network: true,
            read_only: true,
            volumes: Vec::new(),
        },
        ReleaseWay::Bundle { url, .. } => EntryCommand::Bundle { url: (*url).to_owned() },
        ReleaseWay::Remote { url, .. } => EntryCommand::Url { url: (*url).to_owned(), headers: Vec::new() },
    }
}

/// The arguments as they are written: for people, who see what is asked for in its place.
fn fixed(package: &super::PublishedPackage) -> Vec<String> {
    let words = package.package_arguments.iter().flat_map(|argument| {
        let value = argument.input.value.clone().or_else(|| argument.input.default.clone());
        [argument.name.clone(), value].into_iter().flatten()
    });
    words.collect()
}

/// Everything that is asked for, once each.
fn variables(way: &ReleaseWay<'_>) -> Vec<EntryVariable> {
    let mut found: Vec<EntryVariable> = Vec::new();
    let mut add = |key: &str, input: &PublishedInput| {
        // One variable may stand in several places, and is asked for once.
        if found.iter().any(|known| known.name == key) {
            return;
        }
        found.push(EntryVariable {
            name: key.to_owned(),
            description: described(input),
            required: input.is_required && input.default.is_none(),
            secret: input.is_secret,
        });
    };
    let mut ask = |key: &str, input: &PublishedInput| match input.value {
        Some(_) => input.variables.iter().for_each(|(name, variable)| add(name, variable)),
        None => add(key, input),
    };
    if let Some(package) = way.package() {
        package.environment_variables.iter().for_each(|pair| ask(&pair.name, &pair.input));
        for (index, argument) in package.runtime_arguments.iter().chain(&package.package_arguments).enumerate() {
            if !argument.is_bare_flag() {
                ask(&own_key(argument, index), &argument.input);
            }
        }
    }
    if let ReleaseWay::Remote { transport, .. } = way {
        transport.headers.iter().for_each(|pair| ask(&pair.name, &pair.input));
        transport.variables.iter().for_each(|(name, input)| ask(name, input));
    }
    found
}

fn described(input: &PublishedInput) -> String {
    let mut text = input.description.clone();
    if !input.choices.is_empty() {
        text = format!("{text} One of: {}.", input.choices.join(", "));
    }
    // A secret with a default is one that everybody knows, and still nothing to show.
    if let Some(default) = input.default.as_deref().filter(|_| !input.is_secret) {
        text = format!("{text} By default {default}.");
    }
    text.trim().to_owned()
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}
