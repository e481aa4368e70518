//! Calls of modern HTTP servers leave from every replica (ADR 110).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tidings_testkit::{
    Gateway, NatsServer, ScriptedAnswer, Server, ServerBuilder, TcpCable, Tool, V2025_11_25, answer_all, retry_of,
};

use crate::{Fleet, counting, owner_in, replica, replica_with};

const DIRECT: &str = "is called by this replica itself";

fn modern(name: &str) -> ServerBuilder {
    counting(name).modern_only()
}

/// Waits until every replica but the owner calls a server itself. Gives the place of the owner.
async fn direct(fleet: &Fleet, server: &str) -> usize {
    let owner = fleet.owner(0, server).await;
    for (place, gateway) in fleet.replicas.iter().enumerate() {
        if place != owner {
            gateway.stderr().wait_for_nth("a link of its own", 1, |line| line.contains(DIRECT)).await;
        }
    }
    owner
}

async fn forwarded(gateway: &Gateway) -> f64 {
    let mut sum = 0.0;
    for outcome in ["taken", "not_run", "lost"] {
        let series = format!("tidings_cluster_forwarded_total{{outcome=\"{outcome}\"}}");
        sum += gateway.metric(&series).await.unwrap();
    }
    sum
}

// cluster: calls to modern HTTP servers leave from any replica
#[tokio::test(flavor = "multi_thread")]
async fn a_modern_http_server_is_called_from_every_replica_without_a_frame() {
    let one = modern("one")
        .tool("steps", |call| async move {
            call.progress(1);
            call.progress(2);
            call.ok_text("done")
        })
        .http()
        .await;
    let Some(fleet) = Fleet::begin(3, &[("one", &one)]).await else { return };
    direct(&fleet, "one").await;
    let mut calls = 0;
    for gateway in &fleet.replicas {
        let modern = gateway.client().modern().connect().await;
        let legacy = gateway.client().revision(V2025_11_25).connect().await;
        let before = forwarded(gateway).await;
        for client in [&modern, &legacy] {
            let steps = client.call("tools/call").params(json!({"name": "steps"})).progress_token("7").send().await;
            assert_eq!(steps.text(), "done");
            assert_eq!(client.count("notifications/progress"), 2, "{:?}", client.received());
            let echo = client.call_tool("echo", json!({"a": 1})).await;
            assert!(echo.text().contains("\"a\""), "{}", echo.text());
            let prompt = client.request("prompts/get", json!({"name": "p"})).await;
            assert_eq!(prompt.result()["messages"][0]["content"]["text"], "hi");
            assert_eq!(client.request("resources/read", json!({"uri": "file:///r"})).await.text(), "r");
            calls += 2;
        }
        assert_eq!(forwarded(gateway).await, before, "nothing went by way of another replica");
    }
    assert_eq!(one.count("tools/call"), calls, "each ran once");
}

// cluster: a retry of several rounds may arrive anywhere
#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_modern_server_is_answered_by_way_of_any_replica() {
    let one = modern("one")
        .tool("ask", |call| async move {
            if call.input_responses().is_null() {
                let form = json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
                let asked = json!({"q": {"method": "elicitation/create", "params": form}});
                return call.input_required(json!({"inputRequests": asked, "requestState": "own"}));
            }
            assert_eq!(call.request_state(), "own");
            call.ok_text("thanks")
        })
        .http()
        .await;
    let two = modern("two").http().await;
    // With two servers a state is sealed by the gateway.
    let Some(fleet) = Fleet::begin(3, &[("one", &one), ("two", &two)]).await else { return };
    direct(&fleet, "one").await;
    let params = json!({"name": "ask", "arguments": {}});
    let declared = json!({"elicitation": {"form": {}}});
    for (asked, answered) in [(0, 1), (1, 2), (2, 0), (1, 1)] {
        let client = |place: usize| fleet.replicas[place].client().modern().capabilities(declared.clone()).connect();
        let (there, elsewhere) = (client(asked).await, client(answered).await);
        let round = there.request("tools/call", params.clone()).await.result();
        let responses = answer_all(&round["inputRequests"], |_| json!({"action": "accept", "content": {}}));
        let retry = retry_of(&params, &round, responses);
        assert_eq!(elsewhere.request("tools/call", retry.clone()).await.text(), "thanks");
        // What was made for another call is not passed on to a server that could not know.
        let mut other = retry;
        other["arguments"] = json!({"x": 1});
        let ran = one.count("tools/call");
        assert!(elsewhere.request("tools/call", other).await.error().to_string().contains("requestState"));
        assert_eq!(one.count("tools/call"), ran);
    }
    assert_eq!(one.count("tools/call"), 8);
}

