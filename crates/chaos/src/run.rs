//! The run: stages one after the other, and what must hold after each.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::{Client, Gateway, ListFollower, Resource, SplitMix, Tool, Vitals};

use crate::callers::{CallOutcomes, SteadyCallers, try_once};
use crate::crew::{self, CrewMember, FENCE, MemberNature, Runs};
use crate::failure::ChaosFailure;
use crate::options::ChaosOptions;
use crate::stage::FaultStage;

const CONFIGURATION: &str = "[notifications]\nlist_quiet = \"20ms\"\nlist_max_wait = \"200ms\"\n\n";
/// How long a sort of trouble lasts.
const TROUBLE: Duration = Duration::from_millis(3_000);
/// How soon after the end of the trouble every server must answer, and how long a follower may wait for a change.
const BACK: Duration = Duration::from_secs(5);
/// How many calls may fail for one fault, in tenths; and how many more by chance.
const FAILED_PER_FAULT: u64 = 15;

pub(crate) struct ChaosRun {
    random: SplitMix,
    members: Vec<CrewMember>,
    gateway: Gateway,
    runs: Runs,
    prober: Client,
    followers: Vec<ListFollower>,
    probes: u64,
    /// By stage: how often, calls, failed calls, faults, and the longest time until all servers were back.
    table: BTreeMap<&'static str, StageRow>,
    vitals: Vec<Vitals>,
    /// The tools that were added so far, to tell the next apart.
    added: usize,
    /// How often the fences were passed.
    fences: u64,
}

#[derive(Default)]
struct StageRow {
    times: u64,
    calls: u64,
    failed: u64,
    faults: u64,
    slowest_return: Duration,
    errors: BTreeMap<String, u64>,
}

impl ChaosRun {
    pub(crate) async fn begin(options: &ChaosOptions) -> Self {
        let runs = Runs::default();
        let members = crew::start(options.peers.as_deref(), options.seed, &runs).await;
        let servers: String = members.iter().map(CrewMember::configuration).collect();
        let gateway = Gateway::builder().toml(&format!("{CONFIGURATION}{servers}")).serve().await;
        let prober = gateway.client().modern().connect().await;
        let mut followers = Vec::new();
        for client in [gateway.client(), gateway.client().modern()] {
            followers.push(ListFollower::begin(client.connect().await).await);
        }
        Self {
            random: SplitMix::new(options.seed),
            members,
            gateway,
            runs,
            prober,
            followers,
            probes: 0,
            table: BTreeMap::new(),
            vitals: Vec::new(),
            added: 0,
            fences: 0,
        }
    }

    /// Goes through rounds of stages until the time is over; at least one round.
    pub(crate) async fn go(&mut self, time: Duration) -> Result<(), ChaosFailure> {
        let end = Instant::now() + time;
        self.all_answer().await?;
        loop {
            let mut stages = FaultStage::ALL;
            self.random.shuffle(&mut stages);
            for stage in stages {
                self.stage(stage).await?;
            }
            if let Some(vitals) = Vitals::of(self.gateway.pid()) {
                self.vitals.push(vitals);
            }
            // A run of hours would keep every line otherwise.
            self.gateway.stderr().clear();
            if Instant::now() >= end {
                break;
            }
        }
        self.check_flat()?;
        let status = self.gateway.terminate().await;
        if status.success() { Ok(()) } else { Err(ChaosFailure::BadEnd { status: status.to_string() }) }
    }

    async fn stage(&mut self, stage: FaultStage) -> Result<(), ChaosFailure> {
        let faults_before = self.faults();
        let callers = SteadyCallers::begin(&self.gateway, &self.members).await;
        // Calls before the trouble do not count for the stage.
        callers.take()?;
        stage.run(&mut self.members, &mut self.random, TROUBLE).await;
        // Taken when the trouble ends: what fails after that is judged by `all_answer`.
        let outcomes = callers.take()?;
        let back_after = self.all_answer().await?;
        callers.end().await?;
        let faults = self.faults() - faults_before;
        self.note(stage, &outcomes, faults, back_after);
        self.check_share(stage, &outcomes, faults)?;
        self.check_runs()?;
        self.check_change().await
    }

    fn faults(&self) -> u64 {
        self.members.iter().filter_map(|member| member.proxy.as_ref()).map(|proxy| proxy.injected()).sum()
    }

