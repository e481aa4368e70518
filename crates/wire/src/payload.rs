//! A message that need not lie in one piece.

use bytes::{Bytes, BytesMut};

/// A whole message, in up to three pieces: a long part that many messages share is not copied into each.
#[derive(Clone, Debug)]
pub struct Payload([Bytes; 3]);

impl From<Bytes> for Payload {
    fn from(whole: Bytes) -> Self {
        Self([whole, Bytes::new(), Bytes::new()])
    }
}

impl Payload {
    /// What stands before a shared part, the part, and what stands after it.
    pub fn around(head: Bytes, shared: Bytes, tail: Bytes) -> Self {
        Self([head, shared, tail])
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces, in order; some may be empty.
    pub fn pieces(&self) -> &[Bytes; 3] {
        &self.0
    }

    /// In one piece; copied only when it is not.
    pub fn to_bytes(&self) -> Bytes {
        let [head, shared, tail] = &self.0;
        // The ordinary message is one piece, and is not copied.
        if shared.is_empty() && tail.is_empty() {
            return head.clone();
        }
        let mut out = BytesMut::with_capacity(self.len());
        for piece in &self.0 {
            out.extend_from_slice(piece);
        }
        out.freeze()
    }
}
