//! `tidings --help`: the commands in groups, so that a newcomer finds the few that matter.

use clap::Command;

/// What belongs together, in the order in which somebody needs it.
const GROUPS: &[(&str, &[&str])] = &[
    ("Serve", &["init", "serve", "stdio", "connect", "import", "open"]),
    (
        "Servers",
        &["servers", "add", "remove", "enable", "disable", "restart", "catalogue", "upgrade", "login", "logout"],
    ),
    ("Use what they offer", &["tools", "search", "call", "resources", "read", "watch", "prompts", "prompt"]),
    ("See what happens", &["changes", "status", "sessions", "clients", "subscriptions", "logs", "audit", "verify"]),
    ("Decide who may do what", &["token", "trust", "lock", "approvals", "approve", "reject", "explain"]),
    ("When something is wrong", &["doctor", "check"]),
    ("Write servers as scripts", &["project"]),
    ("Help for programs", &["schema", "completions", "man", "json"]),
];
/// Where a command stands that no group names.
const OTHERS: &str = "More";
/// Spellings of `tidings project …` that are kept for those who know them.
const SHORT: &[&str] = &["scaffold", "validate", "run-tool", "registry", "config"];

/// The command line with its commands in groups.
pub(super) fn with_grouped_help(command: Command) -> Command {
    let list = list(&command);
    // What stands in braces is filled in by clap; descriptions have none.
    let template =
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}\n\n{ENDING}\n");
    command.help_template(template)
}

const ENDING: &str = "`tidings COMMAND --help` explains a command and has an example.";

fn list(command: &Command) -> String {
    let known: Vec<&Command> = command.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let find = |name: &str| known.iter().copied().find(|command| command.get_name() == name);
    let width = known.iter().map(|command| command.get_name().len()).max().unwrap_or(0);
    let line = |command: &Command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        // The first sentence is enough here.
        let about = about.split(": ").next().unwrap_or_default().split(". ").next().unwrap_or_default();
        format!(
            "  {:width$}  {}\n",
            command.get_name(),
            about.split(';').next().unwrap_or_default().trim_end_matches('.')
        )
    };
    let mut out = String::new();
    for (title, names) in GROUPS {
        let lines: String = names.iter().filter_map(|name| find(name)).map(line).collect();
        if !lines.is_empty() {
            out.push_str(&format!("{title}:\n{lines}\n"));
        }
        if *title == "Write servers as scripts" {
            // One line in the place of five commands.
            let more = format!("  {:width$}  also: project {}\n\n", "", SHORT.join(", "));
            out.truncate(out.trim_end().len());
            out.push_str(&format!("\n{more}"));
        }
    }
    let grouped = |name: &str| SHORT.contains(&name) || GROUPS.iter().any(|(_, names)| names.contains(&name));
    // A command that nobody put into a group is still listed.
    let others: String = known.iter().copied().filter(|command| !grouped(command.get_name())).map(line).collect();
    if !others.is_empty() {
        out.push_str(&format!("{OTHERS}:\n{others}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    // edges F17
    #[test]
    fn every_command_stands_in_one_group_and_fits_eighty_columns() {
        let help = with_grouped_help(Cli::command()).render_help().to_string();
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let lines = help.lines().filter(|line| line.starts_with(&format!("  {name} "))).count();
            let wanted = usize::from(!SHORT.contains(&name));
            assert_eq!(lines, wanted, "{name}:\n{help}");
        }
        assert!(!help.contains(&format!("{OTHERS}:")), "a command has no group:\n{help}");
        let list = help.split("Options:").next().unwrap_or_default();
        assert!(list.lines().all(|line| line.chars().count() <= 80), "{help}");
    }

    // edges F17
    #[test]
    fn commands_for_scripts_are_there_under_both_spellings() {
        use clap::Parser as _;
        for words in [
            &["scaffold", "tool", "hello"][..],
            &["validate", "./x", "--json"],
            &["run-tool", "hello", "--args", "{}", "--project", "x"],
            &["registry", "status", "x"],
            &["config", "--client", "cursor"],
        ] {
            for before in [&["tidings"][..], &["tidings", "project"]] {
                let all = [before, words].concat();
                assert!(Cli::try_parse_from(&all).is_ok(), "{all:?}");
            }
        }
        for words in [&["project"][..], &["project", "./my", "--allow", "*"], &["project", "dir"]] {
            assert!(Cli::try_parse_from([&["tidings"], words].concat()).is_ok(), "{words:?}");
        }
    }
}
