//! Servers that are added, removed and switched while a cluster runs: at all replicas or nowhere.

use std::time::Duration;

use serde_json::{Value, json};
use tidings_cluster::{AppendId, BusKeys, FleetBus as _, NatsBus, NatsSettings};
use tidings_hub::fleet::entry::FleetEntry;
use tidings_hub::fleet::state_keeping::KEPT_EVERY;
use tidings_hub::fleet::{LogSequence, ReplicaId};
use tidings_testkit::{Gateway, ListFollower, Server, V2025_06_18, eventually, within};

use crate::{Fleet, SECRET, counting, owner_in, replica};

async fn tools_only(name: &str) -> Server {
    Server::builder(name).echo("echo").stdio().await
}

async fn names(gateway: &Gateway) -> Vec<String> {
    let mut names = gateway.client().modern().connect().await.names("tools").await;
    names.sort();
    names
}

async fn servers(gateway: &Gateway) -> Vec<Value> {
    let (_, body) = gateway.api("GET", "/servers", Value::Null).await;
    body["servers"].as_array().unwrap().iter().map(|server| server["name"].clone()).collect()
}

/// Followers of both eras at every replica.
async fn followers(fleet: &Fleet) -> Vec<ListFollower> {
    let mut followers = Vec::new();
    for replica in &fleet.replicas {
        followers.push(ListFollower::begin(replica.client().modern().connect().await).await);
        followers.push(ListFollower::begin(replica.client().revision(V2025_06_18).connect().await).await);
    }
    followers
}

// cluster: the registry is one, and each replica tells its own clients once
#[tokio::test]
async fn what_is_added_or_removed_at_one_replica_is_so_at_all_and_is_told_once() {
    let (one, two) = (tools_only("one").await, tools_only("two").await);
    let Some(fleet) = Fleet::begin(3, &[("one", &one)]).await else { return };
    let mut followers = followers(&fleet).await;
    for round in 1..=3 {
        let at = &fleet.replicas[round % 3];
        let (program, args) = two.command();
        let added = at.command(&["add", "two", "--", &program, &args[0]]).await;
        assert!(added.status.success(), "{added:?}");
        for (place, follower) in followers.iter_mut().enumerate() {
            follower.expect(&["tools"]).await;
            // At another replica than the one that told it.
            assert_eq!(names(&fleet.replicas[(place / 2 + 1) % 3]).await, ["echo", "two__echo"]);
            let called = follower.client.call_tool("two__echo", json!({"text": "x"})).await;
            assert!(called.text().contains("x"));
        }
        assert_eq!(two.initializes(), round, "only the replica that added it has started it");
        let owner = ["a", "b", "c"][round % 3];
        fleet.wait(0, "who started it runs it", |cluster| owner_in(cluster, "two").as_deref() == Some(owner)).await;
        assert_eq!(two.count("tools/call"), 6 * round);
        let (code, kept) = fleet.replicas[0].api("GET", "/servers/two", Value::Null).await;
        assert_eq!((code, &kept["source"]), (200, &json!("runtime")), "{kept}");
        // By yet another one.
        let removed = fleet.replicas[(round + 1) % 3].command(&["remove", "two"]).await;
        assert!(removed.status.success(), "{removed:?}");
        for (place, follower) in followers.iter_mut().enumerate() {
            follower.expect(&["tools"]).await;
            assert_eq!(names(&fleet.replicas[(place / 2 + 1) % 3]).await, ["echo"]);
        }
        two.wait_all_exited().await;
    }
    for replica in &fleet.replicas {
        assert_eq!(servers(replica).await, [json!("one")]);
    }
}

