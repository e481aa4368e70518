//! The run: epochs one after the other, and what must hold after each and at the end.
//!
//! Storms change everything at once. Calm epochs have only noise, and nobody may be told of anything. Single epochs have one
//! change, and everybody must be told of it once. Each ends with fences: a change of a resource at every server, and when
//! all clients have seen those, one more at one server. Notices that go out together come in the order tools, prompts,
//! resources; so who has seen the last fence has had every earlier notice about tools and prompts, and the counts of an
//! epoch are exact without waiting for silence.

use std::time::{Duration, Instant};

use tidings_testkit::Gateway;

use crate::crowd::SoakCrowd;
use crate::events::OfferChange;
use crate::failure::SoakFailure;
use crate::kinds::SoakList;
use crate::ledger::LedgerCheck;
use crate::visitors::VisitorTasks;
use crate::world::SoakWorld;
use tidings_testkit::SplitMix;
use tidings_testkit::Vitals;

const CONFIGURATION: &str = "[notifications]\nlist_quiet = \"20ms\"\nlist_max_wait = \"200ms\"\n";
const STORM: Duration = Duration::from_millis(2500);
const CALM: Duration = Duration::from_millis(1500);
const SINGLES: usize = 4;
/// At the end, to show that nothing more comes.
const QUIET: Duration = Duration::from_secs(2);

/// How a run went.
#[derive(Debug, Default)]
pub(crate) struct SoakSummary {
    pub(crate) storms: u64,
    pub(crate) calms: u64,
    pub(crate) singles: u64,
    pub(crate) latest_notice: Duration,
    /// After each round.
    pub(crate) vitals: Vec<Vitals>,
    pub(crate) drained_in: Duration,
}

pub(crate) struct SoakRun {
    pub(crate) world: SoakWorld,
    pub(crate) crowd: SoakCrowd,
    pub(crate) gateway: Gateway,
    pub(crate) summary: SoakSummary,
    pub(crate) ledger: LedgerCheck,
    visitors: VisitorTasks,
}

impl SoakRun {
    pub(crate) async fn begin(random: SplitMix, isolated: bool) -> Self {
        let begun = Instant::now();
        let world = SoakWorld::start(random, begun, isolated).await;
        let mut builder = Gateway::builder().toml(CONFIGURATION);
        for source in &world.sources {
            let keys = match source.nature {
                nature if nature.isolated => "isolation = \"session\"\n",
                _ if source.is_polled() => "poll_interval = \"300ms\"\n",
                _ => "",
            };
            builder = builder.server_with(&source.name, &source.server, keys);
        }
        let gateway = builder.serve().await;
        let crowd = SoakCrowd::begin(&gateway, begun).await;
        let (summary, ledger) = (SoakSummary::default(), LedgerCheck::default());
        Self { world, crowd, gateway, summary, ledger, visitors: VisitorTasks::default() }
    }

    /// Goes through rounds of epochs until the time is over.
    pub(crate) async fn go(&mut self, time: Duration) -> Result<(), SoakFailure> {
        let end = Instant::now() + time;
        self.settle().await?;
        while Instant::now() < end {
            self.storm().await?;
            self.calm().await?;
            for _ in 0..SINGLES {
                self.single().await?;
            }
            self.summary.vitals.push(Vitals::of(self.gateway.pid()).ok_or(SoakFailure::NoVitals)?);
            // A run of hours would keep every line.
            self.gateway.stderr().clear();
        }
        let told = self.crowd.notices();
        tokio::time::sleep(QUIET).await;
        self.settle_counts()?;
        let truth = self.world.truth();
        self.crowd.sees(&truth).await?;
        self.world.trace.note(format!("{} notices in the quiet at the end", self.crowd.notices() - told));
        self.check_protocol()?;
        self.check_flat()
    }

    async fn storm(&mut self) -> Result<(), SoakFailure> {
        self.begin_epoch("storm");
        self.ledger.forget();
        let end = Instant::now() + STORM;
        while Instant::now() < end {
            match self.world.random.below(20) {
                0..12 => self.world.random_change().await,
                12..16 => self.world.random_noise(true).await,
                16..18 => self.disturb(),
                18 => self.visit(),
                _ => {
                    let address = self.gateway.base_url().trim_start_matches("http://").to_owned();
                    self.visitors.stall(address, &mut self.world.random);
                    self.world.note("reader that never reads", "");
                }
            }
            tokio::time::sleep(self.world.random.millis(0, 40)).await;
        }
        self.summary.storms += 1;
        self.settle().await
    }

    async fn calm(&mut self) -> Result<(), SoakFailure> {
        self.begin_epoch("calm");
        let end = Instant::now() + CALM;
        while Instant::now() < end {
            match self.world.random.below(10) {
                0 => self.disturb(),
                1 => self.visit(),
                _ => self.world.random_noise(false).await,
            }
            tokio::time::sleep(self.world.random.millis(0, 60)).await;
        }
        self.summary.calms += 1;
        self.settle().await?;
        self.ledger.forget();
        self.ledger.check(&self.gateway, &self.crowd).await
    }

