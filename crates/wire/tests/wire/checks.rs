//! What must hold for any bytes whatever. The fuzz targets and the properties run the same code.

use bytes::Bytes;
use serde_json::value::RawValue;
use tidings_wire::sse::{EventTooLong, SseDecoder, SseEvent};
use tidings_wire::{
    ByteSpan, Frame, FrameFault, FrameKind, FrameLimits, IncomingMessage, Patch, RawId, ScanError, elements, members,
    one_line, validate,
};

/// Whether another parser takes the bytes for JSON. It knows no depth limit here and never decodes.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(bytes).is_ok()
}

/// What is accepted is JSON, and changing its id changes nothing else; what is refused is refused for the reason given.
pub(crate) fn frame(data: &[u8]) {
    let limits = FrameLimits { max_bytes: 1 << 16, max_depth: 64, max_batch: 16 };
    match IncomingMessage::parse(Bytes::copy_from_slice(data), &limits) {
        Ok(IncomingMessage::Single(frame)) => {
            assert_eq!(frame.bytes(), data);
            accepted(&frame, &limits);
        }
        Ok(IncomingMessage::Batch(parts)) => {
            assert!(is_json(data));
            assert!(!parts.is_empty() && parts.len() <= limits.max_batch);
            for part in parts {
                match part {
                    Ok(frame) => accepted(&frame, &limits),
                    Err(error) => assert!(!error.fault.is_parse_error(), "the whole batch was JSON"),
                }
            }
        }
        Err(error) => {
            if let Some(id) = &error.id {
                assert_eq!(RawId::from_raw(id.as_str().as_bytes()).as_ref(), Some(id));
            }
            match error.fault {
                FrameFault::Json(ScanError::Syntax { at }) => assert!(at < data.len() && !is_json(data)),
                FrameFault::Json(ScanError::Truncated) => assert!(!is_json(data)),
                FrameFault::Json(ScanError::TooDeep { .. }) => {}
                FrameFault::Utf8 { valid } => assert!(std::str::from_utf8(&data[..valid]).is_ok() && !is_json(data)),
                FrameFault::TooLong { len, .. } => assert_eq!(len, data.len()),
                _ => assert!(is_json(data)),
            }
        }
    }
}

fn accepted(frame: &Frame, limits: &FrameLimits) {
    let bytes = frame.bytes();
    assert!(is_json(bytes));
    for span in [frame.id_span(), frame.params(), frame.outcome()].into_iter().flatten() {
        assert!(span.start < span.end && span.end <= bytes.len());
        assert!(is_json(frame.raw(span)));
    }
    walks(bytes, validate(bytes, limits.max_depth).unwrap());

    let line = one_line(bytes);
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes) {
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&line).unwrap(), value);
    }

    if frame.id().is_none() {
        assert!(matches!(frame.kind(), FrameKind::Notification | FrameKind::Error));
    }
    if frame.kind() == FrameKind::Notification {
        return;
    }
    let mut patch = Patch::new();
    frame.set_id(&mut patch, &RawId::from_raw(b"\"new\"").unwrap());
    let patched = patch.apply(bytes);
    if let Some(span) = frame.id_span() {
        assert_eq!(patched, [&bytes[..span.start], b"\"new\"", &bytes[span.end..]].concat());
    }
    let again = Frame::parse(patched, limits).unwrap();
    assert_eq!(again.id().unwrap().as_str(), "\"new\"");
    assert_eq!(again.kind(), frame.kind());
    assert_eq!(again.method(), frame.method());
    assert_eq!(again.params().map(|s| again.raw(s)), frame.params().map(|s| frame.raw(s)));
    assert_eq!(again.outcome().map(|s| again.raw(s)), frame.outcome().map(|s| frame.raw(s)));
}

/// Walking finds spans in order, inside their parent, each of them one JSON value.
fn walks(bytes: &[u8], whole: ByteSpan) {
    let mut from = whole.start + 1;
    for member in members(bytes, whole) {
        assert!(
            from <= member.key.span.start && member.key.span.end < member.value.start && member.value.end < whole.end
        );
        assert!(is_json(member.key.span.of(bytes)) && is_json(member.value.of(bytes)));
        from = member.value.end;
        walks(bytes, member.value);
    }
    for element in elements(bytes, whole) {
        assert!(from <= element.start && element.end < whole.end);
        assert!(is_json(element.of(bytes)));
        from = element.end;
        walks(bytes, element);
    }
}

/// Everything a decoder says about a stream that arrives in these chunks, up to its first error.
pub(crate) fn decode<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
    limit: usize,
) -> (Vec<SseEvent>, Option<EventTooLong>) {
    let mut decoder = SseDecoder::new(limit);
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next_event(), Err(error), "an error is final");
                    return (events, Some(error));
                }
            }
        }
    }
    (events, None)
}

/// How a stream is cut into chunks changes nothing; no event exceeds the limit. The first two bytes say limit and cut.
pub(crate) fn event_stream(data: &[u8]) {
    let Some(([limit, cut], stream)) = data.split_first_chunk::<2>() else { return };
    let limit = usize::from(*limit);
    let whole = decode([stream], limit);
    assert_eq!(decode(stream.chunks(1), limit), whole);
    assert_eq!(decode(stream.chunks(usize::from(*cut).max(1)), limit), whole);
    for event in &whole.0 {
        assert!(event.data.len() + event.event.len() + event.id.as_ref().map_or(0, String::len) <= limit);
    }
}
