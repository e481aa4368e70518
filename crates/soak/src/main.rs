//! `soak`: the real gateway between servers that change without end and clients that follow, until the time is over. Then
//! every client must have seen the truth, been told of nothing that did not happen, and nothing may have grown or be left.
//!
//! The servers are scripts in this process, so the truth comes from what was done to them and never from the gateway.

mod crowd;
mod events;
mod failure;
mod follower;
mod item;
mod kinds;
mod ledger;
mod options;
mod run;
mod source;
mod trace;
mod truth;
mod visitors;
mod world;

use std::process::ExitCode;

use failure::SoakFailure;
use options::SoakOptions;
use run::{SoakRun, SoakSummary};
use tidings_testkit::SplitMix;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = match SoakOptions::parse(&arguments) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{}", options::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("soak: {wrong}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    println!("soak for {} s with seed {}", options.time.as_secs(), options.seed);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("soak: {error}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(soak(&options))
}

async fn soak(options: &SoakOptions) -> ExitCode {
    let mut run = SoakRun::begin(SplitMix::new(options.seed), options.isolated).await;
    let mut outcome = run.go(options.time).await;
    if outcome.is_ok() {
        outcome = run.finish().await;
    }
    if let Err(failure) = &outcome {
        report(&run, failure);
    }
    let SoakRun { world, crowd, gateway, summary, ledger, .. } = run;
    print(&world.tally, &summary, crowd.notices(), crowd.followers.len());
    println!("ledger: agreed {} times with a client, at the end on {} notices", ledger.agreed, ledger.notices);
    crowd.end().await;
    drop(gateway);
    if outcome.is_ok() {
        outcome = SoakRun::check_nothing_left(&world).await;
        if let Err(failure) = &outcome {
            eprintln!("{failure}");
        }
    }
    match outcome {
        Ok(()) => {
            println!("soak passed: every client saw the truth, and was told of nothing else");
            ExitCode::SUCCESS
        }
        Err(_) => {
            eprintln!("soak failed; repeat with: cargo xtask soak {options}");
            ExitCode::FAILURE
        }
    }
}

fn report(run: &SoakRun, failure: &SoakFailure) {
    run.world.trace.print("servers");
    let concerned = failure.client().and_then(|name| run.crowd.followers.iter().find(|f| f.name == name));
    if let Some(follower) = concerned {
        follower.seen().trace.print(&format!("client {}", follower.name));
    }
    eprintln!("--- gateway");
    let lines = run.gateway.stderr().all();
    for line in lines.iter().skip(lines.len().saturating_sub(200)) {
        eprintln!("{line}");
    }
    eprintln!("---\n{failure}");
}

fn print(tally: &std::collections::BTreeMap<&'static str, u64>, summary: &SoakSummary, notices: u64, clients: usize) {
    println!("epochs: {} storms, {} calm, {} with one change", summary.storms, summary.calms, summary.singles);
    for (sort, count) in tally {
        println!("  {count:6} {sort}");
    }
    println!("notices: {notices} to {clients} clients");
    println!("latest notice of a single change: {} ms", summary.latest_notice.as_millis());
    if let (Some(first), Some(last)) = (summary.vitals.first(), summary.vitals.last()) {
        println!("gateway: {first} after the first round, {last} after the last");
    }
    let rounds: Vec<String> =
        summary.vitals.iter().map(|round| format!("{}/{}", round.memory / 1024, round.files)).collect();
    println!("MiB/files by round: {}", rounds.join(" "));
    println!("drained in {} ms", summary.drained_in.as_millis());
}