    async fn single(&mut self) -> Result<(), SoakFailure> {
        self.begin_epoch("single");
        let at = usize::try_from(self.world.random.below(self.world.sources.len() as u64)).unwrap_or_default();
        // No resources: the fences change these, so their notices can not be counted one by one.
        let kind = *self.world.random.pick(&[SoakList::Tools, SoakList::Prompts]);
        let mut change = *self.world.random.pick(&OfferChange::ALL);
        let begun = Instant::now();
        if !self.world.change(at, kind, change, true) {
            // There is always a text to change.
            change = OfferChange::Text;
            self.world.change(at, kind, change, true);
        }
        self.settle().await?;
        self.ledger.check(&self.gateway, &self.crowd).await?;
        self.crowd.check_once(kind.topic(), change.views(), self.world.sources[at].weight())?;
        // What is polled is told when its poll is due, which says nothing about the gateway's speed.
        if !self.world.sources[at].is_polled() {
            self.summary.latest_notice = self.summary.latest_notice.max(self.crowd.latest(kind.topic(), begun));
        }
        self.summary.singles += 1;
        Ok(())
    }

    fn begin_epoch(&mut self, name: &str) {
        self.world.trace.note(format!("=== {name}"));
        self.crowd.mark(&self.world.changes);
    }

    fn disturb(&mut self) {
        let sort = self.crowd.disturb(&mut self.world.random);
        self.world.note(sort, "");
    }

    fn visit(&mut self) {
        let modern = self.world.random.chance(50);
        let client = self.gateway.client();
        self.visitors.come_and_go(if modern { client.modern() } else { client }, modern);
        self.world.note("visitor", "");
    }

    /// Ends the trouble, waits for the truth and for the fences, and counts.
    async fn settle(&mut self) -> Result<(), SoakFailure> {
        // Clients first: when the servers behave and signal again, everybody has to be listening.
        if !self.visitors.gone().await {
            return Err(SoakFailure::ClientFailed { client: "a visitor".to_owned() });
        }
        self.crowd.calm_down().await?;
        self.world.behave();
        self.crowd.sees(&self.world.truth()).await?;
        let all: Vec<usize> = (0..self.world.sources.len()).collect();
        self.world.raise_fences(&all);
        self.crowd.sees(&self.world.truth()).await?;
        // The fences of the step before go out at different times; this last one comes after all of them.
        self.world.raise_fences(&all[..1]);
        self.crowd.sees(&self.world.truth()).await?;
        // Before the first epoch the notices of new sessions come, too.
        if self.summary.storms > 0 { self.settle_counts() } else { Ok(()) }
    }

    fn settle_counts(&self) -> Result<(), SoakFailure> {
        self.crowd.check_not_too_often(&self.world.changes)
    }

    fn check_protocol(&self) -> Result<(), SoakFailure> {
        for source in &self.world.sources {
            let faults = source.server.faults();
            if !faults.is_empty() {
                return Err(SoakFailure::Faults { server: source.name.clone(), faults });
            }
        }
        Ok(())
    }

    /// The middle of the last third against the most of the first: what is kept without end shows as growth, and a moment
    /// with many connections does not.
    fn check_flat(&self) -> Result<(), SoakFailure> {
        let all = &self.summary.vitals;
        // Caches and pools fill in the first third; what grows after that is a leak.
        let third = all.len().div_ceil(3);
        let warm = all.iter().take(third).copied().reduce(Vitals::larger).ok_or(SoakFailure::NoVitals)?;
        let end = Vitals::middle(&all[all.len() - third..]).ok_or(SoakFailure::NoVitals)?;
        if end.is_flat_after(warm) { Ok(()) } else { Err(SoakFailure::Grew { warm, end }) }
    }

    /// Ends the gateway while its clients are still there. Nothing may be left.
    pub(crate) async fn finish(&mut self) -> Result<(), SoakFailure> {
        let begun = Instant::now();
        let status = self.gateway.terminate().await;
        self.summary.drained_in = begun.elapsed();
        if status.success() { Ok(()) } else { Err(SoakFailure::BadEnd { status }) }
    }

    /// After the last client on stdio has gone, no process of a server may be there.
    pub(crate) async fn check_nothing_left(world: &SoakWorld) -> Result<(), SoakFailure> {
        for source in &world.sources {
            source.server.wait_all_exited().await;
        }
        let all = world.sources.iter().flat_map(|source| source.server.processes());
        let left: Vec<u32> = all.map(|p| p.pid).filter(|pid| is_alive(*pid)).collect();
        if left.is_empty() { Ok(()) } else { Err(SoakFailure::LeftBehind { processes: left }) }
    }
}

/// Whether a process runs; one that is dead and not yet buried does not.
fn is_alive(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // By its name, too: the number may belong to another process by now.
    status.contains("testkit-relay") && !status.contains(") Z ")
}
