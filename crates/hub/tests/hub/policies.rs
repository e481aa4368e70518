//! What rules let people see, and who is told when the rules are others.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, OfferItem, RuledServer, ServerOffer};
use tidings_hub::ledger::{CommitOccasion, FollowerBaseline, FollowerId, Ledger, Topics};
use tidings_hub::policy::{
    AccessPolicy, Decider, HintCondition, ItemFacts, PolicyMode, PolicyRule, PolicyRules, Rights, RuleEffect,
    ServerAccess, ToolHints,
};
use tidings_hub::scope::{AccessScope, ServerAudience};
use tidings_hub::who::PersonFacts;
use tidings_proto::{FieldView, ListKind, LocalName, Revision, UriMap};

use crate::generate::{item, offers};

const RIGHTS: [Rights; 3] = [Rights::SEE, Rights::USE, Rights::FOLLOW];
const SCOPES: [&str; 2] = ["read", "write"];
const GROUPS: [&str; 3] = ["dev", "ops", "support"];

fn matches(pattern: &str, name: &str) -> bool {
    pattern == "*" || pattern == name
}

fn person(groups: &[&str]) -> AccessScope {
    let facts =
        PersonFacts { groups: groups.iter().map(|name| (*name).to_owned()).collect(), ..PersonFacts::default() };
    AccessScope::new(vec!["*".to_owned()], false, matches).of_person(facts)
}

fn rule(name: &str, who: &str, effect: RuleEffect, items: &[&str]) -> PolicyRule {
    PolicyRule {
        name: name.to_owned(),
        who: vec![who.parse().expect("people")],
        except: Vec::new(),
        effect,
        items: items.iter().map(|text| text.parse().expect("items")).collect(),
        kinds: [true; 4],
        to: Rights::ALL,
        hints: HintCondition::default(),
        scope: None,
    }
}

fn policy(default: RuleEffect, rules: Vec<PolicyRule>) -> Arc<AccessPolicy> {
    AccessPolicy::new(PolicyRules { default, mode: PolicyMode::Enforce, rules })
}

fn whole(offers: &[Arc<ServerOffer>], policy: &Arc<AccessPolicy>) -> Arc<CatalogueSnapshot> {
    let snapshot = CatalogueSnapshot::new(offers.to_vec(), FieldView::Strict);
    Arc::new(snapshot.under(Some(Arc::clone(policy))))
}

fn ruled(offer: &ServerOffer) -> RuledServer<'_> {
    RuledServer { id: offer.server, name: &offer.name, audience: offer.audience }
}

/// The second tool of each server says that it reads only, and every second server is believed. Resources beside the tools.
fn with_more(offers: &[Arc<ServerOffer>]) -> Vec<Arc<ServerOffer>> {
    let more = |offer: &Arc<ServerOffer>| {
        let mut said = (**offer).clone();
        said.trusts_annotations = offer.server.0.is_multiple_of(2);
        let tools = said.list(ListKind::Tools).items.iter().enumerate().map(|(place, tool)| match place {
            1 => annotated(tool.key.as_str(), &json!({ "readOnlyHint": true })),
            _ => tool.clone(),
        });
        let tools = tools.collect();
        let uris = |kind: ListKind, uris: [&str; 2]| uris.iter().map(|uri| item(kind, &offer.name, uri)).collect();
        Arc::new(
            said.offering(ListKind::Tools, tools)
                .offering(ListKind::Resources, uris(ListKind::Resources, ["db://a/x", "db://%61/y"]))
                .offering(ListKind::Templates, uris(ListKind::Templates, ["db://{t}", "x://{t}/c"])),
        )
    };
    offers.iter().map(more).collect()
}

fn annotated(key: &str, notes: &serde_json::Value) -> OfferItem {
    let raw = json!({ "name": key, "annotations": notes }).to_string();
    OfferItem::read(ListKind::Tools, Bytes::from(raw), false).expect("a tool")
}

fn hints_of(offer: &ServerOffer, kind: ListKind, item: &OfferItem) -> ToolHints {
    match offer.trusts_annotations && kind == ListKind::Tools {
        true => ToolHints::read(&item.raw),
        false => ToolHints::default(),
    }
}

