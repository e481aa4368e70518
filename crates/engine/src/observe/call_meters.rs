//! How often what a server has is called, how that ends, and how long it takes.
//!
//! This is on the path of every call, so nothing here takes a lock: what a call counts for is found once, when its server is known, and
//! added to by atomics when it is over. A tool that is called for the first time is put into a new table in the place of the old one.
//! Names are the server's to choose, so only so many of them are told apart; a name that no list has is a client's to choose, and none is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tidings_proto::Method;

use crate::observe::audit::CallOutcome;
use crate::observe::meters::{Durations, Histogram};

/// How many tools of one server are told apart; those that are called first.
const MOST_TOOLS: usize = 200;
/// Longer names are not told apart: they would be a part of every answer of `/metrics`.
const LONGEST_NAME: usize = 128;

/// What is counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// `tools/call`
    Tool,
    /// `prompts/get`
    Prompt,
    /// `resources/read`
    Resource,
}

impl CallKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tool, Self::Prompt, Self::Resource];

    /// The method of the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tools/call",
            Self::Prompt => "prompts/get",
            Self::Resource => "resources/read",
        }
    }

    const fn of(method: Method) -> Option<Self> {
        match method {
            Method::ToolsCall => Some(Self::Tool),
            Method::PromptsGet => Some(Self::Prompt),
            Method::ResourcesRead => Some(Self::Resource),
            _ => None,
        }
    }
}

/// How calls end, in the order of the counts.
pub const CALL_ENDS: [&str; 3] = ["answered", "error", "cancelled"];

fn end_of(outcome: CallOutcome) -> usize {
    match outcome {
        CallOutcome::Answered(_) => 0,
        CallOutcome::Refused(_) => 1,
        CallOutcome::Cancelled | CallOutcome::Abandoned => 2,
    }
}

#[derive(Debug, Default)]
struct EndedCalls {
    ends: [AtomicU64; 3],
    took: Histogram,
}

/// What one call counts for: its tool, and all calls of that kind to its server.
#[derive(Debug, Default)]
pub(crate) struct CallMeter {
    kind: Arc<EndedCalls>,
    ends: [AtomicU64; 3],
    micros: AtomicU64,
}

impl CallMeter {
    fn of_kind(kind: &Arc<EndedCalls>) -> Arc<Self> {
        Arc::new(Self { kind: Arc::clone(kind), ..Self::default() })
    }

