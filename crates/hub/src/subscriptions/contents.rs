//! The hashes of what was read of resources that nobody follows: who reads first and subscribes then is not told of a
//! change after a reset that was none.

use std::collections::HashMap;

use tidings_wire::Digest;

use super::command::ResourceAddress;

/// Two generations: when the young one is full it becomes the old one, and what was old is forgotten.
#[derive(Debug)]
pub(super) struct SeenContents {
    half: usize,
    young: HashMap<ResourceAddress, Digest>,
    old: HashMap<ResourceAddress, Digest>,
}

impl SeenContents {
    /// Remembers at most so many.
    pub(super) fn new(most: usize) -> Self {
        Self { half: most / 2, young: HashMap::new(), old: HashMap::new() }
    }

    pub(super) fn remember(&mut self, address: ResourceAddress, digest: Digest) {
        if self.half == 0 {
            return;
        }
        // An address is in one generation only, or `len` would count it twice.
        self.old.remove(&address);
        if self.young.len() >= self.half && !self.young.contains_key(&address) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(address, digest);
    }

    pub(super) fn take(&mut self, address: &ResourceAddress) -> Option<Digest> {
        self.young.remove(address).or_else(|| self.old.remove(address))
    }

    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}
