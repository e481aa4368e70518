//! The few things of protobuf that OTLP needs. A field of the default value is left out, as the format has it.

/// A message that is being written.
#[derive(Debug, Default)]
pub(crate) struct ProtoMessage(Vec<u8>);

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

impl ProtoMessage {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            // The lowest seven bits, and the mark that more follow.
            self.0.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    /// An integer that is not negative, or a variant of an enumeration.
    pub(crate) fn number(&mut self, field: u64, value: u64) -> &mut Self {
        if value != 0 {
            self.chosen_number(field, value);
        }
        self
    }

    /// The same as the one of several that is there: then also zero says something. Negative ones come as their two's complement.
    pub(crate) fn chosen_number(&mut self, field: u64, value: u64) -> &mut Self {
        self.tag(field, VARINT);
        self.varint(value);
        self
    }

    pub(crate) fn fixed64(&mut self, field: u64, value: u64) -> &mut Self {
        self.tag(field, FIXED64);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn fixed32(&mut self, field: u64, value: u32) -> &mut Self {
        self.tag(field, FIXED32);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn double(&mut self, field: u64, value: f64) -> &mut Self {
        self.fixed64(field, value.to_bits())
    }

    /// Bytes, a text, or a message.
    pub(crate) fn bytes(&mut self, field: u64, value: &[u8]) -> &mut Self {
        self.tag(field, LENGTH);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub(crate) fn text(&mut self, field: u64, value: &str) -> &mut Self {
        if !value.is_empty() {
            self.bytes(field, value.as_bytes());
        }
        self
    }

    /// A message inside this one.
    pub(crate) fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0)
    }

    /// Many numbers of fixed width in one field.
    pub(crate) fn packed(&mut self, field: u64, values: impl Iterator<Item = u64>) -> &mut Self {
        let bytes: Vec<u8> = values.flat_map(u64::to_le_bytes).collect();
        self.bytes(field, &bytes)
    }
}
