//! Logins to servers: once, for all replicas. The provider rotates refresh tokens and takes the old ones back; where one was sent twice it
//! would end the grant.

#[path = "../auth/scripted_provider.rs"]
#[allow(dead_code, reason = "logins of one process need more of it")]
mod scripted_provider;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, NatsServer, ScriptedAnswer, Server, ServerBuilder};

use self::scripted_provider::{Given, browser, come_back, door, provider};
use crate::{Fleet, replica_with};

/// A server that lets nobody in without a token, and says whose it was.
fn crm(issuer: &str, given: &Arc<Given>) -> ServerBuilder {
    let (issuer, doorkeeper, asked) = (issuer.to_owned(), Arc::clone(given), Arc::clone(given));
    Server::builder("crm").on_http(move |request| door(&issuer, &doorkeeper, request)).tool("whoami", move |call| {
        let who = asked.owner(call.received().header("authorization")).unwrap_or_default();
        async move { call.ok_text(&who) }
    })
}

fn people(names: &[&str]) -> String {
    let mut text = "[auth]\ntokens = [\n".to_owned();
    for name in names {
        let hash = digest(&SHA256, format!("token-{name}").as_bytes());
        let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(text, "{{ name = {name:?}, sha256 = \"{hash}\" }},");
    }
    text + "]\n"
}

async fn begin(nats: NatsServer, server: &Server, auth: &str, more: &str) -> Fleet {
    let url = nats.url();
    let keys = format!("poll_interval = \"1h\"\nauth = {auth}\n");
    let starting =
        ["a", "b", "c"].map(|name| replica_with(&url, name, more, &[]).server_with("crm", server, &keys).serve());
    let replicas = futures_util::future::join_all(starting).await;
    Fleet { nats, replicas }
}

async fn wait_state(gateway: &Gateway, state: &'static str) {
    gateway.wait_server("crm", state, |crm| crm["state"] == state).await;
}

/// A browser that begins at one replica, opens the page at another, and comes back to a third.
async fn log_in(fleet: &Fleet, [begins, opens, returns]: [usize; 3], who: &str) {
    let at = |place: usize| &fleet.replicas[place];
    let (status, begun) = at(begins).api("POST", "/servers/crm/login", Value::Null).await;
    assert_eq!(status, 200, "{begun}");
    let page = begun["url"].as_str().unwrap().replace(at(begins).base_url(), at(opens).base_url());
    let sent = browser().get(&page).send().await.unwrap();
    assert_eq!(sent.status(), 303);
    // Another browser has no cookie, and uses nothing up.
    assert_eq!(browser().get(&page).send().await.unwrap().status(), 404);
    assert_eq!(come_back(at(returns), &sent, who).await, 200);
    assert_eq!(come_back(at(opens), &sent, who).await, 404, "once");
}

async fn whoami(client: &Client) -> String {
    client.call_tool("whoami", json!({})).await.text()
}

/// Calls until somebody is answered as this account, or it is too late.
async fn wait_whoami(client: &Client, who: &str) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let text = whoami(client).await;
        if text == who {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn clients(fleet: &Fleet) -> Vec<Client> {
    let connecting = fleet.replicas.iter().map(|gateway| gateway.client().modern().connect());
    futures_util::future::join_all(connecting).await
}

fn holds(folder: &Path, secret: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| match entry.path() {
        path if path.is_dir() => holds(&path, secret),
        path => std::fs::read(&path).is_ok_and(|bytes| contains(&bytes, secret)),
    })
}

fn contains(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
}

