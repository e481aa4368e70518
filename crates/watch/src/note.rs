//! What is to be said about a source beside its description, while it is so.

use super::AboutResource;
use tidings_sync::Lock;

/// A remark that comes and goes.
#[derive(Default)]
pub(super) struct PassingNote(Lock<Option<String>>);

impl PassingNote {
    /// Sets it, and says whether it is another one than before.
    pub(super) fn set(&self, remark: Option<String>) -> bool {
        let mut note = self.0.lock();
        let differs = *note != remark;
        *note = remark;
        differs
    }

    /// What is to be said now.
    pub(super) fn said(&self) -> Option<String> {
        self.0.lock().clone()
    }

    /// The configured description with the remark.
    pub(super) fn describe(&self, about: &AboutResource) -> Option<String> {
        let remark = self.said();
        match (about.description.clone(), remark) {
            (Some(text), Some(remark)) => Some(format!("{text} ({remark})")),
            (text, remark) => text.or(remark.map(|remark| format!("({remark})"))),
        }
    }
}