// cluster: read your writes, also past the owner
#[tokio::test(flavor = "multi_thread")]
async fn what_a_call_past_the_owner_changed_is_listed_right_after_it_and_told_everywhere() {
    let added = Arc::new(AtomicUsize::new(0));
    let number = Arc::clone(&added);
    let one = Arc::new(std::sync::OnceLock::<Server>::new());
    let server = Arc::clone(&one);
    let made = modern("one")
        .tool("grow", move |call| {
            let (number, server) = (Arc::clone(&number), Arc::clone(&server));
            async move {
                let name = format!("t{}", number.fetch_add(1, Ordering::SeqCst));
                server.get().unwrap().put_tool(Tool::text_tool(&name, "x"));
                if call.argument("aloud") == true {
                    call.notify("notifications/tools/list_changed", json!({}));
                }
                call.ok_text(&name)
            }
        })
        .http()
        .await;
    assert!(one.set(made).is_ok());
    let one = one.get().unwrap();
    let Some(fleet) = Fleet::begin(3, &[("one", one)]).await else { return };
    let owner = direct(&fleet, "one").await;
    let (here, far) = ((owner + 1) % 3, (owner + 2) % 3);
    let client = fleet.replicas[here].client().modern().connect().await;
    let mut listens = Vec::new();
    for place in [here, far, owner] {
        let listener = fleet.replicas[place].client().modern().connect().await;
        let mut listen = listener.start("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
        listen.next_method("notifications/subscriptions/acknowledged").await;
        listens.push((listener, listen));
    }
    for nth in 1..=3 {
        // Said on the stream of a call alone, and to a replica that does not look at lists.
        let name = client.call_tool("grow", json!({"aloud": nth == 2})).await.text();
        assert!(client.names("tools").await.contains(&name), "{name} is listed where it was called for");
        for (listener, listen) in &mut listens {
            listen.next_method("notifications/tools/list_changed").await;
            assert!(listener.names("tools").await.contains(&name), "{name} is told and listed");
        }
    }
    for (listener, _) in &listens {
        assert_eq!(listener.count("notifications/tools/list_changed"), 3, "once each");
    }
}

// cluster: headers come from what the owner listed
#[tokio::test(flavor = "multi_thread")]
async fn headers_of_a_call_past_the_owner_are_made_from_its_list_and_anew_where_that_is_old() {
    let current = Arc::new(AtomicBool::new(false));
    let tool = |header: &str| {
        let region = json!({"type": "string", "x-mcp-header": header});
        json!({"name": "deploy", "inputSchema": {"type": "object", "properties": {"region": region}}})
    };
    let (listed, asked) = (Arc::clone(&current), Arc::clone(&current));
    let one = modern("one")
        .on_raw("tools/list", move |call| {
            let header = if listed.load(Ordering::SeqCst) { "Zone" } else { "Region" };
            let answer = call.ok(json!({"tools": [tool(header)], "ttlMs": 0, "cacheScope": "private"}));
            async move { answer }
        })
        .tool_def(tool("Region"), move |call| {
            let wanted = if asked.load(Ordering::SeqCst) { "mcp-param-zone" } else { "mcp-param-region" };
            async move {
                match call.received().header(wanted) {
                    Some("eu") => call.ok_text("done"),
                    other => ScriptedAnswer::error(-32020, format!("{wanted} is {other:?}")),
                }
            }
        })
        .http()
        .await;
    let Some(fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    let owner = direct(&fleet, "one").await;
    let client = fleet.replicas[1 - owner].client().revision(V2025_11_25).connect().await;
    assert_eq!(client.call_tool("deploy", json!({"region": "eu"})).await.text(), "done");
    assert_eq!(one.count("tools/call"), 1);
    // The server wants another one now, and tells nobody.
    current.store(true, Ordering::SeqCst);
    assert_eq!(client.call_tool("deploy", json!({"region": "eu"})).await.text(), "done");
    assert_eq!(one.count("tools/call"), 3, "one repetition");
    assert_eq!(client.call_tool("deploy", json!({"region": "eu"})).await.text(), "done");
    assert_eq!(one.count("tools/call"), 4, "and then it knows");
}

/// A replica that says who it is in a header.
fn saying(nats: &NatsServer, name: &str, server: &Server) -> impl Future<Output = Gateway> {
    let cluster = replica_with(&nats.url(), name, "", &[]).env("WHERE", name);
    cluster.server_with("one", server, "headers = { X-Replica = \"${env:WHERE}\" }\n").serve()
}

// cluster: a server that is there for its owner alone
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_a_replica_is_called_by_way_of_its_owner() {
    let Some(nats) = NatsServer::start() else { return };
    // Who is not let in, and whether only calls are refused.
    let closed = Arc::new(AtomicBool::new(true));
    let door = Arc::clone(&closed);
    let one = modern("one")
        .on_http(move |request| {
            let is_owner = request.header("x-replica") == Some("a");
            (!is_owner && door.load(Ordering::SeqCst)).then(|| ScriptedAnswer::http(401, "not you"))
        })
        .http()
        .await;
    let replicas = vec![saying(&nats, "a", &one).await];
    let mut fleet = Fleet { nats, replicas };
    fleet.settle(&["one"]).await;
    fleet.replicas.push(saying(&fleet.nats, "b", &one).await);
    fleet.settle(&["one"]).await;
    let there = &fleet.replicas[1];
    there.stderr().wait_for_nth("says so", 1, |line| line.contains("can not be called from here")).await;
    let client = there.client().modern().connect().await;
    let before = forwarded(there).await;
    for _ in 0..3 {
        let begun = std::time::Instant::now();
        assert!(client.call_tool("echo", json!({"a": 1})).await.text().contains("\"a\""));
        assert!(begun.elapsed() < Duration::from_secs(1), "no call waits for a server that is not there for it");
    }
    assert!(forwarded(there).await >= before + 3.0);

    // It is let in later, and then not any more: what was refused goes by way of the owner, and runs once.
    closed.store(false, Ordering::SeqCst);
    there.stderr().wait_for_nth("a link of its own", 1, |line| line.contains(DIRECT)).await;
    let before = forwarded(there).await;
    client.call_tool("echo", json!({})).await.result();
    assert_eq!(forwarded(there).await, before);
    closed.store(true, Ordering::SeqCst);
    client.call_tool("echo", json!({})).await.result();
    assert!(forwarded(there).await > before);
    let ran = one.received().iter().filter(|m| m.method == "tools/call" && m.header("x-replica") == Some("a")).count();
    assert_eq!(ran, 4, "three and the one that was refused first");
}

// cluster: a server that restarts, also with calls all the time
#[tokio::test(flavor = "multi_thread")]
async fn a_modern_server_that_restarts_is_called_directly_again() {
    let one = modern("one").http().await;
    let Some(fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    let owner = direct(&fleet, "one").await;
    let there = &fleet.replicas[1 - owner];
    let client = there.client().modern().connect().await;
    client.call_tool("echo", json!({})).await.result();
    one.kill().await;
    let refused = client.call_tool("echo", json!({})).await.error().to_string();
    assert!(refused.contains("one"), "{refused}");
    one.revive().await;
    tidings_testkit::within("it is called directly again", async {
        loop {
            let before = forwarded(there).await;
            let answered = client.call_tool("echo", json!({})).await;
            if !answered.response().result().is_null() && forwarded(there).await == before {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

// cluster: a replica that is cut off calls on
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_cut_off_goes_on_calling_modern_http_servers() {
    let Some(nats) = NatsServer::start() else { return };
    let (one, pipe) = (modern("one").http().await, counting("pipe").stdio().await);
    let cable = TcpCable::start(nats.port()).await;
    let url = format!("nats://127.0.0.1:{}", cable.port());
    let servers = [("one", &one), ("pipe", &pipe)];
    let first = replica(&nats, "a", &servers).await;
    let mut fleet = Fleet { nats, replicas: vec![first] };
    fleet.settle(&["one", "pipe"]).await;
    fleet.replicas.push(replica_with(&url, "b", "", &servers).serve().await);
    fleet.settle(&["one", "pipe"]).await;
    assert_eq!(direct(&fleet, "one").await, 0);
    let cut = &fleet.replicas[1];
    let client = cut.client().modern().connect().await;
    cable.pull();
    fleet
        .wait(1, "it is cut off", |cluster| {
            cluster["replicas"].as_array().unwrap().iter().any(|one| one["state"] == "isolated")
        })
        .await;
    for _ in 0..20 {
        client.call_tool("one__echo", json!({})).await.result();
    }
    client.call_tool("pipe__echo", json!({})).await.error();
    for _ in 0..20 {
        client.call_tool("one__echo", json!({})).await.result();
    }
    assert_eq!(one.count("tools/call"), 40);
    cable.plug();
    fleet.settle(&["one", "pipe"]).await;
    client.call_tool("pipe__echo", json!({})).await.result();
    client.call_tool("one__echo", json!({})).await.result();
}

// cluster: an owner that dies holds no call up that can do without it
#[tokio::test(flavor = "multi_thread")]
async fn calls_go_on_while_the_owner_is_killed_and_another_takes_over() {
    let one = modern("one").http().await;
    let Some(fleet) = Fleet::begin(3, &[("one", &one)]).await else { return };
    let owner = direct(&fleet, "one").await;
    let left: Vec<usize> = (0..3).filter(|place| *place != owner).collect();
    let clients = [
        fleet.replicas[left[0]].client().modern().connect().await,
        fleet.replicas[left[1]].client().revision(V2025_11_25).connect().await,
    ];
    fleet.replicas[owner].kill().await;
    let former = ["a", "b", "c"][owner];
    let moved = fleet
        .wait(left[0], "another takes over", |cluster| owner_in(cluster, "one").is_some_and(|name| name != former));
    tokio::pin!(moved);
    let mut calls = 0;
    loop {
        for client in &clients {
            client.call_tool("echo", json!({})).await.result();
            calls += 1;
        }
        tokio::select! {
            biased;
            _ = &mut moved => break,
            () = std::future::ready(()) => {}
        }
    }
    for _ in 0..50 {
        for client in &clients {
            client.call_tool("echo", json!({})).await.result();
            calls += 1;
        }
    }
    assert_eq!(one.count("tools/call"), calls, "each ran once");
}

// cluster: labels
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_for_labels_is_called_only_where_they_are() {
    let Some(nats) = NatsServer::start() else { return };
    let one = modern("one").http().await;
    let begin = |name: &str, labels: &str| {
        let builder = replica_with(&nats.url(), name, labels, &[]);
        builder.server_with("one", &one, "placement = [\"inside\"]\n").serve()
    };
    let replicas = vec![
        begin("a", "labels = [\"inside\"]\n").await,
        begin("b", "labels = [\"inside\"]\n").await,
        begin("c", "").await,
    ];
    let fleet = Fleet { nats, replicas };
    fleet.settle(&["one"]).await;
    let owner = fleet.owner(0, "one").await;
    assert!(owner < 2);
    fleet.replicas[1 - owner].stderr().wait_for_nth("a link of its own", 1, |line| line.contains(DIRECT)).await;
    for (place, goes_by_owner) in [(1 - owner, false), (2, true)] {
        let client = fleet.replicas[place].client().modern().connect().await;
        let before = forwarded(&fleet.replicas[place]).await;
        client.call_tool("echo", json!({})).await.result();
        assert_eq!(forwarded(&fleet.replicas[place]).await > before, goes_by_owner);
    }
}
