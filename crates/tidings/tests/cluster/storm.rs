//! Replicas that are killed under load, behind a balancer: no call runs twice, nobody is told twice, and at rest everybody knows the truth.
//!
//! `TIDINGS_STORM_SECONDS`, `TIDINGS_STORM_CLIENTS` and `TIDINGS_STORM_EVERY` (seconds from kill to kill) make it longer (`cargo xtask soak --cluster`).

mod crowd;
mod told;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::{RoundRobin, Server, Tool};

use crate::{Fleet, counting};
use crowd::{RATE, StormClient, StormCounts, StormPhase};
use told::ReplicaCounts;

/// How long it may take until all have connected again and know the truth, once nothing is killed any more.
const REST_WITHIN: Duration = Duration::from_secs(120);
/// Long enough for a second notice to show.
const AFTERWARDS: Duration = Duration::from_secs(2);
const SERVERS: [&str; 2] = ["one", "two"];

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// How often the server ran each call.
type Runs = Arc<Mutex<HashMap<u64, usize>>>;

/// What is killed, and who is there to see it.
struct ClusterStorm {
    fleet: Fleet,
    balancer: RoundRobin,
    one: Arc<Server>,
    runs: Runs,
    counts: Arc<StormCounts>,
    seen: ReplicaCounts,
    killed: usize,
    version: u64,
}

impl ClusterStorm {
    /// The server lists something else from now on, and says so.
    fn change(&mut self) {
        self.version += 1;
        self.counts.version.store(self.version, Ordering::Relaxed);
        set_version(&self.one, &self.runs, self.version);
        self.one.list_changed("tools");
    }

    /// Kills one replica after the other, and starts each again.
    async fn kill(&mut self) {
        let place = self.killed % 3;
        self.killed += 1;
        self.fleet.replicas[place].kill().await;
        let again = self.fleet.replicas[place].again().await;
        self.balancer.replace(place, again.base_url());
        self.fleet.replicas[place] = again;
    }

    /// Changes and kills for so long.
    async fn rage(&mut self, seconds: u64, clients: u64, every: Duration) {
        // With more clients everybody is told for longer.
        let change_every = Duration::from_millis((1000 * clients / RATE).max(300));
        let begun = Instant::now();
        let (mut next_change, mut next_kill) = (begun, begun + every / 2);
        while begun.elapsed() < Duration::from_secs(seconds) {
            if Instant::now() >= next_change {
                next_change += change_every;
                self.change();
            }
            self.seen.read(&self.fleet.replicas).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            if Instant::now() >= next_kill {
                next_kill += every;
                self.kill().await;
            }
        }
    }

