//! Case 29: rules. What a decision and a view cost with 5,000 tools, 20 rules, 100 classes and 10,000 clients.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, OfferItem, RuledServer, ServerOffer};
use tidings_hub::policy::{AccessPolicy, HintCondition, PolicyMode, PolicyRule, PolicyRules, Rights, RuleEffect};
use tidings_hub::scope::{AccessScope, ServerAudience};
use tidings_hub::who::{PersonFacts, WhoPattern};
use tidings_proto::{FieldView, ListKind, Revision};

use super::BenchContext;
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};

const SERVERS: u32 = 50;
const TOOLS: u32 = 100;
const RULES: usize = 20;
const CLASSES: usize = 100;
const CLIENTS: usize = 10_000;
/// Decisions of each client.
const DECISIONS: usize = 20;

/// Measured afresh in each repetition.
pub(super) fn rows(bench: &BenchContext) -> Vec<ReportRow> {
    let (mut decisions, mut views, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for repetition in 0..bench.repeat {
        eprintln!("rules … {}/{}", repetition + 1, bench.repeat);
        let people = people();
        let (policy, whole) = ruled();
        // Rendered for everybody before, as it is in a gateway that somebody has listed.
        whole.seen_by(&AccessScope::everything()).digests(Revision::MODERN);
        let made = people.iter().take(CLASSES).map(|scope| {
            timed(|| {
                whole.seen_by(scope).digests(Revision::MODERN);
            })
        });
        views.push(sample(made.collect(), 1e3));
        decisions.push(sample(decide(&whole, &people), 1e9));
        let found: usize = distinct(people.iter().map(|scope| whole.seen_by(scope)));
        let full = json!({ "views": found, "classes": policy.class_count() });
        counts.push(BenchSample { baseline: Some(CLASSES as f64), gateway: Some(found as f64), full });
    }
    let what = |what: &str| format!("{RULES} rules, {} tools, {CLIENTS} clients: {what}", SERVERS * TOOLS);
    let row = |what, measure, target, samples| ReportRow::judge(29, what, measure, target, samples, None);
    vec![
        row(what("one decision, p99"), RowMeasure::Nanoseconds, RowTarget::NanosecondsAtMost(2_000.0), decisions),
        row(what("one view, p99"), RowMeasure::Milliseconds, RowTarget::MillisecondsAtMost(2.0), views),
        row(what("views, and classes"), RowMeasure::Count, RowTarget::ExtraCountAtMost(0.0), counts),
    ]
}

/// What the calls of all clients ask, in turns, so that no class is asked twice in a row.
fn decide(whole: &Arc<CatalogueSnapshot>, people: &[AccessScope]) -> Vec<Duration> {
    let names: Vec<(u32, String)> =
        (0..SERVERS).map(|server| (server, format!("s{server}__get_{}", (server * 7) % TOOLS))).collect();
    let mut times = Vec::with_capacity(people.len() * DECISIONS);
    for round in 0..DECISIONS {
        for (number, scope) in people.iter().enumerate() {
            let (server, name) = &names[(number + round) % names.len()];
            let server_name = format!("s{server}");
            times.push(timed(|| {
                let view = whole.seen_by(scope);
                let ruled = RuledServer { id: ServerId(*server), name: &server_name, audience: ServerAudience::ByName };
                let found = view.tool(name);
                found.is_some_and(|route| view.permits(ruled, ListKind::Tools, route.local.as_str(), Rights::USE))
            }));
        }
    }
    times
}

fn distinct(views: impl Iterator<Item = Arc<CatalogueSnapshot>>) -> usize {
    let mut places: Vec<*const CatalogueSnapshot> = views.map(|view| Arc::as_ptr(&view)).collect();
    places.sort_unstable();
    places.dedup();
    places.len()
}

/// How long something takes; what it gives is kept from being optimised away.
fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    std::hint::black_box(work());
    start.elapsed()
}

fn sample(mut times: Vec<Duration>, per_second: f64) -> BenchSample {
    times.sort_unstable();
    let at = |share: f64| {
        let time = times.get(((times.len().saturating_sub(1)) as f64 * share) as usize);
        time.map_or(0.0, |time| time.as_secs_f64() * per_second)
    };
    let full = json!({ "p50": at(0.5), "p99": at(0.99), "max": at(1.0), "times": times.len() });
    BenchSample { baseline: None, gateway: Some(at(0.99)), full }
}

/// Each in two groups that rules name, one of ten and one of ten others, and in one that none does.
fn people() -> Vec<AccessScope> {
    let person = |client: usize| {
        let class = client % CLASSES;
        let groups = [format!("g{}", class % 10), format!("g{}", 10 + class / 10), format!("own{client}")];
        let facts = PersonFacts { groups: groups.into(), ..PersonFacts::default() };
        AccessScope::new(vec!["*".to_owned()], false, |pattern, name| pattern == "*" || pattern == name)
            .of_person(facts)
    };
    (0..CLIENTS).map(person).collect()
}

fn ruled() -> (Arc<AccessPolicy>, Arc<CatalogueSnapshot>) {
    let rule = |number: usize| PolicyRule {
        name: format!("rule {number}"),
        who: vec![WhoPattern::Group(format!("g{number}"))],
        except: Vec::new(),
        effect: RuleEffect::Deny,
        items: [
            format!("s{number}/get_{number}*"),
            format!("s{}/*5", number + RULES),
            format!("s4{}/get_1*", number % 10),
        ]
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect(),
        kinds: [true; 4],
        to: Rights::ALL,
        hints: HintCondition::default(),
        scope: None,
    };
    let rules = (0..RULES).map(rule).collect();
    let policy = AccessPolicy::new(PolicyRules { default: RuleEffect::Allow, mode: PolicyMode::Enforce, rules });
    let offers = (0..SERVERS).map(|server| Arc::new(offer(server))).collect();
    let whole = CatalogueSnapshot::new(offers, FieldView::Strict).under(Some(Arc::clone(&policy)));
    (policy, Arc::new(whole))
}

fn offer(server: u32) -> ServerOffer {
    let tool = |number: u32| {
        let raw = json!({ "name": format!("get_{number}"), "description": "x".repeat(120), "inputSchema": { "type": "object" } });
        OfferItem::read(ListKind::Tools, Bytes::from(raw.to_string()), false)
    };
    let tools = (0..TOOLS).filter_map(|number| tool(number).ok()).collect();
    ServerOffer::new(ServerId(server), &format!("s{server}")).offering(ListKind::Tools, tools)
}
