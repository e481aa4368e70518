//! Scripts that mean harm: clear errors, bounded time and memory, nothing left.

use std::time::{Duration, Instant};

use serde_json::json;
use tidings_project::ToolTimeouts;

use super::{World, answer, appears, text};

#[tokio::test]
async fn a_gigabyte_of_output_is_read_only_to_the_bound() {
    let world = World::with(&[("MCPBASH_MAX_TOOL_OUTPUT_SIZE", "100000")]);
    let before = Instant::now();
    for (to, word) in [("1", "output"), ("2", "stderr")] {
        let answer = world.run(&format!("head -c 1000000000 /dev/zero >&{to}")).await;
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(message.contains("100000") && message.contains(word), "{message}");
    }
    assert!(before.elapsed() < Duration::from_secs(20));
    world.assert_clean().await;
}

#[tokio::test]
async fn output_of_exactly_the_bound_passes() {
    let world = World::with(&[("MCPBASH_MAX_TOOL_OUTPUT_SIZE", "100000")]);
    let answer = world.run("head -c 100000 /dev/zero | tr '\\0' x").await;
    assert_eq!(text(&answer).len(), 100_000);
}

#[tokio::test]
async fn bytes_that_are_no_text_do_no_harm() {
    let world = World::new();
    let answer = world.run(r"printf 'a\377\376b\000c'; printf '\377bad' >&2").await;
    assert_eq!(text(&answer), "a\u{fffd}\u{fffd}b\0c");
    assert_eq!(answer["result"]["_meta"]["stderr"], "\u{fffd}bad");
}

#[tokio::test]
async fn a_tool_that_ignores_being_asked_to_end_is_killed() {
    // S0.9
    let world = World::new();
    let mut tool = world.tool("trap '' TERM INT HUP; while :; do sleep 1; done");
    tool.timeouts = ToolTimeouts { fixed: Some(Duration::from_millis(300)), ..ToolTimeouts::default() };
    let late = answer(world.start(tool.clone(), json!({}))).await;
    assert_eq!(late["result"]["structuredContent"]["error"]["type"], "timeout");
    tool.timeouts = ToolTimeouts::default();
    let ready = world.dir.join("ready");
    tool.script = world.script(
        "tools/deaf",
        &format!("#!/bin/sh\ntrap '' TERM\necho x > {}\nwhile :; do sleep 1; done\n", ready.display()),
    );
    let stream = world.start(tool, json!({}));
    appears(&ready).await;
    drop(stream);
    world.assert_clean().await;
}

#[tokio::test]
async fn a_tool_that_stopped_itself_is_ended_too() {
    let world = World::new();
    let mut tool = world.tool("kill -STOP $$");
    tool.timeouts = ToolTimeouts { fixed: Some(Duration::from_millis(300)), ..ToolTimeouts::default() };
    let late = answer(world.start(tool, json!({}))).await;
    assert_eq!(late["result"]["isError"], true);
    world.assert_clean().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_tool_that_multiplies_is_cut() {
    let world = World::with(&[("TIDINGS_TOOL_PROCESSES", "40")]);
    // Bounded by itself, should nothing else bound it.
    let bomb = "i=0; while [ $i -lt 400 ]; do sleep 300 & i=$((i+1)); done; wait";
    let answer = world.run(bomb).await;
    let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(message.contains("40 processes"), "{message}");
    world.assert_clean().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_tool_that_multiplies_out_of_its_group_is_cut_and_swept() {
    let world = World::with(&[("TIDINGS_TOOL_PROCESSES", "40")]);
    let bomb = "i=0; while [ $i -lt 200 ]; do setsid sleep 300 >/dev/null 2>&1 & i=$((i+1)); done; wait";
    let answer = world.run(bomb).await;
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("40 processes")), "{answer}");
    world.assert_clean().await;
}

// While others end as many processes as it starts, the machine has no more of them than before.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_tool_that_multiplies_while_others_end_is_cut() {
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    let world = World::with(&[("TIDINGS_TOOL_PROCESSES", "40")]);
    let start = "i=0; while [ $i -lt 120 ]; do sleep 300 >/dev/null & echo $!; i=$((i+1)); done; echo; wait";
    let mut others = tokio::process::Command::new("sh");
    let mut others = others.args(["-c", start]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(others.stdout.take().unwrap()).lines();
    let mut pids = Vec::new();
    while let Some(pid) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
        pids.push(pid);
    }
    let swap = format!("for pid in {}; do kill $pid; setsid sleep 300 >/dev/null 2>&1 & done; wait", pids.join(" "));
    let answer = world.run(&swap).await;
    // What is left of the others, should it have been cut before it ended them all.
    let _ = tokio::process::Command::new("kill").args(&pids).stderr(std::process::Stdio::null()).status().await;
    others.wait().await.unwrap();
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("40 processes")), "{answer}");
    world.assert_clean().await;
}

#[tokio::test]
async fn what_is_put_in_the_place_of_files_is_not_opened() {
    let world = World::new();
    let traps = r#"rm -f "$MCP_TOOL_ERROR_FILE" "$MCP_TOOL_RESOURCES_FILE"
mkfifo "$MCP_TOOL_ERROR_FILE"; ln -s /etc/passwd "$MCP_TOOL_RESOURCES_FILE"; echo ok"#;
    let answer = world.run(traps).await;
    assert_eq!(answer["result"]["content"], json!([{"type": "text", "text": "ok\n"}]));
    world.assert_clean().await;
}

#[tokio::test]
async fn a_flood_of_lines_and_lines_without_end_are_survived() {
    let world = World::new();
    let flood = r#"head -c 3000000 /dev/zero | tr '\0' x >> "$MCP_LOG_STREAM"; echo >> "$MCP_LOG_STREAM"
yes '{"method":"notifications/message","params":{"level":"error","data":1}}' | head -n 20000 >> "$MCP_LOG_STREAM"; echo ok"#;
    let (messages, answer) = super::heard(world.start(world.tool(flood), json!({}))).await;
    assert_eq!((text(&answer), messages.len()), ("ok\n", 100));
    world.assert_clean().await;
}
