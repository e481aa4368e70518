//! `tidings open`: shows the page in the browser.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::backend::{ApiReply, ask};
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;

/// What was typed after `tidings open`.
pub(super) struct OpenArgs {
    pub(super) print: bool,
    pub(super) read_only: bool,
    pub(super) plain_host: bool,
}

pub(super) async fn run(cli: &Cli, args: &OpenArgs) -> Result<(), CommandFailure> {
    let running = DataDir::find(cli.data.as_deref())?.running_now()?;
    let body = json!({ "read_only": args.read_only, "plain_host": args.plain_host });
    let made = match ask(&running, http::Method::POST, "links", Some(&body)).await? {
        ApiReply::Done(made) => made,
        ApiReply::Refused { detail, .. } => return Err(CommandFailure::Failed(detail)),
    };
    let url = made["url"].as_str().unwrap_or_default();
    if args.plain_host {
        eprintln!(
            "Under this address the browser sends its key to the page to every program that serves on this machine's address, too."
        );
    }
    if args.print || !show(url) {
        println!("{url}");
        eprintln!("It works once, within ten minutes.");
    }
    Ok(())
}

/// Whether a browser could be asked to show it.
pub(super) fn show(url: &str) -> bool {
    let chosen = std::env::var("BROWSER").ok().filter(|browser| !browser.is_empty());
    let system = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    // Without a screen xdg-open starts a text browser on this very terminal.
    let has_screen =
        cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let program = match chosen {
        Some(browser) => browser,
        None if has_screen => system.to_owned(),
        None => return false,
    };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
