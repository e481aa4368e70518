//! What a server does wrong without failing: shown in its status.
//!
//! Kept apart from the catalogue, so that a server that does it all the time wakes nobody.

use tidings_sync::Lock;

/// How many characters of the last one are kept.
const LONGEST: usize = 300;

/// The last remark, and how many there were.
#[derive(Default)]
pub(crate) struct Remarks(Lock<Option<(String, u64)>>);

impl Remarks {
    pub(crate) fn add(&self, mut text: String) {
        // Cut at a character, since the text comes from a server.
        if let Some((end, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(end);
            text.push('…');
        }
        let mut kept = self.0.lock();
        // Only the last text is kept and all are counted: a server that does it all the time needs no memory.
        let before = kept.as_ref().map_or(0, |(_, count)| *count);
        *kept = Some((text, before + 1));
    }

    /// A new connection begins with a clean record.
    pub(crate) fn clear(&self) {
        *self.0.lock() = None;
    }

    /// The last remark and how many there were, in one line; `None` where there was none.
    pub(crate) fn shown(&self) -> Option<String> {
        let kept = self.0.lock();
        kept.as_ref().map(|(text, count)| match count {
            1 => text.clone(),
            more => format!("{text} ({more} such remarks)"),
        })
    }
}