// cluster: a failed start refuses the change and nothing is in the log
#[tokio::test]
async fn what_does_not_start_is_in_no_log_and_told_to_nobody() {
    let (one, two) = (tools_only("one").await, tools_only("two").await);
    let Some(fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    let mut followers = followers(&fleet).await;
    let head = fleet.cluster(0).await["head"].clone();
    let put = |name: &str, server: Value| json!({"op": "put", "name": name, "server": server});
    let broken = json!({"operations": [put("two", two.keys()), put("x", json!({"command": "/no/such/program"}))]});
    let (code, problem) = fleet.replicas[0].api("POST", "/batch", broken).await;
    assert_eq!(code, 502, "{problem}");
    two.wait_all_exited().await;
    let (code, problem) = fleet.replicas[1].api("PUT", "/servers/one", two.keys()).await;
    assert_eq!(code, 409, "{problem}");
    for replica in &fleet.replicas {
        assert_eq!(servers(replica).await, [json!("one")]);
    }
    assert_eq!(fleet.cluster(0).await["head"], head, "nothing was written");
    // A batch that starts is one commit: each is told once.
    let whole = json!({"operations": [put("two", two.keys()), put("three", one.keys())]});
    let (code, answer) = fleet.replicas[1].api("POST", "/batch", whole).await;
    assert_eq!(code, 200, "{answer}");
    for follower in &mut followers {
        follower.expect(&["tools"]).await;
    }
    for replica in &fleet.replicas {
        assert_eq!(names(replica).await, ["echo", "three__echo", "two__echo"]);
    }
}

// cluster: the log has what was added; nobody reads it on the bus
#[tokio::test]
async fn a_replica_that_restarts_or_joins_later_has_what_was_added() {
    let (one, two, off) = (tools_only("one").await, tools_only("two").await, tools_only("off").await);
    let Some(mut fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    let mut keys = two.keys();
    keys["env"] = json!({"TOKEN": "a-secret-that-nobody-may-read"});
    assert_eq!(fleet.replicas[0].api("PUT", "/servers/two", keys).await.0, 201);
    assert_eq!(fleet.replicas[1].api("PUT", "/servers/off", off.keys()).await.0, 201);
    let (code, switched) = fleet.replicas[0].api("POST", "/servers/off/disable", Value::Null).await;
    assert_eq!(code, 200, "{switched}");
    off.wait_all_exited().await;
    assert_eq!(names(&fleet.replicas[1]).await, ["echo", "two__echo"]);
    // In order, and killed.
    assert!(fleet.replicas[1].terminate().await.success());
    fleet.replicas[1] = fleet.replicas[1].again().await;
    fleet.replicas.push(replica(&fleet.nats, "c", &[("one", &one)]).await);
    for place in [1, 2] {
        let late = &fleet.replicas[place];
        late.wait_server("two", "ready", |server| server["state"] == "ready").await;
        assert_eq!(names(late).await, ["echo", "two__echo"]);
        late.wait_server("off", "off", |server| server["state"] == "disabled").await;
    }
    fleet.replicas[0].kill().await;
    fleet.wait(1, "another runs it", |cluster| owner_in(cluster, "two").is_some_and(|owner| owner != "a")).await;
    for place in [1, 2] {
        let client = fleet.replicas[place].client().connect().await;
        assert!(client.call_tool("two__echo", json!({"text": "x"})).await.text().contains("x"));
    }
    // What one process has switched off, another switches on.
    let (code, switched) = fleet.replicas[2].api("POST", "/servers/off/enable", Value::Null).await;
    assert_eq!(code, 200, "{switched}");
    assert_eq!(names(&fleet.replicas[1]).await, ["echo", "off__echo", "two__echo"]);
    let kept = fleet.nats.kept_bytes();
    let is_in = |text: &str| kept.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(kept.len() > 1000 && !is_in("a-secret-that-nobody-may-read") && !is_in("two__echo"));
}

/// Writes so many entries that the state is kept, and has the log forget what is before it.
async fn forget_beginning(fleet: &Fleet) {
    let settings = NatsSettings {
        servers: vec![fleet.nats.url()],
        access: Default::default(),
        name: "tidings".to_owned(),
        replica: ReplicaId { name: "writer".into(), incarnation: 1 },
        copies: 1,
        keys: BusKeys::derive(&[SECRET]).unwrap(),
    };
    let (bus, _arrivals) = NatsBus::connect(settings).await.unwrap();
    // Nobody owes anything by these.
    let nothing = FleetEntry::Echo { from: LogSequence(0), to: LogSequence(0) };
    for n in 0..KEPT_EVERY {
        bus.append(&AppendId(format!("nothing-{n}")), &nothing, None).await.unwrap();
    }
    let kept = within("the state is kept", async {
        loop {
            match bus.kept_state().await.unwrap() {
                Some(kept) => return kept,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await;
    let client = async_nats::connect(fleet.nats.url()).await.unwrap();
    let log = async_nats::jetstream::new(client).get_stream("tidings-tidings-log").await.unwrap();
    log.purge().sequence(kept.position + 1).await.unwrap();
    bus.close().await;
}

// cluster: what was added, switched and listed is there for who joins, although the log has forgotten how it came about
#[tokio::test]
async fn a_replica_that_joins_has_everything_that_the_log_has_forgotten() {
    let (one, two) = (tools_only("one").await, tools_only("two").await);
    let (off, other) = (tools_only("off").await, tools_only("other").await);
    let Some(mut fleet) = Fleet::begin(2, &[("one", &one), ("other", &other)]).await else { return };
    assert_eq!(fleet.replicas[0].api("PUT", "/servers/two", two.keys()).await.0, 201);
    assert_eq!(fleet.replicas[1].api("PUT", "/servers/off", off.keys()).await.0, 201);
    for name in ["off", "other"] {
        let (code, switched) = fleet.replicas[0].api("POST", &format!("/servers/{name}/disable"), Value::Null).await;
        assert_eq!(code, 200, "{switched}");
    }
    let mut followers = followers(&fleet).await;
    forget_beginning(&fleet).await;
    fleet.replicas.push(replica(&fleet.nats, "c", &[("one", &one), ("other", &other)]).await);
    let late = &fleet.replicas[2];
    late.wait_server("two", "ready", |server| server["state"] == "ready").await;
    assert_eq!(names(late).await, ["one__echo", "two__echo"]);
    for name in ["off", "other"] {
        late.wait_server(name, "off", |server| server["state"] == "disabled").await;
    }
    let client = late.client().connect().await;
    for tool in ["one__echo", "two__echo"] {
        assert!(client.call_tool(tool, json!({"text": "x"})).await.text().contains("x"));
    }
    // It goes on with the others, whoever runs something.
    let (code, switched) = fleet.replicas[2].api("POST", "/servers/other/enable", Value::Null).await;
    assert_eq!(code, 200, "{switched}");
    for follower in &mut followers {
        follower.expect(&["tools"]).await;
    }
    // And alone.
    for place in [0, 1] {
        fleet.replicas[place].kill().await;
    }
    fleet
        .wait(2, "it runs all", |cluster| {
            ["one", "two", "other"].iter().all(|name| owner_in(cluster, name).as_deref() == Some("c"))
        })
        .await;
    assert!(fleet.replicas[2].terminate().await.success());
    fleet.replicas[2] = fleet.replicas[2].again().await;
    fleet.replicas[2].wait_server("two", "ready", |server| server["state"] == "ready").await;
    assert_eq!(names(&fleet.replicas[2]).await, ["one__echo", "other__echo", "two__echo"]);
}

// cluster: servers of the files are switched for all
#[tokio::test]
async fn a_server_of_the_files_is_switched_off_and_on_at_all_replicas() {
    let (one, two) = (tools_only("one").await, tools_only("two").await);
    let Some(fleet) = Fleet::begin(2, &[("one", &one), ("two", &two)]).await else { return };
    let mut followers = followers(&fleet).await;
    assert_eq!(fleet.replicas[0].api("POST", "/servers/two/disable", Value::Null).await.0, 200);
    for follower in &mut followers {
        follower.expect(&["tools"]).await;
    }
    two.wait_all_exited().await;
    assert_eq!(names(&fleet.replicas[1]).await, ["one__echo"]);
    assert_eq!(fleet.replicas[1].api("POST", "/servers/two/enable", Value::Null).await.0, 200);
    for follower in &mut followers {
        follower.expect(&["tools"]).await;
    }
    for replica in &fleet.replicas {
        let client = replica.client().connect().await;
        assert!(client.call_tool("two__echo", json!({"text": "x"})).await.text().contains("x"));
    }
}

// cluster: one version after the other
#[tokio::test]
async fn changes_at_several_replicas_at_once_are_one_after_the_other() {
    let one = tools_only("one").await;
    let Some(fleet) = Fleet::begin(3, &[("one", &one)]).await else { return };
    let others =
        futures_util::future::join_all((0..9).map(|n| async move { tools_only(&format!("s{n}")).await })).await;
    let adding = others.iter().enumerate().map(|(n, server)| {
        let replica = &fleet.replicas[n % 3];
        async move { replica.api("PUT", &format!("/servers/s{n}"), server.keys()).await }
    });
    for (code, answer) in futures_util::future::join_all(adding).await {
        assert_eq!(code, 201, "{answer}");
    }
    let expected: Vec<String> = ["echo".to_owned()].into_iter().chain((0..9).map(|n| format!("s{n}__echo"))).collect();
    for replica in &fleet.replicas {
        assert_eq!(names(replica).await, expected);
    }
    // Several want one name: all replicas have the same one of them in the end, which runs once.
    let adding = fleet
        .replicas
        .iter()
        .zip(&others)
        .map(|(replica, server)| async move { replica.api("PUT", "/servers/wanted", server.keys()).await });
    let answers = futures_util::future::join_all(adding).await;
    let added = answers.iter().filter(|(code, _)| *code < 300).count();
    assert!(added >= 1 && answers.iter().all(|(code, _)| *code < 300 || *code == 409), "{answers:?}");
    for replica in &fleet.replicas {
        let client = replica.client().connect().await;
        assert!(client.call_tool("wanted__echo", json!({"text": "x"})).await.text().contains("x"));
    }
    let called: Vec<usize> = others.iter().map(|server| server.count("tools/call")).collect();
    assert_eq!(called.iter().filter(|calls| **calls > 0).sum::<usize>(), 3, "{called:?}");
    assert_eq!(called.iter().filter(|calls| **calls > 0).count(), 1, "{called:?}");
}

// cluster: a replica that is cut off changes nothing
#[tokio::test]
async fn without_the_bus_a_change_is_refused_and_starts_nothing() {
    let (one, two) = (tools_only("one").await, tools_only("two").await);
    let Some(mut fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    fleet.nats.kill();
    let (code, problem) = fleet.replicas[0].api("PUT", "/servers/two", two.keys()).await;
    assert_eq!(code, 503, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("the replicas can not agree"), "{problem}");
    assert_eq!(two.initializes(), 0);
    let removed = fleet.replicas[1].command(&["remove", "one"]).await;
    assert!(!removed.status.success(), "{removed:?}");
    fleet.nats.run();
    fleet.wait(0, "connected again", |cluster| cluster["replicas"][0]["state"] == "connected").await;
    let (code, answer) = fleet.replicas[0].api("PUT", "/servers/two", two.keys()).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(names(&fleet.replicas[1]).await, ["echo", "two__echo"]);
}

/// The processes that hold on to a word of this test.
fn running(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let holds = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line == format!("sleep\0{word}\0").as_bytes()
    };
    processes.filter(holds).count()
}

// cluster: replica dies in a registry change
#[tokio::test]
async fn a_replica_that_is_killed_in_a_change_leaves_all_of_it_or_nothing() {
    let (one, two, three) = (tools_only("one").await, tools_only("two").await, tools_only("three").await);
    let Some(mut fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    // While the new server starts: nothing has happened.
    let seconds = "1000.301";
    {
        let hanging = json!({"command": "sleep", "args": [seconds]});
        let adding = fleet.replicas[0].api("PUT", "/servers/hang", hanging);
        tokio::pin!(adding);
        let started = eventually("the server that never starts", || (running(seconds) > 0).then_some(()));
        tokio::select! {
            answer = &mut adding => panic!("it does not start: {answer:?}"),
            () = started => {}
        }
        fleet.replicas[0].kill().await;
    }
    eventually("its child dies too", || (running(seconds) == 0).then_some(())).await;
    assert_eq!(servers(&fleet.replicas[1]).await, [json!("one")]);
    fleet.replicas[0] = fleet.replicas[0].again().await;
    assert_eq!(servers(&fleet.replicas[0]).await, [json!("one")]);
    // At moments around the one at which the entry is written.
    let mut outcomes = [0, 0];
    for round in 0..8_u64 {
        let put = |name: &str, server: Value| json!({"op": "put", "name": name, "server": server});
        let both = json!({"operations": [put("two", two.keys()), put("three", three.keys())]});
        {
            let adding = fleet.replicas[0].api("POST", "/batch", both);
            tokio::pin!(adding);
            let moment = Duration::from_millis(4 * round);
            let listed = async {
                let before = three.count("tools/list");
                eventually("the last list", || (three.count("tools/list") > before).then_some(())).await;
                tokio::time::sleep(moment).await;
            };
            let answered = tokio::select! {
                answer = &mut adding => Some(answer),
                () = listed => None,
            };
            fleet.replicas[0].kill().await;
            two.wait_all_exited().await;
            let there = names(&fleet.replicas[1]).await;
            let is_there = there.contains(&"two__echo".to_owned());
            assert_eq!(is_there, there.contains(&"three__echo".to_owned()), "half of it: {there:?}");
            let is_answered = answered.as_ref().is_some_and(|(code, _)| *code < 300);
            assert!(is_there || !is_answered, "it was answered, and is gone: {answered:?}");
            outcomes[usize::from(is_there)] += 1;
            if is_there {
                fleet
                    .wait(1, "the other runs them", |cluster| {
                        ["two", "three"].iter().all(|name| owner_in(cluster, name).as_deref() == Some("b"))
                    })
                    .await;
                let client = fleet.replicas[1].client().connect().await;
                for name in ["two__echo", "three__echo"] {
                    assert!(client.call_tool(name, json!({"text": "x"})).await.text().contains("x"));
                }
            }
        }
        fleet.replicas[0] = fleet.replicas[0].again().await;
        assert_eq!(names(&fleet.replicas[0]).await, names(&fleet.replicas[1]).await);
        if names(&fleet.replicas[1]).await.len() > 1 {
            let gone = json!({"operations": [{"op": "delete", "name": "two"}, {"op": "delete", "name": "three"}]});
            assert_eq!(fleet.replicas[0].api("POST", "/batch", gone).await.0, 200);
            two.wait_all_exited().await;
            // What is shown of the cluster is up to a tenth of a second old.
            fleet.wait(1, "nobody runs it", |cluster| owner_in(cluster, "two").is_none()).await;
        }
    }
    println!("nothing of it: {}, all of it: {}", outcomes[0], outcomes[1]);
}

// cluster: references are read by each replica
#[tokio::test]
async fn a_replica_that_lacks_what_a_server_refers_to_leaves_it_to_others() {
    let (one, two) = (tools_only("one").await, tools_only("two").await);
    let Some(nats) = tidings_testkit::NatsServer::start() else { return };
    let servers = [("one", &one)];
    let with =
        |name: &'static str| crate::replica_with(&nats.url(), name, "", &servers).env("HERE_ONLY", "yes").serve();
    let (a, b, c) = tokio::join!(with("a"), replica(&nats, "b", &servers), with("c"));
    let fleet = Fleet { nats, replicas: vec![a, b, c] };
    for place in 0..3 {
        fleet.replicas[place].wait_server("one", "ready", |server| server["state"] == "ready").await;
    }
    let mut keys = two.keys();
    keys["env"] = json!({"WANTED": "${env:HERE_ONLY}"});
    let (code, answer) = fleet.replicas[0].api("PUT", "/servers/two", keys).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(names(&fleet.replicas[1]).await, ["echo"]);
    let said = fleet.replicas[1].wait_server("two", "said", |server| !server["error"].is_null()).await;
    assert!(said["error"].as_str().unwrap().contains("HERE_ONLY"), "{said}");
    assert_eq!(names(&fleet.replicas[2]).await, ["echo", "two__echo"]);
    // Whoever can run it does, whatever the order in which the others claim it.
    fleet.replicas[0].kill().await;
    fleet.wait(2, "it runs at c", |cluster| owner_in(cluster, "two").as_deref() == Some("c")).await;
    let client = fleet.replicas[2].client().connect().await;
    assert!(client.call_tool("two__echo", json!({"text": "x"})).await.text().contains("x"));
}

// cluster: the files change with a restart
#[tokio::test]
async fn a_file_with_other_servers_is_refused_while_the_cluster_runs() {
    let one = tools_only("one").await;
    let Some(fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    let (code, answer) = fleet.replicas[0].api("POST", "/reload", Value::Null).await;
    assert_eq!(code, 200, "a file with the same servers is read: {answer}");
    let file = fleet.replicas[0].config();
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::write(file, format!("{text}\n[servers.more]\n{}", one.toml())).unwrap();
    let (code, answer) = fleet.replicas[0].api("POST", "/reload", Value::Null).await;
    assert!(code >= 400 && answer.to_string().contains("restart them one after the other"), "{code} {answer}");
    assert_eq!(names(&fleet.replicas[0]).await, ["echo"]);
}

// cluster: the rest of a replica's life is as before
#[tokio::test]
async fn what_follows_a_change_is_as_for_any_server() {
    let (one, two) = (counting("one").stdio().await, counting("two").stdio().await);
    let Some(fleet) = Fleet::begin(2, &[("one", &one)]).await else { return };
    assert_eq!(fleet.replicas[0].api("PUT", "/servers/two", two.keys()).await.0, 201);
    let mut follower = ListFollower::begin(fleet.replicas[1].client().modern().connect().await).await;
    two.put_tool(tidings_testkit::Tool::text_tool("later", "new"));
    assert!(two.list_changed("tools") > 0);
    follower.expect(&["tools"]).await;
    assert!(follower.client.names("tools").await.contains(&"two__later".to_owned()));
    // Another definition in its place, at the other replica: it runs there from here on.
    let mut keys = two.keys();
    keys["env"] = json!({"CHANGED": "yes"});
    let (code, answer) = fleet.replicas[1].api("PUT", "/servers/two", keys).await;
    assert_eq!(code, 200, "{answer}");
    fleet.wait(0, "it runs there", |cluster| owner_in(cluster, "two").as_deref() == Some("b")).await;
    let client = fleet.replicas[0].client().connect().await;
    assert!(client.call_tool("two__echo", json!({"text": "x"})).await.text().contains("x"));
    assert_eq!(two.initializes(), 2, "each of the two was started once");
    // And once more in the place of its own.
    assert_eq!(fleet.replicas[1].api("PUT", "/servers/two", two.keys()).await.0, 200);
    assert!(client.call_tool("two__echo", json!({"text": "x"})).await.text().contains("x"));
    assert_eq!(two.initializes(), 3, "each of the three was started once");
    two.put_prompt(tidings_testkit::Tool::prompt("q", |call| async move { call.ok_message("new") }));
    assert!(two.list_changed("prompts") > 0);
    // The same lists by another process were no change.
    follower.expect(&["prompts"]).await;
}
