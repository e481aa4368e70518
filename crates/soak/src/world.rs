//! All scripted servers, what was done to them, and the truth that follows from it.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::kinds::{DefinitionView, SoakList, SoakTopic};
use crate::source::{SessionRefusal, SoakSource, SourceNature};
use crate::trace::SoakTrace;
use crate::truth::{ListTruth, Lists};
use tidings_testkit::SplitMix;

/// How many changes there were, by topic and view: no client may be told of more.
pub(crate) type Changes = [[u64; 2]; 3];

pub(crate) struct SoakWorld {
    pub(crate) sources: Vec<SoakSource>,
    pub(crate) random: SplitMix,
    pub(crate) changes: Changes,
    pub(crate) tally: BTreeMap<&'static str, u64>,
    pub(crate) trace: SoakTrace,
    next_number: u64,
}

impl SoakWorld {
    /// Servers of both eras on both transports, and some with a peculiarity.
    pub(crate) async fn start(mut random: SplitMix, begun: Instant, isolated: bool) -> Self {
        let legacy = SourceNature { legacy: true, ..SourceNature::default() };
        let web = |refusal| SourceNature { http: true, refusal: Some(refusal), ..legacy };
        let modern = SourceNature { modern: true, ..SourceNature::default() };
        let natures = [
            ("pipe", legacy),
            ("web", web(SessionRefusal::BadRequest)),
            ("newpipe", modern),
            ("newweb", SourceNature { http: true, ..modern }),
            ("both", SourceNature { modern: true, ..web(SessionRefusal::NotFound) }),
            ("pages", SourceNature { paged: true, ..legacy }),
            ("newpages", SourceNature { http: true, paged: true, ..modern }),
            ("oldweb", web(SessionRefusal::NotFound)),
            ("mute", SourceNature { mute: true, ..web(SessionRefusal::Gone) }),
            ("streamless", SourceNature { streamless: true, ..web(SessionRefusal::Gone) }),
        ];
        let own = [
            ("own", SourceNature { isolated: true, ..legacy }),
            ("ownweb", SourceNature { isolated: true, ..web(SessionRefusal::BadRequest) }),
        ];
        let mut sources = Vec::new();
        for (name, nature) in natures.into_iter().chain(own.into_iter().filter(|_| isolated)) {
            sources.push(SoakSource::start(name, nature, &mut random).await);
        }
        // Numbers begin above those of the first items, which are below ten.
        let trace = SoakTrace::new(begun);
        Self { sources, random, changes: Changes::default(), tally: BTreeMap::new(), trace, next_number: 100 }
    }

    /// A number that was never used before.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(crate) fn note(&mut self, sort: &'static str, line: &str) {
        *self.tally.entry(sort).or_default() += 1;
        self.trace.note(format!("{sort}: {line}"));
    }

    /// Counts a change for those who can see it, before anybody can.
    pub(crate) fn count_change(&mut self, source: usize, kind: SoakList, views: &[DefinitionView]) {
        let weight = self.sources[source].weight();
        for view in views {
            self.changes[kind.topic() as usize][*view as usize] += weight;
        }
    }

    pub(crate) fn truth(&self) -> ListTruth {
        ListTruth::new(|view| {
            let mut lists = Lists::default();
            for source in &self.sources {
                source.show(view, &mut lists);
            }
            lists
        })
    }

    /// Ends all trouble; lists that failed are looked at again.
    pub(crate) fn behave(&mut self) {
        for source in &self.sources {
            source.server.behave();
            for topic in SoakTopic::ALL {
                // A signal may have been lost in the trouble; this one is heard.
                source.signal(topic);
            }
            source.server.record().clear();
        }
        self.trace.note("all servers behave");
    }

    /// Changes the fence of some servers. Who has seen it has been told of everything before it.
    pub(crate) fn raise_fences(&mut self, which: &[usize]) {
        self.trace.note(format!("fences of {} servers", which.len()));
        for at in which {
            self.count_change(*at, SoakList::Resources, &DefinitionView::ALL);
            let random = &mut self.random;
            self.sources[*at].raise_fence(random);
        }
    }
}