fn any_rule() -> impl Strategy<Value = PolicyRule> {
    let who =
        prop_oneof![Just("*".to_owned()), proptest::sample::select(&GROUPS[..]).prop_map(|g| format!("group:{g}"))];
    let server = proptest::sample::select(vec!["*", "a", "a__b", "b", "a*"]);
    let name = proptest::sample::select(vec!["*", "c", "*c", "a*", "x", "db://a/*", "db://*", "*{t}*"]);
    let items = proptest::collection::vec((server, name).prop_map(|(server, name)| format!("{server}/{name}")), 1..3);
    let kinds = prop_oneof![3 => Just([true; 4]), 1 => any::<[bool; 2]>().prop_map(|[t, r]| [t, !t, r, r])];
    let to = prop_oneof![
        3 => Just(Rights::ALL), 1 => Just(Rights::SEE), 1 => Just(Rights::USE), 1 => Just(Rights::USE.or(Rights::FOLLOW)),
    ];
    let reads = prop_oneof![3 => Just(None), 1 => any::<bool>().prop_map(Some)];
    let scope = prop_oneof![2 => Just(None), 1 => proptest::sample::select(&SCOPES[..]).prop_map(Some)];
    (who, any::<bool>(), any::<bool>(), items, kinds, to, (reads, scope)).prop_map(
        |(who, excepts, allows, items, kinds, to, (read_only, scope))| PolicyRule {
            scope: scope.filter(|_| allows && to.include(Rights::USE)).map(str::to_owned),
            except: if excepts { vec!["group:ops".parse().expect("people")] } else { Vec::new() },
            kinds,
            to,
            hints: HintCondition { read_only, ..HintCondition::default() },
            ..rule(
                "any",
                &who,
                if allows { RuleEffect::Allow } else { RuleEffect::Deny },
                &items.iter().map(String::as_str).collect::<Vec<_>>(),
            )
        },
    )
}

fn any_rules() -> impl Strategy<Value = (RuleEffect, Vec<PolicyRule>)> {
    let default = prop_oneof![Just(RuleEffect::Allow), Just(RuleEffect::Deny)];
    (default, proptest::collection::vec(any_rule(), 0..6))
}

