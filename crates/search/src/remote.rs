//! Vectors that come from elsewhere: what an index wants of them, and what answers.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::document::MeaningText;
use crate::postings::Slot;

/// How much a tool gains that means exactly what is asked. A good match of words scores about as much.
pub(crate) const MEANING: f32 = 15.0;

/// Something that gives vectors, later. The index never waits for it.
pub trait RemoteVectors: Send + Sync + fmt::Debug {
    /// How much of a tool's text it is given.
    fn reads(&self) -> MeaningText {
        MeaningText::Whole
    }

    /// How much a tool gains that means exactly what is asked; a good match of words scores about 15.
    fn weight(&self) -> f32 {
        MEANING
    }

    /// There are texts without a vector now; [`crate::ToolIndex::wanted_texts`] gives them. Must not block.
    fn wanted(&self);

    /// The vector of a question, soon or not at all.
    fn question(&self, text: String) -> Pin<Box<dyn Future<Output = Option<Vec<f32>>> + Send + '_>>;
}

/// A text that waits for its vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedText(pub String);

/// Which slots wait for the vector of which text.
#[derive(Debug, Default)]
pub(crate) struct WaitingTexts {
    by_text: HashMap<String, Vec<Slot>>,
    of_slot: HashMap<Slot, String>,
}

impl WaitingTexts {
    pub(crate) fn put(&mut self, slot: Slot, text: String) {
        self.remove(slot);
        self.by_text.entry(text.clone()).or_default().push(slot);
        self.of_slot.insert(slot, text);
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        let Some(text) = self.of_slot.remove(&slot) else { return };
        if let Some(slots) = self.by_text.get_mut(&text) {
            slots.retain(|other| *other != slot);
            if slots.is_empty() {
                self.by_text.remove(&text);
            }
        }
    }

    /// Takes out the slots that wait for a text.
    pub(crate) fn take(&mut self, text: &str) -> Vec<Slot> {
        let slots = self.by_text.remove(text).unwrap_or_default();
        slots.iter().for_each(|slot| drop(self.of_slot.remove(slot)));
        slots
    }

    pub(crate) fn texts(&self, limit: usize) -> Vec<WantedText> {
        self.by_text.keys().take(limit).cloned().map(WantedText).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_text.len()
    }
}
