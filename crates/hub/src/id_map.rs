//! Maps whose keys are numbers that the gateway itself hands out.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by an id of ours. Nobody outside chooses these ids, so nobody can make them collide, and the keyed hash that
/// guards against it would only cost time on the path of every call.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Multiplies by an odd number: the low bits, which choose the place, stay different for consecutive ids, and the high
/// bits, by which the map tells neighbours apart, are well mixed.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

/// 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // For keys that are written in more than one piece; a single number is only multiplied.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(FACTOR);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, BuildHasherDefault};

    use super::IdHasher;
    use crate::ClientKey;

    #[test]
    fn consecutive_ids_never_share_a_place() {
        let build = BuildHasherDefault::<IdHasher>::default();
        let places = |bits: u32| -> HashSet<u64> {
            (0..1 << bits).map(|id| build.hash_one(ClientKey(id)) & ((1 << bits) - 1)).collect()
        };
        for bits in [4, 10, 16] {
            assert_eq!(places(bits).len(), 1 << bits);
        }
    }
}
