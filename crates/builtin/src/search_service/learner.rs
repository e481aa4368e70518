//! Learning from use, kept in the store.

use tidings_search::{Question, ToolUse, UseMemory};
use tidings_store::{KeptUse, UseTable};

use super::now;

/// Notes what callers search for and then use.
#[derive(Debug)]
pub(crate) struct Learner {
    memory: UseMemory,
    table: UseTable,
}

impl Learner {
    /// Reads what was kept. Blocks.
    pub(super) fn new(table: UseTable) -> Self {
        let kept = table.read().unwrap_or_else(|error| {
            tracing::warn!(%error, "what search had learnt from use can not be read; it begins anew");
            Vec::new()
        });
        Self { memory: UseMemory::new(kept.into_iter().map(tool_use).collect()), table }
    }

    pub(super) fn memory(&self) -> &UseMemory {
        &self.memory
    }

    /// The question with what this caller used before.
    pub(crate) fn recall(&self, principal: &str, question: Question) -> Question {
        let preferred = self.memory.recall(principal, &question.text);
        question.preferring(preferred)
    }

    /// A search found these tools: server and the server's name for each.
    pub(crate) fn note_search(&self, principal: &str, question: &str, found: Vec<(String, String)>) {
        self.memory.note_search(principal, question, found, now());
    }

    /// A tool is called. What that teaches is written beside, so that the call does not wait for the disk.
    pub(crate) fn note_call(&self, principal: &str, server: &str, tool: &str) {
        let Some(change) = self.memory.note_call(principal, server, tool, now()) else { return };
        let table = self.table.clone();
        let keep = move || {
            let dropped: Vec<KeptUse> = change.dropped.into_iter().map(kept_use).collect();
            if let Err(error) = table.keep(&kept_use(change.put), &dropped) {
                tracing::warn!(%error, "what search learnt from use is not kept");
            }
        };
        drop(tokio::task::spawn_blocking(keep));
    }
}

fn tool_use(kept: KeptUse) -> ToolUse {
    let KeptUse { principal, question, server, tool, count, last } = kept;
    ToolUse { principal, question, server, tool, count, last }
}

fn kept_use(learnt: ToolUse) -> KeptUse {
    let ToolUse { principal, question, server, tool, count, last } = learnt;
    KeptUse { principal, question, server, tool, count, last }
}
