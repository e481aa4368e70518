//! Every helper of `tool-sdk.sh`, in a real bash, with Tidings' own JSON tool and with jq where it is installed.

mod helpers;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tidings_project::ScriptSdk;
use tidings_testkit::TempDir;

struct Bench {
    folder: TempDir,
    sdk: ScriptSdk,
    tools: Vec<PathBuf>,
}

struct Ran {
    output: String,
    errors: String,
    code: i32,
}

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new();
        let sdk = ScriptSdk::unpack(folder.path(), Path::new(env!("CARGO_BIN_EXE_tidings"))).unwrap();
        let installed = PathBuf::from("/usr/bin/jq");
        let tools = [sdk.jq(), installed].into_iter().filter(|tool| tool.exists()).collect();
        Self { folder, sdk, tools }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    fn with(&self, tool: &Path, variables: &[(&str, &str)], script: &str) -> Ran {
        let script = format!("set -euo pipefail\nsource \"${{MCP_SDK:?}}/tool-sdk.sh\"\n{script}");
        let output: Output = Command::new("bash")
            .args(["-c", &script])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("MCP_SDK", self.sdk.folder())
            .env("MCPBASH_JSON_TOOL_BIN", tool)
            .envs(variables.iter().copied())
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { output: text(output.stdout), errors: text(output.stderr), code: output.status.code().unwrap_or(-1) }
    }

    /// With every JSON tool: the same output, and no failure.
    fn prints(&self, variables: &[(&str, &str)], script: &str, expected: &str) {
        for tool in &self.tools {
            let ran = self.with(tool, variables, script);
            assert_eq!(ran.output, expected, "{script}\nwith {}: {}", tool.display(), ran.errors);
            assert_eq!(ran.code, 0, "{script}: {}", ran.errors);
        }
    }

    /// With every JSON tool: the same JSON.
    fn gives(&self, variables: &[(&str, &str)], script: &str, expected: &Value) {
        for tool in &self.tools {
            let ran = self.with(tool, variables, script);
            let value: Value = serde_json::from_str(&ran.output)
                .unwrap_or_else(|error| panic!("{script}\n{error}: {} {}", ran.output, ran.errors));
            assert_eq!(&value, expected, "{script}\nwith {}: {}", tool.display(), ran.errors);
            assert_eq!(ran.code, 0, "{script}: {}", ran.errors);
        }
    }

    /// With every JSON tool: a JSON-RPC error of this code whose message has these words.
    fn fails(&self, variables: &[(&str, &str)], script: &str, code: i64, words: &str) {
        for tool in &self.tools {
            let error_file = self.path("error.json");
            let _ = std::fs::remove_file(&error_file);
            let mut variables = variables.to_vec();
            variables.push(("MCP_TOOL_ERROR_FILE", &error_file));
            let ran = self.with(tool, &variables, script);
            assert_ne!(ran.code, 0, "{script} printed {}", ran.output);
            let error: Value = serde_json::from_str(&self.read("error.json")).unwrap();
            assert_eq!(error["code"], code, "{script}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(words), "{script}: {message}");
        }
    }
}

fn arguments(json: &str) -> [(&str, &str); 1] {
    [("MCP_TOOL_ARGS_JSON", json)]
}