    /// Waits until everybody has an open stream and has listed the last version; panics with who does not.
    async fn settle(&mut self, crowd: &[Arc<StormClient>]) -> Duration {
        let begun = Instant::now();
        loop {
            let version = self.version;
            let knows = |client: &&Arc<StormClient>| {
                client.follows.load(Ordering::Relaxed) && client.last.load(Ordering::Relaxed) == version
            };
            let settled = crowd.iter().filter(knows).count();
            if settled == crowd.len() {
                return begun.elapsed();
            }
            let unsettled: Vec<_> =
                crowd.iter().filter(|client| !knows(client)).take(5).map(|client| client.describe()).collect();
            assert!(
                begun.elapsed() < REST_WITHIN,
                "{settled} of {} clients know version {version}; not {unsettled:?}",
                crowd.len()
            );
            self.seen.read(&self.fleet.replicas).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Every server has an owner that is there, at every replica, and one process.
    async fn check_owners(&self, servers: [&Server; 2]) {
        for (place, replica) in self.fleet.replicas.iter().enumerate() {
            let what = "each server has one owner that is there";
            let owned = |cluster: &serde_json::Value| {
                let replicas = cluster["replicas"].as_array().unwrap();
                let owners = |name: &&str| {
                    replicas.iter().filter(|one| one["servers"].as_array().unwrap().contains(&json!(name))).count()
                };
                let connected = replicas.iter().all(|one| one["state"] == "connected");
                let applied = replicas.iter().all(|one| one["applied"] == cluster["head"]);
                connected && applied && replicas.len() == 3 && SERVERS.iter().all(|name| owners(name) == 1)
            };
            let cluster = self.fleet.wait(place, what, owned).await;
            assert!(cluster["trouble"].is_null(), "digests differ: {cluster:#}");
            let client = replica.client().modern().connect().await;
            for (tool, arguments) in [("one__count", json!({"number": u64::MAX})), ("two__echo", json!({"text": "x"}))]
            {
                let answer = client.call_tool(tool, arguments).await.text();
                assert!(answer.contains("ran") || answer.contains('x'), "{tool} at replica {place}: {answer}");
            }
        }
        // Those of replicas that were killed end with them.
        for (name, server) in SERVERS.iter().zip(servers) {
            wait_alive(name, server, 1).await;
        }
    }
}

async fn wait_alive(name: &str, server: &Server, wanted: usize) {
    tidings_testkit::within(&format!("{wanted} processes of {name}"), async {
        while server.processes().iter().filter(|process| process.alive).count() != wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

// cluster: never twice, told once, stale lists 0, the truth at rest, no process and no lease left over
#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_are_killed_repeat_nothing_and_leave_everybody_with_the_truth() {
    let runs = Runs::default();
    let (one, two) = (Arc::new(Server::builder("one").stdio().await), counting("two").stdio().await);
    set_version(&one, &runs, 0);
    let Some(fleet) = Fleet::begin(3, &[("one", &one), ("two", &two)]).await else { return };
    let urls: Vec<String> = fleet.replicas.iter().map(|replica| replica.base_url().to_owned()).collect();
    let balancer = RoundRobin::start(&urls.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let counts = Arc::new(StormCounts::default());
    let (seconds, clients) = (number("TIDINGS_STORM_SECONDS", 12), number("TIDINGS_STORM_CLIENTS", 24));
    let every = Duration::from_secs(number("TIDINGS_STORM_EVERY", 5));
    let crowd: Vec<_> =
        (0..clients).map(|place| StormClient::new(balancer.url(), place, Arc::clone(&counts))).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for client in &crowd {
        tasks.spawn(Arc::clone(client).ask(clients));
        tasks.spawn(Arc::clone(client).follow());
    }
    let (seen, one_of_it) = (ReplicaCounts::default(), Arc::clone(&one));
    let (counted, ran) = (Arc::clone(&counts), Arc::clone(&runs));
    let mut storm =
        ClusterStorm { fleet, balancer, one: one_of_it, runs: ran, counts: counted, seen, killed: 0, version: 0 };

    storm.rage(seconds, clients, every).await;
    counts.phase.send_replace(StormPhase::Calm);
    storm.check_owners([&one, &two]).await;
    let rest = storm.settle(&crowd).await;

    // At rest one change is one notice for everybody, and a list that has it.
    tokio::time::sleep(AFTERWARDS).await;
    storm.seen.read(&storm.fleet.replicas).await;
    let (before, echoes) = (notices(&crowd), storm.seen.all_echoes());
    storm.change();
    let last = storm.settle(&crowd).await;
    tokio::time::sleep(AFTERWARDS).await;
    storm.seen.read(&storm.fleet.replicas).await;
    let most = 1 + (storm.seen.all_echoes() - echoes) as usize;
    let after = notices(&crowd);
    let wrong: Vec<_> = before
        .iter()
        .zip(&after)
        .map(|(before, after)| after - before)
        .filter(|told| !(1..=most).contains(told))
        .collect();

    counts.phase.send_replace(StormPhase::Over);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    for replica in &storm.fleet.replicas {
        assert!(replica.terminate().await.success());
    }
    for (name, server) in SERVERS.iter().zip([&*one, &two]) {
        wait_alive(name, server, 0).await;
    }
    storm.print(clients, rest, last);
    assert!(
        wrong.is_empty(),
        "notices of the last change, of which each client is owed one (at most {most}): {wrong:?}"
    );
    storm.check();
}

fn notices(crowd: &[Arc<StormClient>]) -> Vec<usize> {
    crowd.iter().map(|client| client.notices.load(Ordering::Relaxed)).collect()
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl ClusterStorm {
    fn unexplained(&self) -> u64 {
        let streams = self.counts.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.iter().map(|stream| self.seen.unexplained(stream)).sum()
    }

    fn print(&self, clients: u64, rest: Duration, last: Duration) {
        let counts = &self.counts;
        let ran = self.runs.lock().unwrap_or_else(PoisonError::into_inner).len();
        let streams = counts.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let notices: u64 = streams.iter().map(|stream| stream.notices).sum();
        println!("{clients} clients, {} kills, {} versions", self.killed, self.version);
        println!(
            "calls: {} asked, {} answered, {} may have run, {} refused or cut; {ran} ran",
            read(&counts.asked),
            read(&counts.answered),
            read(&counts.may_have_run),
            read(&counts.refused),
        );
        println!(
            "lists: {}, older than one before {}, unconfirmed {}; echoes {}",
            read(&counts.lists),
            read(&counts.older),
            self.seen.unconfirmed,
            self.seen.all_echoes(),
        );
        println!("streams: {}, notices {notices}; sessions: {}", streams.len(), read(&counts.sessions));
        println!("at rest after {} ms; the last change known to all after {} ms", rest.as_millis(), last.as_millis());
    }

    fn check(&self) {
        let counts = &self.counts;
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let repeated: Vec<_> = runs.iter().filter(|(number, count)| **count > 1 && **number != u64::MAX).collect();
        assert!(repeated.is_empty(), "calls that ran more than once: {repeated:?}");
        assert!(read(&counts.answered) > read(&counts.asked) / 2, "most calls are answered");
        assert!(self.killed > 0 && self.version > 0);
        // Who is answered unconfirmed may be answered with less than before, and is told once more.
        let older = read(&counts.older);
        assert!(older <= self.seen.unconfirmed, "{older} lists were older than one before at the same client");
        assert_eq!(self.unexplained(), 0, "notices that neither a change nor an echo explains");
    }
}

/// A tool that counts its runs, and one that tells the version.
fn set_version(server: &Server, runs: &Runs, version: u64) {
    let counted = Arc::clone(runs);
    let count = Tool::tool("count", move |call| {
        let counted = Arc::clone(&counted);
        async move {
            let number = call.argument("number").as_u64().unwrap_or_default();
            *counted.lock().unwrap_or_else(PoisonError::into_inner).entry(number).or_default() += 1;
            call.ok_text("ran")
        }
    });
    server.set_tools(vec![count, Tool::text_tool(&format!("v{version}"), "version")]);
}