fn people() -> Vec<AccessScope> {
    let groups = |set: usize| (0..3).filter(|g| set & (1 << g) != 0).map(|g| GROUPS[g]).collect::<Vec<_>>();
    let mut people: Vec<AccessScope> = (0..8usize).map(|set| person(&groups(set))).collect();
    let with_scopes = |scopes: &[&str]| {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        person(&["dev"]).of_person(PersonFacts { scopes, ..person(&["dev"]).facts().clone() })
    };
    people.extend([with_scopes(&["write"]), with_scopes(&["read", "write", "more"])]);
    people
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    // identity 3: a view and `explain` never disagree, and nothing that is denied is in a view
    #[test]
    fn a_view_holds_exactly_what_explain_says_may_be_seen(offers in offers(), (default, rules) in any_rules()) {
        let (offers, policy) = (with_more(&offers), policy(default, rules));
        let whole = whole(&offers, &policy);
        for scope in people() {
            let part = whole.seen_by(&scope);
            for offer in &offers {
                for kind in ListKind::ALL {
                    for item in &offer.list(kind).items {
                        let hints = Some(hints_of(offer, kind, item));
                        let facts = ItemFacts { server: &offer.name, kind, name: item.key.as_str(), hints };
                        let may = |right| policy.explain(&scope, offer.audience, &facts, right).allowed;
                        let seen = part.offer(offer.server).is_some_and(|seen| seen.list(kind).get(&item.key).is_some());
                        prop_assert_eq!(seen, may(Rights::SEE), "{:?} {:?}", facts, rules_of(&policy));
                        for right in RIGHTS {
                            let permitted = part.permits(ruled(offer), kind, item.key.as_str(), right);
                            prop_assert_eq!(permitted, may(right), "{:?} {:?}", facts, right);
                        }
                        // With the scopes that are lacking it could be used, and with fewer it could not.
                        if let Some(lacking) = part.lacking_scopes(ruled(offer), kind, item.key.as_str()) {
                            let mut facts_of = scope.facts().clone();
                            facts_of.scopes.extend(lacking.iter().skip(1).cloned());
                            let almost = scope.of_person(facts_of.clone());
                            prop_assert!(!whole.seen_by(&almost).permits(ruled(offer), kind, item.key.as_str(), Rights::USE));
                            facts_of.scopes.extend(lacking);
                            let enough = scope.of_person(facts_of);
                            prop_assert!(whole.seen_by(&enough).permits(ruled(offer), kind, item.key.as_str(), Rights::USE));
                        }
                        let public = whole.public_name(kind, offer.server, &item.key);
                        if let Some(public) = public {
                            let found = match kind {
                                ListKind::Tools => part.tool(public.as_str()),
                                _ => part.prompt(public.as_str()),
                            };
                            let found = found.is_some_and(|route| route.server == offer.server && route.local == item.key);
                            let rights = policy.rights(&policy.fitting(scope.facts()), &facts);
                            prop_assert_eq!(found, RIGHTS.into_iter().any(may) || rights.lacks_scope());
                        }
                    }
                }
            }
        }
    }

    // identity 3: what is rendered is what the part holds, cut out of the whole
    #[test]
    fn a_rendered_list_is_that_of_a_catalogue_without_the_rest(offers in offers(), (default, rules) in any_rules()) {
        let (offers, policy) = (with_more(&offers), policy(default, rules));
        let whole = whole(&offers, &policy);
        for scope in people() {
            let part = whole.seen_by(&scope);
            for kind in ListKind::ALL {
                let mut expected = Vec::new();
                for offer in part.offers() {
                    expected.extend(offer.list(kind).in_order().map(|(_, item)| {
                        let public = part.public_name(kind, offer.server, &item.key).map(ToString::to_string);
                        public.unwrap_or_else(|| offer.uris.outward(item.key.as_str()))
                    }));
                }
                let page = part.listing(kind, Revision::MODERN).page(None, 10_000);
                let text = format!("[{}]", String::from_utf8_lossy(&page.items));
                let items: Vec<serde_json::Value> = serde_json::from_str(&text).expect("a list");
                let shown: Vec<String> = items.iter().map(|item| item[kind.key()].as_str().expect("a key").to_owned()).collect();
                prop_assert_eq!(shown, expected);
            }
        }
    }

    // identity 3: order means nothing; identity 8.9: rules that mean the same change no view
    #[test]
    fn rules_in_another_order_or_read_again_change_no_view(
        offers in offers(), (default, rules) in any_rules(), turn in any::<proptest::sample::Index>(),
    ) {
        let offers = with_more(&offers);
        let mut turned = rules.clone();
        turned.rotate_left(if rules.is_empty() { 0 } else { turn.index(rules.len()) });
        turned.extend(rules.first().cloned());
        let (one, other) = (whole(&offers, &policy(default, rules)), whole(&offers, &policy(default, turned)));
        for scope in people() {
            prop_assert_eq!(one.seen_by(&scope).digests(Revision::MODERN), other.seen_by(&scope).digests(Revision::MODERN));
        }
    }

    // identity 3: a changed server is screened as if everything were made anew
    #[test]
    fn a_commit_of_one_server_leads_where_a_fresh_catalogue_does(
        offers in offers(), (default, rules) in any_rules(), revision in proptest::sample::select(&Revision::ALL[..]),
    ) {
        let (offers, policy) = (with_more(&offers), policy(default, rules));
        let (last, rest) = offers.split_last().expect("a server");
        let before = whole(rest, &policy);
        // Looked at before, so that screens are known and carried over.
        people().iter().for_each(|scope| { before.seen_by(scope).digests(revision); });
        let after = Arc::new(before.with_kept(last));
        let fresh = whole(&offers, &policy);
        for scope in people() {
            prop_assert_eq!(after.seen_by(&scope).digests(revision), fresh.seen_by(&scope).digests(revision));
        }
    }

    // identity 8.9: exactly those are owed a notice whose own view differs
    #[test]
    fn other_rules_owe_a_notice_to_those_whose_view_differs(
        offers in offers(), before in any_rules(), after in any_rules(),
    ) {
        let offers = with_more(&offers);
        let (old, new) = (whole(&offers, &policy(before.0, before.1)), policy(after.0, after.1));
        let new = Arc::new(old.under(Some(new)));
        let mut ledger: Ledger<AccessScope> = Ledger::default();
        let digests = |of: &Arc<CatalogueSnapshot>, scope: &AccessScope| of.seen_by(scope).digests(Revision::MODERN);
        for (id, scope) in (0u64..).zip(people()) {
            let now = digests(&old, &scope);
            ledger.follow(FollowerId(id), scope, Topics::ALL, FollowerBaseline::Current, now);
        }
        let occasion =
            CommitOccasion { at: Instant::now(), touched: Topics::default(), signalled: [None; 3], held_by: None };
        let mut owed = ledger.commit(&occasion, |scope| digests(&new, scope)).owed;
        owed.sort();
        let differs = |(_, scope): &(u64, AccessScope)| digests(&old, scope) != digests(&new, scope);
        let expected: Vec<FollowerId> = (0u64..).zip(people()).filter(differs).map(|(id, _)| FollowerId(id)).collect();
        prop_assert_eq!(owed, expected);
    }
}

