//! Notices servers that would start Tidings inside itself.

use crate::error::{TextPosition, WarningKind};
use crate::plan::server::{ServerConfig, TransportConfig};
use crate::read::FileReading;

/// Whether the server is left out, with a warning, because it would start Tidings.
pub(super) fn skipped(reading: &FileReading<'_>, key: &str, at: Option<TextPosition>, server: &ServerConfig) -> bool {
    let starts_tidings = match &server.transport {
        TransportConfig::Stdio { command, args, .. } => starts_tidings(command, args),
        _ => false,
    };
    if starts_tidings {
        reading.caution(key, at, WarningKind::StartsTidings);
    }
    starts_tidings
}

fn starts_tidings(command: &str, args: &[String]) -> bool {
    let program = command.rsplit(['/', '\\']).next().unwrap_or_default();
    let program = program.strip_suffix(".exe").or_else(|| program.strip_suffix(".cmd")).unwrap_or(program);
    match program {
        "tidings" => true,
        // Runners of packages: the program is one of their arguments.
        "npx" | "bunx" | "pnpx" | "uvx" => runs(args, &["-p", "--package", "--from"]),
        "npm" | "pnpm" | "yarn" | "bun" => {
            let is_run = |arg: &String| ["exec", "dlx", "x"].contains(&arg.as_str());
            args.iter().position(is_run).is_some_and(|at| runs(&args[at + 1..], &["-p", "--package"]))
        }
        "cargo" => {
            let named =
                |pair: &[String]| ["-p", "--package", "--bin"].contains(&pair[0].as_str()) && pair[1] == "tidings";
            let joined = |arg: &String| ["--package=tidings", "--bin=tidings"].contains(&arg.as_str());
            args.windows(2).any(named) || args.iter().any(joined)
        }
        _ => false,
    }
}

/// Whether a package runner runs Tidings: as the first word that is no option, or as the package it is told to take.
fn runs(args: &[String], package_options: &[&str]) -> bool {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let is_package = package_options.contains(&arg.as_str());
        if is_package {
            if args.next().is_some_and(|package| is_tidings(package)) {
                return true;
            }
        } else if !arg.starts_with('-') {
            return is_tidings(arg);
        }
    }
    false
}

/// `tidings`, `tidings@1.0`, `@scope/tidings`.
fn is_tidings(package: &str) -> bool {
    let unscoped = package.strip_prefix('@').and_then(|rest| rest.split_once('/')).map_or(package, |(_, name)| name);
    unscoped.split('@').next() == Some("tidings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_that_run_tidings_are_noticed() {
        let table = [
            ("tidings stdio", true),
            ("/usr/local/bin/tidings stdio", true),
            ("C:\\bin\\tidings.exe stdio", true),
            ("npx -y tidings stdio", true),
            ("npx -y @acme/tidings@latest", true),
            ("npx --package tidings run", true),
            ("pnpm dlx tidings@1", true),
            ("cargo run -q -p tidings -- stdio", true),
            ("cargo run --bin=tidings", true),
            ("npx -y server-filesystem tidings", false),
            ("npx -y tidings-extra", false),
            ("cargo run -p other tidings", false),
            ("node tidings", false),
            ("npm test tidings", false),
        ];
        for (line, expected) in table {
            let mut words = line.split(' ').map(str::to_owned);
            let command = words.next().unwrap();
            assert_eq!(starts_tidings(&command, &words.collect::<Vec<_>>()), expected, "{line}");
        }
    }
}
