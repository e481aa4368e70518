//! A direct run against one through the gateway, check by check. Pure.

use std::collections::BTreeSet;

use super::checks::{CheckKey, Outcome, Results, Status};

/// A check that the gateway cost.
#[derive(Debug, PartialEq)]
pub(super) struct Lost {
    pub(super) key: CheckKey,
    pub(super) how: HowLost,
}

/// What came instead of success.
#[derive(Debug, PartialEq)]
pub(super) enum HowLost {
    Outcome(Outcome),
    Missing,
    /// The whole scenario threw before it could write its checks.
    ScenarioThrew,
    /// Not made in the direct run, and not passed here.
    Appeared(Outcome),
}

/// The difference between two runs.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    passed_directly: BTreeSet<CheckKey>,
    pub(super) lost: Vec<Lost>,
}

impl Comparison {
    pub(super) fn new(direct: &Results, through: &Results) -> Self {
        let passed_directly: BTreeSet<CheckKey> = direct.successes().cloned().collect();
        let mut lost = Vec::new();
        for key in &passed_directly {
            let how = match through.checks.get(key) {
                Some(outcome) if outcome.status == Status::Success => continue,
                Some(outcome) => HowLost::Outcome(outcome.clone()),
                None if through.broken.contains(&key.scenario) => HowLost::ScenarioThrew,
                None => HowLost::Missing,
            };
            lost.push(Lost { key: key.clone(), how });
        }
        for (key, outcome) in &through.checks {
            if outcome.status > Status::Success && !direct.checks.contains_key(key) {
                lost.push(Lost { key: key.clone(), how: HowLost::Appeared(outcome.clone()) });
            }
        }
        Self { passed_directly, lost }
    }

    /// How many checks passed directly.
    pub(super) fn checks(&self) -> usize {
        self.passed_directly.len()
    }

    pub(super) fn checks_kept(&self) -> usize {
        let lost = self.lost.iter().filter(|lost| !matches!(lost.how, HowLost::Appeared(_)));
        self.checks() - lost.count()
    }

    pub(super) fn scenarios(&self) -> usize {
        self.scenario_names().len()
    }

    pub(super) fn scenarios_kept(&self) -> usize {
        let lost: BTreeSet<&str> = self.lost.iter().map(|lost| lost.key.scenario.as_str()).collect();
        self.scenario_names().difference(&lost).count()
    }

    /// Whether a scenario or a check of it took part.
    pub(super) fn includes(&self, scenario: &str, id: &str) -> bool {
        self.passed_directly.iter().any(|key| key.scenario == scenario && key.id == id)
            || self.lost.iter().any(|lost| lost.key.scenario == scenario && lost.key.id == id)
    }

    fn scenario_names(&self) -> BTreeSet<&str> {
        self.passed_directly.iter().map(|key| key.scenario.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::checks::Pairing;
    use serde_json::json;

    fn results(checks: &[(&str, &str)]) -> Results {
        let mut results = Results::default();
        for (id, status) in checks {
            results.add(&format!("of-{id}"), &[json!({"id": id, "status": status})], Pairing::Occurrence);
        }
        results
    }

    #[test]
    fn warnings_skips_failures_and_gaps_are_all_losses() {
        let ids = ["kept", "warned", "skipped", "failed", "gone"];
        let direct = results(&ids.map(|id| (id, "SUCCESS")));
        let through =
            results(&[("kept", "SUCCESS"), ("warned", "WARNING"), ("skipped", "SKIPPED"), ("failed", "FAILURE")]);
        let comparison = Comparison::new(&direct, &through);
        assert_eq!((comparison.checks_kept(), comparison.checks()), (1, 5));
        assert_eq!((comparison.scenarios_kept(), comparison.scenarios()), (1, 5));
    }

    #[test]
    fn what_did_not_pass_directly_is_not_asked_of_the_gateway() {
        let direct = results(&[("a", "SKIPPED"), ("b", "WARNING")]);
        assert!(Comparison::new(&direct, &Results::default()).lost.is_empty());
    }

    #[test]
    fn a_failure_that_only_the_gateway_has_is_a_loss() {
        let comparison =
            Comparison::new(&results(&[("a", "SUCCESS")]), &results(&[("a", "SUCCESS"), ("b", "FAILURE")]));
        assert_eq!(comparison.lost.len(), 1);
        assert_eq!(comparison.checks_kept(), 1);
    }
}
