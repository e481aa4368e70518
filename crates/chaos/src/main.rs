//! `chaos`: the real gateway between clients that call all the time and servers that break: connections reset, streams cut,
//! answers withheld, processes killed, eras changed, logs flooded. A seed decides what happens when.
//!
//! After every stage the faults end, and then must hold: every server answers within seconds, nobody was answered twice, no
//! call ran twice, none waits for ever, every follower was told of the one change that is made then, once, and the gateway
//! has not grown. What it does not judge is how fast the gateway is (`bench`) and random changes of lists (`soak`).

mod callers;
mod crew;
mod failure;
mod options;
mod run;
mod stage;

use std::process::ExitCode;

use options::ChaosOptions;
use run::ChaosRun;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = match ChaosOptions::parse(&arguments) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{}", options::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("chaos: {wrong}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    println!("chaos for {} s with seed {}", options.time.as_secs(), options.seed);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("chaos: {error}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(chaos(&options))
}

async fn chaos(options: &ChaosOptions) -> ExitCode {
    let mut run = ChaosRun::begin(options).await;
    let outcome = run.go(options.time).await;
    run.print();
    match outcome {
        Ok(()) => {
            println!("chaos passed: every fault ended with the truth, and no call ran twice");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            run.print_gateway();
            eprintln!("{failure}\nchaos failed; repeat with: cargo xtask chaos {options}");
            ExitCode::FAILURE
        }
    }
}
