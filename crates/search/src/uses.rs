//! Learning from use: which tool a caller used after which question.
//!
//! A use counts when a tool that a search had found is called by the same caller soon after. It moves that tool up when the
//! same caller asks something similar. Nothing here is known to other callers. No I/O: whoever notes a use keeps what changed.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::MutexGuard;

use tidings_sync::Lock;

use crate::question::PreferredTool;
use crate::words;

/// How long after a search a call belongs to it.
const SOON: u64 = 600;
/// How many searches of a caller are waiting for a call.
const SEARCHES: usize = 8;
/// How many callers are remembered with searches that wait.
const CALLERS: usize = 1_024;
/// How many uses of one caller are kept, and of all.
const OF_ONE: usize = 256;
const OF_ALL: usize = 8_192;
/// How much two questions must have in common.
const SIMILAR: f32 = 0.4;
/// Longer questions are not kept: they are rarely asked again.
const MAX_WORDS: usize = 16;

/// A use of a tool after a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    /// The name of the principal who used it; uses are never shared between principals.
    pub principal: String,
    /// The words of the question, in alphabetical order.
    pub question: String,
    /// The server of the tool.
    pub server: String,
    /// What that server calls it.
    pub tool: String,
    /// How often it was used after this question.
    pub count: u32,
    /// When last, in seconds since 1970.
    pub last: u64,
}

/// What is to be kept after a use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseChange {
    /// The use, counted.
    pub put: ToolUse,
    /// Uses that had to go to make room.
    pub dropped: Vec<ToolUse>,
}

/// All uses, bounded per caller and as a whole: the one that is longest ago goes.
#[derive(Debug, Default)]
pub struct UseMemory {
    state: Lock<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    by_caller: HashMap<String, Vec<ToolUse>>,
    waiting: HashMap<String, VecDeque<WaitingSearch>>,
}

#[derive(Debug)]
struct WaitingSearch {
    question: String,
    found: Vec<(String, String)>,
    at: u64,
}

impl UseMemory {
    /// A memory of what was kept.
    #[must_use]
    pub fn new(kept: Vec<ToolUse>) -> Self {
        let mut state = MemoryState::default();
        // The store may hold more than this build allows.
        for one in kept.into_iter().take(OF_ALL) {
            state.by_caller.entry(one.principal.clone()).or_default().push(one);
        }
        Self { state: Lock::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock()
    }

    /// A search of a caller found these tools: server and the server's name for each.
    pub fn note_search(&self, principal: &str, question: &str, found: Vec<(String, String)>, now: u64) {
        let words = key_words(question);
        if words.is_empty() || words.len() > MAX_WORDS || found.is_empty() {
            return;
        }
        let question = words.into_iter().collect::<Vec<_>>().join(" ");
        let mut state = self.state();
        if state.waiting.len() >= CALLERS && !state.waiting.contains_key(principal) {
            // Callers whose last search is too long ago make room. When there are none, this search teaches nothing.
            state.waiting.retain(|_, searches| searches.back().is_some_and(|last| last.at + SOON >= now));
            if state.waiting.len() >= CALLERS {
                return;
            }
        }
        let searches = state.waiting.entry(principal.to_owned()).or_default();
        // The same question asked again replaces the earlier one, so that it is answered once.
        searches.retain(|search| search.at + SOON >= now && search.question != question);
        if searches.len() == SEARCHES {
            searches.pop_front();
        }
        searches.push_back(WaitingSearch { question, found, at: now });
    }

    /// A caller uses a tool. Says what is to be kept if a search had found it.
    pub fn note_call(&self, principal: &str, server: &str, tool: &str, now: u64) -> Option<UseChange> {
        let mut state = self.state();
        let searches = state.waiting.get_mut(principal)?;
        let is_it = |(of, name): &(String, String)| of == server && name == tool;
        // The latest search that found the tool is the one that led to the call.
        let at = searches.iter().rposition(|s| s.at + SOON >= now && s.found.iter().any(is_it))?;
        // A search is answered once: calling the tool again says nothing more about the question.
        let question = searches.remove(at)?.question;
        let uses = state.by_caller.entry(principal.to_owned()).or_default();
        let known = uses.iter().position(|u| u.question == question && u.server == server && u.tool == tool);
        let at = known.unwrap_or_else(|| {
            let (server, tool, principal) = (server.to_owned(), tool.to_owned(), principal.to_owned());
            uses.push(ToolUse { principal, question, server, tool, count: 0, last: now });
            uses.len() - 1
        });
        uses[at].count = uses[at].count.saturating_add(1);
        uses[at].last = now;
        let put = uses[at].clone();
        let mut dropped = Vec::new();
        if uses.len() > OF_ONE {
            dropped.extend(take_oldest(uses, &put));
        }
        // The table of everybody is full: the use that is longest ago goes, whoever made it.
        if state.by_caller.values().map(Vec::len).sum::<usize>() > OF_ALL {
            let oldest = |uses: &Vec<ToolUse>| uses.iter().map(|one| one.last).min().unwrap_or(u64::MAX);
            let longest_ago = state.by_caller.values_mut().min_by_key(|uses| oldest(uses));
            dropped.extend(longest_ago.and_then(|uses| take_oldest(uses, &put)));
        }
        Some(UseChange { put, dropped })
    }

    /// What a caller used after questions like this one.
    #[must_use]
    pub fn recall(&self, principal: &str, question: &str) -> Vec<PreferredTool> {
        let asked = key_words(question);
        let state = self.state();
        let mut preferred: Vec<PreferredTool> = Vec::new();
        for one in state.by_caller.get(principal).into_iter().flatten() {
            let similarity = overlap(&asked, &one.question);
            if similarity < SIMILAR {
                continue;
            }
            let count = one.count as f32;
            // One use counts half of the similarity, many nearly all of it; it stays below 1.
            let strength = similarity * count / (count + 1.0);
            match preferred.iter_mut().find(|known| known.server == one.server && known.tool == one.tool) {
                // The most similar question counts; several that led to one tool do not add up.
                Some(known) => known.strength = known.strength.max(strength),
                None => {
                    preferred.push(PreferredTool { server: one.server.clone(), tool: one.tool.clone(), strength });
                }
            }
        }
        preferred
    }

    /// Forgets everything. Says how much there was.
    pub fn forget(&self) -> usize {
        let mut state = self.state();
        let uses = state.by_caller.values().map(Vec::len).sum();
        *state = MemoryState::default();
        uses
    }

    /// How many uses are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().by_caller.values().map(Vec::len).sum()
    }

