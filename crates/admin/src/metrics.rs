//! `GET /metrics`: what the engine counts, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use tidings_engine::{AccessPolicy, CALL_ENDS, ClientStanding, Measures, QuotaBook, QuotaMeasure, ServerState, Topic};
use tidings_proto::ListKind;

use crate::metrics_text::{Label, MetricsText};
use crate::{AdminShared, cluster, notify, telemetry};

/// The version of the format is part of its name.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The label of the tools that are not told apart.
const OTHER_TOOLS: &str = "(other)";

pub(crate) async fn show(State(admin): State<AdminShared>) -> impl IntoResponse {
    let (measures, books) = (admin.gateway.measures(), admin.clients.books());
    let (policy, limits) = (admin.gateway.policy(), admin.gateway.over_limits());
    let mut text = render(&measures, &books, policy.as_deref(), &limits);
    clients(&mut text, &admin.gateway.standing_counts());
    notify::measures(&mut text, admin.hooks.as_ref());
    telemetry::measures(&mut text, admin.telemetry.as_ref());
    cluster::measures(&mut text, &admin.gateway);
    ([(header::CONTENT_TYPE, FORMAT)], text.into_text())
}

/// Everything that is counted, as text.
fn render(
    measures: &Measures,
    books: &[Arc<QuotaBook>],
    policy: Option<&AccessPolicy>,
    limits: &BTreeMap<String, u64>,
) -> MetricsText {
    let mut out = MetricsText::new();
    out.family("tidings_build_info", "gauge", "The version that is running; always 1.");
    out.sample("tidings_build_info", &[("version", &env!("CARGO_PKG_VERSION"))], 1);
    servers(&mut out, measures);
    calls(&mut out, measures);
    notices(&mut out, measures);
    updates(&mut out, measures);
    for (name, help, count) in [
        ("tidings_sessions", "Legacy sessions.", measures.population.sessions),
        (
            "tidings_followed_resources",
            "Resources that are followed, or were a moment ago.",
            measures.population.followed,
        ),
        (
            "tidings_resource_followers",
            "Followers of resources, once for each resource.",
            measures.population.followers,
        ),
        (
            "tidings_unheard_resources",
            "Followed resources whose servers could not tell of changes for three seconds and more.",
            measures.population.unheard,
        ),
        ("tidings_listeners", "Open subscriptions/listen requests of modern clients.", measures.population.listeners),
        ("tidings_calls_in_flight", "Requests that wait for a server.", measures.population.calls),
    ] {
        out.family(name, "gauge", help);
        out.sample(name, &[], count);
    }
    let help =
        "Notifications about calls that their clients were not shown, because they had no request open for them.";
    out.family("tidings_call_messages_dropped_total", "counter", help);
    for (reason, count) in
        [("waiting", measures.population.dropped.waiting), ("task", measures.population.dropped.task)]
    {
        out.sample("tidings_call_messages_dropped_total", &[("reason", &reason)], count);
    }
    quotas(&mut out, books);
    tried_rules(&mut out, policy);
    over_limits(&mut out, limits);
    out
}

/// How clients stand to what changed.
fn clients(out: &mut MetricsText, counts: &[(ClientStanding, usize)]) {
    out.family("tidings_clients", "gauge", "Clients by how they stand to what they were told of changed lists.");
    for (standing, count) in counts {
        out.sample("tidings_clients", &[("state", &standing.as_str())], count);
    }
}

/// How often limits of `[limits]` were over.
fn over_limits(out: &mut MetricsText, limits: &BTreeMap<String, u64>) {
    if limits.is_empty() {
        return;
    }
    let name = "tidings_limit_refused_total";
    out.family(name, "counter", "Requests that were refused because a limit of [limits] was over.");
    for (limit, count) in limits {
        out.sample(name, &[("limit", limit)], count);
    }
}

