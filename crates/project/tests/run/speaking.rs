//! What a running tool says and asks.

use serde_json::{Value, json};
use tidings_project::run::ScriptCaller;
use tidings_upstream::CallEvent;
use tidings_wire::{Frame, FrameLimits, RawId, response};

use super::{World, appears, heard, next, parsed, text};

const ABLE: ScriptCaller = ScriptCaller { key: 1, form: true, url: true, roots: false, comes_back: false };

#[tokio::test]
async fn progress_and_logs_arrive_while_the_tool_runs_and_before_its_answer() {
    // S2.3 S2.8
    let world = World::new();
    let go = world.dir.join("go");
    let body = format!(
        r#"say() {{ printf '%s\n' "$2" >> "$1"; }}
say "$MCP_PROGRESS_STREAM" '{{"method":"notifications/progress","params":{{"progressToken":"'"$MCP_PROGRESS_TOKEN"'","progress":50,"total":100,"message":"half"}}}}'
while [ ! -e {} ]; do sleep 0.02; done
say "$MCP_LOG_STREAM" '{{"method":"notifications/message","params":{{"level":"debug","logger":"it","data":"hidden"}}}}'
say "$MCP_LOG_STREAM" '{{"method":"notifications/message","params":{{"level":"warning","logger":"it","data":"shown"}}}}'
say "$MCP_PROGRESS_STREAM" '{{"method":"notifications/progress","params":{{"progress":100}}}}'
echo "$MCP_PROGRESS_TOKEN""#,
        go.display()
    );
    let mut stream = world.start(world.tool(&body), json!({"_meta": {"progressToken": 17}}));
    // The tool waits for us: what it said is here already.
    let CallEvent::Message(frame) = next(&mut stream).await else { panic!("no progress") };
    assert_eq!(
        parsed(frame.bytes())["params"],
        json!({"progressToken": 17, "progress": 50, "total": 100, "message": "half"})
    );
    world.dir.write("go", "");
    let (messages, answer) = heard(stream).await;
    let methods: Vec<&str> = messages.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["notifications/message", "notifications/progress"]);
    assert_eq!(
        (&messages[0]["params"]["data"], &messages[1]["params"]["progressToken"]),
        (&json!("shown"), &json!(17))
    );
    assert_eq!(text(&answer), "17\n");
}

#[tokio::test]
async fn without_a_token_there_is_no_progress() {
    // S2.3
    let world = World::new();
    let body = r#"[ -z "$MCP_PROGRESS_TOKEN" ] && echo '{"method":"notifications/progress","params":{"progress":1}}' >> "$MCP_PROGRESS_STREAM""#;
    let (messages, answer) = heard(world.start(world.tool(body), json!({}))).await;
    assert_eq!((messages, &answer["result"]["_meta"]["exitCode"]), (vec![], &json!(0)));
}

/// Asks as the library does and prints the answer.
const ASK: &str = r#"ask() {
  rm -f "$MCP_ELICIT_RESPONSE_FILE"
  printf '%s' "$1" > "$MCP_ELICIT_REQUEST_FILE.tmp" && mv "$MCP_ELICIT_REQUEST_FILE.tmp" "$MCP_ELICIT_REQUEST_FILE"
  while [ ! -f "$MCP_ELICIT_RESPONSE_FILE" ]; do sleep 0.02; done
  cat "$MCP_ELICIT_RESPONSE_FILE"; echo
}
"#;

fn reply(world: &World, question: &Value, result: &Value) {
    let id = RawId::from_raw(question["id"].to_string().as_bytes()).unwrap();
    let frame = Frame::parse(response(&id, result.to_string().as_bytes()), &FrameLimits::default()).unwrap();
    world.runner.answer(&frame);
}

