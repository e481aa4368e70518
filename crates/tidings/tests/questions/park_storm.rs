//! Calls that wait for their clients, under random answers, replays, tampering and restarts: none runs twice and none is left.
//!
//! `TIDINGS_STORM_SECONDS` makes it longer, `TIDINGS_STORM_SEED` repeats the choices of a run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_testkit::{Client, Exchange, Gateway, Server, ServerBuilder, SplitMix, answer_all, retry_of};

use super::form;

/// How long clients may take here.
const INPUT_WAIT: &str = "[gateway]\ninput_wait = \"1500ms\"";
const VISITS: u64 = 12;

/// What the server did for each number: how often it ran, and whether it still does.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<HashMap<u64, Run>>>);

#[derive(Clone, Copy, Default)]
struct Run {
    begun: usize,
    open: bool,
    /// Which gateway made the call: what one that was killed left open is not told to anybody.
    life: u64,
}

impl Runs {
    fn change(&self, number: u64, change: impl FnOnce(&mut Run)) {
        change(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(number).or_default());
    }

    fn of(&self, number: u64) -> Run {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&number).copied().unwrap_or_default()
    }

    fn open_of(&self, life: u64) -> Vec<u64> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.iter().filter(|(_, run)| run.open && run.life == life).map(|(number, _)| *number).collect()
    }
}

/// A tool that counts its runs and asks as often as it is told, two things at a time now and then.
fn counting(runs: &Runs) -> ServerBuilder {
    let runs = runs.clone();
    Server::builder("alpha").tool("work", move |call| {
        let runs = runs.clone();
        async move {
            let number = |name: &str| call.argument(name).as_u64().unwrap_or_default();
            let (number, life, rounds) = (number("number"), number("life"), number("rounds"));
            runs.change(number, |run| *run = Run { begun: run.begun + 1, open: true, life });
            let mut answered = true;
            for round in 0..rounds {
                let heard = match round % 2 {
                    0 => vec![call.elicit(form("one")).await],
                    _ => {
                        let (one, other) = tokio::join!(call.elicit(form("one")), call.elicit(form("other")));
                        vec![one, other]
                    }
                };
                answered &= heard.iter().all(|heard| heard.as_ref().is_ok_and(|heard| heard["action"] == "accept"));
            }
            runs.change(number, |run| run.open = false);
            call.ok_text(&if answered { number.to_string() } else { "refused".to_owned() })
        }
    })
}

fn accept(_: &Value) -> Value {
    json!({"action": "accept", "content": {"colour": "red"}})
}

/// The last character of a state becomes another one.
fn tampered(mut params: Value) -> Value {
    let state = params["requestState"].as_str().unwrap_or_default().to_owned();
    let (kept, last) = state.split_at(state.len() - 5);
    let changed: String = last.chars().map(|c| if c == 'A' { 'B' } else { 'A' }).collect();
    params["requestState"] = format!("{kept}{changed}").into();
    params
}

/// What becomes of a retry: another round, or the end.
enum Outcome {
    Input(Value),
    Text(String),
    Refused(i64),
}

fn outcome(reply: &Exchange) -> Outcome {
    let message = reply.response().value();
    if let Some(code) = message["error"]["code"].as_i64() {
        return Outcome::Refused(code);
    }
    match message["result"]["resultType"].as_str() {
        Some("input_required") => Outcome::Input(message["result"].clone()),
        _ => Outcome::Text(reply.text()),
    }
}

/// A call that its client has left in the middle: what it would send next.
struct LeftCall {
    number: u64,
    retry: Value,
}