/// What rules that are only tried would have kept.
fn tried_rules(out: &mut MetricsText, policy: Option<&AccessPolicy>) {
    let Some(policy) = policy.filter(|policy| !policy.is_enforced()) else { return };
    let name = "tidings_policy_would_deny_total";
    out.family(name, "counter", "Requests that a rule of [policy] would have denied, were it not only tried.");
    for (rule, count) in policy.kept() {
        out.sample(name, &[("rule", &rule)], count);
    }
}

fn quotas(out: &mut MetricsText, books: &[Arc<QuotaBook>]) {
    let all: Vec<QuotaMeasure> = books.iter().flat_map(|book| book.measures()).collect();
    type Read = fn(&QuotaMeasure) -> u64;
    let families: [(&str, &str, &str, Read); 3] = [
        ("tidings_quota_used", "gauge", "What a principal has of what is limited.", |m| m.used as u64),
        ("tidings_quota_limit", "gauge", "How much of it a principal may have.", |m| m.limit as u64),
        ("tidings_quota_refused_total", "counter", "Requests that were refused because of a limit.", |m| m.refused),
    ];
    for (name, kind, help, read) in families.into_iter().filter(|_| !all.is_empty()) {
        out.family(name, kind, help);
        for measure in &all {
            let labels: [Label<'_>; 2] = [("principal", &measure.principal), ("quota", &measure.quota)];
            out.sample(name, &labels, read(measure));
        }
    }
}

fn servers(out: &mut MetricsText, measures: &Measures) {
    out.family("tidings_signals_total", "counter", "list_changed notifications received from servers.");
    for server in &measures.servers {
        for topic in Topic::ALL {
            let labels: [Label<'_>; 2] = [("server", &server.name), ("kind", &topic.as_str())];
            out.sample("tidings_signals_total", &labels, server.signals[topic as usize]);
        }
    }
    out.family("tidings_discoveries_total", "counter", "Lists asked of servers: why, and what came of it.");
    for server in &measures.servers {
        // Most of the possible combinations never happen.
        for (kind, reason, outcome, count) in server.discoveries.iter().filter(|(.., count)| *count > 0) {
            let labels: [Label<'_>; 4] = [
                ("server", &server.name),
                ("kind", &list_name(*kind)),
                ("reason", &reason.as_str()),
                ("outcome", &outcome.as_str()),
            ];
            out.sample("tidings_discoveries_total", &labels, count);
        }
    }
    out.family("tidings_servers", "gauge", "Servers by state.");
    for state in [ServerState::Connecting, ServerState::Ready, ServerState::Failing, ServerState::NeedsLogin] {
        let count = measures.servers.iter().filter(|server| server.state == state).count();
        out.sample("tidings_servers", &[("state", &state.as_str())], count);
    }
    out.family(
        "tidings_failed_lists",
        "gauge",
        "Lists that a connected server fails to give; the last good one is served.",
    );
    for server in &measures.servers {
        out.sample("tidings_failed_lists", &[("server", &server.name)], server.failed_lists);
    }
}

/// Calls that are over, by server and tool. What was never called has no series.
fn calls(out: &mut MetricsText, measures: &Measures) {
    let kinds = || {
        let each = measures.servers.iter().flat_map(|server| server.calls.kinds.iter().map(move |kind| (server, kind)));
        each.filter(|(_, kind)| kind.ends.iter().any(|count| *count > 0))
    };
    out.family(
        "tidings_calls_total",
        "counter",
        "Calls of tools, prompts and resources that are over, by how they ended.",
    );
    for (server, kind) in kinds() {
        for (end, count) in CALL_ENDS.iter().zip(kind.ends) {
            let labels: [Label<'_>; 3] = [("server", &server.name), ("method", &kind.kind.as_str()), ("outcome", end)];
            out.sample("tidings_calls_total", &labels, count);
        }
    }
    let help = "From the arrival of a call to its answer, with the time that its server took.";
    out.family("tidings_call_seconds", "histogram", help);
    for (server, kind) in kinds() {
        let labels: [Label<'_>; 2] = [("server", &server.name), ("method", &kind.kind.as_str())];
        out.histogram_of("tidings_call_seconds", &labels, &kind.took);
    }
    let tools = || {
        let each = measures.servers.iter().flat_map(|server| server.calls.tools.iter().map(move |tool| (server, tool)));
        each.map(|(server, tool)| (server, tool, tool.name.as_deref().unwrap_or(OTHER_TOOLS)))
    };
    out.family("tidings_tool_calls_total", "counter", "Calls of each tool that are over, by how they ended.");
    for (server, tool, name) in tools() {
        for (end, count) in CALL_ENDS.iter().zip(tool.ends) {
            let labels: [Label<'_>; 3] = [("server", &server.name), ("tool", &name), ("outcome", end)];
            out.sample("tidings_tool_calls_total", &labels, count);
        }
    }
    out.family("tidings_tool_call_seconds", "summary", "How long the calls of each tool took.");
    for (server, tool, name) in tools() {
        let labels: [Label<'_>; 2] = [("server", &server.name), ("tool", &name)];
        out.sample("tidings_tool_call_seconds_sum", &labels, tool.took.as_secs_f64());
        out.sample("tidings_tool_call_seconds_count", &labels, tool.ends.iter().sum::<u64>());
    }
}

fn notices(out: &mut MetricsText, measures: &Measures) {
    out.family("tidings_notifications_sent_total", "counter", "list_changed notifications handed to clients.");
    for (era, counts) in &measures.sent {
        for topic in Topic::ALL {
            let labels: [Label<'_>; 2] = [("era", &era.as_str()), ("kind", &topic.as_str())];
            out.sample("tidings_notifications_sent_total", &labels, counts[topic as usize]);
        }
    }
    let help = "Changes that a client was not told of: it would not see them, or its revision is told of nothing.";
    out.family("tidings_notifications_suppressed_total", "counter", help);
    for (reason, counts) in [("unchanged_view", &measures.unchanged), ("silent_revision", &measures.silent)] {
        for topic in Topic::ALL {
            let labels: [Label<'_>; 2] = [("kind", &topic.as_str()), ("reason", &reason)];
            out.sample("tidings_notifications_suppressed_total", &labels, counts[topic as usize]);
        }
    }
    let help = "Changes that needed no notification of their own, because one was owed already.";
    out.family("tidings_notifications_coalesced_total", "counter", help);
    for topic in Topic::ALL {
        let count = measures.coalesced[topic as usize];
        out.sample("tidings_notifications_coalesced_total", &[("kind", &topic.as_str())], count);
    }
    let help = "From the first signal of a change to its notification being handed to a client.";
    out.family("tidings_signal_to_delivery_seconds", "histogram", help);
    for (era, durations) in &measures.since_signal {
        out.histogram("tidings_signal_to_delivery_seconds", era.as_str(), durations);
    }
    let help = "From a change being readable to its notification being handed to a client.";
    out.family("tidings_commit_to_delivery_seconds", "histogram", help);
    for (era, durations) in &measures.since_commit {
        out.histogram("tidings_commit_to_delivery_seconds", era.as_str(), durations);
    }
}

fn updates(out: &mut MetricsText, measures: &Measures) {
    out.family("tidings_updates_received_total", "counter", "resources/updated notifications received from servers.");
    for server in &measures.servers {
        out.sample("tidings_updates_received_total", &[("server", &server.name)], server.updates);
    }
    let help = "resources/updated notifications handed to clients.";
    out.family("tidings_updates_sent_total", "counter", help);
    for (era, count) in &measures.updates {
        out.sample("tidings_updates_sent_total", &[("era", &era.as_str())], count);
    }
    let help = "From the first change of a resource that a notification stands for to its being handed to a client.";
    out.family("tidings_update_to_delivery_seconds", "histogram", help);
    for (era, durations) in &measures.since_update {
        out.histogram("tidings_update_to_delivery_seconds", era.as_str(), durations);
    }
}

const fn list_name(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools => "tools",
        ListKind::Prompts => "prompts",
        ListKind::Resources => "resources",
        ListKind::Templates => "resource_templates",
    }
}
