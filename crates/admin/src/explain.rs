//! `GET /explain`: whether somebody may see, use and follow an item, and which rule decides.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query as Params, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tidings_engine::{AccessScope, ServerAudience};
use tidings_hub::catalogue::{CatalogueSnapshot, ServerOffer};
use tidings_hub::policy::{AccessPolicy, Decider, ItemFacts, PolicyMode, PolicyRules, Rights, RuleEffect, ToolHints};
use tidings_hub::who::{PersonFacts, WhoPattern};
use tidings_identity::Authenticator;
use tidings_proto::ListKind;

use crate::{AdminShared, problem};

/// Who, and what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainQuery {
    /// People as rules name them, separated by commas.
    #[serde(rename = "as")]
    who: String,
    /// More groups they are in, separated by commas.
    #[serde(default)]
    groups: String,
    /// `SERVER/NAME`.
    item: String,
}

pub(crate) const KINDS: [(ListKind, &str); 4] = [
    (ListKind::Tools, "tool"),
    (ListKind::Prompts, "prompt"),
    (ListKind::Resources, "resource"),
    (ListKind::Templates, "template"),
];

pub(crate) async fn show(
    State(admin): State<AdminShared>,
    query: Result<Params<ExplainQuery>, QueryRejection>,
) -> Response {
    let query = match query {
        Ok(Params(query)) => query,
        // In the form of every other fault: the extractor's own answer is plain text.
        Err(fault) => return problem(StatusCode::BAD_REQUEST, &fault.body_text()),
    };
    let scope = match scope_of(&admin.keys, &query.who, &query.groups) {
        Ok(scope) => scope,
        Err(fault) => return problem(StatusCode::BAD_REQUEST, &fault),
    };
    let Some((server, name)) =
        query.item.split_once('/').filter(|(server, name)| !server.is_empty() && !name.is_empty())
    else {
        return problem(StatusCode::BAD_REQUEST, "`item` must be SERVER/NAME, as the server spells the name or URI");
    };
    let snapshot = std::sync::Arc::clone(&admin.gateway.catalogue().borrow().snapshot);
    let policy = admin.gateway.policy();
    let has_policy = policy.is_some();
    // Without rules the servers of the token decide alone.
    let policy = policy.unwrap_or_else(|| {
        let (default, mode) = (RuleEffect::Allow, PolicyMode::Enforce);
        AccessPolicy::new(PolicyRules { default, mode, rules: Vec::new() })
    });
    let offer = snapshot.offers().iter().find(|offer| *offer.name == *server);
    let found: Vec<Value> = explained(&policy, &scope, offer.map(|offer| &**offer), server, name);
    let mode = match (has_policy, policy.is_enforced()) {
        (false, _) => "none",
        (true, true) => "enforce",
        (true, false) => "report",
    };
    Json(json!({
        "as": query.who,
        "item": query.item,
        "policy": mode,
        "server_known": offer.is_some(),
        "listed": is_listed(&snapshot, server, name),
        "decisions": found,
    }))
    .into_response()
}

fn is_listed(snapshot: &CatalogueSnapshot, server: &str, name: &str) -> bool {
    let mut offers = snapshot.offers().iter().filter(|offer| *offer.name == *server);
    offers.any(|offer| KINDS.iter().any(|(kind, _)| offer.list(*kind).has_uri(name)))
}

/// The decisions about an item in each list that has it; in all lists where none has.
fn explained(
    policy: &AccessPolicy,
    scope: &AccessScope,
    offer: Option<&ServerOffer>,
    server: &str,
    name: &str,
) -> Vec<Value> {
    let audience = offer.map_or(ServerAudience::ByName, |offer| offer.audience);
    let listed = |kind: ListKind| offer.and_then(|offer| offer.list(kind).items.iter().find(|item| item.key == *name));
    let is_anywhere = KINDS.iter().any(|(kind, _)| listed(*kind).is_some());
    let kinds = KINDS.iter().filter(|(kind, _)| !is_anywhere || listed(*kind).is_some());
    let decision = |(kind, word): &(ListKind, &str)| {
        let trusts = *kind == ListKind::Tools && offer.is_some_and(|offer| offer.trusts_annotations);
        let hints = listed(*kind).map(|item| if trusts { ToolHints::read(&item.raw) } else { ToolHints::default() });
        let item = ItemFacts { server, kind: *kind, name, hints };
        let verdict = |right: Rights| {
            let verdict = policy.explain(scope, audience, &item, right);
            let (by, rule) = match verdict.by {
                Decider::Servers => ("servers", None),
                Decider::Rule(rule) => ("rule", Some(rule)),
                Decider::RuleOfSpelling(rule) => ("rule for another spelling of the URI", Some(rule)),
                Decider::Scope(rule) => ("scope", Some(rule)),
                Decider::Default => ("default", None),
                Decider::BuiltIn => ("built in", None),
            };
            let mut said = json!({ "allowed": verdict.allowed, "by": by, "rule": rule.map(|rule| &rule.name) });
            if by == "scope" {
                said["scope"] = json!(rule.and_then(|rule| rule.scope.as_deref()));
            }
            said
        };
        json!({
            "kind": word,
            "see": verdict(Rights::SEE),
            "use": verdict(Rights::USE),
            "follow": verdict(Rights::FOLLOW),
        })
    };
    kinds.map(decision).collect()
}

/// Somebody of whom this is known. A token of the configuration brings its servers and groups.
pub(crate) fn scope_of(keys: &Authenticator, who: &str, groups: &str) -> Result<AccessScope, String> {
    let parts = |text: &str| -> Vec<String> {
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let (who, groups) = (parts(who), parts(groups));
    let mut facts = PersonFacts::default();
    let mut scope = AccessScope::new(vec!["*".to_owned()], false, |_, _| true);
    for text in who {
        match text.parse().map_err(|error| format!("`as`: {error}"))? {
            WhoPattern::Everybody => {}
            WhoPattern::Token(name) => {
                let person = keys.person_of_token(&name);
                scope = person.ok_or_else(|| format!("`as`: [auth] has no token \"{name}\""))?.scope;
                let PersonFacts { token, groups, scopes, claims } = scope.facts().clone();
                facts.token = token;
                facts.groups.extend(groups);
                facts.scopes.extend(scopes);
                facts.claims.extend(claims);
            }
            WhoPattern::Group(name) => drop(facts.groups.insert(name)),
            WhoPattern::Scope(name) => drop(facts.scopes.insert(name)),
            WhoPattern::Claim { name, value } => drop(facts.claims.insert((name, value))),
        }
    }
    facts.groups.extend(groups);
    Ok(scope.of_person(facts))
}