// cluster: grants
#[tokio::test(flavor = "multi_thread")]
async fn who_logs_in_at_one_replica_is_logged_in_at_all_and_nobody_logs_in_again() {
    let Some(nats) = NatsServer::start() else { return };
    let (issuer, given) = provider().await;
    let server = crm(&issuer, &given).http().await;
    let mut fleet = begin(nats, &server, "{}", "").await;
    for gateway in &fleet.replicas {
        wait_state(gateway, "needs login").await;
    }
    let owner = fleet.owner(0, "crm").await;
    // The replica that runs the server takes no part in it.
    let (one, other) = ((owner + 1) % 3, (owner + 2) % 3);
    log_in(&fleet, [one, other, one], "ada").await;
    for gateway in &fleet.replicas {
        wait_state(gateway, "ready").await;
    }
    let mut callers = clients(&fleet).await;
    for client in &callers {
        wait_whoami(client, "ada").await;
    }

    // A replica that restarts, and then the owner, which dies.
    fleet.replicas[one].kill().await;
    fleet.replicas[one] = fleet.replicas[one].again().await;
    callers[one] = fleet.replicas[one].client().modern().connect().await;
    wait_whoami(&callers[one], "ada").await;
    fleet.replicas[owner].kill().await;
    wait_whoami(&callers[one], "ada").await;
    wait_whoami(&callers[other], "ada").await;
    assert_eq!(given.refreshes(), 0, "the token is good");
    // What the dead one would have renewed the next owner does.
    given.end_access();
    for client in [&callers[one], &callers[other]] {
        wait_whoami(client, "ada").await;
    }
    assert_eq!(given.refreshes(), 1);

    let (status, said) = fleet.replicas[other].api("POST", "/servers/crm/logout", Value::Null).await;
    assert_eq!(status, 200, "{said}");
    for place in [one, other] {
        wait_state(&fleet.replicas[place], "needs login").await;
        assert!(whoami(&callers[place]).await.contains("login"));
    }
    for secret in ["access-0", "refresh-0", "access-1", "refresh-1"] {
        assert!(!contains(&fleet.nats.kept_bytes(), secret), "{secret} lies open at NATS");
        for gateway in &fleet.replicas {
            assert!(!holds(gateway.data(), secret), "{secret} lies open in a data directory");
            assert!(!gateway.stderr().dump().contains(secret), "{secret} stands in a log");
        }
    }
}

