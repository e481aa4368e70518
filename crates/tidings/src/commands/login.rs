//! `tidings login` and `tidings logout`: the OAuth login of a server, for all clients of the running gateway.

use std::io::BufRead as _;

use http::Method;
use serde_json::{Value, json};

use super::open::show;
use super::terminal::plural;
use crate::backend::{ApiReply, api, ask};
use crate::cli::{Cli, LoginArgs};
use crate::data::{DataDir, RunningGateway};
use crate::failure::CommandFailure;
use crate::url_text::encode;

pub(super) async fn run(cli: &Cli, args: &LoginArgs) -> Result<(), CommandFailure> {
    let running = DataDir::find(cli.data.as_deref())?.running_now()?;
    let name = &args.server;
    let body = json!({ "device": args.device });
    let begun = done(ask(&running, Method::POST, &path(name, "login"), Some(&body)).await?)?;
    let text = |key: &str| begun[key].as_str().unwrap_or_default().to_owned();
    if args.json {
        println!("{begun}");
    }
    if begun["device"].is_object() {
        if !args.json {
            show_device(&begun["device"]);
        }
    } else if args.paste {
        return paste(&running, args, &text("authorize")).await;
    } else {
        let url = text("url");
        let is_shown = !args.no_browser && !args.json && show(&url);
        if !args.json {
            match is_shown {
                true => eprintln!("The browser shows the login of {name} at {}. Ctrl-C gives up.", text("issuer")),
                false => eprintln!(
                    "Open this address in a browser on this machine, within ten minutes:\n\n  {url}\n\nIf the browser is on another \
                     machine: tidings login {name} --paste\n"
                ),
            }
        }
    }
    let ticket = text("ticket");
    let outcome = wait(&running, name, &ticket).await?;
    finish(args, &outcome)
}

/// Waits until somebody has logged in, or the login is over.
async fn wait(running: &RunningGateway, name: &str, ticket: &str) -> Result<Value, CommandFailure> {
    let path = path(name, &format!("login/{}", encode(ticket)));
    loop {
        let outcome = api(running, &path).await?;
        if outcome["state"] != "waiting" {
            return Ok(outcome);
        }
    }
}

fn finish(args: &LoginArgs, outcome: &Value) -> Result<(), CommandFailure> {
    if outcome["state"] == "failed" {
        let reason = outcome["error"].as_str().unwrap_or_default();
        return Err(CommandFailure::Failed(format!("not logged in to {}: {reason}", args.server)));
    }
    match args.json {
        true => println!("{outcome}"),
        false => say_what_is_there(&args.server, &outcome["server"]),
    }
    Ok(())
}

fn say_what_is_there(name: &str, server: &Value) {
    if server["people"].is_object() {
        // What the server lists for them is theirs to see, and not counted here.
        return println!("Logged in to {name}, for yourself.");
    }
    println!("Logged in to {name}: {}.", plural(server["tools"].as_u64().unwrap_or(0), "tool"));
}

fn show_device(device: &Value) {
    let text = |key: &str| device[key].as_str().unwrap_or_default();
    eprintln!("Open this address on any device, and type in the code:\n\n  {}\n  {}\n", text("url"), text("code"));
    if let Some(whole) = device["url_with_code"].as_str() {
        eprintln!("Or open it with the code in it: {whole}\n");
    }
}

/// The browser is elsewhere: what it came back with is pasted here.
async fn paste(running: &RunningGateway, args: &LoginArgs, authorize: &str) -> Result<(), CommandFailure> {
    let name = &args.server;
    if !args.json {
        eprintln!(
            "Open this address in any browser and log in:\n\n  {authorize}\n\nThe browser then leads to an address that it can not show. Paste \
             that address here:"
        );
    }
    let server = loop {
        let read = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).map(|_| line)
        });
        let line = read.await.map_err(CommandFailure::failed)?.map_err(CommandFailure::failed)?;
        if line.is_empty() {
            return Err(CommandFailure::Failed(format!("not logged in to {name}: nothing was pasted")));
        }
        let body = json!({ "callback": line.trim() });
        match ask(running, Method::POST, &path(name, "login/complete"), Some(&body)).await? {
            // An address of something else, or half of one: the login itself still waits.
            ApiReply::Refused { status: http::StatusCode::NOT_FOUND, .. } if !args.json => eprintln!(
                "That is no address that this login leads to, or it took more than ten minutes. Paste the whole address, or give up with \
                 Ctrl-C:"
            ),
            reply => break done(reply)?,
        }
    };
    match args.json {
        true => println!("{}", json!({ "state": "done", "server": server })),
        false => say_what_is_there(name, &server),
    }
    Ok(())
}

pub(super) async fn log_out(cli: &Cli, name: &str) -> Result<(), CommandFailure> {
    let running = DataDir::find(cli.data.as_deref())?.running_now()?;
    let said = done(ask(&running, Method::POST, &path(name, "logout"), None).await?)?;
    match said["logged_out"] == true {
        true => println!("Logged out of {name}."),
        false => println!("Nobody was logged in to {name}."),
    }
    Ok(())
}

fn done(reply: ApiReply) -> Result<Value, CommandFailure> {
    match reply {
        ApiReply::Done(value) => Ok(value),
        ApiReply::Refused { detail, .. } => Err(CommandFailure::Failed(detail)),
    }
}

fn path(name: &str, rest: &str) -> String {
    format!("servers/{}/{rest}", encode(name))
}