/// One client with one call. Gives what it left behind.
async fn visit(client: Arc<Client>, number: u64, life: u64, mut random: SplitMix, runs: Runs) -> Option<LeftCall> {
    let rounds = 1 + random.below(3);
    let params = json!({"name": "work", "arguments": {"number": number, "life": life, "rounds": rounds}});
    let mut reply = client.request("tools/call", params.clone()).await;
    let mut before: Option<Value> = None;
    loop {
        let round = match outcome(&reply) {
            Outcome::Input(round) => round,
            Outcome::Text(text) => {
                assert_eq!(text, number.to_string(), "a call that was answered says so");
                // What is over is told again to whoever asks again.
                if let Some(again) = before.filter(|_| random.chance(30)) {
                    assert_eq!(client.request("tools/call", again).await.text(), text);
                }
                break None;
            }
            // Its time was over: the machine is slow, or the client was.
            Outcome::Refused(code) => {
                assert!([-32602, -32603].contains(&code), "{:?}", reply.response());
                break None;
            }
        };
        let retry = retry_of(&params, &round, answer_all(&round["inputRequests"], accept));
        match random.below(10) {
            0 => break Some(LeftCall { number, retry }),
            1 => {
                let reply = client.request("tools/call", tampered(retry.clone())).await;
                assert_eq!(reply.error_code(), -32602, "a state that was changed");
            }
            2 => {
                let mut other = retry.clone();
                other["arguments"]["number"] = json!(number + 1_000_000);
                assert_eq!(client.request("tools/call", other).await.error_code(), -32602, "other arguments");
            }
            3 => {
                let mut without = retry.clone();
                without["inputResponses"] = json!({"other": {"action": "accept"}});
                reply = client.request("tools/call", without).await;
                before = None;
                continue;
            }
            4 => {
                // Sent and given up at once: it may have been taken or not.
                drop(client.start("tools/call", retry.clone()));
                break Some(LeftCall { number, retry });
            }
            5 => {
                if let Some(older) = &before {
                    // The round before is settled: whoever repeats it is told this one, or that it is too late.
                    if let Outcome::Text(text) = outcome(&client.request("tools/call", older.clone()).await) {
                        assert_eq!(text, number.to_string());
                    }
                }
            }
            6 => {
                let (one, two) = (client.start("tools/call", retry.clone()), client.start("tools/call", retry.clone()));
                let (one, two) = (one.finish().await, two.finish().await);
                assert_eq!(
                    std::mem::discriminant(&outcome(&one)),
                    std::mem::discriminant(&outcome(&two)),
                    "{:?} {:?}",
                    one.response(),
                    two.response()
                );
                reply = one;
                before = Some(retry);
                assert_eq!(runs.of(number).begun, 1);
                continue;
            }
            _ => {}
        }
        reply = client.request("tools/call", retry.clone()).await;
        before = Some(retry);
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

// bridging 35 to 38, issue 13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_answers_replays_and_restarts_runs_no_call_twice_and_leaves_none() {
    let end = Instant::now() + Duration::from_secs(setting("TIDINGS_STORM_SECONDS").unwrap_or(3));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    let seed = setting("TIDINGS_STORM_SEED").unwrap_or(u64::from(now));
    println!("TIDINGS_STORM_SEED={seed}");
    let mut random = SplitMix::new(seed);
    let runs = Runs::default();
    let server = counting(&runs).http().await;
    let mut gateway = Gateway::builder().toml(INPUT_WAIT).server("alpha", &server).serve().await;
    let (mut life, mut number, mut kept): (u64, u64, Vec<LeftCall>) = (0, 0, Vec::new());
    let abilities = json!({"elicitation": {"form": {}}});
    loop {
        let client = Arc::new(gateway.client().modern().capabilities(abilities.clone()).connect().await);
        // Those who left before a restart come back, and whoever left now and then comes back in time.
        for LeftCall { number, retry } in kept.drain(..) {
            let begun = runs.of(number).begun;
            match outcome(&client.request("tools/call", retry).await) {
                Outcome::Refused(code) => assert!([-32602, -32603].contains(&code), "{code}"),
                Outcome::Text(text) => assert!(text == number.to_string() && runs.of(number).life == life, "{text}"),
                Outcome::Input(_) => assert_eq!(runs.of(number).life, life, "a call of a gateway that is gone"),
            }
            assert_eq!(runs.of(number).begun, begun, "a retry runs nothing");
        }
        if Instant::now() >= end {
            break;
        }
        let mut visits = tokio::task::JoinSet::new();
        for _ in 0..VISITS {
            number += 1;
            visits.spawn(visit(Arc::clone(&client), number, life, SplitMix::new(random.next()), runs.clone()));
        }
        while let Some(left) = visits.join_next().await {
            kept.extend(left.expect("a visit does not fail"));
        }
        if random.chance(30) {
            gateway.kill().await;
            gateway = gateway.again().await;
            life += 1;
        } else if random.chance(50) {
            kept.truncate(kept.len() / 2);
        }
    }
    // Nobody comes back any more: everything ends with its time.
    gateway.wait_metric("tidings_calls_in_flight", |calls| calls == 0.0).await;
    tidings_testkit::eventually("no call is left at the server", || runs.open_of(life).is_empty().then_some(())).await;
    let runs = runs.0.lock().unwrap_or_else(PoisonError::into_inner);
    let twice: Vec<_> =
        runs.iter().filter(|(_, run)| run.begun != 1).map(|(number, run)| (number, run.begun)).collect();
    assert!(twice.is_empty() && runs.len() as u64 == number, "{twice:?} of {number}, {} ran", runs.len());
    println!("{number} calls, {life} restarts");
}
