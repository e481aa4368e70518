//! What does not work changes nothing, tells nobody, leaves nothing, and says why.

use serde_json::{Value, json};
use tidings_testkit::{Client, Server};

use crate::{ListFollower, call, clock, followers, launch, launch_arguments, listed, refusal, with_tools};

/// Launches that fail, and a part of the reason.
fn failing(server: &Server, silent: &Server) -> Vec<(Value, &'static str)> {
    let sh = |script: &str| json!({"command": "sh", "args": ["-c", script], "prefix": "new"});
    vec![
        (json!({"command": "no-such-command-anywhere", "prefix": "new"}), "no-such-command-anywhere"),
        (sh("echo the licence has expired >&2; exit 3"), "the licence has expired"),
        (sh("echo not a message; sleep 60"), "new"),
        (launch_arguments("new", silent), "did not start within 3 s"),
        (launch_arguments("taken", server), "there is a server \"taken\" already"),
        (launch_arguments("other", server), "there is a server \"other\" already"),
        (launch_arguments("a b", server), "`prefix` must be 1 to 32 letters, digits, \"_\" or \"-\""),
        (json!({"prefix": "new"}), "`command` must be the program to run"),
        (json!({"command": "x", "prefix": "new", "arg": []}), "`arg` is no argument of this tool; it has command, "),
        (json!({"command": "x", "prefix": "new", "env": {"A=B": "c"}}), "not a name for an environment variable"),
        (json!({"command": "${env:NOT_SET_ANYWHERE}", "prefix": "new"}), "command not found"),
        (launch_arguments("registry", server), "\"registry\" is a part of the gateway; choose another `prefix`"),
    ]
}

// S4.2, bridging 15
#[tokio::test]
async fn a_launch_that_fails_leaves_everything_as_it_was() {
    let server = clock().stdio().await;
    let silent = clock().silent_on("initialize").silent_on("server/discover").stdio().await;
    let gateway = with_tools("start_timeout = \"3s\"").server("other", &server).serve().await;
    let followers = followers(&gateway).await;
    let fresh: Vec<_> = followers.iter().map(ListFollower::counts).collect();
    launch(&followers[0].client, "taken", &server).await;
    for (follower, before) in followers.iter().zip(fresh) {
        follower.heard_all(before).await;
    }
    let lists = async || -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for follower in &followers {
            all.push(listed(&follower.client, "tools").await);
        }
        all
    };
    let (before, told) = (lists().await, followers.iter().map(ListFollower::counts).collect::<Vec<_>>());
    let active = call(&followers[0].client, "active", json!({})).await;
    for (place, (arguments, reason)) in failing(&server, &silent).into_iter().enumerate() {
        let caller = &followers[place % followers.len()].client;
        let problem = refusal(caller, "launch_stdio", arguments.clone()).await;
        assert!(problem.contains(reason), "{arguments}: {problem}");
        assert_eq!(lists().await, before, "{arguments}");
    }
    silent.wait_all_exited().await;
    assert_eq!(call(&followers[0].client, "active", json!({})).await, active);
    // What is told next shows that nothing was told before.
    launch(&followers[0].client, "last", &server).await;
    for (follower, told) in followers.iter().zip(told) {
        follower.heard_all(told).await;
        assert_eq!(follower.counts(), told.map(|count| count + 1));
    }
    let running = server.processes().iter().filter(|process| process.alive).count();
    assert_eq!(running, 3, "other, taken and last");
}

// S4.2
#[tokio::test]
async fn what_can_not_be_removed_stays() {
    let server = clock().stdio().await;
    let gateway = with_tools("").server("other", &server).serve().await;
    let client = gateway.client().connect().await;
    let problem = refusal(&client, "remove", json!({"entry_id": "nothing"})).await;
    assert_eq!(problem, "there is no server \"nothing\"; mcp_registry_active shows all");
    let problem = refusal(&client, "remove", json!({"entry_id": "other"})).await;
    assert!(problem.contains("\"other\" stands in the configuration file"), "{problem}");
    let set = json!({"entry_id": "other", "environment": {"API_KEY": "x"}});
    let problem = refusal(&client, "config_set", set).await;
    assert!(problem.contains("\"other\" stands in the configuration file"), "{problem}");
    assert_eq!(client.call_tool("other__now", json!({})).await.text(), "noon");
}

// S4.2
#[tokio::test]
async fn variables_that_break_a_server_are_not_taken() {
    let server = clock().stdio().await;
    let gateway = with_tools("").serve().await;
    let client = gateway.client().connect().await;
    let (command, args) = server.command();
    let script = "[ -z \"$API_KEY\" ] || { echo bad key >&2; exit 1; }; exec \"$@\"";
    let args: Vec<String> = [vec!["-c".into(), script.into(), "sh".into(), command], args].concat();
    call(&client, "launch_stdio", json!({"command": "sh", "args": args, "prefix": "clock"})).await;
    let set = json!({"entry_id": "clock", "environment": {"API_KEY": "x"}});
    let problem = refusal(&client, "config_set", set).await;
    assert!(problem.contains("bad key"), "{problem}");
    assert_eq!(client.call_tool("clock__now", json!({})).await.text(), "noon", "the old one is still there");
    assert_eq!(server.processes().len(), 1);
}

// S4.2: a name is taken once, however many ask at once
#[tokio::test]
async fn of_two_who_want_the_same_name_one_gets_it() {
    let (one, two) = (clock().stdio().await, clock().stdio().await);
    let gateway = with_tools("").serve().await;
    let clients = [gateway.client().connect().await, gateway.client().modern().connect().await];
    for round in 0..5 {
        let prefix = format!("clock{round}");
        let start = |client: &Client, server: &Server| {
            let arguments = launch_arguments(&prefix, server);
            client.start("tools/call", json!({"name": "mcp_registry_launch_stdio", "arguments": arguments}))
        };
        let (first, second) = (start(&clients[0], &one), start(&clients[1], &two));
        let answers = [first.finish().await, second.finish().await];
        let refused: Vec<String> = answers
            .iter()
            .filter(|answer| answer.result()["isError"] == true)
            .map(tidings_testkit::Exchange::text)
            .collect();
        assert_eq!(refused.len(), 1, "{answers:?}");
        assert!(refused[0].starts_with(&format!("there is a server \"{prefix}\" already")), "{refused:?}");
        let running = || one.processes().into_iter().chain(two.processes()).filter(|process| process.alive).count();
        assert_eq!(running(), 1, "what was refused runs no process");
        call(&clients[0], "remove", json!({"entry_id": prefix})).await;
        one.wait_all_exited().await;
        two.wait_all_exited().await;
    }
}
