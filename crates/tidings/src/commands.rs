//! One file per command: from what was typed to a request of the gateway, and from its answer to what is printed.

mod approvals;
mod attach;
mod audit;
mod authors;
mod call;
mod catalogue;
mod changes;
mod check;
mod client_files;
mod clients;
mod connect;
mod content;
mod doctor;
mod explain;
mod import;
mod init;
mod lock;
mod login;
mod logs;
mod man;
mod manage;
mod offers;
mod open;
mod overview;
mod project;
mod prompt;
mod read;
mod run_tool;
mod scaffold;
mod search;
mod serve;
mod servers;
mod sessions;
mod status;
mod stdio;
mod subscriptions;
mod terminal;
mod token;
mod tools;
mod trust;
mod unreadable;
mod upgrade;
mod validate;
mod verify;
mod watch;

use tidings_engine::ApprovalVerdict;
use tidings_proto::ListKind;

use crate::cli::{Cli, CliCommand, ScriptCommand};
use crate::failure::CommandFailure;

pub(crate) async fn run(cli: Cli) -> Result<(), CommandFailure> {
    match &cli.command {
        None => overview::run(&cli).await,
        Some(CliCommand::Serve { listen }) => serve::run(&cli, listen.clone()).await,
        Some(CliCommand::Stdio { attach: true, channel, .. }) => attach::run(&cli, *channel).await,
        Some(CliCommand::Stdio { project, channel, .. }) => stdio::run(&cli, project.as_deref(), *channel).await,
        Some(CliCommand::Project { command: Some(command), .. } | CliCommand::Scripts(command)) => {
            scripts(&cli, command).await
        }
        Some(CliCommand::Project { command: None, dir, allow }) => project::run(&cli, dir.as_deref(), allow).await,
        Some(CliCommand::Init { output, yes }) => init::run(&cli, output, *yes),
        Some(CliCommand::Connect(args)) => connect::run(&cli, args).await,
        Some(CliCommand::Import(args)) => import::run(&cli, args).await,
        Some(CliCommand::Man(args)) => man::run(args.dir.as_deref()),
        Some(CliCommand::Logs { follow, limit }) => logs::run(&cli, *follow, *limit).await,
        Some(CliCommand::Add(wish)) => manage::add(&cli, wish).await,
        Some(CliCommand::Remove { name }) => manage::remove(&cli, name).await,
        Some(CliCommand::Enable { name }) => manage::set_enabled(&cli, name, true).await,
        Some(CliCommand::Disable { name }) => manage::set_enabled(&cli, name, false).await,
        Some(CliCommand::Restart { name }) => manage::restart(&cli, name).await,
        Some(CliCommand::Upgrade { name, yes, json }) => upgrade::run(&cli, name, *yes, *json).await,
        Some(CliCommand::Catalogue { command }) => catalogue::run(&cli, command).await,
        Some(CliCommand::Login(args)) => login::run(&cli, args).await,
        Some(CliCommand::Logout { server }) => login::log_out(&cli, server).await,
        Some(CliCommand::Status { json }) => status::run(&cli, *json).await,
        Some(CliCommand::Clients { json }) => clients::run(&cli, *json).await,
        Some(CliCommand::Open { print, read_only, plain_host }) => {
            open::run(&cli, &open::OpenArgs { print: *print, read_only: *read_only, plain_host: *plain_host }).await
        }
        Some(CliCommand::Sessions { json }) => sessions::run(&cli, *json).await,
        Some(CliCommand::Resources { limit, json }) => offers::run(&cli, ListKind::Resources, *limit, *json).await,
        Some(CliCommand::Prompts { limit, json }) => offers::run(&cli, ListKind::Prompts, *limit, *json).await,
        Some(CliCommand::Prompt { name, arguments, json }) => prompt::run(&cli, name, arguments, *json).await,
        Some(CliCommand::Servers { name, json }) => servers::run(&cli, name.as_deref(), *json).await,
        Some(CliCommand::Tools { query, seen_as, limit, json }) => match seen_as {
            Some(client) => tools::run_as(&cli, client, *limit, *json).await,
            None => tools::run(&cli, query, *limit, *json).await,
        },
        Some(CliCommand::Search { command }) => search::run(&cli, command).await,
        Some(CliCommand::Call { tool, arguments, save, json }) => {
            call::run(&cli, call::CallArgs { tool, arguments, save: save.as_deref(), json: *json }).await
        }
        Some(CliCommand::Read { uri, save, json }) => read::run(&cli, uri, save.as_deref(), *json).await,
        Some(CliCommand::Watch { uri, json }) => watch::run(&cli, uri, *json).await,
        Some(CliCommand::Subscriptions { json }) => subscriptions::run(&cli, *json).await,
        Some(CliCommand::Changes { follow, since, limit, json }) => {
            changes::run(
                &cli,
                changes::ChangesArgs { follow: *follow, since: since.as_deref(), limit: *limit, json: *json },
            )
            .await
        }
        Some(CliCommand::Audit { follow, since, limit, json }) => {
            let args = changes::ChangesArgs { follow: *follow, since: since.as_deref(), limit: *limit, json: *json };
            audit::run(&cli, args).await
        }
        Some(CliCommand::Verify { against, key, checkpoint, json }) => {
            let (against, key) = (against.as_deref(), key.as_deref());
            verify::run(&cli, verify::VerifyArgs { against, key, checkpoint: *checkpoint, json: *json }).await
        }
        Some(CliCommand::Check { locked: true, json, .. }) => lock::check(&cli, *json).await,
        Some(CliCommand::Check { stdio, json, .. }) => check::run(&cli, *stdio, *json),
        Some(CliCommand::Lock) => lock::write(&cli).await,
        Some(CliCommand::Approvals { json }) => approvals::list(&cli, *json).await,
        Some(CliCommand::Approve { what, all }) => {
            approvals::decide(&cli, ApprovalVerdict::Approve, what.as_deref(), *all).await
        }
        Some(CliCommand::Reject { what, all }) => {
            approvals::decide(&cli, ApprovalVerdict::Reject, what.as_deref(), *all).await
        }
        // Reached only when other options come first; see main.
        Some(CliCommand::Json { arguments }) => json(arguments),
        Some(CliCommand::Token { name, servers, admin, groups, expires, json }) => {
            let request = token::NewToken { name, servers, admin: *admin, groups, expires: expires.as_deref() };
            token::run(&request, *json)
        }
        Some(CliCommand::Explain { who, groups, with, item, json }) => {
            let (with, item) = (with.as_deref(), item.as_deref());
            explain::run(&cli, &explain::ExplainArgs { who, groups, with, item, json: *json }).await
        }
        Some(CliCommand::Trust { dir, yes }) => trust::run(&cli, dir.as_deref(), *yes),
        Some(CliCommand::Doctor { json }) => doctor::run(&cli, *json).await,
        Some(CliCommand::Completions { shell }) => {
            print!("{}", crate::cli::completions(*shell));
            Ok(())
        }
        Some(CliCommand::Schema) => {
            println!("{:#}", tidings_config::schema());
            Ok(())
        }
    }
}

