//! What others try with the gateway, and do not get: a cloned repository, a hostile server, a text for the terminal.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod environment;
mod folder;
mod loopback;
#[cfg(target_os = "linux")]
mod terminal;

use std::process::Output;

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
