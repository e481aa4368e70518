//! Whether the NATS of `[cluster]` can be used, and whether its log can be joined.

use tidings_config::Config;
use tidings_engine::{BusError, BusExamination, FoundLog};

use super::finding::DoctorFinding;
use crate::wiring;

const ABOUT: &str = "cluster";
/// What a message of NATS has to be allowed: a request that is passed on, with its envelope.
const MESSAGE_LEAST: usize = 1 << 20;

pub(super) async fn findings(config: &Config) -> Vec<DoctorFinding> {
    let Some(cluster) = &config.cluster else { return Vec::new() };
    match wiring::fleet_settings(cluster).examine().await {
        Err(error) => vec![refusal(&error)],
        Ok(found) => of_bus(&found, cluster.copies),
    }
}

fn refusal(error: &BusError) -> DoctorFinding {
    let remedy = match error {
        BusError::Login(_) | BusError::Tls(_) => "correct what is named; docs/cluster.md has an example of each",
        BusError::NoJetStream => "switch it on, and start NATS again",
        BusError::NoAnswer | BusError::NoLeader => {
            "start those NATS servers that are down: more than half have to be there"
        }
        _ => "start NATS, or correct `nats` of [cluster]",
    };
    DoctorFinding::problem(ABOUT, error.to_string(), remedy)
}

fn of_bus(found: &BusExamination, copies: usize) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    if found.largest_message < MESSAGE_LEAST {
        let what = format!("NATS takes messages of at most {} KiB", found.largest_message >> 10);
        findings.push(DoctorFinding::problem(ABOUT, what, "set `max_payload: 1MB` in the file of NATS, its default"));
    }
    findings.extend(found.log.iter().flat_map(|log| of_log(log, copies)));
    if findings.is_empty() {
        let log = match &found.log {
            None => "no replica came yet".to_owned(),
            Some(log) => format!(
                "the log has {} entries, {:.1} of at most {} MiB{}",
                log.entries,
                log.bytes as f64 / f64::from(1 << 20),
                log.most_bytes >> 20,
                log.kept.map(|kept| format!("; who joins begins at {}", kept + 1)).unwrap_or_default()
            ),
        };
        let milliseconds = found.round_trip.as_secs_f64() * 1000.0;
        let what = format!("NATS {} answers in {milliseconds:.1} ms; {log}", found.version);
        findings.push(DoctorFinding::fine(ABOUT, what));
    }
    findings
}

fn of_log(log: &FoundLog, copies: usize) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    if !log.has_leader {
        findings.push(refusal(&BusError::NoLeader));
    }
    if !log.opens {
        let what = format!("the log in {} was sealed with another secret", log.stream);
        let remedy = "give this replica the `secret` of the others, or this cluster a `name` of its own";
        findings.push(DoctorFinding::problem(ABOUT, what, remedy));
    }
    if !log.can_be_joined() {
        let what =
            format!("the log in {} begins at {}: its beginning is gone, so no replica can join", log.stream, log.first);
        let remedy = "stop all replicas, delete the streams of the cluster and start them again; docs/cluster.md says what is lost by that";
        findings.push(DoctorFinding::problem(ABOUT, what, remedy));
    }
    if log.copies != copies {
        let what = format!("`copies` is {copies}, and {} NATS servers keep {}", log.copies, log.stream);
        let remedy =
            format!("nats stream edit {} --replicas {copies}, and the same for the stream of contents", log.stream);
        findings.push(DoctorFinding::note(ABOUT, what, remedy));
    }
    findings
}
