//! One scripted server with the record of what it offers: the record is the truth.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::{LATEST_LEGACY, ScriptedAnswer, ScriptedEntry, Server, ServerBuilder};

use crate::item::{SoakItem, written};
use crate::kinds::{DefinitionView, SoakList, SoakTopic};
use crate::truth::Lists;
use tidings_testkit::SplitMix;

/// A gateway waits longer and longer for a server that dies again within ten seconds.
const BETWEEN_DEATHS: Duration = Duration::from_secs(11);
/// The resource that only marks places in time.
const FENCE: &str = "memo:///fence";

/// How a server is reached and what is special about it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SourceNature {
    pub(crate) http: bool,
    pub(crate) legacy: bool,
    pub(crate) modern: bool,
    /// Its lists come in pages, so that a listing can see half of a change.
    pub(crate) paged: bool,
    /// It announces no changes: the gateway has to find them by polling.
    pub(crate) mute: bool,
    /// Every session has a connection to it of its own.
    pub(crate) isolated: bool,
    /// It says that it announces, but has no stream to do so.
    pub(crate) streamless: bool,
    /// The status by which it refuses a session that it has forgotten, where it has sessions.
    pub(crate) refusal: Option<SessionRefusal>,
}

/// How servers of the world refuse a session of before their restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionRefusal {
    BadRequest,
    NotFound,
    Gone,
}

impl SessionRefusal {
    fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::NotFound => 404,
            Self::Gone => 410,
        }
    }

    /// A restart of such a server, in the tally.
    pub(crate) fn restart(self) -> &'static str {
        match self {
            Self::BadRequest => "restart with status 400",
            Self::NotFound => "restart with status 404",
            Self::Gone => "restart with status 410",
        }
    }

    /// Sessions forgotten without a restart, in the tally.
    pub(crate) fn loss(self) -> &'static str {
        match self {
            Self::BadRequest => "lost sessions with status 400",
            Self::NotFound => "lost sessions with status 404",
            Self::Gone => "lost sessions with status 410",
        }
    }
}

pub(crate) struct SoakSource {
    pub(crate) name: String,
    pub(crate) nature: SourceNature,
    pub(crate) server: Server,
    shelves: [BTreeMap<String, SoakItem>; 4],
    last_death: Option<Instant>,
    fences: u64,
}

impl SoakSource {
    pub(crate) async fn start(name: &str, nature: SourceNature, random: &mut SplitMix) -> Self {
        let mut shelves: [BTreeMap<String, SoakItem>; 4] = Default::default();
        for kind in SoakList::ALL {
            for number in 0..3 {
                shelves[kind as usize].insert(key(kind, number), SoakItem::default());
            }
        }
        shelves[SoakList::Resources as usize].insert(FENCE.to_owned(), SoakItem::default());
        let builder = describe(name, nature);
        let server = if nature.http { builder.http().await } else { builder.stdio().await };
        let source = Self { name: name.to_owned(), nature, server, shelves, last_death: None, fences: 0 };
        for kind in SoakList::ALL {
            source.publish(kind, random);
        }
        source
    }

    /// Offers what stands on a shelf, in an order and in words of chance.
    pub(crate) fn publish(&self, kind: SoakList, random: &mut SplitMix) {
        let mut entries: Vec<ScriptedEntry> = self.shelves[kind as usize]
            .iter()
            .map(|(key, item)| {
                let text = written(&item.definition(kind, key, DefinitionView::Whole), random.next());
                ScriptedEntry::raw(&text, |call| async move { call.ok_text("") })
            })
            .collect();
        // Pages are cut by position: another order between two pages would be a change for whoever reads them.
        if !self.nature.paged {
            random.shuffle(&mut entries);
        }
        self.server.set_list(kind.member(), entries);
    }

    pub(crate) fn shelf(&mut self, kind: SoakList) -> &mut BTreeMap<String, SoakItem> {
        &mut self.shelves[kind as usize]
    }

    /// The keys of a shelf that may be changed by chance.
    pub(crate) fn keys(&self, kind: SoakList) -> Vec<String> {
        self.shelves[kind as usize].keys().filter(|key| *key != FENCE).cloned().collect()
    }

    /// Changes the fence. Its new state is in no list that was read before.
    pub(crate) fn raise_fence(&mut self, random: &mut SplitMix) {
        self.fences += 1;
        let fence = SoakItem { text: self.fences, ..SoakItem::default() };
        self.shelf(SoakList::Resources).insert(FENCE.to_owned(), fence);
        self.publish(SoakList::Resources, random);
        self.signal(SoakTopic::Resources);
    }

    pub(crate) fn signal(&self, topic: SoakTopic) {
        if !self.nature.mute {
            self.server.list_changed(topic.name());
        }
    }

    /// How many different states a gateway may see because of one change.
    pub(crate) fn weight(&self) -> u64 {
        // A listing in pages can see half of a change, and the next one all of it.
        if self.nature.paged { 2 } else { 1 }
    }

    /// Whether a gateway must ask to find out.
    pub(crate) fn is_polled(&self) -> bool {
        self.nature.mute || self.nature.streamless
    }

    pub(crate) fn may_die(&self) -> bool {
        self.last_death.is_none_or(|death| death.elapsed() > BETWEEN_DEATHS)
    }

    pub(crate) fn dies(&mut self) {
        self.last_death = Some(Instant::now());
    }

    /// Adds what clients should see of it.
    pub(crate) fn show(&self, view: DefinitionView, lists: &mut Lists) {
        for kind in SoakList::ALL {
            for (key, item) in &self.shelves[kind as usize] {
                let public = match kind {
                    SoakList::Tools | SoakList::Prompts => format!("{}__{key}", self.name),
                    SoakList::Resources | SoakList::Templates => format!("{}+{key}", self.name),
                };
                lists[kind as usize].insert(public.clone(), item.definition(kind, &public, view));
            }
        }
    }
}

pub(crate) fn key(kind: SoakList, number: u64) -> String {
    match kind {
        SoakList::Tools => format!("t{number}"),
        SoakList::Prompts => format!("p{number}"),
        SoakList::Resources => format!("memo:///r{number}"),
        SoakList::Templates => format!("memo:///t{number}/{{x}}"),
    }
}

fn describe(name: &str, nature: SourceNature) -> ServerBuilder {
    let announces = json!({"listChanged": !nature.mute});
    let capabilities = json!({"tools": announces, "prompts": announces, "resources": announces});
    // As most servers are: what they say while nobody listens is lost, and the gateway has to list again.
    let mut builder = Server::builder(name).capabilities(capabilities).forgetful();
    if nature.legacy {
        builder = builder.revisions(&[LATEST_LEGACY]);
    }
    builder = match (nature.legacy, nature.modern) {
        (true, true) => builder.modern(),
        (false, _) => builder.modern_only(),
        (true, false) => builder,
    };
    if nature.streamless {
        let refusal = ScriptedAnswer::Http { status: 405, headers: Vec::new(), body: "no stream".into() };
        builder = builder.on_http(move |request| (request.verb == "GET").then(|| refusal.clone()));
    }
    if let Some(refusal) = nature.refusal {
        builder = builder.refuses_sessions_with(refusal.status());
    }
    if nature.paged { builder.page_size(2) } else { builder }
}
