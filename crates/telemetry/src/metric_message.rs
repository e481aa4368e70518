//! Measures as a message of OTLP: the numbers since the start, so that a message that is lost costs nothing but time.

use std::time::SystemTime;

use crate::durations::{BOUNDS, DurationHistogram, OperationDurations};
use crate::protobuf::ProtoMessage;
use crate::span_message::{attribute, describe, nanos, scope};

/// Each number stands for all since the start.
const CUMULATIVE: u64 = 2;

/// `ExportMetricsServiceRequest` of what was measured.
pub(crate) fn request(resource: &[(String, String)], durations: &OperationDurations, now: SystemTime) -> Vec<u8> {
    let mut out = ProtoMessage::default();
    let times = (nanos(durations.since), nanos(now));
    out.message(1, |out| {
        describe(out, resource);
        out.message(2, |out| {
            scope(out);
            let server = "How long a request of a client took, until its answer.";
            metric(out, ("mcp.server.operation.duration", server), &durations.server, times);
            let client = "How long a request to a server took, until its answer.";
            metric(out, ("mcp.client.operation.duration", client), &durations.client, times);
        });
    });
    out.into_bytes()
}

fn metric(out: &mut ProtoMessage, (name, about): (&str, &str), histogram: &DurationHistogram, times: (u64, u64)) {
    if histogram.is_empty() {
        return;
    }
    out.message(2, |out| {
        out.text(1, name).text(2, about).text(3, "s");
        out.message(9, |out| {
            for (attributes, series) in histogram {
                out.message(1, |out| {
                    out.fixed64(2, times.0).fixed64(3, times.1).fixed64(4, series.count).double(5, series.sum);
                    out.packed(6, series.buckets.iter().copied()).packed(7, BOUNDS.iter().map(|bound| bound.to_bits()));
                    for (key, value) in attributes {
                        match (*key, value) {
                            // The one that is no text.
                            ("otel.metric.overflow", _) => overflow(out),
                            (key, value) => drop(out.message(9, |out| attribute(out, key, value))),
                        }
                    }
                });
            }
            out.number(2, CUMULATIVE);
        });
    });
}

fn overflow(out: &mut ProtoMessage) {
    out.message(9, |out| {
        out.text(1, "otel.metric.overflow");
        out.message(2, |out| {
            // A boolean, as the specification has it for this attribute.
            out.chosen_number(2, 1);
        });
    });
}