fn rules_of(policy: &AccessPolicy) -> Vec<String> {
    policy.rules().rules.iter().map(|rule| format!("{rule:?}")).collect()
}

fn crm(tools: Vec<OfferItem>) -> ServerOffer {
    ServerOffer { uris: UriMap::Prefix("crm".into()), ..ServerOffer::new(ServerId(0), "crm") }
        .offering(ListKind::Tools, tools)
}

fn names(snapshot: &CatalogueSnapshot) -> Vec<String> {
    let tools = snapshot.offers().iter().flat_map(|offer| &offer.list(ListKind::Tools).items);
    tools.map(|tool| tool.key.to_string()).collect()
}

// identity 3
#[test]
fn annotations_count_only_where_they_are_trusted() {
    let tools = vec![annotated("get", &json!({ "readOnlyHint": true })), annotated("put", &json!({}))];
    let reads = PolicyRule {
        hints: HintCondition { read_only: Some(true), ..HintCondition::default() },
        ..rule("support reads", "group:support", RuleEffect::Allow, &["*"])
    };
    let policy = policy(RuleEffect::Deny, vec![reads]);
    let offer = |trusts_annotations| Arc::new(ServerOffer { trusts_annotations, ..crm(tools.clone()) });
    assert_eq!(names(&whole(&[offer(true)], &policy).seen_by(&person(&["support"]))), ["get"]);
    assert_eq!(names(&whole(&[offer(false)], &policy).seen_by(&person(&["support"]))), Vec::<String>::new());
    // Nobody knows what a tool does that no list has: it is not permitted, and it is denied.
    let part = whole(&[offer(true)], &policy).seen_by(&person(&["support"]));
    assert!(!part.permits(ruled(&offer(true)), ListKind::Tools, "hidden", Rights::USE));
}

// identity 3
#[test]
fn what_no_list_knows_is_denied_if_it_may_be_what_is_denied() {
    let denies = PolicyRule {
        hints: HintCondition { destructive: Some(true), ..HintCondition::default() },
        ..rule("no harm", "*", RuleEffect::Deny, &["*"])
    };
    let offer = Arc::new(ServerOffer {
        trusts_annotations: true,
        ..crm(vec![annotated("get", &json!({ "readOnlyHint": true }))])
    });
    let part = whole(&[Arc::clone(&offer)], &policy(RuleEffect::Allow, vec![denies])).seen_by(&person(&[]));
    assert!(part.permits(ruled(&offer), ListKind::Tools, "get", Rights::USE));
    assert!(!part.permits(ruled(&offer), ListKind::Tools, "unlisted", Rights::USE));
}

