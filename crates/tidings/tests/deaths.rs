//! Servers die at any moment: who waited is told, nobody else notices, nothing runs twice, and it comes back.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::*;

const NAMES: [&str; 3] = ["pipe", "old", "new"];

/// A small generator, so that a seed tells the whole story.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// A server whose tool answers with its job, at once or when the gate opens, with or without words before.
fn worker(name: &str, gate: &Gate) -> ServerBuilder {
    let gate = gate.clone();
    Server::builder(name).tool("work", move |call| {
        let gate = gate.clone();
        async move {
            if call.argument("talk") == true {
                call.progress(1);
            }
            if call.argument("hold") == true {
                gate.wait().await;
            }
            call.ok_text(call.argument("job").as_str().unwrap_or_default())
        }
    })
}

fn job_of(received: &ReceivedMessage) -> Option<String> {
    let job = received.param(&["arguments", "job"]);
    job.as_str().filter(|_| received.method == "tools/call").map(str::to_owned)
}

/// Whether it was refused unread: its session belongs to an earlier life of the server.
fn is_refused(received: &ReceivedMessage) -> bool {
    received.connection == 0 && received.header("mcp-session-id").is_some()
}

/// How often each job arrived where it may have been run, at any server.
fn arrivals(servers: &[Server]) -> HashMap<String, usize> {
    let mut count = HashMap::new();
    for job in servers.iter().flat_map(Server::received).filter(|r| !is_refused(r)).filter_map(|r| job_of(&r)) {
        *count.entry(job).or_default() += 1;
    }
    count
}

struct Job {
    name: String,
    client: usize,
    server: usize,
    held: bool,
    pending: PendingExchange,
}

struct World {
    gate: Gate,
    servers: Vec<Server>,
    gateway: Gateway,
    clients: Vec<Client>,
}

impl World {
    async fn new() -> Self {
        let gate = Gate::new();
        let servers = vec![
            worker(NAMES[0], &gate).stdio().await,
            worker(NAMES[1], &gate).http().await,
            worker(NAMES[2], &gate).modern_only().http().await,
        ];
        let mut builder = Gateway::builder().toml("[gateway]\ntimeout = \"7s\"");
        for (name, server) in NAMES.iter().zip(&servers) {
            builder = builder.server(name, server);
        }
        let gateway = builder.serve().await;
        let mut clients = Vec::new();
        for revision in [V2025_03_26, V2025_06_18, V2025_11_25, MODERN].repeat(2) {
            clients.push(gateway.client().revision(revision).connect().await);
        }
        Self { gate, servers, gateway, clients }
    }

    fn start(&self, client: usize, server: usize, name: String, held: bool, talk: bool) -> Job {
        let arguments = json!({"job": name, "hold": held, "talk": talk});
        let params = json!({"name": format!("{}__work", NAMES[server]), "arguments": arguments});
        // All clients count alike, and their tokens are equal as well.
        let pending = self.clients[client].call("tools/call").params(params).progress_token("1").start();
        Job { name, client, server, held, pending }
    }

    /// The one answer. A client of 2025-11-25 may be let go before, and comes back for it.
    async fn answer(&self, client: usize, pending: PendingExchange) -> Exchange {
        let client = &self.clients[client];
        let mut reply = pending.finish().await;
        while reply.response.is_none() {
            assert_eq!(client.revision(), V2025_11_25, "let go: {reply:?}");
            reply = client.resume(reply.last_event_id.as_deref().unwrap()).await.finish().await;
        }
        reply
    }

    /// Every client calls every server; one server dies after some of its calls have arrived.
    async fn round(&self, round: &str, victim: usize, dice: &mut Dice) {
        self.gate.close();
        let mut jobs = Vec::new();
        for client in 0..self.clients.len() {
            for (server, server_name) in NAMES.iter().enumerate() {
                let name = format!("{round}-{client}-{server_name}");
                jobs.push(self.start(client, server, name, dice.roll(2) == 0, dice.roll(2) == 0));
            }
        }
        let arrived = dice.roll(self.clients.len() + 1);
        let prefix = format!("{round}-");
        let is_of_round = |r: &ReceivedMessage| job_of(r).is_some_and(|job| job.starts_with(&prefix));
        if arrived > 0 {
            self.servers[victim].record().wait_for_nth("a job at the victim", arrived, is_of_round).await;
        }
        let before: Vec<String> = self.servers[victim].received().iter().filter_map(job_of).collect();
        self.kill(victim, dice).await;
        self.gate.open();
        let killed = Instant::now();
        let mut forgotten = 0;
        for job in jobs {
            let reply = self.answer(job.client, job.pending).await;
            let response = reply.response();
            if job.server == victim && !response.error().is_null() {
                assert_eq!(reply.error_code(), -32603, "{reply:?}");
                let text = reply.error()["message"].to_string();
                assert!(text.contains(NAMES[victim]), "the error of {} names its server: {text}", job.name);
                forgotten += usize::from(text.contains("did not answer"));
            } else {
                assert!(
                    job.server != victim || !job.held || !before.contains(&job.name),
                    "{} can not have an answer: {reply:?}",
                    job.name
                );
                assert_eq!(reply.text(), job.name);
            }
        }
        assert_eq!(forgotten, 0, "calls of {round} ended by timeout only");
        assert!(killed.elapsed() < Duration::from_secs(5), "{round} took {:?}", killed.elapsed());
    }

