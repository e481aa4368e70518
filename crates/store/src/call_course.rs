//! How a call went, as few bytes: of a record of a call, what the next record of the same caller does not share.

use tidings_wire::append_hex;

/// Which members there are, and how the call ended: the first byte.
const HAS_ARGUMENTS: u8 = 1;
const HAS_MORE: u8 = 1 << 1;
const ENDING: u8 = 2;

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCourse<'a> {
    /// The hash of the arguments and their size.
    pub arguments: Option<(&'a [u8; 32], u64)>,
    /// Members that only some records have, as they stand in it: each with a comma before it.
    pub more: &'a [u8],
    /// How it ended.
    pub ending: CallEnding,
    /// How long it took.
    pub micros: u64,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnding {
    /// With a result of this many bytes.
    Answered(u64),
    /// With an error of this code.
    Error(i64),
    /// The client cancelled it.
    Cancelled,
    /// The client went away.
    Abandoned,
}

impl<'a> CallCourse<'a> {
    /// Appends it in its kept form.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let (ending, value) = match self.ending {
            CallEnding::Answered(size) => (0, Some(size)),
            CallEnding::Error(code) => (1, Some(folded(code))),
            CallEnding::Cancelled => (2, None),
            CallEnding::Abandoned => (3, None),
        };
        let mut first = ending << ENDING;
        first |= if self.arguments.is_some() { HAS_ARGUMENTS } else { 0 };
        first |= if self.more.is_empty() { 0 } else { HAS_MORE };
        out.push(first);
        if let Some((hash, size)) = self.arguments {
            out.extend_from_slice(hash);
            write_number(out, size);
        }
        if !self.more.is_empty() {
            write_bytes(out, self.more);
        }
        if let Some(value) = value {
            write_number(out, value);
        }
        write_number(out, self.micros);
    }

    /// Reads what [`Self::write`] wrote, and moves `rest` behind it.
    pub(crate) fn read(rest: &mut &'a [u8]) -> Option<Self> {
        let (first, behind) = rest.split_first()?;
        *rest = behind;
        let arguments = match first & HAS_ARGUMENTS {
            0 => None,
            _ => {
                let (hash, behind) = rest.split_first_chunk()?;
                *rest = behind;
                Some((hash, read_number(rest)?))
            }
        };
        let more = if first & HAS_MORE == 0 { &[][..] } else { read_bytes(rest)? };
        let ending = match first >> ENDING {
            0 => CallEnding::Answered(read_number(rest)?),
            1 => CallEnding::Error(unfolded(read_number(rest)?)),
            2 => CallEnding::Cancelled,
            3 => CallEnding::Abandoned,
            _ => return None,
        };
        Some(Self { arguments, more, ending, micros: read_number(rest)? })
    }

    /// Appends its members, as a record in JSON has them.
    pub(crate) fn write_members(&self, out: &mut Vec<u8>) {
        if let Some((hash, size)) = self.arguments {
            out.extend_from_slice(b",\"arguments\":{\"hash\":\"");
            append_hex(hash, out);
            out.extend_from_slice(b"\",\"bytes\":");
            out.extend_from_slice(size.to_string().as_bytes());
            out.push(b'}');
        }
        out.extend_from_slice(self.more);
        let ending = match self.ending {
            CallEnding::Answered(size) => format!(",\"outcome\":\"answered\",\"answer_bytes\":{size}"),
            CallEnding::Error(code) => format!(",\"outcome\":\"error\",\"code\":{code}"),
            CallEnding::Cancelled => ",\"outcome\":\"cancelled\"".to_owned(),
            CallEnding::Abandoned => ",\"outcome\":\"abandoned\"".to_owned(),
        };
        out.extend_from_slice(ending.as_bytes());
        out.extend_from_slice(format!(",\"micros\":{}", self.micros).as_bytes());
    }
}

/// A number whose sign is its last bit, so that it is short on both sides of zero.
pub(crate) fn folded(number: i64) -> u64 {
    (number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned()
}

pub(crate) fn unfolded(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Appends a number: seven bits a byte, the last of which has its highest bit clear.
pub(crate) fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads what [`write_number`] wrote. What is altered may be any bytes: none of them is believed to end.
pub(crate) fn read_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Appends bytes with their length before them.
pub(crate) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn read_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(read_number(rest)?).ok()?;
    let (bytes, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn endings() -> impl Strategy<Value = CallEnding> {
        prop_oneof![
            any::<u64>().prop_map(CallEnding::Answered),
            any::<i64>().prop_map(CallEnding::Error),
            Just(CallEnding::Cancelled),
            Just(CallEnding::Abandoned),
        ]
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(
            arguments in proptest::option::of((any::<[u8; 32]>(), any::<u64>())),
            more in proptest::collection::vec(any::<u8>(), 0..300),
            ending in endings(),
            micros in any::<u64>(),
            after in proptest::collection::vec(any::<u8>(), 0..4),
        ) {
            let arguments = arguments.as_ref().map(|(hash, size)| (hash, *size));
            let course = CallCourse { arguments, more: &more, ending, micros };
            let mut written = Vec::new();
            course.write(&mut written);
            // Cut short, it is not read as something else.
            for length in 0..written.len() {
                prop_assert!(CallCourse::read(&mut &written[..length]).is_none());
            }
            written.extend_from_slice(&after);
            let mut rest = &written[..];
            prop_assert_eq!(CallCourse::read(&mut rest), Some(course));
            prop_assert_eq!(rest, &after[..]);
        }

        #[test]
        fn whatever_the_bytes_are_reading_them_ends(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut rest = &bytes[..];
            while CallCourse::read(&mut rest).is_some() {}
        }
    }

    #[test]
    fn a_record_in_json_has_the_members_of_every_version() {
        let hash = [0xab; 32];
        let course = CallCourse {
            arguments: Some((&hash, 17)),
            more: b",\"would_deny\":\"r\"",
            ending: CallEnding::Error(-32_602),
            micros: 1_400,
        };
        let mut members = Vec::new();
        course.write_members(&mut members);
        let expected = format!(
            ",\"arguments\":{{\"hash\":\"{}\",\"bytes\":17}},\"would_deny\":\"r\",\"outcome\":\"error\",\"code\":-32602,\"micros\":1400",
            "ab".repeat(32)
        );
        assert_eq!(String::from_utf8_lossy(&members), expected);
    }
}
