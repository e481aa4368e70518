//! What is known of an entry, as a page to read.

use std::fmt::Write;

use tidings_config::EntryCommand;

use crate::catalogue::CatalogEntry;
use crate::keys::default_prefix;

/// The page, in Markdown.
pub fn documentation(entry: &CatalogEntry) -> String {
    let mut page = format!("# {}\n\n{}\n", entry.name, entry.description);
    if let Some(docs) = &entry.docs {
        let _ = write!(page, "\n{docs}\n");
    }
    if let Some(release) = &entry.release {
        let _ = write!(page, "\nVersion {}, from the registry \"{}\".\n", release.version, entry.source);
    }
    let _ = write!(page, "\n## How it runs\n\n{}\n", how(&entry.run));
    if let Some(arguments) = &entry.arguments {
        let must = if arguments.required { " (required)" } else { "" };
        let _ = write!(page, "\n`args`{must}: {}\n", arguments.description);
    }
    if !entry.variables.is_empty() {
        page.push_str(if entry.release.is_some() {
            "\n## What it asks for\n\n"
        } else {
            "\n## Environment variables\n\n"
        });
    }
    for variable in &entry.variables {
        let marks: Vec<&str> = [(variable.required, "required"), (variable.secret, "secret")]
            .iter()
            .filter(|m| m.0)
            .map(|m| m.1)
            .collect();
        let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
        let _ = writeln!(page, "- `{}`{marks}: {}", variable.name, variable.description);
    }
    let _ = write!(
        page,
        "\n## Add it\n\n`mcp_registry_add` with `entry_id` \"{}\"; its tools are then named `{}__…`.\n",
        entry.id,
        default_prefix(&entry.id)
    );
    if let Some(repository) = &entry.repository {
        let _ = write!(page, "\nSource: {repository}\n");
    }
    page
}

fn how(run: &EntryCommand) -> String {
    let with = |first: String, args: &[String]| format!("`{}`", [&[first], args].concat().join(" "));
    match run {
        EntryCommand::Npm { package, args } => format!("npm package: {}", with(format!("npx -y {package}"), args)),
        EntryCommand::Pypi { package, args } => format!("PyPI package: {}", with(format!("uvx {package}"), args)),
        EntryCommand::Nuget { package, args } => {
            format!("NuGet package: {}", with(format!("dnx {package} --yes"), args))
        }
        EntryCommand::Bundle { url } => format!("MCP bundle, fetched from <{url}> and checked against its SHA-256"),
        EntryCommand::Command { command, args } => format!("Command: {}", with(command.clone(), args)),
        EntryCommand::Container { image, args, network, .. } => {
            let network = if *network { "with network" } else { "without network" };
            format!("Container, {network}: {}", with(image.clone(), args))
        }
        EntryCommand::Url { url, .. } => format!("Hosted at <{url}>"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_page_says_how_to_run_it_and_what_it_needs() {
        let text = "[[servers]]\nid = \"acme/the-desk\"\nname = \"Desk\"\ndescription = \"Files.\"\ndocs = \"Ask ACME.\"\n\
            container = \"acme/desk:1\"\nnetwork = true\narguments = { description = \"the queues\", required = true }\n\
            variables = [{ name = \"KEY\", description = \"a key\", required = true, secret = true }]";
        let about = tidings_config::parse_catalogue(text, Path::new("s.toml")).unwrap().remove(0);
        let page = documentation(&CatalogEntry { source: Arc::from("file"), about, release: None });
        for part in [
            "# Desk",
            "Ask ACME.",
            "Container, with network: `acme/desk:1`",
            "`args` (required): the queues",
            "- `KEY` (required, secret): a key",
            "\"acme/the-desk\"; its tools are then named `the_desk__…`",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }
}
