//! What others try with the gateway, and do not get: a cloned repository, a hostile server, a text for the terminal.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod consent;
mod environment;
mod folder;
mod leaks;
mod loopback;
mod names;
mod quotas;
mod reach;
#[cfg(target_os = "linux")]
mod sandbox;
mod scopes;
#[cfg(target_os = "linux")]
mod terminal;

use std::process::Output;

/// `[auth]` with a token `token-NAME` for each, and the servers it may use.
fn auth(tokens: &[(&str, &[&str])]) -> String {
    let lines = tokens.iter().map(|(name, servers)| {
        let hash = ring::digest::digest(&ring::digest::SHA256, format!("token-{name}").as_bytes());
        let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{{ name = {name:?}, sha256 = \"{hash}\", servers = {servers:?} }},\n")
    });
    format!("[auth]\ntokens = [\n{}]\n", lines.collect::<String>())
}

/// A client with the token of this name.
fn with_token(client: tidings_testkit::ClientBuilder, name: &str) -> tidings_testkit::ClientBuilder {
    client.header("authorization", &format!("Bearer token-{name}"))
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