// identity 3: by template, and by another spelling
#[test]
fn a_denied_uri_is_denied_in_every_spelling_and_with_its_template() {
    let resources = vec![item(ListKind::Resources, "crm", "db://open/1")];
    let templates =
        vec![item(ListKind::Templates, "crm", "db://{t}/{n}"), item(ListKind::Templates, "crm", "log://{day}")];
    let offer = crm(Vec::new()).offering(ListKind::Resources, resources).offering(ListKind::Templates, templates);
    let offer = Arc::new(offer);
    let denies = rule("no secrets", "*", RuleEffect::Deny, &["crm/db://secret/*", "crm/log://{day}"]);
    let part = whole(&[Arc::clone(&offer)], &policy(RuleEffect::Allow, vec![denies])).seen_by(&person(&[]));
    let may = |uri: &str| part.permits(ruled(&offer), ListKind::Resources, uri, Rights::USE);
    for uri in ["db://open/1", "db://open/2", "db://{t}/{n}", "other://x"] {
        assert!(may(uri), "{uri}");
    }
    for uri in ["db://secret/1", "db://%73ecret/1", "DB://SECRET/1", "log://today", "log://{day}", "db://secret/a/../1"]
    {
        assert!(!may(uri), "{uri}");
    }
}

// identity 3
#[test]
fn a_server_without_anything_permitted_is_not_there() {
    let (a, b) =
        (rule("a", "group:dev", RuleEffect::Allow, &["a/x*"]), rule("b", "group:dev", RuleEffect::Allow, &["b/*"]));
    let policy = policy(RuleEffect::Deny, vec![a, b, rule("no c", "*", RuleEffect::Deny, &["c/*"])]);
    let access = |groups: &[&str], server| policy.server_access(&policy.fitting(person(groups).facts()), server);
    assert_eq!(access(&["dev"], "a"), ServerAccess::Some);
    assert_eq!(access(&["dev"], "b"), ServerAccess::Everything);
    assert_eq!(access(&["dev"], "c"), ServerAccess::Nothing);
    assert_eq!(access(&[], "a"), ServerAccess::Nothing);
    let offer = |id, name| Arc::new(ServerOffer::new(ServerId(id), name));
    let part = whole(&[offer(0, "a"), offer(1, "b"), offer(2, "c")], &policy).seen_by(&person(&["dev"]));
    assert_eq!(part.offers().iter().map(|offer| &*offer.name).collect::<Vec<_>>(), ["a", "b"]);
}

// identity 3: two servers claim a short name, and one of the two tools is denied
#[test]
fn a_short_name_has_to_be_unique_among_what_is_permitted() {
    let server = |id, name: &str| {
        Arc::new(ServerOffer::new(ServerId(id), name).offering(ListKind::Tools, vec![item(ListKind::Tools, name, "x")]))
    };
    let offers = [server(0, "a"), server(1, "b")];
    let policy = policy(RuleEffect::Allow, vec![rule("no", "group:support", RuleEffect::Deny, &["a/x"])]);
    let whole = whole(&offers, &policy);
    assert!(whole.seen_by(&person(&[])).tool("x").is_none(), "two answer to it");
    assert_eq!(whole.seen_by(&person(&["support"])).tool("x").map(|route| route.server), Some(ServerId(1)));
    assert!(whole.seen_by(&person(&["support"])).tool("a__x").is_none());
}

// identity 8.8: as many views as classes
#[test]
fn people_whom_the_same_rules_are_about_share_one_view() {
    let policy = policy(RuleEffect::Allow, vec![rule("no", "group:support", RuleEffect::Deny, &["crm/put"])]);
    let offer = Arc::new(crm(vec![annotated("get", &json!({})), annotated("put", &json!({}))]));
    let whole = whole(&[offer], &policy);
    let one = whole.seen_by(&person(&["support"]));
    assert!(Arc::ptr_eq(&one, &whole.seen_by(&person(&["support", "dev"]))), "no rule tells them apart");
    assert!(Arc::ptr_eq(&whole, &whole.seen_by(&person(&["dev"]))), "nothing is kept from them");
    assert_eq!(policy.class_count(), 2);
    let admin = AccessScope::everything();
    assert!(Arc::ptr_eq(&whole, &whole.seen_by(&admin)));
}

