//! From `[limits]` to the limits that the engine holds.

use tidings_config::{Config, LimitSettings};
use tidings_hub::limits::{LimitRate, LimitRule, LimitRules};
use tidings_hub::policy::ItemPattern;
use tidings_hub::who::WhoPattern;

/// The limits of a configuration, if it has some, or what can not be understood of them.
pub(crate) fn of(config: &Config) -> Result<Option<LimitRules>, String> {
    let rules = |limits: &Vec<LimitSettings>| limits.iter().map(rule).collect::<Result<_, _>>().map(LimitRules);
    config.limits.as_ref().map(rules).transpose()
}

fn rule(settings: &LimitSettings) -> Result<LimitRule, String> {
    let fault = |what: &dyn std::fmt::Display| format!("[limits] \"{}\": {what}", settings.name);
    let people = |texts: &[String]| {
        texts.iter().map(|text| text.parse::<WhoPattern>().map_err(|error| fault(&error))).collect::<Result<_, _>>()
    };
    Ok(LimitRule {
        name: settings.name.clone(),
        who: people(&settings.who)?,
        except: people(&settings.except)?,
        items: settings
            .what
            .iter()
            .map(|text| text.parse::<ItemPattern>().map_err(|error| fault(&error)))
            .collect::<Result<_, _>>()?,
        rate: settings.rate.map(|(count, per)| LimitRate { count, per }),
        concurrent: settings.concurrent,
        per_day: settings.per_day,
    })
}