    /// A call is over.
    pub(crate) fn ended(&self, took: Duration, outcome: CallOutcome) {
        let end = end_of(outcome);
        self.kind.ends[end].fetch_add(1, Ordering::Relaxed);
        self.kind.took.observe(took);
        self.ends[end].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

type ToolTable = HashMap<Box<str>, Arc<CallMeter>>;

/// The counts of the calls to one server.
#[derive(Debug)]
pub(crate) struct CallMeters {
    /// By kind; that of tools is for those that are not told apart.
    kinds: [Arc<CallMeter>; 3],
    tools: ArcSwap<ToolTable>,
}

impl Default for CallMeters {
    fn default() -> Self {
        Self { kinds: std::array::from_fn(|_| CallMeter::of_kind(&Arc::default())), tools: ArcSwap::default() }
    }
}

impl CallMeters {
    /// What a call counts for; nothing of methods that are not counted. `is_listed`: whether the server lists it.
    pub(crate) fn of(&self, method: Method, name: &str, is_listed: bool) -> Option<Arc<CallMeter>> {
        let kind = CallKind::of(method)?;
        let other = &self.kinds[kind as usize];
        if kind != CallKind::Tool {
            return Some(Arc::clone(other));
        }
        let known = self.tools.load();
        if let Some(known) = known.get(name) {
            return Some(Arc::clone(known));
        }
        if !is_listed || known.len() >= MOST_TOOLS || name.len() > LONGEST_NAME {
            return Some(Arc::clone(other));
        }
        Some(self.add(name))
    }

    /// Once for each tool, and not again while its server is the same.
    fn add(&self, name: &str) -> Arc<CallMeter> {
        let made = CallMeter::of_kind(&self.kinds[CallKind::Tool as usize].kind);
        self.tools.rcu(|known| {
            let mut tools = ToolTable::clone(known);
            if tools.len() < MOST_TOOLS {
                tools.entry(name.into()).or_insert_with(|| Arc::clone(&made));
            }
            tools
        });
        // Somebody else may have been first, or have taken the last place.
        let tools = self.tools.load();
        Arc::clone(tools.get(name).unwrap_or(&self.kinds[CallKind::Tool as usize]))
    }

    pub(crate) fn read(&self) -> CallMeasures {
        let kinds = CallKind::ALL.map(|kind| {
            let EndedCalls { ends, took } = &*self.kinds[kind as usize].kind;
            KindMeasures { kind, ends: counts(ends), took: took.read() }
        });
        let tools = self.tools.load();
        let named = tools.iter().map(|(name, meter)| (Some(name.clone()), meter));
        let other = (None, &self.kinds[CallKind::Tool as usize]);
        let mut tools: Vec<ToolMeasures> = named.chain([other]).map(|(name, meter)| meter.of_tool(name)).collect();
        tools.retain(|tool| tool.ends.iter().any(|count| *count > 0));
        // The table has no order; people compare two outputs.
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        CallMeasures { kinds, tools }
    }
}

impl CallMeter {
    fn of_tool(&self, name: Option<Box<str>>) -> ToolMeasures {
        let took = Duration::from_micros(self.micros.load(Ordering::Relaxed));
        ToolMeasures { name, ends: counts(&self.ends), took }
    }
}

fn counts(ends: &[AtomicU64; 3]) -> [u64; 3] {
    std::array::from_fn(|end| ends[end].load(Ordering::Relaxed))
}

/// The calls to one server, at one moment.
#[derive(Clone, Debug)]
pub struct CallMeasures {
    /// By kind.
    pub kinds: [KindMeasures; 3],
    /// The tools that were called.
    pub tools: Vec<ToolMeasures>,
}

/// Calls of one kind.
#[derive(Clone, Debug)]
pub struct KindMeasures {
    /// Which.
    pub kind: CallKind,
    /// How many ended how, in the order of [`CALL_ENDS`].
    pub ends: [u64; 3],
    /// How long they took.
    pub took: Durations,
}

/// Calls of one tool.
#[derive(Clone, Debug)]
pub struct ToolMeasures {
    /// What its server calls it; `None` of all that are not told apart.
    pub name: Option<Box<str>>,
    /// How many ended how, in the order of [`CALL_ENDS`].
    pub ends: [u64; 3],
    /// How long they took together.
    pub took: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    // reach 7
    #[test]
    fn calls_are_counted_for_their_tool_and_their_server() {
        let meters = CallMeters::default();
        let call = |method, name: &str, outcome| {
            meters.of(method, name, true).inspect(|meter| meter.ended(Duration::from_millis(10), outcome)).is_some()
        };
        assert!(call(Method::ToolsCall, "a", CallOutcome::Answered(1)));
        assert!(call(Method::ToolsCall, "a", CallOutcome::Refused(-1)));
        assert!(call(Method::ToolsCall, "b", CallOutcome::Abandoned));
        assert!(call(Method::ResourcesRead, "file:///x", CallOutcome::Answered(1)));
        assert!(!call(Method::Ping, "", CallOutcome::Answered(1)));
        let CallMeasures { kinds: [tools, _, resources], tools: named } = meters.read();
        assert_eq!((tools.ends, tools.took.sum), ([1, 1, 1], Duration::from_millis(30)));
        assert_eq!(resources.ends, [1, 0, 0]);
        let named: Vec<_> = named.iter().map(|tool| (tool.name.as_deref(), tool.ends)).collect();
        assert_eq!(named, [(Some("a"), [1, 1, 0]), (Some("b"), [0, 0, 1])]);
    }

    // reach 7
    #[test]
    fn names_that_no_list_has_take_no_place() {
        let meters = CallMeters::default();
        let call = |name: &str, is_listed| {
            let meter = meters.of(Method::ToolsCall, name, is_listed).unwrap_or_default();
            meter.ended(Duration::ZERO, CallOutcome::Refused(-1));
        };
        (0..2 * MOST_TOOLS).for_each(|n| call(&format!("guess{n}"), false));
        call("real", true);
        let named: Vec<_> = meters.read().tools.iter().map(|tool| (tool.name.clone(), tool.ends[1])).collect();
        assert_eq!(named, [(None, 2 * MOST_TOOLS as u64), (Some("real".into()), 1)]);
    }

    // reach 7
    #[test]
    fn only_so_many_names_are_told_apart() {
        let meters = CallMeters::default();
        for n in 0..MOST_TOOLS + 50 {
            meters
                .of(Method::ToolsCall, &format!("t{n}"), true)
                .unwrap_or_default()
                .ended(Duration::ZERO, CallOutcome::Answered(1));
        }
        meters
            .of(Method::ToolsCall, &"x".repeat(200), true)
            .unwrap_or_default()
            .ended(Duration::ZERO, CallOutcome::Answered(1));
        let read = meters.read();
        assert_eq!(read.tools.len(), MOST_TOOLS + 1);
        assert_eq!((read.tools[0].name.as_deref(), read.tools[0].ends), (None, [51, 0, 0]));
        assert_eq!(read.kinds[0].ends[0], 251, "together they are all");
    }
}
