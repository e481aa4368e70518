//! How a tool may end.

use std::time::{Duration, Instant};

use serde_json::json;
use tidings_project::ToolTimeouts;
use tidings_project::run::{CANCELLED, ScriptCaller};

use super::{World, answer, appears, text};

#[tokio::test]
async fn json_becomes_structured_and_stderr_is_kept_beside_it() {
    // S0.9
    let world = World::new();
    let result = world.run(r#"echo '{"sum": 3}'; echo careful >&2"#).await["result"].take();
    assert_eq!(result["structuredContent"], json!({"sum": 3}));
    assert_eq!(result["_meta"], json!({"exitCode": 0, "stderr": "careful\n"}));
}

#[tokio::test]
async fn a_failure_is_a_failed_result_and_the_tools_own_error_comes_first() {
    // S0.9, edges F10
    let world = World::new();
    let plain = world.run("echo broken >&2; exit 3").await;
    assert_eq!((&plain["result"]["isError"], &plain["result"]["_meta"]["exitCode"]), (&json!(true), &json!(3)));
    assert_eq!(plain["result"]["content"][0]["text"], "Tool failed with exit code 3:\nbroken");
    let own =
        world.run(r#"echo '{"code":-32602,"message":"which?"}' > "$MCP_TOOL_ERROR_FILE"; echo noise; exit 1"#).await;
    assert_eq!(own["error"], json!({"code": -32602, "message": "which?"}));
    let killed = world.run("kill -KILL $$").await;
    assert_eq!(killed["result"]["_meta"]["exitCode"], 137);
    world.assert_clean().await;
}

#[tokio::test]
async fn files_that_a_tool_names_are_in_its_result() {
    // S0.9
    let world = World::new();
    world.dir.write("report.txt", "all is well");
    let script = r#"printf 'report.txt\ttext/plain\n/etc/hostname\n' > "$MCP_TOOL_RESOURCES_FILE"; echo see"#;
    let content = world.run(script).await["result"]["content"].take();
    assert_eq!(content.as_array().unwrap().len(), 2);
    assert_eq!((&content[1]["type"], &content[1]["resource"]["text"]), (&json!("resource"), &json!("all is well")));
}

#[tokio::test]
async fn a_tool_that_takes_too_long_is_ended_and_says_so() {
    // S0.9
    let world = World::new();
    let mut tool = world.tool("echo begun >&2; sleep 60 & sleep 60");
    let hint = Some("ask for less".into());
    tool.timeouts = ToolTimeouts { fixed: Some(Duration::from_millis(300)), hint, ..ToolTimeouts::default() };
    let result = answer(world.start(tool, json!({}))).await["result"].take();
    let error = &result["structuredContent"]["error"];
    assert_eq!(
        (&error["type"], &error["reason"], &error["hint"]),
        (&json!("timeout"), &json!("fixed"), &json!("ask for less"))
    );
    assert_eq!((&result["isError"], &result["_meta"]["stderr"]), (&json!(true), &json!("begun\n")));
    world.assert_clean().await;
}

#[tokio::test]
async fn progress_extends_the_time_up_to_the_most() {
    // S0.9
    let world = World::new();
    let line = r#"{"method":"notifications/progress","params":{"progress":1}}"#;
    let body = format!(r#"while :; do echo '{line}' >> "$MCP_PROGRESS_STREAM"; sleep 0.05; done"#);
    let timeouts = ToolTimeouts {
        fixed: Some(Duration::from_secs(10)),
        extends: Some(true),
        max: Some(Duration::from_millis(1_000)),
        hint: None,
    };
    let mut busy = world.tool(&body);
    busy.timeouts = timeouts.clone();
    let most = answer(world.start(busy, json!({}))).await;
    assert_eq!(most["result"]["structuredContent"]["error"]["reason"], "max_exceeded");
    let mut silent = world.tool("sleep 60");
    silent.timeouts =
        ToolTimeouts { fixed: Some(Duration::from_millis(200)), max: Some(Duration::from_secs(60)), ..timeouts };
    let idle = answer(world.start(silent, json!({}))).await;
    assert_eq!(idle["result"]["structuredContent"]["error"]["reason"], "idle");
    world.assert_clean().await;
}

#[tokio::test]
async fn dropping_the_call_ends_the_tool_which_may_clean_up() {
    // S2.1
    let world = World::new();
    let (ready, cleaned) = (world.dir.join("ready"), world.dir.join("cleaned"));
    let body = format!(
        "trap '[ -e \"$MCP_CANCEL_FILE\" ] && echo yes > {}; exit 0' TERM\necho go > {}\nwhile :; do sleep 0.05; done",
        cleaned.display(),
        ready.display()
    );
    let stream = world.start(world.tool(&body), json!({}));
    appears(&ready).await;
    drop(stream);
    assert_eq!(appears(&cleaned).await, "yes");
    world.assert_clean().await;
}

#[tokio::test]
async fn closing_answers_with_cancelled_and_leaves_nothing() {
    let world = World::new();
    let ready = world.dir.join("ready");
    let stream = world.start(world.tool(&format!("echo go > {}; sleep 60", ready.display())), json!({}));
    appears(&ready).await;
    let (answered, ()) = tokio::join!(answer(stream), world.runner.close());
    assert_eq!(answered["error"]["code"], CANCELLED);
    assert!(world.processes().is_empty());
}

#[tokio::test]
async fn only_so_many_run_at_a_time_and_who_waits_can_leave() {
    // S0.9
    let world = World::with(&[("MCPBASH_MAX_CONCURRENT_REQUESTS", "1")]);
    let ready = world.dir.join("ready");
    let go = world.dir.join("go");
    let body =
        format!("echo x >> {}; while [ ! -e {} ]; do sleep 0.02; done; echo done", ready.display(), go.display());
    let call = |key| {
        let caller = ScriptCaller { key, ..ScriptCaller::default() };
        world.runner.call_tool(key, world.tool(&body).into(), json!({}), caller)
    };
    let first = call(1);
    appears(&ready).await;
    let (second, third) = (call(2), call(3));
    drop(second);
    assert_eq!(std::fs::read_to_string(&ready).unwrap(), "x\n");
    world.dir.write("go", "");
    for stream in [first, third] {
        assert_eq!(text(&answer(stream).await), "done\n");
    }
    assert_eq!(std::fs::read_to_string(&ready).unwrap(), "x\nx\n");
}

#[tokio::test]
async fn what_a_tool_starts_in_the_background_goes_with_it_also_when_it_left_the_group() {
    let world = World::new();
    let before = Instant::now();
    let answer =
        world.run("setsid sleep 300 & sleep 300 & (setsid sh -c 'sleep 300' >/dev/null 2>&1 &) ; echo done").await;
    assert_eq!(text(&answer), "done\n");
    assert!(before.elapsed() < Duration::from_secs(20), "the answer does not wait for what holds the pipe");
    world.assert_clean().await;
}
