//! Questions, configuration, and other programs.

use serde_json::{Value, json};

use super::Bench;

#[test]
fn questions_are_handed_over_and_answered() {
    let bench = Bench::new();
    let (request, response) = (bench.path("ask"), bench.path("answer"));
    let variables = [
        ("MCP_ELICIT_SUPPORTED", "1"),
        ("MCP_ELICIT_REQUEST_FILE", &*request),
        ("MCP_ELICIT_RESPONSE_FILE", &*response),
    ];
    // The other side: takes the request away and answers.
    let other = "( while [ ! -e \"$MCP_ELICIT_REQUEST_FILE\" ]; do sleep 0.02; done; cp \"$MCP_ELICIT_REQUEST_FILE\" seen; \
        printf '{\"action\":\"accept\",\"content\":{}}' >answer.part; mv answer.part \"$MCP_ELICIT_RESPONSE_FILE\" ) &\n";
    for (call, schema) in [
        ("mcp_elicit_string 'Who \"are\" you?' who", json!({ "who": { "type": "string" } })),
        ("mcp_elicit_confirm 'Who \"are\" you?'", json!({ "confirmed": { "type": "boolean" } })),
        (
            "mcp_elicit_choice 'Who \"are\" you?' a 'b c'",
            json!({ "choice": { "type": "string", "enum": ["a", "b c"] } }),
        ),
        (
            "mcp_elicit_titled_choice 'Who \"are\" you?' 'a:The A: first' b:B",
            json!({ "choice": { "type": "string", "oneOf": [{ "const": "a", "title": "The A: first" }, { "const": "b", "title": "B" }] } }),
        ),
        (
            "mcp_elicit_multi_choice 'Who \"are\" you?' a b",
            json!({ "choices": { "type": "array", "items": { "type": "string", "enum": ["a", "b"] } } }),
        ),
        (
            "mcp_elicit_titled_multi_choice 'Who \"are\" you?' a:A",
            json!({ "choices": { "type": "array", "items": { "anyOf": [{ "const": "a", "title": "A" }] } } }),
        ),
    ] {
        let ran = bench.with(&bench.tools[0], &variables, &format!("{other}{call}"));
        assert_eq!((ran.code, &*ran.output), (0, r#"{"action":"accept","content":{}}"#), "{call}: {}", ran.errors);
        let seen: Value = serde_json::from_str(&bench.read("seen")).unwrap();
        assert_eq!(seen["message"], "Who \"are\" you?");
        assert_eq!((&seen["mode"], &seen["schema"]["properties"]), (&json!("form"), &schema), "{call}");
    }
    let url = bench.with(&bench.tools[0], &variables, &format!("{other}mcp_elicit_url Go https://example.com/x"));
    assert_eq!(url.code, 0);
    let seen: Value = serde_json::from_str(&bench.read("seen")).unwrap();
    assert_eq!(seen, json!({ "message": "Go", "url": "https://example.com/x", "mode": "url" }));
    // Nobody to ask, nobody answers.
    let declined = bench.with(&bench.tools[0], &[], "x=\"$(mcp_elicit_confirm x)\" || echo \"$x\"");
    assert_eq!(declined.output, "{\"action\":\"decline\",\"content\":null}\n");
    let late = bench.with(&bench.tools[0], &variables, "x=\"$(mcp_elicit x '{}' 0)\" || echo \"$x\"");
    assert_eq!(late.output, "{\"action\":\"error\",\"content\":null}\n");
}

#[test]
fn configuration_is_merged_by_rank() {
    let bench = Bench::new();
    std::fs::write(bench.folder.path().join("file.json"), r#"{"b":2,"api":{"url":"u"},"empty":"","no":null}"#).unwrap();
    std::fs::write(bench.folder.path().join("example.json"), r#"{"b":1,"c":1}"#).unwrap();
    std::fs::write(bench.folder.path().join("broken.json"), "{").unwrap();
    let load = "mcp_config_load --env MY --file file.json --example example.json --defaults '{\"a\":0,\"b\":0,\"api\":{\"key\":1}}'\n";
    let get = "for p in .a .b .c .api.url .d; do mcp_config_get $p --default none; echo; done";
    bench.prints(&[], &format!("{load}{get}"), "0\n2\n1\nu\nnone\n");
    bench.prints(&[("MY", r#"{"b":3,"d":[1]}"#)], &format!("{load}{get}"), "0\n3\n1\nu\n[1]\n");
    bench.prints(&[("MY", "example.json")], &format!("{load}{get}"), "0\n1\n1\nu\nnone\n");
    bench.prints(&[], &format!("{load}mcp_config_get .empty --default x; mcp_config_get .no --default y; mcp_config_get .api.key || echo gone"), "ygone\n");
    bench.prints(&[], "mcp_config_load --defaults '{\"t\": 30}'; printf %s \"$MCP_CONFIG_JSON\"", "{\"t\": 30}");
    bench.prints(&[], "mcp_config_load --file broken.json --defaults '{\"t\":1}'; mcp_config_get .t", "1");
    bench.prints(&[], "mcp_config_load --file missing.json; mcp_config_get .t || echo nothing", "nothing\n");
    bench.prints(&[], "mcp_config_load || echo refused", "refused\n");
}

#[test]
fn commands_are_tried_again() {
    let bench = Bench::new();
    let counted = "f() { echo x >>tries; [ \"$(wc -l <tries)\" -ge 3 ] || return \"$1\"; echo done; }; rm -f tries; ";
    bench.prints(&[], &format!("{counted}mcp_with_retry 5 0.01 -- f 7; wc -l <tries | tr -d ' '"), "done\n3\n");
    bench.prints(&[], &format!("{counted}mcp_with_retry 2 0.01 -- f 7 || echo \"gave up $?\""), "gave up 7\n");
    bench.prints(
        &[],
        &format!("{counted}mcp_with_retry 5 0.01 -- f 2 || echo \"final $?\"; wc -l <tries | tr -d ' '"),
        "final 2\n1\n",
    );
}

#[test]
fn a_programs_own_words_are_found() {
    let bench = Bench::new();
    for (stdout, stderr, expected) in [
        (r#"{"error":{"message":"deep"}}"#, "x", "deep"),
        (r#"{"error":"flat"}"#, "x", "flat"),
        (r#"{"success":false,"message":"m"}"#, "", "m"),
        (r#"{"errors":[{"message":"first"}]}"#, "", "first"),
        (r#"{"ok":true,"error":"ignored"}"#, "stderr", "stderr"),
        ("not json", "stderr", "stderr"),
        ("[1]", "stderr", "stderr"),
        ("", "", "the command failed with exit code 9"),
    ] {
        bench.prints(&[("OUT", stdout), ("ERR", stderr)], "mcp_extract_cli_error \"$OUT\" \"$ERR\" 9", expected);
    }
}

#[test]
fn a_programs_progress_is_passed_on() {
    let bench = Bench::new();
    let (progress, rest) = (bench.path("progress"), bench.path("rest"));
    let variables = [("MCP_PROGRESS_STREAM", &*progress), ("MCP_PROGRESS_TOKEN", "7")];
    let told = |script: &str| {
        let _ = std::fs::remove_file(&progress);
        let ran = bench.with(&bench.tools[0], &variables, script);
        assert_eq!(ran.code, 0, "{script}: {}", ran.errors);
        let lines: Vec<Value> =
            bench.read("progress").lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        (ran.output, lines.iter().filter_map(|line| line["params"]["progress"].as_i64()).collect::<Vec<_>>())
    };
    let program =
        "program() { echo result; printf 'at 10%%\\rat 55%% now\\n' >&2; echo 'a warning' >&2; echo 'at 100%' >&2; }\n";
    let script = format!(
        "{program}mcp_run_with_progress --pattern '([0-9]+)%' --extract match1 --stderr-file {rest} -- program"
    );
    assert_eq!(told(&script), ("result\n".into(), vec![10, 55, 100]));
    assert_eq!(bench.read("rest"), "a warning\n");
    let ratio = "mcp_run_with_progress --pattern '\\[([0-9]+)/([0-9]+)\\]' --extract ratio -- sh -c 'echo \"[1/4]\" >&2; echo \"[08/8]\" >&2'";
    assert_eq!(told(ratio).1, [25, 100]);
    let json = "mcp_run_with_progress --pattern '^\\{' -- sh -c 'echo \"{\\\"progress\\\":50.5,\\\"message\\\":\\\"m\\\"}\" >&2; echo \"{\\\"type\\\":\\\"step\\\"}\" >&2'";
    assert_eq!(told(json).1, [50]);
    let file = "mcp_run_with_progress --progress-file p --total 200 --interval 0.01 --pattern '^us=([0-9]+)' --extract match1 -- sh -c 'echo us=50 >>p; echo us=200 >>p'";
    assert_eq!(told(file).1, [25, 100]);
    bench.prints(&[], "mcp_run_with_progress --pattern x -- sh -c 'exit 9' || echo \"code $?\"", "code 9\n");
}

#[test]
fn downloads_go_to_allowed_public_hosts_only() {
    let bench = Bench::new();
    let kind = |arguments: &str, expected: &str| {
        let script = format!("mcp_download_safe {arguments} | \"$MCPBASH_JSON_TOOL_BIN\" -r .error.type");
        bench.prints(&[], &script, &format!("{expected}\n"));
    };
    kind("--out o", "invalid_url");
    kind("--url http://example.com/ --out o", "invalid_url");
    kind("--url https://example.com/", "invalid_params");
    kind("--url https://example.com/ --out o --alow x", "invalid_params");
    kind("--url https://example.com/ --out o --timeout slow", "invalid_params");
    kind("--url https://example.com/ --out o --timeout 120", "invalid_params");
    kind("--url https://example.com/ --out o --retry 0", "invalid_params");
    kind("--url https://example.com/ --out o", "host_blocked");
    for host in [
        "localhost",
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "2130706433",
        "0x7f000001",
        "[::1]",
        "u@example.com",
        "x.internal",
    ] {
        kind(&format!("--url 'https://{host}/' --out o --allow '{host}'"), "host_blocked");
    }
    bench.fails(&[], "x=\"$(mcp_download_safe_or_fail --url ftp://x --out o)\"; echo \"$x\"", -32602, "https");
}