// S0.9
#[test]
fn arguments_are_read() {
    let bench = Bench::new();
    let given = arguments(r#"{"name":"Ada","n":5,"flag":true,"one":1,"off":false,"deep":{"x":[1,2]},"nothing":null}"#);
    bench.prints(&given, "mcp_args_get '.name // \"World\"'", "Ada\n");
    bench.prints(&[], "mcp_args_get '.name // \"World\"'", "World\n");
    bench.prints(&given, "mcp_args_get '.deep.x | length'", "2\n");
    bench.prints(&given, "mcp_args_raw | wc -c | tr -d ' '", &format!("{}\n", given[0].1.len()));
    bench.prints(&given, "mcp_args_require '.name'", "Ada");
    bench.prints(&given, "mcp_args_require '.off'", "false");
    bench.fails(&given, "x=\"$(mcp_args_require '.target')\"; echo \"$x\"", -32602, ".target is required");
    bench.fails(&given, "x=\"$(mcp_args_require '.nothing' 'say something')\"; echo \"$x\"", -32602, "say something");
    bench.prints(&given, "for f in .flag .one .off .n; do mcp_args_bool $f; echo; done", "true\ntrue\nfalse\nfalse\n");
    bench.prints(&given, "mcp_args_bool .missing --default true", "true");
    bench.fails(&given, "x=\"$(mcp_args_bool .missing)\"; echo \"$x\"", -32602, ".missing is required");
    bench.prints(&given, "mcp_args_int .n --min 1 --max 10", "5");
    bench.prints(&given, "mcp_args_int .missing --default 7", "7");
    bench.prints(&arguments(r#"{"n":-3}"#), "mcp_args_int .n --min -5 --max 0", "-3");
    bench.fails(&given, "x=\"$(mcp_args_int .n --max 4)\"; echo \"$x\"", -32602, "must be <= 4");
    bench.fails(&given, "x=\"$(mcp_args_int .n --min 6)\"; echo \"$x\"", -32602, "must be >= 6");
    bench.fails(&arguments(r#"{"n":1.5}"#), "x=\"$(mcp_args_int .n)\"; echo \"$x\"", -32602, "integer");
    bench.fails(&given, "x=\"$(mcp_args_int .name)\"; echo \"$x\"", -32602, "integer");
    let file = bench.path("arguments.json");
    std::fs::write(&file, r#"{"name":"from a file"}"#).unwrap();
    bench.prints(&[("MCP_TOOL_ARGS_FILE", &file)], "mcp_args_get .name", "from a file\n");
    bench.prints(
        &[("MCP_TOOL_META_JSON", r#"{"user":"x"}"#)],
        "mcp_meta_get .user; mcp_meta_raw",
        "x\n{\"user\":\"x\"}",
    );
}

#[test]
fn argument_values_do_not_show_in_a_trace() {
    let bench = Bench::new();
    let ran = bench.with(&bench.tools[0], &arguments(r#"{"password":"hunter2"}"#), "set -x\nmcp_args_raw >/dev/null");
    assert_eq!(ran.code, 0);
    assert!(!ran.errors.contains("hunter2"), "{}", ran.errors);
}

#[test]
fn json_is_made_of_any_text() {
    let bench = Bench::new();
    let odd = "a\"b\\c\nd\te\rf\u{1}g\u{7f}ä🎉 & $(x) `y` \\n %s";
    let variables = [("ODD", odd)];
    bench.gives(&variables, "mcp_json_escape \"$ODD\"", &json!(odd));
    bench.gives(&variables, "mcp_json_obj text \"$ODD\" \"$ODD\" 42", &json!({ "text": odd, odd: "42" }));
    bench.gives(&variables, "mcp_json_arr one \"$ODD\" ''", &json!(["one", odd, ""]));
    bench.gives(&[], "mcp_json_obj", &json!({}));
    bench.gives(&[], "mcp_json_arr", &json!([]));
    bench.fails(&[], "x=\"$(mcp_json_obj only)\"; echo \"$x\"", -32603, "pairs");
    bench.prints(
        &[],
        "for x in false null '' '  ' '1 2' nope '{\"a\":1}'; do mcp_is_valid_json \"$x\" && echo yes || echo no; done",
        "yes\nyes\nno\nno\nno\nno\nyes\n",
    );
    bench.prints(&[], "mcp_byte_length 'ä🎉'", "6");
    bench.prints(&[], "mcp_emit_json '{\"a\": [1, 2]}'", "{\"a\":[1,2]}\n");
    bench.prints(&[], "mcp_emit_json 'no json'", "no json");
    bench.prints(&[], "mcp_emit_text 'x %s'", "x %s");
}

#[test]
fn failures_become_errors_of_the_protocol() {
    let bench = Bench::new();
    bench.fails(&[], "mcp_fail -32001 'it is \"over\"' '{\"why\":1}'", -32001, "it is \"over\"");
    bench.fails(&[], "mcp_fail 'no code'", -32603, "no code");
    bench.fails(&[], "mcp_fail_invalid_args 'count must be positive' '{\"field\":\"count\"}'", -32602, "count");
    let error: Value = serde_json::from_str(&bench.read("error.json")).unwrap();
    assert_eq!(error["data"], json!({ "field": "count" }));
}

#[test]
fn results_have_the_shape_that_clients_expect() {
    let bench = Bench::new();
    bench.prints(
        &[],
        "mcp_result_success '{\"foo\": \"bär\"}' | \"$MCPBASH_JSON_TOOL_BIN\" -c '.structuredContent, .isError, (.content[0].text | fromjson)'",
        "{\"success\":true,\"result\":{\"foo\":\"bär\"}}\nfalse\n{\"success\":true,\"result\":{\"foo\":\"bär\"}}\n",
    );
    bench.prints(
        &[],
        "mcp_result_success '[1,2,3]' 10 | \"$MCPBASH_JSON_TOOL_BIN\" -r '.content[0].text'",
        "Success: array of 3 entries; see structuredContent\n",
    );
    for bad in ["''", "'no json'", "'1 2'"] {
        bench.prints(
            &[],
            &format!(
                "mcp_result_success {bad} | \"$MCPBASH_JSON_TOOL_BIN\" -c '[.isError, .structuredContent.error.type]'"
            ),
            "[true,\"internal_error\"]\n",
        );
    }
    bench.gives(
        &[],
        "mcp_result_error '{\"type\":\"not_found\",\"message\":\"No such user\"}'",
        &json!({
            "content": [{ "type": "text", "text": "No such user" }],
            "structuredContent": { "success": false, "error": { "type": "not_found", "message": "No such user" } },
            "isError": true,
        }),
    );
    bench.prints(
        &[],
        "mcp_result_error 'oh no' | \"$MCPBASH_JSON_TOOL_BIN\" -r '.structuredContent.error.raw'",
        "oh no\n",
    );
    bench.prints(
        &[],
        "mcp_result_error '[1]' | \"$MCPBASH_JSON_TOOL_BIN\" -c '[.isError, .content[0].text]'",
        "[true,\"[1]\"]\n",
    );
    bench.prints(
        &[],
        "mcp_error validation_error 'Out of \"range\"' --hint 'try 10' --data '{\"min\":1}' | \"$MCPBASH_JSON_TOOL_BIN\" -c '.structuredContent.error'",
        "{\"type\":\"validation_error\",\"message\":\"Out of \\\"range\\\"\",\"hint\":\"try 10\",\"data\":{\"min\":1}}\n",
    );
    bench.prints(
        &[],
        "mcp_error '' '' --data nope | \"$MCPBASH_JSON_TOOL_BIN\" -c '.structuredContent.error'",
        "{\"type\":\"internal_error\",\"message\":\"Unknown error\",\"data\":{\"_invalid_json\":\"nope\"}}\n",
    );
}

#[test]
fn files_are_put_into_a_result() {
    let bench = Bench::new();
    let list = bench.path("resources.json");
    let script = "printf one >one.txt; printf two >two.bin\n\
        mcp_result_text_with_resource 'Report ready' --path \"$PWD/one.txt\" --mime text/plain \
        --path \"$PWD/two.bin\" --mime application/x-two --uri custom://two --path /no/such --mime a/b \
        | \"$MCPBASH_JSON_TOOL_BIN\" -c '[.isError, .structuredContent.result]'";
    bench.prints(&[("MCP_TOOL_RESOURCES_FILE", &list)], script, "[false,\"Report ready\"]\n");
    let listed: Value = serde_json::from_str(&bench.read("resources.json")).unwrap();
    assert_eq!(
        listed,
        json!([
            { "path": bench.path("one.txt"), "mimeType": "text/plain" },
            { "path": bench.path("two.bin"), "mimeType": "application/x-two", "uri": "custom://two" },
        ])
    );
}

#[test]
fn arrays_are_shortened_to_what_fits() {
    let bench = Bench::new();
    let gives = |script: &str, expected: Value| bench.gives(&[], script, &expected);
    gives(
        "mcp_json_truncate '[1, 2, 3]' 1000",
        json!({ "result": [1, 2, 3], "truncated": false, "kept": 3, "total": 3 }),
    );
    gives("mcp_json_truncate '[1,2,3]' 5", json!({ "result": [1, 2], "truncated": true, "kept": 2, "total": 3 }));
    gives("mcp_json_truncate '[\"long enough\"]' 4", json!({ "result": [], "truncated": true, "kept": 0, "total": 1 }));
    gives(
        "mcp_json_truncate '{\"data\":{\"items\":[1,2,3]},\"m\":1}' 31 --array-path .data.items",
        json!({ "result": { "data": { "items": [1, 2] }, "m": 1 }, "truncated": true, "kept": 2, "total": 3 }),
    );
    gives(
        "mcp_json_truncate '{\"results\":[1,2],\"m\":1}' 1000",
        json!({ "result": { "results": [1, 2], "m": 1 }, "truncated": false, "kept": 2, "total": 2 }),
    );
    for (arguments, kind) in [
        ("'{\"a\":1}' 100 --array-path .b", "path_not_found"),
        ("'{\"a\":1}' 100 --array-path .a", "invalid_array_path"),
        ("'{\"a\":1}' 100 --array-path '.a[0]'", "invalid_path_syntax"),
        ("'{\"results\":[1],\"m\":\"a long text\"}' 20", "output_too_large"),
        ("'{\"m\":\"a long text\"}' 5", "output_too_large"),
        ("'no json' 5", "invalid_json"),
    ] {
        let script = format!("mcp_json_truncate {arguments} | \"$MCPBASH_JSON_TOOL_BIN\" -r .error.type");
        bench.prints(&[], &script, &format!("{kind}\n"));
    }
}

#[test]
fn progress_and_log_messages_are_written_as_notifications() {
    let bench = Bench::new();
    let (progress, logs) = (bench.path("progress"), bench.path("logs"));
    let variables =
        [("MCP_PROGRESS_STREAM", &*progress), ("MCP_PROGRESS_TOKEN", "to\"ken"), ("MCP_LOG_STREAM", &*logs)];
    let script = "mcp_progress 25 'a \"quarter\"' 200\nmcp_progress 250\nmcp_progress nonsense x\n\
        mcp_log_debug d one; mcp_log_info i two; mcp_log_warn w three; mcp_log_error e 'f\"our'\n\
        mcp_log NOTICE n '{\"a\":1}'; mcp_log nope n '1'";
    let ran = bench.with(&bench.tools[0], &variables, script);
    assert_eq!((ran.code, &*ran.output), (0, ""), "{}", ran.errors);
    let lines = |name: &str| -> Vec<Value> {
        bench.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let told: Vec<Value> = lines("progress").into_iter().map(|line| line["params"].clone()).collect();
    assert_eq!(
        told,
        [
            json!({ "progressToken": "to\"ken", "progress": 25, "total": 200, "message": "a \"quarter\"" }),
            json!({ "progressToken": "to\"ken", "progress": 100 }),
            json!({ "progressToken": "to\"ken", "progress": 0, "message": "x" }),
        ]
    );
    let logged: Vec<(String, Value)> = lines("logs")
        .into_iter()
        .map(|line| (line["params"]["level"].as_str().unwrap().to_owned(), line["params"]["data"].clone()))
        .collect();
    let expected = [
        ("debug", json!("one")),
        ("info", json!("two")),
        ("warning", json!("three")),
        ("error", json!("f\"our")),
        ("notice", json!({ "a": 1 })),
        ("info", json!(1)),
    ];
    assert_eq!(logged, expected.map(|(level, data)| (level.to_owned(), data)));
    // Nobody asked: nothing is written, nothing fails.
    bench.prints(&[], "mcp_progress 5 x; mcp_log_info a b; mcp_debug c", "");
    let debug = bench.path("debug");
    bench.prints(&[("MCPBASH_DEBUG_LOG", &debug)], "mcp_debug step one", "");
    assert!(bench.read("debug").contains("step one"));
}

#[test]
fn cancellation_can_be_seen() {
    let bench = Bench::new();
    let file = bench.path("cancelled");
    let script = "mcp_is_cancelled && echo yes || echo no; : >\"$MCP_TOOL_CANCELLATION_FILE\"; mcp_is_cancelled && echo yes; rm \"$MCP_TOOL_CANCELLATION_FILE\"";
    bench.prints(&[("MCP_TOOL_CANCELLATION_FILE", &file)], script, "no\nyes\n");
    bench.prints(&[], "mcp_is_cancelled || echo no", "no\n");
}

#[test]
fn paths_stay_inside_the_roots() {
    let bench = Bench::new();
    let root = std::fs::canonicalize(bench.folder.path()).unwrap().join("a [root] *");
    std::fs::create_dir_all(root.join("inner")).unwrap();
    std::os::unix::fs::symlink("/etc", root.join("out")).unwrap();
    let root = root.to_str().unwrap();
    let beside = format!("{root}x");
    let variables = |path: &str| {
        vec![
            ("MCP_ROOTS_PATHS".to_owned(), root.to_owned()),
            ("MCP_ROOTS_COUNT".to_owned(), "1".to_owned()),
            ("MCP_TOOL_ARGS_JSON".to_owned(), json!({ "path": path }).to_string()),
        ]
    };
    let borrowed = |variables: &[(String, String)]| -> Vec<(&'static str, String)> {
        let names = ["MCP_ROOTS_PATHS", "MCP_ROOTS_COUNT", "MCP_TOOL_ARGS_JSON"];
        names.into_iter().zip(variables.iter().map(|(_, value)| value.clone())).collect()
    };
    let script = "x=\"$(mcp_require_path .path --default-to-single-root)\"; printf %s \"$x\"";
    for (path, expected) in [
        (format!("{root}/inner"), Some(format!("{root}/inner"))),
        (format!("{root}/new/./file.txt"), Some(format!("{root}/new/file.txt"))),
        (String::new(), Some(root.to_owned())),
        (format!("{root}/inner/../../elsewhere"), None),
        (format!("{root}/out/passwd"), None),
        (beside, None),
        ("/etc/passwd".into(), None),
        (format!("{root}/new/../../../etc"), None),
    ] {
        let given = borrowed(&variables(&path));
        let given: Vec<(&str, &str)> = given.iter().map(|(name, value)| (*name, &**value)).collect();
        match expected {
            Some(expected) => bench.prints(&given, script, &expected),
            None => bench.fails(&given, script, -32602, "outside configured MCP roots"),
        }
    }
    let two = format!("{root}\n/tmp");
    bench.prints(
        &[("MCP_ROOTS_PATHS", &two), ("MCP_ROOTS_COUNT", "2")],
        "mcp_roots_count; echo; mcp_roots_list",
        &format!("2\n{two}"),
    );
    bench.fails(&[("MCP_ROOTS_PATHS", &two), ("MCP_ROOTS_COUNT", "2")], script, -32602, "required");
    bench.prints(&[], "mcp_require_path .path --allow-empty", "");
}
