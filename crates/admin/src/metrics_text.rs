//! The text format of Prometheus. What is counted is in `metrics.rs` and with those who count.

use std::fmt::{Display, Write as _};

use tidings_engine::Durations;

/// The name of a label, and what it says.
pub(crate) type Label<'a> = (&'static str, &'a dyn Display);

/// The text in the making. Writing to a string can not fail.
pub(crate) struct MetricsText(String);

impl MetricsText {
    /// With room for all that a gateway usually has to say.
    pub(crate) fn new() -> Self {
        Self(String::with_capacity(16 << 10))
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }

    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(crate) fn sample(&mut self, name: &str, labels: &[Label<'_>], value: impl Display) {
        self.0.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            // The format's three escapes; a server's name may hold anything.
            let text = text.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if place == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    pub(crate) fn histogram(&mut self, name: &str, era: &str, durations: &Durations) {
        self.histogram_of(name, &[("era", &era)], durations);
    }

    pub(crate) fn histogram_of(&mut self, name: &str, labels: &[Label<'_>], durations: &Durations) {
        let mut total = 0;
        // The last bucket has no bound of its own: what is above all others is in it.
        let bounds = durations.bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&durations.counts) {
            // Buckets of Prometheus are cumulative.
            total += count;
            let labels: Vec<Label<'_>> = labels.iter().copied().chain([("le", &bound as &dyn Display)]).collect();
            self.sample(&format!("{name}_bucket"), &labels, total);
        }
        self.sample(&format!("{name}_sum"), labels, durations.sum.as_secs_f64());
        self.sample(&format!("{name}_count"), labels, total);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_label_may_hold_anything() {
        let mut out = MetricsText(String::new());
        out.sample("name", &[("server", &"a\"b\\c\nd"), ("kind", &"tools")], 3);
        out.sample("bare", &[], 0);
        assert_eq!(out.0, "name{server=\"a\\\"b\\\\c\\nd\",kind=\"tools\"} 3\nbare 0\n");
    }

    #[test]
    fn buckets_are_cumulative_and_end_with_all() {
        let mut out = MetricsText(String::new());
        let durations = Durations { bounds: &[0.5, 1.0], counts: vec![1, 0, 2], sum: Duration::from_millis(4250) };
        out.histogram("took", "modern", &durations);
        let expected = [
            "took_bucket{era=\"modern\",le=\"0.5\"} 1",
            "took_bucket{era=\"modern\",le=\"1\"} 1",
            "took_bucket{era=\"modern\",le=\"+Inf\"} 3",
            "took_sum{era=\"modern\"} 4.25",
            "took_count{era=\"modern\"} 3",
        ];
        assert_eq!(out.0.lines().collect::<Vec<_>>(), expected);
    }
}