// identity 3
#[test]
fn rules_that_are_only_tried_keep_nothing() {
    let rules = vec![rule("no", "*", RuleEffect::Deny, &["*"])];
    let policy = AccessPolicy::new(PolicyRules { default: RuleEffect::Deny, mode: PolicyMode::Report, rules });
    let whole = whole(&[Arc::new(crm(vec![annotated("get", &json!({}))]))], &policy);
    assert!(Arc::ptr_eq(&whole, &whole.seen_by(&AccessScope::everything())));
    assert_eq!(names(&whole.seen_by(&person(&[]))), ["get"]);
}

// identity 3: a scope is asked for the use, by whatever way, and not for being seen
#[test]
fn what_needs_a_scope_is_seen_and_says_which() {
    let scoped = |name: &str, items: &[&str], scope: &str| PolicyRule {
        scope: Some(scope.to_owned()),
        ..rule(name, "*", RuleEffect::Allow, items)
    };
    let destructive = HintCondition { destructive: Some(true), ..HintCondition::default() };
    let rules = vec![
        scoped("writers", &["crm/put*", "crm/db://{x}"], "write"),
        scoped("both", &["crm/put_all"], "all"),
        PolicyRule { hints: destructive, ..scoped("harm", &["crm/*"], "harm") },
    ];
    let policy = policy(RuleEffect::Allow, rules);
    let tools = vec![annotated("get", &json!({"readOnlyHint": true})), annotated("put_all", &json!({}))];
    let templates = vec![item(ListKind::Templates, "crm", "db://{x}")];
    let offer = ServerOffer { trusts_annotations: true, ..crm(tools) }.offering(ListKind::Templates, templates);
    let offer = Arc::new(offer);
    let part = whole(&[Arc::clone(&offer)], &policy).seen_by(&person(&[]));
    assert_eq!(names(&part), ["get", "put_all"], "all are seen");
    let lacking = |kind, name| {
        let scopes = part.lacking_scopes(ruled(&offer), kind, name)?;
        assert!(!part.permits(ruled(&offer), kind, name, Rights::USE));
        Some(Vec::from_iter(scopes).join(" "))
    };
    assert_eq!(lacking(ListKind::Tools, "get"), None);
    assert_eq!(lacking(ListKind::Tools, "put_all").as_deref(), Some("all harm write"));
    assert_eq!(lacking(ListKind::Tools, "unlisted").as_deref(), Some("harm"), "nobody knows what it does");
    assert_eq!(lacking(ListKind::Resources, "db://7").as_deref(), Some("write"), "its template asks for it");
    assert_eq!(policy.server_access(&policy.fitting(person(&[]).facts()), "crm"), ServerAccess::Some);
}

// identity 3
#[test]
fn explain_names_what_decides() {
    let rules = vec![
        rule("support reads", "group:support", RuleEffect::Allow, &["crm/get_*"]),
        rule("no secrets", "*", RuleEffect::Deny, &["crm/*secret*"]),
    ];
    let policy = policy(RuleEffect::Deny, rules);
    let scope = person(&["support"]);
    let explained = |name: &str, audience| {
        let facts = ItemFacts { server: "crm", kind: ListKind::Tools, name, hints: None };
        let verdict = policy.explain(&scope, audience, &facts, Rights::USE);
        let by = match verdict.by {
            Decider::Rule(rule) | Decider::RuleOfSpelling(rule) => rule.name.clone(),
            other => format!("{other:?}"),
        };
        (verdict.allowed, by)
    };
    let by_name = ServerAudience::ByName;
    assert_eq!(explained("get_x", by_name), (true, "support reads".to_owned()));
    assert_eq!(explained("get_secret", by_name), (false, "no secrets".to_owned()));
    assert_eq!(explained("put_x", by_name), (false, "Default".to_owned()));
    assert_eq!(explained("put_x", ServerAudience::Everybody), (true, "BuiltIn".to_owned()));
    assert_eq!(explained("put_x", ServerAudience::Admins), (false, "Servers".to_owned()));
}