/// Commands of those who write scripts, in either spelling.
async fn scripts(cli: &Cli, command: &ScriptCommand) -> Result<(), CommandFailure> {
    match command {
        ScriptCommand::Scaffold { kind, name, project } => scaffold::run(*kind, name, project.as_deref()),
        ScriptCommand::Validate { dir, json } => validate::run(dir.as_deref(), *json),
        ScriptCommand::RunTool { name, args, project, dry_run, print_env, timeout, json } => {
            let wish = run_tool::RunToolArgs {
                name,
                arguments: args.as_deref(),
                project: project.as_deref(),
                dry_run: *dry_run,
                print_env: *print_env,
                timeout: *timeout,
                json: *json,
            };
            run_tool::run(cli, wish).await
        }
        ScriptCommand::Registry { root, dir, json, .. } => authors::registry(root.as_deref().or(dir.as_deref()), *json),
        ScriptCommand::ProjectConfig { root, dir, client, json } => {
            authors::config(root.as_deref().or(dir.as_deref()), client.as_deref(), *json)
        }
    }
}

fn json(arguments: &[std::ffi::OsString]) -> Result<(), CommandFailure> {
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    let streams = tidings_json::JsonStreams {
        input: &mut std::io::stdin().lock(),
        output: &mut output,
        errors: &mut std::io::stderr(),
    };
    match tidings_json::run(arguments.iter().cloned(), streams) {
        0 => Ok(()),
        // The codes are those of jq, which a `CommandFailure` has no room for.
        code => std::process::exit(code.into()),
    }
}
