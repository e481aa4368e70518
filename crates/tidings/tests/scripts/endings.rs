//! Nothing of a script is left, however its call or its gateway ends.

use serde_json::json;

use super::{Project, scripts_of, wait_no_scripts, wait_scripts};

/// Ignores being asked to end, and leaves children inside and outside its group.
const STUBBORN: &str = "trap '' TERM INT HUP; sleep 300 & setsid sleep 300 & while :; do sleep 1; done";

fn stubborn() -> Project {
    let project = Project::new();
    project.tool("stay", json!({"timeoutSecs": 300}), STUBBORN).tool("quick", json!({}), "echo hi");
    project
}

const STAY: &str = "stay";

// S2.1
#[tokio::test]
async fn a_cancelled_call_ends_its_script_and_all_that_it_started() {
    let project = stubborn();
    let gateway = project.serve().await;
    let stdio = project.stdio().connect().await;
    for (client, process) in [(&stdio, stdio.pid()), (&gateway.client().connect().await, gateway.pid())] {
        let running = client.start("tools/call", json!({"name": STAY, "arguments": {}}));
        wait_scripts(process, 4).await;
        client.cancel(&running).await;
        wait_no_scripts(process).await;
        assert_eq!(client.call_tool("quick", json!({})).await.text(), "hi\n");
    }
    // A modern client over HTTP only goes away.
    let modern = gateway.client().modern().connect().await;
    let running = modern.start("tools/call", json!({"name": STAY, "arguments": {}}));
    wait_scripts(gateway.pid(), 4).await;
    drop(running);
    wait_no_scripts(gateway.pid()).await;
}

#[tokio::test]
async fn a_killed_gateway_leaves_no_script_behind() {
    let project = stubborn();
    let gateway = project.serve().await;
    let client = gateway.client().connect().await;
    let _running = client.start("tools/call", json!({"name": STAY, "arguments": {}}));
    wait_scripts(gateway.pid(), 4).await;
    gateway.kill().await;
    wait_no_scripts(gateway.pid()).await;
}

#[tokio::test]
async fn at_the_end_of_input_running_tools_are_finished() {
    let project = Project::new();
    project.tool("work", json!({}), "sleep 0.5; echo finished");
    let client = project.stdio().connect().await;
    let running = client.start("tools/call", json!({"name": "work", "arguments": {}}));
    wait_scripts(client.pid(), 1).await;
    client.close_stdin();
    assert_eq!(running.finish().await.text(), "finished\n");
    assert!(client.wait_exit().await.success());
    assert!(scripts_of(client.pid()).is_empty());
}

#[tokio::test]
async fn many_calls_at_once_all_answer_and_at_most_as_many_run_as_there_are_workers() {
    // S0.9
    let project = Project::new();
    let notes = project.path("notes");
    std::fs::create_dir(&notes).unwrap();
    // Each says how many are there with it.
    let body = format!("cd {} && : > $$ && ls | wc -l; sleep 0.1; rm $$", notes.display());
    project.tool("count", json!({}), &body);
    let client = project.stdio().env("MCPBASH_MAX_CONCURRENT_REQUESTS", "3").connect().await;
    let running: Vec<_> =
        (0..20).map(|_| client.start("tools/call", json!({"name": "count", "arguments": {}}))).collect();
    let mut most = 0;
    for call in running {
        most = most.max(call.finish().await.text().trim().parse::<u32>().unwrap());
    }
    assert!((1..=3).contains(&most), "{most}");
}