    /// Whether none are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Takes out the use that is longest ago, but not the one that was just noted.
fn take_oldest(uses: &mut Vec<ToolUse>, noted: &ToolUse) -> Option<ToolUse> {
    let others = uses.iter().enumerate().filter(|(_, one)| *one != noted);
    let (at, _) = others.min_by_key(|(_, one)| one.last)?;
    Some(uses.swap_remove(at))
}

fn key_words(question: &str) -> BTreeSet<String> {
    words::terms(question, false).into_iter().collect()
}

/// The share of words that two questions have in common.
fn overlap(asked: &BTreeSet<String>, known: &str) -> f32 {
    let known: BTreeSet<&str> = known.split(' ').collect();
    let both = asked.iter().filter(|word| known.contains(word.as_str())).count();
    both as f32 / (asked.len() + known.len() - both).max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str]) -> Vec<(String, String)> {
        names.iter().map(|name| ("mail".to_owned(), (*name).to_owned())).collect()
    }

    #[test]
    fn a_call_soon_after_a_search_is_remembered_for_similar_questions() {
        let memory = UseMemory::default();
        memory.note_search("ann", "send a letter to Bob", found(&["draft", "post"]), 100);
        let change = memory.note_call("ann", "mail", "post", 130).expect("it was found");
        assert_eq!((change.put.count, change.put.question.as_str()), (1, "bob letter send"));
        assert!(memory.note_call("ann", "mail", "post", 131).is_none(), "a search is answered once");
        let preferred = memory.recall("ann", "sending letters");
        assert_eq!((preferred.len(), preferred[0].tool.as_str()), (1, "post"));
        assert!(memory.recall("ann", "delete a folder").is_empty());
        let again = UseMemory::new(vec![change.put]);
        assert_eq!(again.recall("ann", "sending letters"), preferred, "as before a restart");
    }

    #[test]
    fn nothing_crosses_from_one_caller_to_another() {
        let memory = UseMemory::default();
        memory.note_search("ann", "send a letter", found(&["post"]), 100);
        assert!(memory.note_call("ben", "mail", "post", 101).is_none());
        memory.note_call("ann", "mail", "post", 101).expect("noted");
        assert!(memory.recall("ben", "send a letter").is_empty());
    }

    #[test]
    fn a_call_that_is_late_or_of_another_tool_teaches_nothing() {
        let memory = UseMemory::default();
        memory.note_search("ann", "send a letter", found(&["post"]), 100);
        assert!(memory.note_call("ann", "mail", "shred", 101).is_none());
        assert!(memory.note_call("ann", "mail", "post", 100 + SOON + 1).is_none());
        assert!(memory.is_empty());
    }

    #[test]
    fn the_memory_is_bounded_and_the_oldest_use_goes() {
        let memory = UseMemory::default();
        for at in 0..OF_ONE as u64 + 5 {
            memory.note_search("ann", &format!("question{at}"), found(&["post"]), at);
            let change = memory.note_call("ann", "mail", "post", at).expect("noted");
            assert_eq!(change.dropped.len(), usize::from(at >= OF_ONE as u64), "{at}");
        }
        assert_eq!(memory.len(), OF_ONE);
        assert!(memory.recall("ann", "question0").is_empty());
        assert_eq!(memory.forget(), OF_ONE);
        assert!(memory.is_empty());
    }
}
