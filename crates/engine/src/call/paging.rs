//! How lists are cut into pages. A cursor usually survives changes of its list; where clients expect otherwise it belongs
//! to one state of the list, and they may ask for longer pages.

use std::borrow::Cow;

use tidings_hub::catalogue::{PageKey, RenderedList};
use tidings_hub::client_profile::PageReading;
use tidings_proto::refusal::RequestRefusal;
use tidings_wire::Frame;

use crate::call::RequestRouter;
use crate::client::session::Caller;

/// Whether what stands on a second page may not exist for a client.
fn reads_one_page(caller: &Caller) -> bool {
    caller.profile().is_some_and(|profile| profile.pages == PageReading::One)
}

impl RequestRouter {
    /// How many items this request gets.
    pub(crate) fn page_size(&self, caller: &Caller, frame: &Frame) -> usize {
        let usual = self.runtime.settings.pages.size;
        let Some(longest) = self.runtime.settings.pages.longest_bound else {
            // One page with everything is the only way for these clients to see all tools.
            return if reads_one_page(caller) { usize::MAX } else { usual };
        };
        // Anything that is no positive number is ignored.
        let asked = frame.param(&["limit"]).and_then(|at| std::str::from_utf8(frame.raw(at)).ok()?.parse().ok());
        asked.filter(|limit| *limit > 0).unwrap_or(usual).min(longest)
    }

    /// The place that a cursor means, unless the list has changed since.
    pub(crate) fn place(
        &self,
        after: Option<PageKey>,
        listing: &RenderedList,
    ) -> Result<Option<PageKey>, RequestRefusal> {
        let Some(key) = after else { return Ok(None) };
        if self.runtime.settings.pages.longest_bound.is_none() {
            return Ok(Some(key));
        }
        let mut key = key;
        // The first of its keys is the state, where cursors have one.
        // What remains is an ordinary cursor.
        if key.keys.is_empty() || key.keys.remove(0) != state_of(listing) {
            return Err(RequestRefusal::InvalidCursor);
        }
        Ok(Some(key))
    }

    /// What a cursor to this place holds.
    pub(crate) fn bound<'a>(&self, next: &'a PageKey, listing: &RenderedList) -> Cow<'a, PageKey> {
        if self.runtime.settings.pages.longest_bound.is_none() {
            return Cow::Borrowed(next);
        }
        let mut bound = next.clone();
        bound.keys.insert(0, state_of(listing));
        Cow::Owned(bound)
    }

    /// The length of the list, as a member where clients look for it.
    pub(crate) fn total(&self, listing: &RenderedList) -> Option<String> {
        self.runtime.settings.pages.longest_bound?;
        Some(format!(r#""_meta":{{"mcpbash/total":{}}},"#, listing.len()))
    }
}

fn state_of(listing: &RenderedList) -> String {
    let whole = listing.page(None, usize::MAX).items;
    // Only where cursors are bound to a state, which script projects are; everybody else is spared hashing the list.
    blake3::hash(&whole).to_hex().to_string()
}
