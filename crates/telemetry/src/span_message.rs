//! Spans, and what all messages of OTLP share: attributes, the resource, the scope. The numbers are those of `opentelemetry/proto`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidings_engine::{EndedSpan, SpanKind, SpanValue};

use crate::protobuf::ProtoMessage;

/// The status of a span that failed.
const ERROR: u64 = 2;
/// In the flags of a span and a link, beside the bit that says whether it is sampled.
const SAMPLED: u32 = 1;

/// One span, as it waits in the queue.
pub(crate) fn span(span: &EndedSpan) -> Vec<u8> {
    let mut out = ProtoMessage::default();
    let own = &span.context.parent;
    out.bytes(1, &own.trace).bytes(2, &own.span).text(3, span.context.state.as_deref().unwrap_or_default());
    if let Some(parent) = &span.parent {
        out.bytes(4, parent);
    }
    let began = nanos(span.began);
    let took = u64::try_from(span.took.as_nanos()).unwrap_or(u64::MAX);
    out.text(5, &span.name).number(6, kind_number(span.kind)).fixed64(7, began).fixed64(8, began.saturating_add(took));
    for (key, value) in &span.attributes {
        out.message(9, |out| attribute(out, key, value));
    }
    if let Some(error) = &span.error {
        out.message(9, |out| attribute(out, "error.type", &SpanValue::Text(error.clone())));
    }
    for link in &span.links {
        out.message(13, |out| {
            out.bytes(1, &link.trace).bytes(2, &link.span).fixed32(6, if link.sampled { SAMPLED } else { 0 });
        });
    }
    if span.error.is_some() {
        out.message(15, |out| {
            out.number(3, ERROR);
        });
    }
    out.fixed32(16, if own.sampled { SAMPLED } else { 0 });
    out.into_bytes()
}

fn kind_number(kind: SpanKind) -> u64 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
        SpanKind::Consumer => 5,
    }
}

/// `ExportTraceServiceRequest` of these spans.
pub(crate) fn request(resource: &[(String, String)], spans: &[Vec<u8>]) -> Vec<u8> {
    let mut out = ProtoMessage::default();
    out.message(1, |out| {
        describe(out, resource);
        out.message(2, |out| {
            scope(out);
            for span in spans {
                out.bytes(2, span);
            }
        });
    });
    out.into_bytes()
}

/// Who sends: the first field of `ResourceSpans` and of `ResourceMetrics`.
pub(crate) fn describe(out: &mut ProtoMessage, resource: &[(String, String)]) {
    out.message(1, |out| {
        for (key, value) in resource {
            out.message(1, |out| attribute(out, key, &SpanValue::from(value.clone())));
        }
    });
}

/// What measured: the first field of `ScopeSpans` and of `ScopeMetrics`.
pub(crate) fn scope(out: &mut ProtoMessage) {
    out.message(1, |out| {
        out.text(1, "tidings").text(2, env!("CARGO_PKG_VERSION"));
    });
}

/// A `KeyValue`.
pub(crate) fn attribute(out: &mut ProtoMessage, key: &str, value: &SpanValue) {
    out.text(1, key);
    out.message(2, |out| match value {
        SpanValue::Text(text) => {
            // `bytes`, and not `text`: an empty value in a `oneof` has to be there, or the attribute has none at all.
            out.bytes(1, text.as_bytes());
        }
        SpanValue::Number(number) => {
            out.chosen_number(3, number.cast_unsigned());
        }
    });
}

/// Nanoseconds since 1970.
pub(crate) fn nanos(at: SystemTime) -> u64 {
    let since: Duration = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
