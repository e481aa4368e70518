//! How long requests take: the histograms `mcp.server.operation.duration` and `mcp.client.operation.duration`, by the attributes that have
//! few values. Names are the servers' to choose, so only so many series are told apart; the rest is one, which says so.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use tidings_engine::{EndedSpan, SpanAttributes, SpanKind, SpanValue};

/// The bounds that the conventions recommend, in seconds.
pub(crate) const BOUNDS: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// How many series one histogram has at most.
const MOST_SERIES: usize = 2_000;
/// What the series of all others says, by the specification.
const OVERFLOW: &str = "otel.metric.overflow";
/// What tells series apart.
const KEYS: [&str; 8] = [
    "mcp.method.name",
    "gen_ai.operation.name",
    "gen_ai.tool.name",
    "gen_ai.prompt.name",
    "mcp.protocol.version",
    "network.transport",
    "rpc.response.status_code",
    "tidings.server",
];

/// One series.
#[derive(Clone, Debug, Default)]
pub(crate) struct DurationSeries {
    pub(crate) buckets: [u64; BOUNDS.len() + 1],
    pub(crate) count: u64,
    pub(crate) sum: f64,
}

impl DurationSeries {
    fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum += seconds;
    }
}

/// One histogram by the attributes of its series.
pub(crate) type DurationHistogram = HashMap<SpanAttributes, DurationSeries>;

/// Everything that was measured since the start.
#[derive(Clone, Debug)]
pub(crate) struct OperationDurations {
    pub(crate) since: SystemTime,
    pub(crate) server: DurationHistogram,
    pub(crate) client: DurationHistogram,
}

impl Default for OperationDurations {
    fn default() -> Self {
        Self { since: SystemTime::now(), server: HashMap::new(), client: HashMap::new() }
    }
}

impl OperationDurations {
    pub(crate) fn observe(&mut self, span: &EndedSpan) {
        let histogram = match span.kind {
            SpanKind::Server => &mut self.server,
            SpanKind::Client => &mut self.client,
            SpanKind::Internal | SpanKind::Producer | SpanKind::Consumer => return,
        };
        let told = span.attributes.iter().filter(|(key, _)| KEYS.contains(key)).cloned();
        let error = span.error.clone().map(|error| ("error.type", SpanValue::Text(error)));
        let mut key: SpanAttributes = told.chain(error).collect();
        // One more than the bound, then: the series of the rest has to have a place of its own.
        if histogram.len() >= MOST_SERIES && !histogram.contains_key(&key) {
            key = vec![(OVERFLOW, "true".into())];
        }
        histogram.entry(key).or_default().add(span.took);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.server.is_empty() && self.client.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use tidings_proto::{TraceContext, TraceParent};

    use super::*;

    fn span(kind: SpanKind, tool: String, took: Duration) -> EndedSpan {
        let parent = TraceParent { trace: [1; 16], span: [2; 8], sampled: false };
        EndedSpan {
            kind,
            name: "tools/call".into(),
            context: TraceContext { parent, state: None },
            parent: None,
            links: Vec::new(),
            began: SystemTime::now(),
            took,
            attributes: vec![("gen_ai.tool.name", tool.into()), ("jsonrpc.request.id", "7".to_owned().into())],
            error: None,
        }
    }

    // reach 7
    #[test]
    fn requests_are_told_apart_by_what_has_few_values() {
        let mut durations = OperationDurations::default();
        for millis in [5, 10, 11, 400_000] {
            durations.observe(&span(SpanKind::Server, "a".into(), Duration::from_millis(millis)));
        }
        durations.observe(&span(SpanKind::Producer, "a".into(), Duration::ZERO));
        assert!(durations.client.is_empty());
        let series = &durations.server[&vec![("gen_ai.tool.name", SpanValue::from("a"))]];
        assert_eq!((series.count, series.buckets[0], series.buckets[1], series.buckets[14]), (4, 2, 1, 1));
    }

    // reach 7
    #[test]
    fn only_so_many_series_are_told_apart() {
        let mut durations = OperationDurations::default();
        for number in 0..MOST_SERIES + 7 {
            durations.observe(&span(SpanKind::Client, number.to_string(), Duration::ZERO));
        }
        assert_eq!(durations.client.len(), MOST_SERIES + 1);
        assert_eq!(durations.client[&vec![(OVERFLOW, SpanValue::from("true"))]].count, 7);
    }
}
