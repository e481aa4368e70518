//! Which traces are recorded.

use tidings_proto::TraceParent;

/// A sampler of OpenTelemetry, by the names of `OTEL_TRACES_SAMPLER`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TraceSampler {
    /// Whether a trace that somebody else began is recorded as they say.
    follows_parent: bool,
    /// How many of the others are, from none (0) to all (1).
    ratio: f64,
}

impl Default for TraceSampler {
    fn default() -> Self {
        Self { follows_parent: true, ratio: 1.0 }
    }
}

impl TraceSampler {
    /// `None` for a name that is not known, or an argument that is no ratio.
    pub(crate) fn parse(name: &str, argument: Option<&str>) -> Option<Self> {
        let ratio = || {
            let ratio = argument.map_or(Ok(1.0), |text| text.trim().parse::<f64>()).ok()?;
            (0.0..=1.0).contains(&ratio).then_some(ratio)
        };
        let (follows_parent, kind) = match name.strip_prefix("parentbased_") {
            Some(rest) => (true, rest),
            None => (false, name),
        };
        let ratio = match kind {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => ratio()?,
            _ => return None,
        };
        Some(Self { follows_parent, ratio })
    }

    pub(crate) fn samples(self, parent: Option<&TraceParent>, trace: &[u8; 16]) -> bool {
        match parent {
            Some(parent) if self.follows_parent => parent.sampled,
            // Everybody who asks about the same trace has to come to the same answer: its id decides.
            _ => {
                let [.., a, b, c, d, e, f, g, h] = *trace;
                // 63 bits of the second half, as the Go SDK takes them: what that samples by the same ratio is sampled
                // here, too.
                let place = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1;
                // All is asked for apart: the largest place as an `f64` is the bound itself.
                self.ratio >= 1.0 || (place as f64) < self.ratio * (1_u64 << 63) as f64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(sampled: bool) -> TraceParent {
        TraceParent { trace: [7; 16], span: [1; 8], sampled }
    }

    // reach 7
    #[test]
    fn whoever_began_a_trace_decides_by_default() {
        let sampler = TraceSampler::default();
        assert!(sampler.samples(None, &[1; 16]));
        assert!(sampler.samples(Some(&parent(true)), &[1; 16]));
        assert!(!sampler.samples(Some(&parent(false)), &[1; 16]));
        assert_eq!(TraceSampler::parse("parentbased_always_on", None), Some(sampler));
    }

    // reach 7
    #[test]
    fn a_part_of_all_traces_is_recorded() {
        let sampler = TraceSampler::parse("traceidratio", Some("0.25")).expect("known");
        let sampled = (0..=u16::MAX).filter(|n| {
            let mut trace = [1; 16];
            trace[8..10].copy_from_slice(&n.to_be_bytes());
            sampler.samples(Some(&parent(false)), &trace)
        });
        assert_eq!(sampled.count(), 1 << 14);
        let off = TraceSampler::parse("always_off", None).expect("known");
        assert!(!off.samples(Some(&parent(true)), &[1; 16]));
        assert!(!TraceSampler::parse("parentbased_always_off", None).expect("known").samples(None, &[1; 16]));
    }

    #[test]
    fn what_is_not_known_is_none() {
        for (name, argument) in [("jaeger_remote", None), ("traceidratio", Some("2")), ("traceidratio", Some("x"))] {
            assert_eq!(TraceSampler::parse(name, argument), None, "{name}");
        }
    }
}
