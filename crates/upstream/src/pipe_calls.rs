//! The calls that wait for their answers where one stream carries those of all: a pipe, or the event stream of HTTP+SSE.

use std::collections::{HashMap, HashSet};

use tidings_proto::Method;
use tidings_wire::RawId;

use crate::LinkError;
use crate::call::CallQueue;

/// How many calls that nobody waits for are remembered. With more, nothing is told from the number of those in flight.
const REMEMBERED: usize = 4_096;

#[derive(Default)]
pub(crate) struct PipeCalls {
    open: HashMap<u64, OpenPipeCall>,
    /// Calls that were cancelled. The server may still answer them, as long as the link lives.
    abandoned: HashSet<u64>,
    /// More were abandoned than are remembered.
    forgot: bool,
    closed: Option<LinkError>,
}

struct OpenPipeCall {
    queue: CallQueue,
    /// A listen is in flight for as long as the link: nobody waits for its answer.
    is_listen: bool,
}

impl PipeCalls {
    /// Adds a call, unless the link is closed.
    pub(crate) fn open(&mut self, id: u64, method: Method, queue: CallQueue) -> Result<(), LinkError> {
        if let Some(error) = &self.closed {
            return Err(error.clone());
        }
        self.open.insert(id, OpenPipeCall { queue, is_listen: method == Method::Listen });
        Ok(())
    }

    /// A call that was never sent.
    pub(crate) fn withdraw(&mut self, id: u64) {
        self.open.remove(&id);
    }

    /// Nobody waits for its answer any more, which may still come.
    pub(crate) fn abandon(&mut self, id: u64) {
        // A listen is never answered, so nothing late can come of it.
        if self.open.remove(&id).is_none_or(|open| open.is_listen) {
            return;
        }
        match self.abandoned.len() < REMEMBERED {
            true => drop(self.abandoned.insert(id)),
            false => self.forgot = true,
        }
    }

    /// Where messages for a call go; `None` when it was answered or given up.
    pub(crate) fn get(&self, id: u64) -> Option<&CallQueue> {
        self.open.get(&id).map(|open| &open.queue)
    }

    /// Takes out the call that this answer ends; `None` when nobody waits for it any more.
    pub(crate) fn answered(&mut self, id: u64) -> Option<CallQueue> {
        // The server is done with it, so an answer without an id can not be to this one any more.
        self.abandoned.remove(&id);
        self.open.remove(&id).map(|open| open.queue)
    }

    /// The only call that an answer without an id can belong to.
    pub(crate) fn take_sole(&mut self) -> Option<CallQueue> {
        let mut waiting = self.open.iter().filter(|(_, open)| !open.is_listen).map(|(id, _)| *id);
        let (sole, other) = (waiting.next()?, waiting.next());
        // An answer without an id could be to one of those, so nobody gets it.
        if other.is_some() || !self.abandoned.is_empty() || self.forgot {
            return None;
        }
        self.open.remove(&sole).map(|open| open.queue)
    }

    /// No more calls: gives those that are open.
    pub(crate) fn close(&mut self, error: &LinkError) -> Vec<CallQueue> {
        self.closed = Some(error.clone());
        std::mem::take(&mut self.open).into_values().map(|open| open.queue).collect()
    }
}

/// The number of the call that an answer names; also when the server made a string of our number.
pub(crate) fn number(id: &RawId) -> Option<u64> {
    // Some servers answer the number 1 with the string "1".
    id.as_u64().or_else(|| id.as_str().strip_prefix('"')?.strip_suffix('"')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::call_channel;

    fn open(calls: &mut PipeCalls, id: u64, method: Method) {
        calls.open(id, method, call_channel().0).unwrap();
    }

    // edges G5, B1
    #[test]
    fn an_answer_to_nobody_goes_only_to_one_that_nobody_else_could_have_asked_for() {
        let mut calls = PipeCalls::default();
        open(&mut calls, 1, Method::Listen);
        assert!(calls.take_sole().is_none(), "a listen waits for nothing");
        open(&mut calls, 2, Method::ToolsCall);
        assert!(calls.take_sole().is_some());
        open(&mut calls, 3, Method::ToolsCall);
        open(&mut calls, 4, Method::ToolsCall);
        assert!(calls.take_sole().is_none(), "it could be for either");
        calls.abandon(3);
        assert!(calls.take_sole().is_none(), "it could be for the one that was cancelled");
        assert!(calls.answered(3).is_none(), "nobody waits for it");
        assert!(calls.take_sole().is_some(), "the one that was cancelled has had its answer");
    }

    // edges G5
    #[test]
    fn a_server_that_makes_strings_of_numbers_is_understood() {
        let number_of = |raw: &str| number(&RawId::from_raw(raw.as_bytes()).unwrap());
        assert_eq!(
            [number_of("17"), number_of("\"17\""), number_of("\"x17\""), number_of("1.5")],
            [Some(17), Some(17), None, None]
        );
    }
}
