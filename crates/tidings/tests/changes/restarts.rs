//! The feed outlives the gateway.

use serde_json::{Value, json};
use tidings_testkit::{Gateway, Tool, within};

use crate::{Feed, add, described, full, get, quick, request};

// S4.4, S4.6
#[tokio::test]
async fn the_feed_goes_on_after_an_end_and_after_a_crash() {
    let server = full().stdio().await;
    let mut gateway = quick().server("one", &server).serve().await;
    let mut last = 0;
    for round in 0..4_u64 {
        let resumed = request(&gateway, "/changes/stream").header("last-event-id", last.to_string());
        let mut feed = Feed::open(resumed).await;
        add(&server, &format!("t{round}"));
        let record = feed.next().await;
        assert_eq!((&record["seq"], &record["added"]), (&json!(round + 1), &json!([format!("t{round}")])));
        last = round + 1;
        if round % 2 == 0 {
            assert!(gateway.terminate().await.success());
        } else {
            gateway.kill().await;
        }
        gateway = gateway.again().await;
        let (_, body) = get(&gateway, "/changes").await;
        assert_eq!(body["last"], json!(last));
        assert_eq!(body["changes"].as_array().unwrap().len() as u64, last);
    }
}

// S4.4
#[tokio::test]
async fn a_second_process_on_the_data_directory_runs_without_the_store_and_says_so() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut feed = Feed::all(&gateway).await;
    let client = gateway.stdio().connect().await;
    client.stderr().wait_for("a word about the store", |line| line.contains("another process keeps the store")).await;
    add(&server, "new");
    assert_eq!(feed.next().await["added"], json!(["new"]));
    client.wait_for_method("notifications/tools/list_changed", 2).await;
    client.close_stdin();
    assert!(client.wait_exit().await.success());
    add(&server, "newer");
    assert_eq!(feed.next().await["seq"], json!(2), "only the gateway's own changes are in its log");
}

// S4.4
#[tokio::test]
async fn a_broken_store_is_moved_aside_and_the_gateway_runs() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut feed = Feed::all(&gateway).await;
    add(&server, "before");
    feed.next().await;
    gateway.terminate().await;
    std::fs::write(gateway.data().join("tidings.redb"), "no database").unwrap();
    let gateway = gateway.again().await;
    gateway.stderr().wait_for("a report", |line| line.contains("the store was broken")).await;
    let mut feed = Feed::open(request(&gateway, "/changes/stream").header("last-event-id", "1")).await;
    add(&server, "after");
    let record = feed.next().await;
    assert_eq!(record["added"], json!(["after"]));
    assert!(record["seq"].as_u64() > Some(1));
}

/// Waits until a server is ready, which is when its lists can be read.
async fn wait_ready(gateway: &Gateway, name: &str) {
    within("the server to be ready", async {
        loop {
            let (_, body) = get(gateway, "/servers").await;
            let servers = body["servers"].as_array().into_iter().flatten();
            if servers.into_iter().any(|server| server["name"] == name && server["state"] == "ready") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Everything that was recorded, once a change that is made now is: it stands behind everything that came before it.
async fn recorded(gateway: &Gateway, server: &tidings_testkit::Server, name: &str) -> Vec<Value> {
    let mut feed = Feed::all(gateway).await;
    add(server, name);
    let mut all = Vec::new();
    loop {
        let record = feed.next().await;
        let is_last = record["added"] == json!([name]);
        all.push(record);
        if is_last {
            return all;
        }
    }
}

// edges F11
#[tokio::test]
async fn a_server_that_starts_slowly_is_not_recorded_at_every_restart() {
    let server = full().stdio().await;
    // No server is there so soon: it is late each time.
    let mut gateway = quick().toml("[gateway]\nstart_wait = \"1ms\"").server("slow", &server).serve().await;
    wait_ready(&gateway, "slow").await;
    let first = recorded(&gateway, &server, "t0").await;
    let added: Vec<&Value> = first.iter().map(|record| &record["added"]).collect();
    assert_eq!(added, [&json!(["echo"]), &json!(["p"]), &json!(["file:///r"]), &json!(["t0"])], "it came once");
    for round in 1..3 {
        if round == 1 {
            assert!(gateway.terminate().await.success());
        } else {
            gateway.kill().await;
        }
        gateway = gateway.again().await;
        wait_ready(&gateway, "slow").await;
        let all = recorded(&gateway, &server, &format!("t{round}")).await;
        assert_eq!(all.len(), first.len() + round, "only what was changed by hand: {all:#?}");
        assert!(all.iter().all(|record| record.get("while_down").is_none()), "{all:#?}");
    }
}

// edges F11
#[tokio::test]
async fn what_changed_while_the_gateway_was_down_is_recorded_once_and_marked() {
    let server = full().entry_tool(described("search", "Searches.")).stdio().await;
    let other = full().stdio().await;
    for start_wait in ["1ms", "20s"] {
        let toml = format!("[gateway]\nstart_wait = \"{start_wait}\"");
        let gateway = quick().toml(&toml).server("one", &server).server("other", &other).serve().await;
        wait_ready(&gateway, "one").await;
        wait_ready(&gateway, "other").await;
        let before = recorded(&gateway, &server, "last").await.len();
        assert!(gateway.terminate().await.success());
        server.put_tool(described("search", "Searches better."));
        server.put_tool(Tool::text_tool("new", "new"));
        server.remove_tool("last");
        let gateway = gateway.again().await;
        wait_ready(&gateway, "one").await;
        wait_ready(&gateway, "other").await;
        let all = recorded(&gateway, &server, "now").await;
        assert_eq!(all.len(), before + 2, "{all:#?}");
        let down = &all[before];
        assert_eq!(
            [&down["server"], &down["kind"], &down["while_down"], &down["added"], &down["removed"], &down["changed"]],
            [
                &json!("one"),
                &json!("tools"),
                &json!(true),
                &json!(["new"]),
                &json!(["last"]),
                &json!([{"name": "search", "fields": []}])
            ]
        );
        let (_, page) = get(&gateway, "/changes").await;
        assert_eq!(page["changes"].as_array().unwrap()[before]["while_down"], true);
        let shown = gateway.command(&["changes"]).await;
        let shown = String::from_utf8_lossy(&shown.stdout);
        assert!(
            shown.contains(
                "while the gateway was down\n  ▲ search what changed is not known\n  + new\n  - last\n  ~ search\n"
            ),
            "{shown}"
        );
        assert!(gateway.terminate().await.success());
        let gateway = gateway.again().await;
        wait_ready(&gateway, "one").await;
        let all = recorded(&gateway, &server, "then").await;
        assert_eq!(all.len(), before + 3, "it is told once: {all:#?}");
        for tool in ["new", "now", "then"] {
            server.remove_tool(tool);
        }
        server.put_tool(described("search", "Searches."));
    }
}
