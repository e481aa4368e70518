//! How frames are written: what is known of a frame as JSON, then the bytes that it carries as they are.

use tidings_hub::fleet::ReplicaId;
use tidings_hub::fleet::frames::{ExchangeId, FleetFrame, NumberedItem};

/// The bytes that a frame carries, taken out of it or to be put into it.
fn carried(frame: &mut FleetFrame) -> Option<&mut Vec<u8>> {
    match frame {
        FleetFrame::Open(open) => Some(&mut open.bytes),
        FleetFrame::Said { bytes, .. } => Some(bytes),
        FleetFrame::Numbered { item, .. } => match item {
            NumberedItem::Message { bytes }
            | NumberedItem::Part { bytes }
            | NumberedItem::Answer { bytes }
            | NumberedItem::Reply { bytes } => Some(bytes),
            NumberedItem::Fault { .. } => None,
        },
        FleetFrame::Taken
        | FleetFrame::Cancel
        | FleetFrame::Credit { .. }
        | FleetFrame::Alive { .. }
        | FleetFrame::Again { .. } => None,
    }
}

/// Writes a frame, with its sender.
pub(crate) fn write_frame(from: &ReplicaId, exchange: &ExchangeId, mut frame: FleetFrame) -> Vec<u8> {
    // In JSON each of them would be a number with a comma.
    let bytes = carried(&mut frame).map(std::mem::take).unwrap_or_default();
    let known = serde_json::to_vec(&(from, exchange, &frame)).expect("a frame is JSON");
    let mut written = Vec::with_capacity(4 + known.len() + bytes.len());
    // It always fits: without the bytes a frame is small.
    written.extend_from_slice(&u32::try_from(known.len()).unwrap_or(u32::MAX).to_le_bytes());
    written.extend_from_slice(&known);
    written.extend_from_slice(&bytes);
    written
}

/// Reads a frame; the error says what is wrong with it.
pub(crate) fn read_frame(written: &[u8]) -> Result<(ReplicaId, ExchangeId, FleetFrame), String> {
    let short = || "it is too short".to_owned();
    let (length, rest) = written.split_first_chunk().ok_or_else(short)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|e| e.to_string())?;
    let (known, bytes) = rest.split_at_checked(length).ok_or_else(short)?;
    let (from, exchange, mut frame): (ReplicaId, ExchangeId, FleetFrame) =
        serde_json::from_slice(known).map_err(|e| e.to_string())?;
    if let Some(carried) = carried(&mut frame) {
        *carried = bytes.to_vec();
    }
    Ok((from, exchange, frame))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tidings_hub::fleet::frames::{ExchangeKind, FaultReason, OpenFrame, RanState};
    use tidings_hub::fleet::{LogSequence, OwnerEpoch};

    use super::*;

    // cluster
    #[test]
    fn every_frame_is_read_as_it_was_written() {
        let from = ReplicaId { name: "a".into(), incarnation: u64::MAX };
        let exchange = ExchangeId { caller: from.clone(), number: 7 };
        let open = OpenFrame {
            kind: ExchangeKind::Call,
            server: "files".into(),
            epoch: OwnerEpoch(3),
            sequence: LogSequence(4),
            beat: 5,
            window: 6,
            bytes: vec![0, 255, b'"'],
        };
        let items = [
            NumberedItem::Message { bytes: b"{}".to_vec() },
            NumberedItem::Part { bytes: vec![1; 1000] },
            NumberedItem::Answer { bytes: Vec::new() },
            NumberedItem::Fault { ran: RanState::Perhaps, reason: FaultReason::ReplicaLost },
            NumberedItem::Reply { bytes: b"x".to_vec() },
        ];
        let frames = items.into_iter().map(|item| FleetFrame::Numbered { n: 1, item }).chain([
            FleetFrame::Open(open),
            FleetFrame::Taken,
            FleetFrame::Cancel,
            FleetFrame::Credit { n: 1 },
            FleetFrame::Alive { n: 2 },
            FleetFrame::Again { n: 3 },
            FleetFrame::Said { server: "files".into(), bytes: b"{}".to_vec() },
        ]);
        for frame in frames {
            let written = write_frame(&from, &exchange, frame.clone());
            assert_eq!(read_frame(&written), Ok((from.clone(), exchange.clone(), frame)));
            assert!(read_frame(&written[..3]).is_err());
        }
    }
}