/// A catalogue of 5,000 tools on 50 servers.
fn large() -> Vec<Arc<ServerOffer>> {
    let tool = |server: u32, n: u32| {
        let raw =
            json!({ "name": format!("get_{n}"), "description": "x".repeat(120), "inputSchema": { "type": "object" } });
        let _ = server;
        OfferItem::read(ListKind::Tools, Bytes::from(raw.to_string()), false).expect("a tool")
    };
    let server = |id: u32| {
        let offer = ServerOffer::new(ServerId(id), &format!("s{id}"));
        Arc::new(offer.offering(ListKind::Tools, (0..100).map(|n| tool(id, n)).collect()))
    };
    (0..50).map(server).collect()
}

// identity 8.8: 5,000 tools, 20 rules, 100 classes, 10,000 clients.
#[test]
fn ten_thousand_people_of_a_hundred_classes_have_a_hundred_views() {
    let rules: Vec<PolicyRule> = (0..20)
        .map(|n| {
            rule("r", &format!("group:g{n}"), RuleEffect::Deny, &[&format!("s{n}/get_{n}*"), &format!("s{}/*", n + 20)])
        })
        .collect();
    let policy = policy(RuleEffect::Allow, rules);
    let whole = whole(&large(), &policy);
    let mut views: Vec<Arc<CatalogueSnapshot>> = Vec::new();
    for client in 0..10_000u32 {
        let class = client % 100;
        let groups =
            [format!("g{}", class % 10), format!("g{}", 10 + class / 10), format!("nobody asks for g{client}")];
        let scope = person(&groups.iter().map(String::as_str).collect::<Vec<_>>());
        let view = whole.seen_by(&scope);
        if !views.iter().any(|known| Arc::ptr_eq(known, &view)) {
            views.push(view);
        }
    }
    assert_eq!((views.len(), policy.class_count()), (100, 100));
    let local = LocalName::new("get_0");
    assert!(views.iter().all(|view| view.public_name(ListKind::Tools, ServerId(49), &local).is_some()));
}

// identity 3: `kinds`
#[test]
fn a_rule_about_one_list_is_about_no_other() {
    let tools = PolicyRule {
        kinds: [true, false, false, false],
        ..rule("tools", "*", RuleEffect::Allow, &["crm/get", "crm/db://*"])
    };
    let resources = vec![item(ListKind::Resources, "crm", "db://a")];
    let offer = crm(vec![annotated("get", &json!({}))]).offering(ListKind::Resources, resources);
    let offer = Arc::new(offer);
    let part = whole(&[Arc::clone(&offer)], &policy(RuleEffect::Deny, vec![tools])).seen_by(&person(&[]));
    assert!(part.permits(ruled(&offer), ListKind::Tools, "get", Rights::USE));
    for uri in ["db://a", "db://unlisted"] {
        assert!(!part.permits(ruled(&offer), ListKind::Resources, uri, Rights::USE), "{uri}");
    }
    assert!(part.offer(offer.server).is_some_and(|seen| seen.list(ListKind::Resources).items.is_empty()));
}

// identity 3: rules tell people apart, and so do the servers of their tokens
#[test]
fn people_with_other_servers_are_of_another_class() {
    let policy = policy(RuleEffect::Allow, vec![rule("no", "*", RuleEffect::Deny, &["a/x"])]);
    let offer = |id, name: &str| {
        let tools = ["x", "y"].iter().map(|tool| item(ListKind::Tools, name, tool)).collect();
        Arc::new(ServerOffer::new(ServerId(id), name).offering(ListKind::Tools, tools))
    };
    let whole = whole(&[offer(0, "a"), offer(1, "b")], &policy);
    let with = |server: &str| AccessScope::new(vec![server.to_owned()], false, matches);
    for _ in 0..2 {
        assert_eq!(names(&whole.seen_by(&with("*"))), ["y", "x", "y"]);
        assert_eq!(names(&whole.seen_by(&with("b"))), ["x", "y"]);
    }
    assert_eq!(policy.class_count(), 2);
}