// cluster: grants
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_ends_is_renewed_once_whichever_replicas_notice_and_in_whichever_way() {
    let Some(nats) = NatsServer::start() else { return };
    let (issuer, given) = provider().await;
    let server = crm(&issuer, &given).http().await;
    let fleet = begin(nats, &server, "{}", "").await;
    for gateway in &fleet.replicas {
        wait_state(gateway, "needs login").await;
    }
    // By the clocks of all three, in the middle of its life.
    given.next_lives(6);
    log_in(&fleet, [0, 1, 2], "ada").await;
    let callers = clients(&fleet).await;
    for client in &callers {
        wait_whoami(client, "ada").await;
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while given.refreshes() == 0 {
        for client in &callers {
            assert_eq!(whoami(client).await, "ada");
        }
        assert!(tokio::time::Instant::now() < deadline, "nobody renews");
    }
    // Longer than the others would have waited.
    let later = tokio::time::Instant::now() + Duration::from_secs(4);
    while tokio::time::Instant::now() < later {
        for client in &callers {
            assert_eq!(whoami(client).await, "ada");
        }
    }
    assert_eq!(given.refreshes(), 1);
}

// cluster: grants
#[tokio::test(flavor = "multi_thread")]
async fn people_are_logged_in_at_every_replica_and_their_tokens_are_renewed_once() {
    let Some(nats) = NatsServer::start() else { return };
    let (issuer, given) = provider().await;
    let server = crm(&issuer, &given).http().await;
    let fleet = begin(nats, &server, "{ for = \"principal\" }", &people(&["ada", "dan"])).await;
    for gateway in &fleet.replicas {
        gateway.wait_ready().await;
    }
    let as_who = |place: usize, who: &str| {
        let token = format!("Bearer token-{who}");
        fleet.replicas[place].client().modern().header("authorization", &token).connect()
    };
    let callers = futures_util::future::join_all((0..3).map(|place| as_who(place, "ada"))).await;
    let asked = callers[0].call_tool("log_in", json!({})).await.text();
    let page = asked.split_whitespace().find(|word| word.contains("/connect/")).unwrap_or_else(|| panic!("{asked}"));
    let page = page.replace(fleet.replicas[0].base_url(), fleet.replicas[1].base_url());
    // The page asks for the token of who asked, at whichever replica it is opened.
    assert_eq!(browser().get(&page).send().await.unwrap().status(), 200);
    let form = |who: &str| {
        let sent = browser().post(&page).header("content-type", "application/x-www-form-urlencoded");
        sent.body(format!("token=token-{who}")).send()
    };
    assert_eq!(form("dan").await.unwrap().status(), 403);
    let sent = form("ada").await.unwrap();
    assert_eq!(sent.status(), 303);
    assert_eq!(come_back(&fleet.replicas[2], &sent, "ada").await, 200);
    for client in &callers {
        wait_whoami(client, "ada").await;
    }
    // All replicas are refused with the same token at the same moment, each over a link of its own.
    given.end_access();
    let answers = futures_util::future::join_all(callers.iter().map(whoami)).await;
    assert_eq!(answers, ["ada"; 3]);
    assert_eq!(given.refreshes(), 1);
    let dan = as_who(1, "dan").await;
    let answered = whoami(&dan).await;
    // The link to log in with is random, and may have anybody's name in it.
    assert!(answered.contains("needs a login of yours"), "nobody else's: {answered}");
}

// cluster: grants
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_added_is_logged_in_to_at_any_replica_and_one_that_is_cut_off_keeps_its_token() {
    let Some(nats) = NatsServer::start() else { return };
    let (issuer, given) = provider().await;
    let server = crm(&issuer, &given).http().await;
    let url = nats.url();
    let starting = ["a", "b"].map(|name| replica_with(&url, name, "", &[]).serve());
    let fleet = Fleet { nats, replicas: futures_util::future::join_all(starting).await };
    fleet.settle(&[]).await;
    let definition = json!({ "url": server.url(), "auth": { "scopes": ["read"] }, "poll_interval": "1h" });
    let (status, said) = fleet.replicas[1].api("PUT", "/servers/crm", definition).await;
    assert_eq!(status, 201, "{said}");
    for gateway in &fleet.replicas {
        wait_state(gateway, "needs login").await;
    }
    log_in(&fleet, [0, 1, 0], "ada").await;
    let callers = clients(&fleet).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    for client in &callers {
        while !client.names("tools").await.iter().any(|name| name == "crm__whoami") {
            assert!(tokio::time::Instant::now() < deadline, "{:?}", client.names("tools").await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    // An error is an answer too.
    let is_ada = async |client: &Client| {
        let asked = client.start("tools/call", json!({"name": "crm__whoami", "arguments": {}}));
        format!("{:?}", asked.finish_within(Duration::from_secs(60)).await.response).contains("ada")
    };
    for client in &callers {
        assert!(is_ada(client).await);
    }

    fleet.nats.pause();
    let is_isolated =
        |cluster: &Value| cluster["replicas"].as_array().unwrap().iter().any(|one| one["state"] == "isolated");
    for place in 0..2 {
        fleet.wait(place, "it notices", is_isolated).await;
    }
    let owner = fleet.owner(1, "crm").await;
    assert!(is_ada(&callers[owner]).await);
    let (status, said) = fleet.replicas[owner].api("POST", "/servers/crm/logout", Value::Null).await;
    assert!(status >= 400 && said.to_string().contains("cut off"), "{status} {said}");
    // Its token ends meanwhile: it has to wait for the others.
    given.end_access();
    assert!(!is_ada(&callers[owner]).await);
    assert_eq!(given.refreshes(), 0, "nobody renews alone");
    fleet.nats.resume();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    for client in &callers {
        while !is_ada(client).await {
            assert!(tokio::time::Instant::now() < deadline, "it does not come back");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert_eq!(given.refreshes(), 1);
    // With the server its login is gone, everywhere.
    let (status, said) = fleet.replicas[0].api("DELETE", "/servers/crm", Value::Null).await;
    assert_eq!(status, 200, "{said}");
    let definition = json!({ "url": server.url(), "auth": {} });
    let (status, said) = fleet.replicas[1].api("PUT", "/servers/crm", definition).await;
    assert_eq!(status, 201, "{said}");
    for gateway in &fleet.replicas {
        wait_state(gateway, "needs login").await;
    }
}

/// A replica that says who it is in a header. A server that the first one runs lets the second one not in, whatever that has.
async fn saying(nats: &NatsServer, name: &str, server: &Server, more: &str) -> Gateway {
    let keys = format!("poll_interval = \"1h\"\nheaders = {{ X-Replica = \"${{env:WHERE}}\" }}\n{more}");
    replica_with(&nats.url(), name, "", &[]).env("WHERE", name).server_with("crm", server, &keys).serve().await
}

async fn is_called_directly(gateway: &Gateway) {
    let line = "is called by this replica itself";
    gateway.stderr().wait_for_nth("a link of its own", 1, |said| said.contains(line)).await;
}

async fn is_not_let_in(gateway: &Gateway) {
    let line = "can not be called from here";
    gateway.stderr().wait_for_nth("it is not let in", 1, |said| said.contains(line)).await;
}

async fn all_are_ready(fleet: &Fleet) {
    for gateway in &fleet.replicas {
        assert_eq!(gateway.server_status("crm").await["state"], "ready");
    }
}

// cluster: grants
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_alone_is_not_let_in_takes_the_login_from_nobody() {
    let Some(nats) = NatsServer::start() else { return };
    let (issuer, given) = provider().await;
    let is_shut = Arc::new(AtomicBool::new(true));
    let (doorkeeper, asked, shut) = (Arc::clone(&given), Arc::clone(&given), Arc::clone(&is_shut));
    let server = Server::builder("crm")
        .modern_only()
        .on_http(move |request| match request.header("x-replica") {
            Some("b") if shut.load(Ordering::SeqCst) => Some(ScriptedAnswer::http(401, "not you")),
            _ => door(&issuer, &doorkeeper, request),
        })
        .tool("whoami", move |call| {
            let who = asked.owner(call.received().header("authorization")).unwrap_or_default();
            async move { call.ok_text(&who) }
        })
        .http()
        .await;
    let first = saying(&nats, "a", &server, "auth = {}\n").await;
    let mut fleet = Fleet { nats, replicas: vec![first] };
    wait_state(&fleet.replicas[0], "needs login").await;
    log_in(&fleet, [0, 0, 0], "ada").await;
    wait_state(&fleet.replicas[0], "ready").await;
    fleet.replicas.push(saying(&fleet.nats, "b", &server, "auth = {}\n").await);
    let there = &fleet.replicas[1];
    wait_state(there, "ready").await;

    // Neither its link nor a call over one that there was.
    is_not_let_in(there).await;
    let client = there.client().modern().connect().await;
    assert_eq!(whoami(&client).await, "ada");
    is_shut.store(false, Ordering::SeqCst);
    is_called_directly(there).await;
    assert_eq!(whoami(&client).await, "ada");
    is_shut.store(true, Ordering::SeqCst);
    assert_eq!(whoami(&client).await, "ada");
    assert_eq!(given.refreshes(), 0, "the token is good");
    all_are_ready(&fleet).await;

    // One that has ended is found out by the owner.
    given.end_access();
    wait_whoami(&client, "ada").await;
    assert_eq!(given.refreshes(), 1);
    all_are_ready(&fleet).await;
}

// cluster: grants
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_a_login_of_one_replica_alone_needs_none() {
    let Some(nats) = NatsServer::start() else { return };
    let (issuer, given) = provider().await;
    let server = Server::builder("crm")
        .modern_only()
        .on_http(move |request| {
            let is_asked = request.path.starts_with("/.well-known") || request.header("x-replica") == Some("b");
            if is_asked { door(&issuer, &given, request) } else { None }
        })
        .tool("whoami", |call| async move { call.ok_text("anybody") })
        .http()
        .await;
    let first = saying(&nats, "a", &server, "").await;
    let mut fleet = Fleet { nats, replicas: vec![first] };
    wait_state(&fleet.replicas[0], "ready").await;
    fleet.replicas.push(saying(&fleet.nats, "b", &server, "").await);
    let there = &fleet.replicas[1];
    wait_state(there, "ready").await;
    is_not_let_in(there).await;
    let client = there.client().modern().connect().await;
    assert_eq!(whoami(&client).await, "anybody");
    all_are_ready(&fleet).await;
}

// cluster: grants
#[tokio::test(flavor = "multi_thread")]
async fn a_login_ends_the_pause_of_a_replica_that_was_not_let_in_without_one() {
    let Some(nats) = NatsServer::start() else { return };
    let (issuer, given) = provider().await;
    let refusals = Arc::new(AtomicUsize::new(0));
    let (doorkeeper, counted) = (Arc::clone(&given), Arc::clone(&refusals));
    let server = Server::builder("crm")
        .modern_only()
        .on_http(move |request| {
            let refused = door(&issuer, &doorkeeper, request);
            let is_counted = refused.is_some() && request.header("x-replica") == Some("b");
            counted.fetch_add(usize::from(is_counted), Ordering::SeqCst);
            refused
        })
        .tool("whoami", |call| async move { call.ok_text("somebody") })
        .http()
        .await;
    let first = saying(&nats, "a", &server, "auth = {}\n").await;
    let mut fleet = Fleet { nats, replicas: vec![first] };
    wait_state(&fleet.replicas[0], "needs login").await;
    log_in(&fleet, [0, 0, 0], "ada").await;
    // Once it is there, what the server is stands in the log, for the time when nobody is logged in.
    fleet.replicas.push(saying(&fleet.nats, "b", &server, "auth = {}\n").await);
    is_called_directly(&fleet.replicas[1]).await;
    fleet.replicas[1].kill().await;
    let (status, said) = fleet.replicas[0].api("POST", "/servers/crm/logout", Value::Null).await;
    assert_eq!(status, 200, "{said}");
    refusals.store(0, Ordering::SeqCst);
    fleet.replicas[1] = fleet.replicas[1].again().await;
    let there = &fleet.replicas[1];
    // At once, and after one, two and four seconds: the next one is eight seconds away.
    for count in [3, 4] {
        let is_refused = || (refusals.load(Ordering::SeqCst) >= count).then_some(());
        tidings_testkit::eventually("it is refused again and again", is_refused).await;
    }
    log_in(&fleet, [0, 0, 0], "ada").await;
    let soon = tokio::time::timeout(Duration::from_secs(4), is_called_directly(there));
    soon.await.expect("it is tried at once");
    wait_state(there, "ready").await;
    let client = there.client().modern().connect().await;
    assert_eq!(whoami(&client).await, "somebody");
}
