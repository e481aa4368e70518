//! How one follower spells what it follows, where that is not how the gateway would spell it now: it wrote the URI in its own
//! way, or the URIs of the server have been shown differently since it was answered.

use std::collections::HashMap;

use tidings_hub::subscriptions::{ResourceAddress, Uri};

/// So many spellings of one resource are known at a time. Of more, the oldest are forgotten.
const MOST: usize = 4;

/// The spellings of one follower. Bounded by what it follows.
#[derive(Default)]
pub(super) struct Spellings {
    /// Newest last: that is the one it is told.
    by_address: HashMap<ResourceAddress, Vec<Uri>>,
    by_spelling: HashMap<Uri, ResourceAddress>,
}

impl Spellings {
    /// What the follower is told when this changes, if it is not the usual URI.
    pub(super) fn of(&self, address: &ResourceAddress) -> Option<&Uri> {
        self.by_address.get(address).and_then(|spelled| spelled.last())
    }

    /// What the follower means by a spelling.
    pub(super) fn meant_by(&self, uri: &str) -> Option<&ResourceAddress> {
        self.by_spelling.get(uri)
    }

    /// From now on it is told of a resource by this name. Gives the other resource that it knew by that name: from now on it
    /// means this one.
    pub(super) fn add(&mut self, address: &ResourceAddress, uri: &Uri) -> Option<ResourceAddress> {
        let spelled = self.by_address.entry(address.clone()).or_default();
        spelled.retain(|known| known != uri);
        spelled.push(Uri::clone(uri));
        if spelled.len() > MOST {
            self.by_spelling.remove(&spelled.remove(0));
        }
        let other = self.by_spelling.insert(Uri::clone(uri), address.clone()).filter(|other| other != address)?;
        self.by_address.remove(&other);
        Some(other)
    }

    /// It follows a resource no longer. Gives the names it was told it by.
    pub(super) fn remove(&mut self, address: &ResourceAddress) -> Vec<Uri> {
        let spelled = self.by_address.remove(address).unwrap_or_default();
        for uri in &spelled {
            self.by_spelling.remove(uri);
        }
        spelled
    }
}

#[cfg(test)]
mod tests {
    use tidings_hub::ServerId;

    use super::*;

    fn at(server: u32, uri: &str) -> ResourceAddress {
        ResourceAddress { place: ServerId(server).into(), uri: uri.into() }
    }

    // edges B6
    #[test]
    fn the_newest_spelling_is_told_and_every_one_is_understood_until_the_end() {
        let mut spellings = Spellings::default();
        let x = at(1, "x");
        assert_eq!(spellings.add(&x, &"one+x".into()), None);
        assert_eq!(spellings.add(&x, &"two+x".into()), None);
        assert_eq!(spellings.of(&x).map(|uri| &**uri), Some("two+x"));
        assert_eq!((spellings.meant_by("one+x"), spellings.meant_by("two+x")), (Some(&x), Some(&x)));
        assert_eq!(spellings.remove(&x), ["one+x".into(), "two+x".into()] as [Uri; 2]);
        assert!(spellings.by_address.is_empty() && spellings.by_spelling.is_empty());
    }

    #[test]
    fn a_name_that_comes_to_mean_another_resource_says_which_one_it_meant() {
        let mut spellings = Spellings::default();
        let (old, new) = (at(1, "x"), at(2, "x"));
        spellings.add(&old, &"one+x".into());
        assert_eq!(spellings.add(&new, &"one+x".into()), Some(old.clone()));
        assert_eq!((spellings.meant_by("one+x"), spellings.of(&old)), (Some(&new), None));
    }

    #[test]
    fn the_spellings_of_one_resource_are_bounded() {
        let mut spellings = Spellings::default();
        for n in 0..1_000 {
            spellings.add(&at(1, "x"), &format!("{n}+x").into());
        }
        assert_eq!((spellings.by_address[&at(1, "x")].len(), spellings.by_spelling.len()), (MOST, MOST));
    }
}
