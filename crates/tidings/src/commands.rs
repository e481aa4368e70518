//! One file per command.

mod attach;
mod authors;
mod call;
mod changes;
mod check;
mod content;
mod doctor;
mod init;
mod manage;
mod offers;
mod overview;
mod project;
mod prompt;
mod read;
mod run_tool;
mod scaffold;
mod serve;
mod servers;
mod sessions;
mod status;
mod stdio;
mod subscriptions;
mod terminal;
pub(crate) mod token;
mod tools;
mod unreadable;
mod validate;
mod watch;

use tidings_proto::ListKind;

use crate::cli::{Cli, Command, ScriptCommand};
use crate::failure::Failure;

pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    match &cli.command {
        None => overview::run(&cli).await,
        Some(Command::Serve { listen }) => serve::run(&cli, listen.clone()).await,
        Some(Command::Stdio { attach: true, .. }) => attach::run(&cli).await,
        Some(Command::Stdio { project, .. }) => stdio::run(&cli, project.as_deref()).await,
        Some(Command::Project { command: Some(command), .. } | Command::Scripts(command)) => {
            scripts(&cli, command).await
        }
        Some(Command::Project { command: None, dir, allow }) => project::run(&cli, dir.as_deref(), allow).await,
        Some(Command::Init { output, yes }) => init::run(output, *yes),
        Some(Command::Add(wish)) => manage::add(&cli, wish).await,
        Some(Command::Remove { name }) => manage::remove(&cli, name).await,
        Some(Command::Enable { name }) => manage::set_enabled(&cli, name, true).await,
        Some(Command::Disable { name }) => manage::set_enabled(&cli, name, false).await,
        Some(Command::Restart { name }) => manage::restart(&cli, name).await,
        Some(Command::Status { json }) => status::run(&cli, *json).await,
        Some(Command::Sessions { json }) => sessions::run(&cli, *json).await,
        Some(Command::Resources { limit, json }) => offers::run(&cli, ListKind::Resources, *limit, *json).await,
        Some(Command::Prompts { limit, json }) => offers::run(&cli, ListKind::Prompts, *limit, *json).await,
        Some(Command::Prompt { name, arguments, json }) => prompt::run(&cli, name, arguments, *json).await,
        Some(Command::Servers { name, json }) => servers::run(&cli, name.as_deref(), *json).await,
        Some(Command::Tools { query, limit, json }) => tools::run(&cli, query, *limit, *json).await,
        Some(Command::Call { tool, arguments, save, json }) => {
            call::run(&cli, call::CallArgs { tool, arguments, save: save.as_deref(), json: *json }).await
        }
        Some(Command::Read { uri, save, json }) => read::run(&cli, uri, save.as_deref(), *json).await,
        Some(Command::Watch { uri, json }) => watch::run(&cli, uri, *json).await,
        Some(Command::Subscriptions { json }) => subscriptions::run(&cli, *json).await,
        Some(Command::Changes { follow, since, limit, json }) => {
            changes::run(
                &cli,
                changes::ChangesArgs { follow: *follow, since: since.as_deref(), limit: *limit, json: *json },
            )
            .await
        }
        Some(Command::Check { stdio, json }) => check::run(&cli, *stdio, *json),
        // Reached only when other options come first; see main.
        Some(Command::Json { arguments }) => json(arguments),
        Some(Command::Token { name, servers, admin, json }) => token::run(name, servers, *admin, *json),
        Some(Command::Doctor { json }) => doctor::run(&cli, *json).await,
        Some(Command::Completions { shell }) => {
            print!("{}", crate::cli::completions(*shell));
            Ok(())
        }
        Some(Command::Schema) => {
            println!("{:#}", tidings_config::schema());
            Ok(())
        }
    }
}

/// Commands of those who write scripts, in either spelling.
async fn scripts(cli: &Cli, command: &ScriptCommand) -> Result<(), Failure> {
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

fn json(arguments: &[std::ffi::OsString]) -> Result<(), Failure> {
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    let streams = tidings_json::JsonStreams {
        input: &mut std::io::stdin().lock(),
        output: &mut output,
        errors: &mut std::io::stderr(),
    };
    match tidings_json::run(arguments.iter().cloned(), streams) {
        0 => Ok(()),
        code => std::process::exit(code.into()),
    }
}
