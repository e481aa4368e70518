//! From `[policy]` to the rules that the engine holds.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tidings_config::{Config, PolicyHints, PolicyKinds, PolicyRuleSettings, PolicySettings, PolicyVerbs, glob_matches};
use tidings_engine::AccessPolicy;
use tidings_hub::policy::{HintCondition, ItemPattern, PolicyMode, PolicyRule, PolicyRules, Rights, RuleEffect};
use tidings_hub::who::WhoPattern;

/// The rules of a configuration, if it has some, or what can not be understood of them.
pub(crate) fn of(config: &Config) -> Result<Option<Arc<AccessPolicy>>, String> {
    config.policy.as_ref().map(compile).transpose()
}

/// The rules of the text of a file, which need not hold.
pub(crate) fn of_text(text: &str) -> Result<Arc<AccessPolicy>, String> {
    compile(&tidings_config::parse_policy(text, Path::new("policy.toml")).map_err(|errors| errors.to_string())?)
}

fn compile(settings: &PolicySettings) -> Result<Arc<AccessPolicy>, String> {
    let default = if settings.allows_by_default { RuleEffect::Allow } else { RuleEffect::Deny };
    let mode = if settings.enforced { PolicyMode::Enforce } else { PolicyMode::Report };
    let rules = settings.rules.iter().map(rule).collect::<Result<_, _>>()?;
    Ok(AccessPolicy::new(PolicyRules { default, mode, rules }))
}

fn rule(settings: &PolicyRuleSettings) -> Result<PolicyRule, String> {
    let PolicyKinds { tools, prompts, resources } = settings.kinds;
    let PolicyVerbs { see, r#use, follow } = settings.to;
    let PolicyHints { read_only, destructive, idempotent, open_world } = settings.hints;
    let to = [(see, Rights::SEE), (r#use, Rights::USE), (follow, Rights::FOLLOW)];
    let to = to.into_iter().filter(|(said, _)| *said).fold(Rights::NONE, |all, (_, right)| all.or(right));
    // The configuration was checked by the same grammar. All the same nothing is left out in silence: a rule that is missing permits.
    let fault = |what: &dyn std::fmt::Display| format!("[policy] rule \"{}\": {what}", settings.name);
    let people = |texts: &[String]| {
        texts.iter().map(|text| text.parse::<WhoPattern>().map_err(|error| fault(&error))).collect::<Result<_, _>>()
    };
    Ok(PolicyRule {
        name: settings.name.clone(),
        who: people(&settings.who)?,
        except: people(&settings.except)?,
        effect: if settings.denies { RuleEffect::Deny } else { RuleEffect::Allow },
        items: settings
            .items
            .iter()
            .map(|text| text.parse::<ItemPattern>().map_err(|error| fault(&error)))
            .collect::<Result<_, _>>()?,
        kinds: [tools, prompts, resources, resources],
        to,
        hints: HintCondition { read_only, destructive, idempotent, open_world },
        scope: settings.scope.clone(),
    })
}

/// The claims that rules ask for: whoever lets people in has to remember them.
pub(crate) fn claims(config: &Config) -> BTreeSet<String> {
    let rules = config.policy.iter().flat_map(|policy| &policy.rules);
    let people = rules.flat_map(|rule| rule.who.iter().chain(&rule.except));
    let claims = people.filter_map(|who| match who.parse() {
        Ok(WhoPattern::Claim { name, .. }) => Some(name),
        _ => None,
    });
    claims.collect()
}

/// Servers and people that rules name and that are configured nowhere are most likely misspelt. Servers may come later, so they are no error.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let names = || config.servers.iter().map(|server| server.name.as_str()).chain(["watch", "demo"]);
    let tokens: BTreeSet<&str> =
        config.auth.iter().flat_map(|auth| &auth.tokens).map(|token| token.name.as_str()).collect();
    let has_provider = config.auth.iter().any(|auth| !auth.jwt.is_empty() || auth.introspection.is_some());
    let mut warnings = Vec::new();
    for rule in config.policy.iter().flat_map(|policy| &policy.rules) {
        for item in &rule.items {
            let server = item.split_once('/').map_or("*", |(server, _)| server);
            if !names().any(|name| glob_matches(server, name)) {
                warnings.push(format!("policy: \"{item}\" of the rule \"{}\" names no configured server", rule.name));
            }
        }
        if let Some(scope) = rule.scope.as_ref().filter(|_| !has_provider) {
            warnings.push(format!(
                "policy: the rule \"{}\" asks for the scope \"{scope}\", and [auth] has no provider whose tokens have scopes: \
                 nobody can use what it is about",
                rule.name
            ));
        }
        for who in rule.who.iter().chain(&rule.except) {
            let token = who.strip_prefix("token:").filter(|name| *name != "local" && !tokens.contains(name));
            if let Some(name) = token {
                warnings.push(format!(
                    "policy: the rule \"{}\" names a token \"{name}\" that [auth] does not have",
                    rule.name
                ));
            }
        }
    }
    warnings
}
