//! `tidings doctor`: looks at everything that has to be right, and says what to do where it is not.

mod clients;
mod cluster;
mod environment;
mod finding;
mod hearing;
mod notify;
mod servers;
mod watches;

use serde_json::json;

use crate::cli::Cli;
use crate::commands::terminal::{BOLD, CAME, DIM, TerminalPaint, WENT, cut, plural, wrapped};
use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::{settings, wiring};
use finding::{DoctorFinding, FindingLevel};

pub(super) async fn run(cli: &Cli, as_json: bool) -> Result<(), CommandFailure> {
    let findings = examine(cli).await;
    let ok = findings.iter().all(|finding| finding.level != FindingLevel::Problem);
    if as_json {
        let all: Vec<_> = findings.iter().map(DoctorFinding::json).collect();
        println!("{:#}", json!({ "ok": ok, "findings": all }));
    } else {
        print(&findings);
    }
    match findings.iter().filter(|finding| finding.level == FindingLevel::Problem).count() {
        0 => Ok(()),
        1 => Err(CommandFailure::Failed("1 problem was found".into())),
        several => Err(CommandFailure::Failed(format!("{several} problems were found"))),
    }
}

async fn examine(cli: &Cli) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    let loaded = match settings::load(cli) {
        Ok(loaded) => Some(loaded),
        Err(CommandFailure::Config(errors)) => {
            findings.extend(errors.iter().map(|error| {
                let remedy = "correct the file; `tidings check` repeats this, `tidings schema` describes all of it";
                DoctorFinding::problem("configuration", error.to_string(), remedy)
            }));
            None
        }
        Err(other) => {
            findings.push(DoctorFinding::problem("configuration", other.to_string(), "name one with --config FILE"));
            None
        }
    };
    if let Some(loaded) = &loaded {
        findings.extend(configuration(loaded));
    }
    let data = DataDir::find(cli.data.as_deref());
    findings.extend(environment::data(&data));
    findings.extend(environment::open_files());
    let running = data.ok().and_then(|data| data.running());
    let config = loaded.map(|loaded| loaded.config);
    // A file that is named is examined, whatever a gateway beside it serves.
    let other = match (&running, &cli.config) {
        (Some(running), Some(file)) => environment::other_configuration(running, file).await,
        _ => None,
    };
    let (reachable, found) = match (&running, other) {
        (Some(running), Some(other)) => (false, environment::beside(running, &other, config.as_ref()).await),
        _ => environment::gateway(running.as_ref(), config.as_ref()).await,
    };
    findings.extend(found);
    // A gateway that does not answer is one finding; asking it about servers would only repeat it.
    let running = running.filter(|_| reachable);
    findings.extend(servers::findings(cli, running.as_ref(), config.as_ref()).await);
    findings.extend(hearing::findings(running.as_ref()).await);
    if let Some(config) = &config {
        findings.extend(watches::findings(config).await);
        findings.extend(notify::findings(config, running.as_ref()).await);
        findings.extend(cluster::findings(config).await);
    }
    findings
}

/// What the file says, and what of it can not be run.
fn configuration(loaded: &settings::LoadedConfig) -> Vec<DoctorFinding> {
    const ABOUT: &str = "configuration";
    let config = &loaded.config;
    let mut findings = match &loaded.found {
        None => vec![DoctorFinding::note(
            ABOUT,
            "none was found, so `tidings serve` shows the built-in demo",
            "make one with `tidings init`, or name a file with --config FILE",
        )],
        Some(found) => {
            let enabled = config.enabled_servers().count();
            let servers = plural(config.servers.len() as u64, "server");
            let watches = plural(config.watches.len() as u64, "watch");
            let what = format!("{}: {enabled} of {servers} enabled, {watches}", found.path.display());
            vec![DoctorFinding::fine(ABOUT, what)]
        }
    };
    findings.extend(environment::relative_config(loaded.found.as_ref().map(|found| found.path.as_path())));
    findings.extend(loaded.untrusted.as_ref().map(|here| {
        let what = format!("{} is not trusted, so nothing in it counts", here.file.display());
        DoctorFinding::note(ABOUT, what, here.remedy())
    }));
    let remedy = "see the line named";
    findings.extend(config.warnings.iter().map(|warning| DoctorFinding::note(ABOUT, warning.to_string(), remedy)));
    if let Err(CommandFailure::Failed(fault)) = wiring::try_watches(config) {
        findings.push(DoctorFinding::problem(ABOUT, fault, "correct the key named"));
    }
    findings
}

fn print(findings: &[DoctorFinding]) {
    let paint = TerminalPaint::for_stdout();
    let width = findings.iter().map(|finding| finding.about.chars().count()).max().unwrap_or(0);
    let width = paint.width.map_or(width, |columns| width.min(columns / 3));
    // The word for the level takes seven columns, and two spaces follow each part.
    let edge = 9 + width + 2;
    let beside = " ".repeat(edge);
    for finding in findings {
        let style = match finding.level {
            FindingLevel::Fine => CAME,
            FindingLevel::Note => DIM,
            FindingLevel::Problem => WENT,
        };
        let level = paint.styled(style, &format!("{:7}", finding.level.word()));
        let about = paint.styled(BOLD, &format!("{:width$}", cut(&finding.about, width)));
        let what = wrapped(&finding.what, paint.width, edge).join(&format!("\n{beside}"));
        println!("{level}  {about}  {what}");
        if let Some(remedy) = &finding.remedy {
            let remedy = wrapped(remedy, paint.width, edge + 2).join(&format!("\n{beside}  "));
            println!("{beside}→ {remedy}");
        }
        // What is installed already need not be read again.
        if let Some(sql) = finding.sql.as_ref().filter(|_| finding.level != FindingLevel::Fine) {
            println!();
            sql.lines().for_each(|line| println!("    {line}"));
            println!();
        }
    }
}