    /// Every server answers a call; gives how long the last one took to.
    async fn all_answer(&mut self) -> Result<Duration, ChaosFailure> {
        let begun = Instant::now();
        for member in &self.members {
            loop {
                self.probes += 1;
                let token = format!("p{}", self.probes);
                let error = match try_once(&self.prober, member, &token).await {
                    Ok(_) => break,
                    Err(error) => error,
                };
                if begun.elapsed() > BACK {
                    let server = member.name.to_owned();
                    let status = self.gateway.server_status(member.name).await;
                    // A state that contradicts the calls is a failure of its own, and worse than being down.
                    if status["state"] == "ready" {
                        return Err(ChaosFailure::SaidReady { server, error });
                    }
                    return Err(ChaosFailure::StillDown { server, after: begun.elapsed(), last: error });
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        }
        Ok(begun.elapsed())
    }

    fn note(&mut self, stage: FaultStage, outcomes: &CallOutcomes, faults: u64, back_after: Duration) {
        let row = self.table.entry(stage.name()).or_default();
        row.times += 1;
        row.calls += outcomes.calls();
        row.failed += outcomes.failed;
        row.faults += faults;
        row.slowest_return = row.slowest_return.max(back_after);
        for (error, count) in &outcomes.errors {
            *row.errors.entry(error.clone()).or_default() += count;
        }
    }

    fn check_share(&self, stage: FaultStage, outcomes: &CallOutcomes, injected: u64) -> Result<(), ChaosFailure> {
        let (failed, calls) = (outcomes.failed, outcomes.calls());
        if calls == 0 {
            return Err(ChaosFailure::NoCalls { stage: stage.name() });
        }
        // Faults hit streams and listings too; those must not take calls with them.
        if stage.is_counted() && failed * 10 > injected * FAILED_PER_FAULT {
            return Err(ChaosFailure::TooManyFailed { stage: stage.name(), failed, injected, calls });
        }
        Ok(())
    }

    fn check_runs(&self) -> Result<(), ChaosFailure> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        match runs.iter().find(|(_, times)| **times > 1) {
            Some((token, times)) => Err(ChaosFailure::RanTwice { token: token.clone(), times: *times }),
            None => {
                // Kept per stage only; a run of hours has millions of tokens.
                runs.clear();
                Ok(())
            }
        }
    }

    /// One change at every scripted server, at the same moment: who follows is told, and then sees all of it. What the trouble
    /// itself made known before that is not counted.
    async fn check_change(&mut self) -> Result<(), ChaosFailure> {
        self.added += 1;
        let name = format!("added_{}", self.added);
        let mut expected = Vec::new();
        for member in &self.members {
            if let MemberNature::Scripted(server) = &member.nature {
                let definition = json!({"name": name, "inputSchema": {"type": "object"}});
                server.put_tool(Tool::raw(&definition.to_string(), |call| async move { call.ok_text("added") }));
                server.list_changed("tools");
                expected.push(format!("{}__{name}", member.name));
            }
        }
        for follower in &self.followers {
            let begun = Instant::now();
            loop {
                let listed = follower.client.names("tools").await;
                let missing: Vec<String> = expected.iter().filter(|tool| !listed.contains(tool)).cloned().collect();
                if missing.is_empty() {
                    break;
                }
                if begun.elapsed() > BACK {
                    return Err(ChaosFailure::WrongList { client: follower.client.revision(), missing });
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        }
        self.check_told_once().await
    }

    /// With everything quiet, one change at one server is told once.
    async fn check_told_once(&mut self) -> Result<(), ChaosFailure> {
        self.pass_fences().await?;
        let Some(MemberNature::Scripted(server)) = self.members.first().map(|member| &member.nature) else {
            return Ok(());
        };
        let before: Vec<usize> = self.followers.iter().map(|follower| follower.count("tools")).collect();
        let name = format!("single_{}", self.added);
        let definition = json!({"name": name, "inputSchema": {"type": "object"}});
        server.put_tool(Tool::raw(&definition.to_string(), |call| async move { call.ok_text("single") }));
        server.list_changed("tools");
        self.pass_fences().await?;
        for (follower, before) in self.followers.iter().zip(before) {
            let times = follower.count("tools") - before;
            if times != 1 {
                return Err(ChaosFailure::ToldWrongly { client: follower.client.revision(), times });
            }
        }
        Ok(())
    }

    /// Changes a resource at one server after the other, and waits each time until everybody was told. Notices that go out together
    /// come in the order tools, prompts, resources: so whoever was told of the last fence was told of all that changed before.
    async fn pass_fences(&mut self) -> Result<(), ChaosFailure> {
        self.fences += 1;
        for member in &self.members {
            let servers = member.nature.scripted();
            if servers.is_empty() {
                continue;
            }
            // Counted before the change, or a quick notice would be waited for in vain.
            let before: Vec<usize> = self.followers.iter().map(|follower| follower.count("resources")).collect();
            for server in servers {
                let fence = json!({"uri": FENCE, "name": "fence", "description": self.fences.to_string()});
                server.put_resource(Resource::raw(&fence.to_string(), |call| async move { call.ok_contents("") }));
                server.list_changed("resources");
            }
            let begun = Instant::now();
            for (follower, before) in self.followers.iter().zip(before) {
                while follower.count("resources") == before {
                    if begun.elapsed() > BACK {
                        let (client, server) = (follower.client.revision(), member.name);
                        return Err(ChaosFailure::FenceUntold { client, server });
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
        Ok(())
    }

    fn check_flat(&self) -> Result<(), ChaosFailure> {
        let third = self.vitals.len().div_ceil(3);
        let warm = self.vitals.iter().take(third).copied().reduce(Vitals::larger);
        let end = Vitals::middle(&self.vitals[self.vitals.len() - third..]);
        match (warm, end) {
            (Some(warm), Some(end)) if !end.is_flat_after(warm) => Err(ChaosFailure::Grew { warm, end }),
            _ => Ok(()),
        }
    }

    pub(crate) fn print(&self) {
        println!("{:10} {:>5} {:>7} {:>7} {:>7}  slowest return", "stage", "times", "calls", "failed", "faults");
        for (name, row) in &self.table {
            println!(
                "{name:10} {:5} {:7} {:7} {:7}  {} ms",
                row.times,
                row.calls,
                row.failed,
                row.faults,
                row.slowest_return.as_millis()
            );
        }
        if let (Some(first), Some(last)) = (self.vitals.first(), self.vitals.last()) {
            println!("gateway: {first} after the first round, {last} after the last");
        }
    }

    /// For a run that failed: which errors clients saw, and what the gateway logged.
    pub(crate) fn print_gateway(&self) {
        for (name, row) in &self.table {
            for (error, count) in &row.errors {
                eprintln!("{name}: {count} × {error}");
            }
        }
        let lines = self.gateway.stderr().all();
        for line in lines.iter().skip(lines.len().saturating_sub(120)) {
            eprintln!("{line}");
        }
    }
}