    async fn kill(&self, victim: usize, dice: &mut Dice) {
        let server = &self.servers[victim];
        let living: Vec<u32> = server.processes().iter().filter(|p| p.alive).map(|p| p.pid).collect();
        if !living.is_empty() && dice.roll(2) == 0 {
            living.iter().for_each(|pid| sigkill(*pid));
            // These, and not all: the gateway may have started the next one already.
            let gone = || server.processes().iter().all(|process| !process.alive || !living.contains(&process.pid));
            eventually("the killed processes to be gone", || gone().then_some(())).await;
        } else {
            server.kill().await;
            server.revive().await;
        }
    }

    /// Asks until it answers again, each time with another job.
    async fn wait_back(&self, round: &str, server: usize) {
        // A call on a connection that the server has closed, and the gateway not yet, is a call during the death.
        if self.servers[server].is_http() {
            let url = self.servers[server].url();
            eventually("dead connections to be put away", || (!half_closed(&url)).then_some(())).await;
        }
        within(&format!("{} to come back", NAMES[server]), async {
            for attempt in 0.. {
                let client = attempt % self.clients.len();
                let job = self.start(client, server, format!("{round}-back-{attempt}"), false, false);
                let reply = self.answer(client, job.pending).await;
                if reply.response().error().is_null() {
                    assert_eq!(reply.text(), job.name);
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

/// Whether anybody still holds a connection that this server has closed.
fn half_closed(url: &str) -> bool {
    const CLOSE_WAIT: &str = "08";
    let port: u16 = url.trim_end_matches("/mcp").rsplit(':').next().unwrap().parse().unwrap();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let to_port = format!(":{port:04X}");
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(2).is_some_and(|remote| remote.ends_with(&to_port)) && fields.get(3) == Some(&CLOSE_WAIT)
    })
}

fn sigkill(pid: u32) {
    let status = Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    assert!(status.success(), "killing {pid}");
}

async fn run_seeds(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        eprintln!("seed {seed}");
        let mut dice = Dice(seed);
        let world = World::new().await;
        let first = dice.roll(3);
        for turn in 0..3 {
            let victim = (first + turn) % 3;
            let round = format!("{seed}.{turn}");
            world.round(&round, victim, &mut dice).await;
            world.wait_back(&round, victim).await;
        }
        let arrivals = arrivals(&world.servers);
        let twice: Vec<_> = arrivals.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "sent more than once: {twice:?}");
        for turn in 0..3 {
            for (server, name) in NAMES.iter().enumerate().filter(|(server, _)| *server != (first + turn) % 3) {
                for client in 0..world.clients.len() {
                    let job = format!("{seed}.{turn}-{client}-{name}");
                    assert_eq!(arrivals.get(&job), Some(&1), "{job} at server {server}");
                }
            }
        }
        assert_eq!(world.gateway.get("/healthz").await.0, 200);
    }
}

// S2.1, S3.4, bridging 12: three times six worlds with three deaths each.
#[tokio::test(flavor = "multi_thread")]
async fn deaths_at_any_moment_cost_only_their_own_calls_seeds_0_to_5() {
    run_seeds(0..6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deaths_at_any_moment_cost_only_their_own_calls_seeds_6_to_11() {
    run_seeds(6..12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deaths_at_any_moment_cost_only_their_own_calls_seeds_12_to_17() {
    run_seeds(12..18).await;
}

#[tokio::test]
async fn a_death_is_told_with_exit_status_and_last_words() {
    let gate = Gate::new();
    let server = worker("alpha", &gate).stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().connect().await;
    let pending = client.start("tools/call", json!({"name": "work", "arguments": {"hold": true}}));
    gate.reached(1).await;
    server.print_stderr("the disk is full");
    gateway.stderr().wait_for("last words", |line| line.contains("the disk is full")).await;
    server.exit(3);
    let text = pending.finish().await.error()["message"].as_str().unwrap().to_owned();
    for part in ["\"alpha\"", "exit status: 3", "`tidings servers` says more"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // trust T10: what a server writes to standard error is the operator's.
    assert!(!text.contains("the disk is full"), "{text}");
    let line = gateway.stderr().wait_for("the failure", |line| line.contains("server failed")).await;
    assert!(line.contains("the disk is full"), "{line}");
}

/// The pipe stays open as long as anybody holds it, but the server is dead.
#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_does_not_hide_a_death() {
    let gate = Gate::new();
    let server = worker("alpha", &gate).stdio().await;
    let (relay, args) = server.command();
    let config = format!(
        "[servers.alpha]\ncommand = \"sh\"\nargs = [\"-c\", 'sleep 1000 & exec \"$0\" \"$1\"', {relay:?}, {:?}]",
        args[0]
    );
    let gateway = Gateway::builder().toml(&config).serve().await;
    let client = gateway.client().connect().await;
    let pending = client.start("tools/call", json!({"name": "work", "arguments": {"hold": true}}));
    gate.reached(1).await;
    sigkill(server.processes()[0].pid);
    let text = pending.finish().await.error()["message"].to_string();
    assert!(text.contains("signal: 9"), "{text}");
    server.wait_spawned(2).await;
}

// S3.4
#[tokio::test]
async fn an_expired_session_is_replaced() {
    let gate = Gate::new();
    let server = worker("alpha", &gate).http().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let client = gateway.client().connect().await;
    for round in 1..=2 {
        server.forget_sessions();
        let works = async {
            for attempt in 0.. {
                let job = format!("{round}.{attempt}");
                let reply = client.call_tool("work", json!({"job": job})).await;
                if reply.response().error().is_null() {
                    assert_eq!(reply.text(), job);
                    return;
                }
                assert_eq!(reply.error_code(), -32603);
                assert!(reply.error()["message"].to_string().contains("alpha"), "{reply:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within("a new session", works).await;
        assert_eq!(server.initializes(), round + 1);
    }
    server.assert_clean();
}

/// While it is down its lists stay, and who calls it is told at once why it can not be reached.
// bridging 12
#[tokio::test]
async fn a_server_that_stays_away_keeps_its_place_in_the_list() {
    let gate = Gate::new();
    let (dead, alive) = (worker("dead", &gate).stdio().await, worker("alive", &gate).stdio().await);
    let gateway = Gateway::builder().server("dead", &dead).server("alive", &alive).serve().await;
    let client = gateway.client().connect().await;
    dead.kill().await;
    gateway.stderr().wait_for("the failure", |line| line.contains("server failed") && line.contains("dead")).await;
    assert_eq!(client.names("tools").await, ["dead__work", "alive__work"]);
    let reply = client.call_tool("dead__work", json!({})).await;
    assert_eq!(reply.error_code(), -32603);
    assert!(reply.error()["message"].to_string().contains("dead"), "{reply:?}");
    assert_eq!(client.call_tool("alive__work", json!({"job": "on"})).await.text(), "on");
}

/// No call to a ready server waits for another, neither at the start nor later.
#[tokio::test(flavor = "multi_thread")]
async fn one_hanging_server_of_ten_holds_nobody_up() {
    let gate = Gate::new();
    let mut servers = Vec::new();
    let mut builder = Gateway::builder().without_waiting().toml("[gateway]\nstart_wait = \"30s\"");
    for number in 0..10 {
        let server = worker(&format!("s{number}"), &gate).stdio().await;
        builder = builder.server(&format!("s{number}"), &server);
        servers.push(server);
    }
    servers[4].freeze();
    let gateway = builder.serve().await;
    let client = gateway.client().connect().await;
    let call = |number: usize, hold: bool| {
        let arguments = json!({"job": format!("job {number}"), "hold": hold});
        client.start("tools/call", json!({"name": format!("s{number}__work"), "arguments": arguments}))
    };
    let nine = || (0..10).filter(|number| *number != 4);
    for hold in [false, true] {
        let jobs: Vec<_> = nine().map(|number| (number, call(number, false))).collect();
        for (number, pending) in jobs {
            assert_eq!(pending.finish().await.text(), format!("job {number}"));
        }
        if !hold {
            // Now it connects, and hangs in a call.
            servers[4].thaw();
            gateway.wait_ready().await;
            let hanging = call(4, true);
            gate.reached(1).await;
            std::mem::forget(hanging);
        }
    }
    assert_eq!(client.names("tools").await.len(), 10);
}
