//! Servers that come back in the other era, that know only one of the two, or that answer nothing but errors.

use std::net::SocketAddr;

use super::*;

fn address_of(server: &Server) -> SocketAddr {
    let url = server.url();
    url.trim_start_matches("http://").split('/').next().unwrap().parse().unwrap()
}

/// An old release and a new one of the same server, and a proxy that shows one of them.
struct Releases {
    old: Server,
    new: Server,
    proxy: FaultProxy,
    gateway: Gateway,
}

impl Releases {
    async fn new(runs: &Runs) -> Self {
        let gate = Gate::new();
        let old = worker(runs, &gate).http().await;
        let new = worker(runs, &gate).modern_only().http().await;
        let proxy = FaultProxy::start(address_of(&old), 1).await;
        let toml = format!("[servers.one]\nurl = {:?}\n", proxy.url("/mcp"));
        let gateway = Gateway::builder().quick().toml(&toml).serve().await;
        Self { old, new, proxy, gateway }
    }

    fn show(&self, release: &Server) {
        self.proxy.set_target(address_of(release));
        self.proxy.cut_streams();
    }
}

// edges G3
#[tokio::test]
async fn a_server_that_comes_back_in_the_other_era_is_used_in_that_era() {
    let runs = Runs::default();
    let releases = Releases::new(&runs).await;
    let clients = [releases.gateway.client().connect().await, releases.gateway.client().modern().connect().await];
    for (round, release) in [&releases.new, &releases.old, &releases.new].into_iter().enumerate() {
        releases.show(release);
        for (era, client) in clients.iter().enumerate() {
            let jobs = format!("{round}.{era}");
            let took = wait_until_it_works(&releases.gateway, "one", client, &jobs).await;
            assert!(took < CALL_WORKS, "round {round}: {took:?}");
        }
    }
    runs.assert_none_ran_twice();
}

// edges G3
#[tokio::test]
async fn a_restart_by_hand_asks_for_the_era_again() {
    let runs = Runs::default();
    let releases = Releases::new(&runs).await;
    for release in [&releases.new, &releases.old] {
        releases.show(release);
        let (status, answer) = releases.gateway.api("POST", "/servers/one/restart", Value::Null).await;
        assert_eq!(status, 200, "{answer}");
        let client = releases.gateway.client().connect().await;
        assert!(worked(&client.call_tool("work", json!({"job": release.url()})).await));
    }
}

/// A legacy client is answered over the modern link, and the server is not asked for a legacy one with every call.
// edges A7
#[tokio::test]
async fn a_modern_server_that_is_silent_on_initialize_is_asked_once_and_its_calls_go_on() {
    let server = Server::builder("one").modern().silent_on("initialize").echo("echo").http().await;
    let gateway = Gateway::builder().quick().server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    let begun = Instant::now();
    for _ in 0..5 {
        assert!(worked(&client.call_tool("echo", json!({"text": "hi"})).await));
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "the first call may wait for the attempt, no other");
    assert!(server.count("initialize") <= 1, "{} attempts", server.count("initialize"));
}

// edges A9
#[tokio::test]
async fn the_session_of_a_server_that_is_removed_is_ended_there() {
    let server = Server::builder("one").echo("echo").http().await;
    let gateway = Gateway::builder().quick().serve().await;
    let (status, answer) = gateway.api("PUT", "/servers/one", server.keys()).await;
    assert_eq!(status, 201, "{answer}");
    assert_eq!(gateway.api("DELETE", "/servers/one", Value::Null).await.0, 200);
    server.wait_for(|received| received.verb == "DELETE").await;
}

/// Its legacy clients are served over a link of their own, and the state is that of the other one.
// edges A1, G12
#[tokio::test]
async fn a_server_of_both_eras_is_not_called_ready_once_a_call_of_a_legacy_client_failed() {
    let server = worker(&Runs::default(), &Gate::new()).revisions(&[LATEST_LEGACY]).modern().http().await;
    let gateway = Gateway::builder().quick().server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    for round in 0..5 {
        wait_until_it_works(&gateway, "one", &client, &format!("good {round}")).await;
        gateway.wait_server("one", "ready", |status| status["state"] == "ready").await;
        server.kill().await;
        assert!(!worked(&client.call_tool("work", json!({"job": format!("bad {round}")})).await));
        let status = gateway.server_status("one").await;
        assert_ne!(status["state"], "ready", "{status}");
        server.revive().await;
    }
}

/// A server that announces nothing, as most that were restarted without a word: nobody waits for the next poll.
// edges G12
#[tokio::test]
async fn a_tool_that_nobody_announced_is_found_by_whoever_calls_it() {
    let mute = || Server::builder("mute").capabilities(json!({"tools": {}})).echo("old");
    let other = Server::builder("other").echo("echo").http().await;
    for server in [mute().http().await, mute().modern_only().http().await, mute().stdio().await] {
        let gateway = Gateway::builder().server("mute", &server).server("other", &other).serve().await;
        let client = gateway.client().connect().await;
        gateway.wait_server("mute", "ready", |status| status["state"] == "ready").await;
        let before = server.count("tools/list");
        server.put_tool(Tool::text_tool("new", "here"));
        assert_eq!(client.call_tool("mute__new", json!({})).await.text(), "here");
        assert_eq!(server.count("tools/list"), before + 1);
        // Guesses do not make it list for each.
        let begun = Instant::now();
        for number in 0..100 {
            let guess = client.call_tool(&format!("mute__guess_{number}"), json!({})).await;
            assert_eq!(guess.error_code(), -32602, "{guess:?}");
        }
        // One more because of the call that was answered.
        let looks = server.count("tools/list") - before - 1;
        assert!(looks as u64 <= begun.elapsed().as_secs() + 2, "{looks} looks in {:?}", begun.elapsed());
        assert_eq!(client.call_tool("nobody__new", json!({})).await.error_code(), -32602);
    }
}

// edges G12
#[tokio::test]
async fn a_server_that_answers_nothing_but_errors_is_not_called_ready() {
    let server = worker(&Runs::default(), &Gate::new()).http().await;
    let proxy = FaultProxy::start(address_of(&server), 1).await;
    let toml = format!("[servers.one]\nurl = {:?}\n", proxy.url("/mcp"));
    let gateway = Gateway::builder().quick().toml(&toml).serve().await;
    let client = gateway.client().connect().await;
    assert!(worked(&client.call_tool("work", json!({"job": "good"})).await));
    proxy.set_rates(FaultRates(vec![(1000, ProxyFault::Status(502))]));
    assert!(!worked(&client.call_tool("work", json!({"job": "bad"})).await));
    let status = gateway.server_status("one").await;
    assert_ne!(status["state"], "ready", "{status}");
    proxy.behave();
    let took = wait_until_it_works(&gateway, "one", &client, "again").await;
    assert!(took < CALL_WORKS, "{took:?}");
}
