//! `POST /explain`: who would gain or lose what under other rules than those that hold.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_engine::{AccessPolicy, AccessScope, ServerAudience};
use tidings_hub::catalogue::{CatalogueSnapshot, ServerOffer};
use tidings_hub::policy::{FittingRules, ItemFacts, PolicyMode, PolicyRules, Rights, RuleEffect, ToolHints};
use tidings_hub::who::WhoPattern;
use tidings_proto::ListKind;

use crate::explain::{KINDS, scope_of};
use crate::{AdminShared, PolicyReader, problem};

/// Rules, and perhaps about whom and what alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ComparisonQuery {
    /// The text of a file with `[policy]`.
    policy: String,
    /// People as rules name them, separated by commas; without it everybody who is known.
    #[serde(default, rename = "as")]
    who: Option<String>,
    /// More groups they are in, separated by commas.
    #[serde(default)]
    groups: String,
    /// `SERVER/NAME`; without it everything that is listed.
    #[serde(default)]
    item: Option<String>,
}

const VERBS: [(Rights, &str); 3] = [(Rights::SEE, "see"), (Rights::USE, "use"), (Rights::FOLLOW, "follow")];

/// Most people that are looked at one by one: who is connected is not bounded otherwise.
const MOST_PEOPLE: usize = 2_000;

pub(crate) async fn show(
    State(admin): State<AdminShared>,
    Extension(rules): Extension<PolicyReader>,
    body: Bytes,
) -> Response {
    let query: ComparisonQuery = match serde_json::from_slice(&body) {
        Ok(query) => query,
        Err(fault) => return problem(StatusCode::BAD_REQUEST, &format!("the body is not as it should be: {fault}")),
    };
    let planned = match rules(&query.policy) {
        Ok(planned) => planned,
        Err(fault) => return problem(StatusCode::BAD_REQUEST, &fault),
    };
    // Rules that are only tried keep nothing, as no rules do.
    let current = admin.gateway.policy().filter(|policy| policy.is_enforced()).unwrap_or_else(nothing_kept);
    let people = match &query.who {
        Some(who) => match scope_of(&admin.keys, who, &query.groups) {
            Ok(scope) => vec![(who.clone(), scope)],
            Err(fault) => return problem(StatusCode::BAD_REQUEST, &fault),
        },
        None => everybody(&admin, [&current, &planned]),
    };
    let snapshot = Arc::clone(&admin.gateway.catalogue().borrow().snapshot);
    let mode = if planned.is_enforced() { "enforce" } else { "report" };
    // Thousands of items for hundreds of people: not on a thread that serves calls.
    let compared = tokio::task::spawn_blocking(move || {
        let comparison = RuleComparison { current, planned, snapshot, item: query.item };
        comparison.of_people(people)
    });
    match compared.await {
        Ok((changed, same)) => Json(json!({ "mode": mode, "changed": changed, "unchanged": same })).into_response(),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "the rules could not be compared"),
    }
}

fn nothing_kept() -> Arc<AccessPolicy> {
    let (default, mode) = (RuleEffect::Allow, PolicyMode::Enforce);
    AccessPolicy::new(PolicyRules { default, mode, rules: Vec::new() })
}

/// Everybody of whom something is known: who has a token of the configuration, who is connected, whom a rule names by a group, scope or
/// claim, and who is none of these.
fn everybody(admin: &AdminShared, policies: [&Arc<AccessPolicy>; 2]) -> Vec<(String, AccessScope)> {
    let mut people: Vec<(String, AccessScope)> = Vec::new();
    let tokens = admin.keys.people_of_tokens();
    people.extend(tokens.into_iter().map(|person| (format!("token:{}", person.name), person.scope)));
    people.sort_by(|(one, _), (other, _)| one.cmp(other));
    let connected = admin.gateway.connected_people().into_iter();
    people.extend(connected.filter(|(_, scope)| scope.facts().token.is_none()).take(MOST_PEOPLE));
    let rules = policies.iter().flat_map(|policy| &policy.rules().rules);
    let mut named: BTreeSet<String> = BTreeSet::new();
    for rule in rules {
        let is_kind = |who: &&WhoPattern| !matches!(who, WhoPattern::Token(_) | WhoPattern::Everybody);
        named.extend(rule.who.iter().chain(&rule.except).filter(is_kind).map(ToString::to_string));
        named.extend(rule.scope.iter().map(|scope| format!("scope:{scope}")));
    }
    named.insert("*".to_owned());
    // A comma would make two people of it; no pattern of the grammar is wrong here.
    people.extend(named.into_iter().filter_map(|who| Some((who.clone(), scope_of(&admin.keys, &who, "").ok()?))));
    people
}

