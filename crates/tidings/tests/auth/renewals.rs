//! One token for all: whoever calls when it ends waits for the one renewal, and nobody's call fails or runs twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tidings_testkit::{Client, Exchange, Gateway, Server, ServerBuilder};

use crate::people_links::patient;
use crate::policies::raise_open_files;
use crate::scripted_provider::{Given, browser, come_back, door, provider};

/// Calls at the same time.
const CALLERS: usize = 1_000;
/// For a machine that has much else to do; nothing is measured.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server whose tool counts its runs.
fn crm(issuer: &str, given: &Arc<Given>, runs: &Arc<AtomicUsize>) -> ServerBuilder {
    let (issuer, given, runs) = (issuer.to_owned(), Arc::clone(given), Arc::clone(runs));
    Server::builder("crm").on_http(move |request| door(&issuer, &given, request)).tool("count", move |call| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move { call.ok_text("counted") }
    })
}

/// A gateway that is logged in, and clients of both eras.
async fn logged_in(server: &Server) -> (Gateway, Vec<Client>) {
    raise_open_files();
    let gateway = patient("").server_with("crm", server, "poll_interval = \"1h\"\n").serve().await;
    gateway.wait_server("crm", "in need of a login", |crm| crm["state"] == "needs login").await;
    let (status, begun) = gateway.api("POST", "/servers/crm/login", Value::Null).await;
    assert_eq!(status, 200, "{begun}");
    let sent = browser().get(begun["url"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(come_back(&gateway, &sent, "ada").await, 200);
    gateway.wait_server("crm", "ready", |crm| crm["state"] == "ready").await;
    let mut clients = Vec::new();
    for _ in 0..2 {
        clients.push(gateway.client().connect().await);
        clients.push(gateway.client().modern().connect().await);
    }
    (gateway, clients)
}

async fn count(client: &Client) -> Exchange {
    client.start("tools/call", json!({"name": "count", "arguments": {}})).finish_within(PATIENCE).await
}

fn assert_counted(answers: &[Exchange]) {
    let is_counted =
        |answer: &&Exchange| answer.response.as_ref().is_some_and(|said| said.text().contains("\"counted\""));
    let failed: Vec<_> = answers.iter().filter(|answer| !is_counted(answer)).collect();
    assert!(failed.is_empty(), "{} of {} failed: {:?}", failed.len(), answers.len(), &failed[..failed.len().min(3)]);
}

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

/// How many calls have come to the server.
fn arrived(server: &Server) -> usize {
    server.record().all().iter().filter(|message| message.method == "tools/call").count()
}

// identity 8.5
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_that_are_refused_at_once_cause_one_renewal_and_all_run_once() {
    for is_modern in [false, true] {
        let (issuer, given) = provider().await;
        let runs: Arc<AtomicUsize> = Arc::default();
        let script = crm(&issuer, &given, &runs);
        let server = if is_modern { script.modern_only().http().await } else { script.http().await };
        let (_gateway, clients) = logged_in(&server).await;
        assert_counted(&[count(&clients[0]).await]);
        let (known, ran) = (arrived(&server), runs.load(Ordering::SeqCst));
        // All of them stand before the door with the same token when it ends.
        server.freeze();
        let calls = join_all((0..CALLERS).map(|at| count(&clients[at % clients.len()])));
        let at_the_door = async {
            while arrived(&server) < known + CALLERS {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert_eq!(given.refreshes(), 0);
            given.end_access();
            server.thaw();
        };
        let (answers, ()) = in_time("the calls", async { tokio::join!(calls, at_the_door) }).await;
        assert_counted(&answers);
        assert_eq!(given.refreshes(), 1);
        assert_eq!(runs.load(Ordering::SeqCst) - ran, CALLERS, "each ran once");
        assert_eq!(arrived(&server), known + 2 * CALLERS, "each was refused once and sent once more");
    }
}

// identity 8.5
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_callers_over_the_end_of_a_token_cause_one_renewal_and_lose_nothing() {
    let (issuer, given) = provider().await;
    let runs: Arc<AtomicUsize> = Arc::default();
    let server = crm(&issuer, &given, &runs).http().await;
    // Renewed by the clock, in the middle of its life; the provider takes the old one back with that.
    given.next_lives(4);
    let (_gateway, clients) = logged_in(&server).await;
    let (given, clients) = (&given, &clients);
    let callers = (0..CALLERS).map(|at| async move {
        let mut answers = Vec::new();
        loop {
            // Looked at before the call: the last one is made with the new token.
            let is_last = given.refreshes() > 0;
            answers.push(count(&clients[at % clients.len()]).await);
            if is_last {
                return answers;
            }
        }
    });
    let answers: Vec<Exchange> = in_time("the calls", join_all(callers)).await.into_iter().flatten().collect();
    assert!(answers.len() >= CALLERS, "{}", answers.len());
    assert_counted(&answers);
    assert_eq!(given.refreshes(), 1);
    assert_eq!(runs.load(Ordering::SeqCst), answers.len(), "each ran once");
}

/// Calls again and again from all clients until something holds; none of the calls succeeds.
async fn call_until(clients: &[Client], holds: impl Fn() -> bool) -> usize {
    let mut made = 0;
    while !holds() {
        for answer in join_all(clients.iter().map(count)).await {
            assert!(!answer.response.as_ref().is_some_and(|said| said.text().contains("\"counted\"")), "{answer:?}");
            made += 1;
        }
    }
    made
}

// identity 8.6: `invalid_grant`
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_was_taken_back_is_asked_for_once_however_often_somebody_calls() {
    let (issuer, given) = provider().await;
    let runs: Arc<AtomicUsize> = Arc::default();
    let server = crm(&issuer, &given, &runs).http().await;
    let (gateway, clients) = logged_in(&server).await;
    given.take_back("ada");
    let answers = in_time("the calls", join_all((0..100).map(|at| count(&clients[at % clients.len()])))).await;
    assert!(answers.iter().all(|answer| !answer.text().contains("counted")), "nobody is let in");
    gateway.wait_server("crm", "in need of a login", |crm| crm["state"] == "needs login").await;
    let rounds = AtomicUsize::new(0);
    in_time("more calls", call_until(&clients, || rounds.fetch_add(1, Ordering::SeqCst) == 25)).await;
    assert_eq!((given.refreshes(), runs.load(Ordering::SeqCst)), (1, 0));
}

// identity 8.6: the pauses of the machine (ten requests in ten minutes: `hub/tests/hub/grant_keeper.rs`) hold whoever calls meanwhile
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_away_is_asked_after_pauses_that_grow_however_often_somebody_calls() {
    let (issuer, given) = provider().await;
    let runs: Arc<AtomicUsize> = Arc::default();
    let server = crm(&issuer, &given, &runs).http().await;
    let (_gateway, clients) = logged_in(&server).await;
    given.is_away(true);
    given.end_access();
    in_time("the first request", call_until(&clients, || given.refreshes() == 1)).await;
    let begun = std::time::Instant::now();
    // One and two seconds after it; a moment less, for the time between the request and this line.
    let calls = in_time("the third request", call_until(&clients, || given.refreshes() >= 3)).await;
    assert!(begun.elapsed() >= Duration::from_millis(2_500), "{:?}", begun.elapsed());
    assert!(given.refreshes() == 3 && calls > 8, "{} for {calls} calls", given.refreshes());
    given.is_away(false);
    let is_back =
        async { while !count(&clients[0]).await.response.is_some_and(|said| said.text().contains("\"counted\"")) {} };
    in_time("the token after it is back", is_back).await;
    assert_eq!(given.refreshes(), 4);
}
