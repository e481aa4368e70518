//! What replicas counted over a storm in which their processes change: echoes, and lists that were answered unconfirmed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tidings_testkit::Gateway;

use super::crowd::EndedStream;

/// Counts are read now and then: what is counted at one time may have happened so much earlier, and is told so much later.
const BLUR: Duration = Duration::from_secs(2);

/// Sums over all processes.
#[derive(Default)]
pub(super) struct ReplicaCounts {
    /// Echoes up to a time.
    echoes: Vec<(Instant, u64)>,
    pub(super) unconfirmed: u64,
    /// What each process said last.
    last: HashMap<u32, [u64; 2]>,
}

impl ReplicaCounts {
    /// Reads what these replicas counted since the last time. Every replica applies every echo, so the one that saw most counts.
    pub(super) async fn read<'a>(&mut self, replicas: impl IntoIterator<Item = &'a Gateway>) {
        let mut echoes = 0;
        for replica in replicas {
            let mut now = [0; 2];
            let names = ["tidings_cluster_echoes_total", "tidings_cluster_unconfirmed_lists_total"];
            for (count, name) in now.iter_mut().zip(names) {
                *count = replica.metric(name).await.unwrap_or_default() as u64;
            }
            let before = self.last.insert(replica.pid(), now).unwrap_or_default();
            let [more, unconfirmed] = [0, 1].map(|at| now[at].saturating_sub(before[at]));
            echoes = echoes.max(more);
            self.unconfirmed += unconfirmed;
        }
        let all = self.all_echoes() + echoes;
        self.echoes.push((Instant::now(), all));
    }

    pub(super) fn all_echoes(&self) -> u64 {
        self.echoes.last().map_or(0, |(_, all)| *all)
    }

    fn echoes_at(&self, time: Instant) -> u64 {
        let before = self.echoes.iter().take_while(|(at, _)| *at <= time);
        before.last().map_or(0, |(_, all)| *all)
    }

    /// The notices of a stream that neither a change nor an echo explains.
    pub(super) fn unexplained(&self, stream: &EndedStream) -> u64 {
        let begun = stream.opened.checked_sub(BLUR).map_or(0, |opened| self.echoes_at(opened));
        let echoes = self.echoes_at(stream.closed + BLUR) - begun;
        stream.notices.saturating_sub(stream.due + echoes)
    }
}
