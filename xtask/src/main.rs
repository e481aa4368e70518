//! Project tasks, run as `cargo xtask TASK`. What each step does lives in the module of its name;
//! here they are only chosen and their result is turned into an exit code.

mod browser;
mod chaos;
mod children;
mod command_line;
mod conformance;
mod failure;
mod gateway;
mod house;
mod invocation;
mod package;
mod peers;
mod real_peers;
mod relevance;
mod soak;
mod suite;
mod tally;
mod test;
mod workspace;

use std::process::ExitCode;

use children::Children;
use command_line::Task;
use failure::Failure;
use tally::Tally;
use workspace::Workspace;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // The reaper is this program once more; nobody types this word.
    if arguments.first().is_some_and(|first| first == children::REAPER_ARGUMENT) {
        return children::reap_until_parent_ends();
    }
    match command_line::parse(&arguments) {
        Ok(Task::Help) => {
            println!("{}", command_line::USAGE);
            ExitCode::SUCCESS
        }
        Ok(task) => finish(run(&task)),
        Err(wrong) => {
            eprintln!("xtask: {wrong}\n\n{}", command_line::USAGE);
            ExitCode::from(2)
        }
    }
}

fn finish(result: Result<Option<Tally>, Failure>) -> ExitCode {
    match result {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(tally)) => {
            println!("{tally}");
            if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// A task that counts checks gives a tally; its failures are in the tally, not in the error.
fn run(task: &Task) -> Result<Option<Tally>, Failure> {
    let children = Children::new()?;
    let workspace = Workspace::find()?;
    match task {
        Task::Help => Ok(None),
        Task::Test { quick } => Ok(Some(test::run(&children, &workspace, *quick))),
        Task::Conformance { selection, gateway } => {
            let gateway = gateway::binary(&children, &workspace, gateway.as_deref())?;
            let peers = peers::install(&children, &workspace)?;
            conformance::run(&children, &workspace, &peers, &gateway, selection).map(Some)
        }
        Task::RealPeers { gateway } => {
            let gateway = gateway::binary(&children, &workspace, gateway.as_deref())?;
            let peers = peers::install(&children, &workspace)?;
            real_peers::run(&children, &workspace, &peers, &gateway).map(Some)
        }
        Task::Browser { gateway } => {
            let gateway = gateway::binary(&children, &workspace, gateway.as_deref())?;
            let peers = peers::install(&children, &workspace)?;
            browser::run(&children, &workspace, &peers, &gateway).map(Some)
        }
        Task::MeasureBrowser { gateway } => {
            let gateway = gateway::optimised(&children, &workspace, gateway.as_deref())?;
            let peers = peers::install(&children, &workspace)?;
            browser::measure(&children, &workspace, &peers, &gateway).map(Some)
        }
        Task::Clients { gateway } => {
            let gateway = gateway::binary(&children, &workspace, gateway.as_deref())?;
            let peers = peers::install(&children, &workspace)?;
            real_peers::connected_clients(&children, &workspace, &peers, &gateway).map(Some)
        }
        Task::OtherEra { gateway } => {
            let gateway = gateway::binary(&children, &workspace, gateway.as_deref())?;
            let peers = peers::install(&children, &workspace)?;
            real_peers::other_era(&children, &workspace, &peers, &gateway).map(|()| None)
        }
        Task::Package { build } => package::run(&children, &workspace, *build).map(Some),
        Task::Site => package::site(&children, &workspace).map(Some),
        Task::Relevance { gateway, misses } => {
            let gateway = gateway::binary(&children, &workspace, gateway.as_deref())?;
            let peers = peers::install(&children, &workspace)?;
            relevance::run(&children, &workspace, &peers, &gateway, *misses).map(|()| None)
        }
        Task::Peers => peers::install(&children, &workspace).map(|_| None),
        Task::Bench { arguments } => bench(&children, &workspace, arguments).map(|()| None),
        Task::Soak { arguments } => soak::run(&children, &workspace, arguments).map(|()| None),
        Task::SoakCluster { seconds, clients } => {
            soak::cluster(&children, &workspace, *seconds, *clients).map(|()| None)
        }
        Task::SoakParks { seconds, seed } => soak::parks(&children, &workspace, *seconds, *seed).map(|()| None),
        Task::Chaos { arguments } => {
            let peers = peers::install(&children, &workspace)?;
            chaos::run(&children, &workspace, &peers, arguments).map(|()| None)
        }
        Task::House => house::print(&children, &workspace).map(|()| None),
        Task::Deny => deny(&children, &workspace).map(|()| None),
    }
}

/// Measures the gateway as it is released, or another one that the arguments name.
fn bench(children: &Children, workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    let is_named = |word: &String| word == "--gateway" || word.starts_with("--gateway=");
    let gateway = match arguments.iter().any(is_named) {
        true => None,
        false => Some(package::released(children, workspace)?),
    };
    let harness = workspace.cargo(["run", "--release", "-p", "tidings-bench", "--"]).args(arguments);
    children.run(&match gateway {
        Some(gateway) => harness.arg("--gateway").arg(gateway),
        None => harness,
    })
}

/// Licences, bans and sources. Advisories are left out: they need a database from the internet.
fn deny(children: &Children, workspace: &Workspace) -> Result<(), Failure> {
    if !children.succeeds(&workspace.cargo(["deny", "--version"])) {
        children.run(&workspace.cargo(["install", "cargo-deny", "--locked"]))?;
    }
    children.run(&workspace.cargo(["deny", "check", "licenses", "bans", "sources"]))
}