/// Two sets of rules over what servers have.
struct RuleComparison {
    current: Arc<AccessPolicy>,
    planned: Arc<AccessPolicy>,
    snapshot: Arc<CatalogueSnapshot>,
    /// Only this one, where somebody asked for one.
    item: Option<String>,
}

/// People whom the same rules are about, and what would change for them.
struct ComparedPeople {
    scope: AccessScope,
    fitting: [FittingRules; 2],
    changes: Option<(Vec<Value>, Vec<Value>)>,
}

impl RuleComparison {
    /// For whom something would change and what, and for whom nothing would.
    fn of_people(&self, people: Vec<(String, AccessScope)>) -> (Vec<Value>, Vec<String>) {
        let mut known: Vec<ComparedPeople> = Vec::new();
        let (mut changed, mut same) = (Vec::new(), Vec::new());
        for (who, scope) in people {
            let fitting = [&self.current, &self.planned].map(|policy| policy.fitting(scope.facts()));
            let alike = known.iter().position(|them| them.scope.same_rights(&scope) && them.fitting == fitting);
            let place = alike.unwrap_or_else(|| {
                let changes = self.changes(&scope, &fitting);
                known.push(ComparedPeople { scope, fitting, changes });
                known.len() - 1
            });
            match &known[place].changes {
                Some((gains, loses)) => changed.push(json!({ "who": who, "gains": gains, "loses": loses })),
                None => same.push(who),
            }
        }
        (changed, same)
    }

    /// What somebody would gain and lose; `None` where that is nothing.
    fn changes(&self, scope: &AccessScope, fitting: &[FittingRules; 2]) -> Option<(Vec<Value>, Vec<Value>)> {
        let (mut gains, mut loses) = (Vec::new(), Vec::new());
        let theirs = |offer: &&Arc<ServerOffer>| {
            offer.audience == ServerAudience::ByName && scope.permits(offer.audience, &offer.name)
        };
        for offer in self.snapshot.offers().iter().filter(theirs) {
            for (kind, word) in KINDS {
                for item in &offer.list(kind).items {
                    let name = format!("{}/{}", offer.name, item.key);
                    if self.item.as_ref().is_some_and(|only| *only != name) {
                        continue;
                    }
                    let trusts = offer.trusts_annotations && kind == ListKind::Tools;
                    let hints = Some(if trusts { ToolHints::read(&item.raw) } else { ToolHints::default() });
                    let facts = ItemFacts { server: &offer.name, kind, name: item.key.as_str(), hints };
                    let [before, after] = [(&self.current, &fitting[0]), (&self.planned, &fitting[1])]
                        .map(|(policy, fitting)| policy.rights(fitting, &facts));
                    let one = |to: Vec<&str>| json!({ "item": name, "kind": word, "to": to });
                    if let Some(verbs) = verbs_beyond(kind, after, before) {
                        gains.push(one(verbs));
                    }
                    if let Some(verbs) = verbs_beyond(kind, before, after) {
                        let mut lost = one(verbs);
                        if after.lacks_scope() {
                            // Not lost for good: a larger token has it.
                            lost["scopes"] = json!(self.planned.lacking_scopes(&fitting[1], &facts));
                        }
                        loses.push(lost);
                    }
                }
            }
        }
        (!gains.is_empty() || !loses.is_empty()).then_some((gains, loses))
    }
}

/// What the first permit and the second do not.
fn verbs_beyond(kind: ListKind, first: Rights, second: Rights) -> Option<Vec<&'static str>> {
    // Only resources are followed.
    let counts = |right: Rights| right != Rights::FOLLOW || kind == ListKind::Resources;
    let beyond = VERBS.iter().filter(|(right, _)| counts(*right) && first.include(*right) && !second.include(*right));
    let verbs: Vec<&str> = beyond.map(|(_, word)| *word).collect();
    (!verbs.is_empty()).then_some(verbs)
}