async fn question(stream: &mut tidings_upstream::CallStream) -> Value {
    match next(stream).await {
        CallEvent::Message(frame) => parsed(frame.bytes()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_question_in_a_file_is_asked_and_its_answer_comes_in_a_file() {
    let world = World::new();
    let form = r#"{"message":"Sure?","schema":{"type":"object","properties":{"ok":{"type":"boolean"}}},"mode":"form"}"#;
    let url = r#"{"message":"Log in","url":"https://example.com/in","mode":"url"}"#;
    let tool = world.tool(&format!("{ASK}ask '{form}'\nask '{url}'"));
    let mut stream = world.runner.call_tool(17, tool.into(), json!({}), ABLE);
    let first = question(&mut stream).await;
    assert_eq!((&first["method"], &first["params"]["message"]), (&json!("elicitation/create"), &json!("Sure?")));
    assert_eq!(first["params"]["requestedSchema"]["properties"]["ok"]["type"], "boolean");
    reply(&world, &first, &json!({"action": "accept", "content": {"ok": true}}));
    let second = question(&mut stream).await;
    assert_eq!(
        (&second["params"]["mode"], &second["params"]["url"]),
        (&json!("url"), &json!("https://example.com/in"))
    );
    reply(&world, &second, &json!({"action": "decline"}));
    let (_, answer) = heard(stream).await;
    let answers: Vec<Value> = text(&answer).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        answers,
        [json!({"action": "accept", "content": {"ok": true}}), json!({"action": "decline", "content": null})]
    );
    world.assert_clean().await;
}

#[tokio::test]
async fn who_can_not_be_asked_is_not_and_the_tool_knows() {
    let world = World::new();
    let form = ScriptCaller { url: false, ..ABLE };
    let tool =
        world.tool(&format!("{ASK}ask '{{\"message\":\"x\",\"url\":\"https://example.com\",\"mode\":\"url\"}}'"));
    let (messages, answer) = heard(world.runner.call_tool(17, tool.into(), json!({}), form)).await;
    assert_eq!((messages, text(&answer)), (vec![], "{\"action\":\"decline\",\"content\":null}\n"));
    let none = world.run(r#"echo "$MCP_ELICIT_SUPPORTED${MCP_ELICIT_REQUEST_FILE-unset}""#).await;
    assert_eq!(text(&none), "0unset\n");
}

#[tokio::test]
async fn a_new_question_withdraws_the_old_and_a_late_answer_is_dropped() {
    let world = World::new();
    let body = r#"put() { printf '%s' "$1" > "$MCP_ELICIT_REQUEST_FILE.tmp"; mv "$MCP_ELICIT_REQUEST_FILE.tmp" "$MCP_ELICIT_REQUEST_FILE"; }
put '{"message":"one","schema":{}}'; while [ -e "$MCP_ELICIT_REQUEST_FILE" ]; do sleep 0.02; done
put '{"message":"two","schema":{}}'
while [ ! -f "$MCP_ELICIT_RESPONSE_FILE" ]; do sleep 0.02; done; cat "$MCP_ELICIT_RESPONSE_FILE""#;
    let mut stream = world.runner.call_tool(17, world.tool(body).into(), json!({}), ABLE);
    let one = question(&mut stream).await;
    let withdrawn = question(&mut stream).await;
    assert_eq!(
        (&withdrawn["method"], &withdrawn["params"]["requestId"]),
        (&json!("notifications/cancelled"), &one["id"])
    );
    let two = question(&mut stream).await;
    reply(&world, &one, &json!({"action": "accept", "content": {"late": true}}));
    reply(&world, &two, &json!({"action": "cancel"}));
    let (_, answer) = heard(stream).await;
    assert_eq!(answer["result"]["structuredContent"], json!({"action": "cancel", "content": null}));
}

#[tokio::test]
async fn a_tool_that_is_cancelled_while_it_asks_leaves_nothing() {
    let world = World::new();
    let tool = world.tool(&format!("{ASK}ask '{{\"message\":\"x\",\"schema\":{{}}}}'"));
    let mut stream = world.runner.call_tool(17, tool.into(), json!({}), ABLE);
    let open = question(&mut stream).await;
    drop(stream);
    world.assert_clean().await;
    // Nobody waits for it any more.
    reply(&world, &open, &json!({"action": "accept"}));
}

#[tokio::test]
async fn the_callers_roots_are_asked_for_and_bound_what_a_tool_is_told() {
    let world = World::new();
    let folder = world.dir.path().canonicalize().unwrap().join("data");
    std::fs::create_dir(&folder).unwrap();
    let tool = world.tool(r#"printf '%s %s' "$MCP_ROOTS_COUNT" "$MCP_ROOTS_PATHS""#);
    let caller = ScriptCaller { roots: true, ..ScriptCaller::default() };
    let mut stream = world.runner.call_tool(17, tool.into(), json!({}), caller);
    let asked = question(&mut stream).await;
    assert_eq!(asked["method"], "roots/list");
    reply(&world, &asked, &json!({"roots": [{"uri": format!("file://{}", folder.display())}]}));
    let (_, answer) = heard(stream).await;
    assert_eq!(text(&answer), format!("1 {}", folder.display()));
}

#[tokio::test]
async fn a_question_stops_the_clock_of_its_tool() {
    let world = World::new();
    let asked = world.dir.join("asked");
    let mut tool =
        world.tool(&format!("{ASK}echo x > {}; ask '{{\"message\":\"x\",\"schema\":{{}}}}'", asked.display()));
    tool.timeouts.fixed = Some(std::time::Duration::from_millis(1500));
    let mut stream = world.runner.call_tool(17, tool.into(), json!({}), ABLE);
    appears(&asked).await;
    let open = question(&mut stream).await;
    // Longer than the tool may run: that nothing comes is what is to be proved.
    let silence = tokio::time::timeout(std::time::Duration::from_millis(2500), stream.next()).await;
    assert!(silence.is_err(), "{silence:?}");
    reply(&world, &open, &json!({"action": "accept", "content": {}}));
    let (_, answer) = heard(stream).await;
    assert_eq!(answer["result"]["structuredContent"]["action"], "accept");
}
