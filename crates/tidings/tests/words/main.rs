//! What people read: the words of the command line, its errors, and the documentation.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocks;
mod connect;
mod doctor;
mod documented;
mod init;
mod links;
mod mistakes;
mod offers;
#[cfg(target_os = "linux")]
mod terminal;

use std::process::Output;

use tidings_testkit::{Gateway, GatewayBuilder};

fn quick() -> GatewayBuilder {
    Gateway::builder().quick()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
