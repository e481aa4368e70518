//! The replicas of a cluster, for the status and the metrics.

use serde_json::{Value, json};
use tidings_engine::{Gateway, ReplicaState};

use crate::metrics_text::MetricsText;

/// The cluster, as this replica sees it; null without one.
pub(crate) fn describe(gateway: &Gateway) -> Value {
    let Some(fleet) = gateway.fleet() else { return Value::Null };
    let replicas: Vec<Value> = fleet
        .replicas
        .iter()
        .map(|replica| {
            json!({
                "name": replica.name,
                "state": replica.state.as_str(),
                "applied": replica.applied,
                "has_config": replica.has_config,
                "servers": replica.servers,
                "is_this": replica.is_this,
            })
        })
        .collect();
    json!({ "name": fleet.name, "head": fleet.head, "trouble": fleet.trouble, "replicas": replicas })
}

/// What is counted of it.
pub(crate) fn measures(out: &mut MetricsText, gateway: &Gateway) {
    let Some(fleet) = gateway.fleet() else { return };
    let Some(this) = fleet.replicas.iter().find(|replica| replica.is_this) else { return };
    out.family("tidings_cluster_state", "gauge", "1 for the state that this replica is in.");
    for state in [
        ReplicaState::Joining,
        ReplicaState::Connected,
        ReplicaState::Unconfirmed,
        ReplicaState::Isolated,
        ReplicaState::Leaving,
    ] {
        out.sample("tidings_cluster_state", &[("state", &state.as_str())], u8::from(this.state == state));
    }
    let lag = fleet.head.saturating_sub(this.applied);
    let counts = fleet.counts;
    for (name, kind, help, value) in [
        ("tidings_cluster_replicas", "gauge", "Replicas that are there.", fleet.replicas.len() as u64),
        ("tidings_cluster_owned_servers", "gauge", "Servers that this replica runs.", this.servers.len() as u64),
        ("tidings_cluster_lag_entries", "gauge", "Entries of the log that are known and not applied here.", lag),
        (
            "tidings_cluster_unconfirmed_lists_total",
            "counter",
            "Lists that were answered without knowing the end of the log.",
            counts.unconfirmed,
        ),
        ("tidings_cluster_echoes_total", "counter", "Changes that were told once more.", counts.echoes),
        ("tidings_cluster_void_entries_total", "counter", "Entries of the log that did not hold.", counts.void),
        (
            "tidings_cluster_carried_total",
            "counter",
            "Requests of other replicas that were carried out here.",
            counts.carried,
        ),
    ] {
        out.family(name, kind, help);
        out.sample(name, &[], value);
    }
    out.family(
        "tidings_cluster_forwarded_total",
        "counter",
        "Requests that went to another replica, by what came of them.",
    );
    let answered = counts.forwarded.saturating_sub(counts.not_run + counts.lost);
    for (outcome, value) in [("taken", answered), ("not_run", counts.not_run), ("lost", counts.lost)] {
        out.sample("tidings_cluster_forwarded_total", &[("outcome", &outcome)], value);
    }
}
