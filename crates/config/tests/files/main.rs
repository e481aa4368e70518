//! Whole files in, plans or faults out.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accepted;
mod catalogue;
mod clients;
mod logins;
mod reference;
mod refused;
mod shape;

use std::io;
use std::path::Path;

use tidings_config::{Config, ConfigErrors, ConfigSurroundings, TransportConfig};

/// Parses `text` as `/conf/NAME` in a small made-up world.
fn parse(name: &str, text: &str) -> Result<Config, ConfigErrors> {
    in_a_small_world(|surroundings| tidings_config::parse(text, &Path::new("/conf").join(name), surroundings))
}

fn toml(text: &str) -> Config {
    parse("tidings.toml", text).unwrap()
}

fn json(text: &str) -> Config {
    parse(".mcp.json", text).unwrap()
}

/// The faults, one per line, without the folder.
fn faults(name: &str, text: &str) -> String {
    parse(name, text).unwrap_err().to_string().replace("/conf/", "")
}

fn in_a_small_world<T>(use_it: impl FnOnce(&ConfigSurroundings<'_>) -> T) -> T {
    let env = |name: &str| match name {
        "HOME" => Some("/home/me".to_owned()),
        "SEARCH_TOKEN" | "DEPLOY_SECRET" => Some("hunter2".to_owned()),
        "WAIT" => Some("7s".to_owned()),
        "TWO_LINES" => Some("a\nb".to_owned()),
        _ => None,
    };
    let read = |path: &Path| match path.to_str() {
        Some("/conf/token") => Ok("hunter2\n".to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    use_it(&ConfigSurroundings { env: &env, read: &read })
}

fn stdio(command: &str, args: &[&str]) -> TransportConfig {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    TransportConfig::Stdio { command: command.to_owned(), args, env: vec![], cwd: None }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}
