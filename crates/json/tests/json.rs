//! The calls of jq that scripts make, with the results that jq gives.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsString;

use tidings_json::{JsonStreams, run};

struct Ran {
    code: u8,
    output: String,
    errors: String,
}

fn json(arguments: &[&str], input: &str) -> Ran {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let streams = JsonStreams { input: &mut input.as_bytes(), output: &mut output, errors: &mut errors };
    let code = run(arguments.iter().map(OsString::from), streams);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code, output: text(output), errors: text(errors) }
}

/// Filter, input, compact output.
const FILTERS: &[(&str, &str, &str)] = &[
    (".name // \"World\"", "{}", "\"World\""),
    (".a.b.c", r#"{"a":null}"#, "null"),
    (".options.config // empty", "{}", ""),
    (".[0]", "[1,2]", "1"),
    (".[-1]", "[1,2]", "2"),
    (".[1:]", "[1,2,3]", "[2,3]"),
    (".[]?", "3", ""),
    ("{a: .x, b: [.y, .z]}", r#"{"x":1,"y":2,"z":3}"#, r#"{"a":1,"b":[2,3]}"#),
    ("{x, \"y\": 2, (.k): 3}", r#"{"x":1,"k":"z"}"#, r#"{"x":1,"y":2,"z":3}"#),
    ("map(select(.on)) | length", r#"[{"on":true},{"on":false}]"#, "1"),
    ("keys", r#"{"b":1,"a":2}"#, r#"["a","b"]"#),
    ("[.[] | type]", r#"[null,true,1,"",[],{}]"#, r#"["null","boolean","number","string","array","object"]"#),
    ("has(\"a\"), has(\"b\")", r#"{"a":null}"#, "true\nfalse"),
    ("(.a | tostring) + \"!\"", r#"{"a":[1,"x"]}"#, r#""[1,\"x\"]!""#),
    ("\"a\\(1 + 2)b\"", "null", "\"a3b\""),
    ("fromjson", "\"{\\\"a\\\":1}\"", r#"{"a":1}"#),
    ("tojson", r#"{"a":[1,2.5,"ä"]}"#, r#""{\"a\":[1,2.5,\"ä\"]}""#),
    ("if . > 2 then \"big\" elif . == 2 then \"two\" else \"small\" end", "2", "\"two\""),
    ("if . then 1 end", "false", "false"),
    ("4 / 2, 7 % 4, 2 * 3 - 1, 1.5 + 1", "null", "2\n3\n5\n2.5"),
    ("4 / 2 | tostring", "null", "\"2\""),
    ("test(\"^a[0-9]+$\")", "\"a12\"", "true"),
    ("capture(\"(?<y>[0-9]{4})-(?<m>[0-9]{2})\")", "\"2026-11\"", r#"{"y":"2026","m":"11"}"#),
    ("gsub(\"o\"; \"0\")", "\"foo\"", "\"f00\""),
    ("split(\",\") | join(\"-\")", "\"a,b,c\"", "\"a-b-c\""),
    ("join(\", \")", "[\"a\",null,1,true]", "\"a, , 1, true\""),
    ("join(\",\")", "[]", "\"\""),
    ("to_entries", r#"{"a":1}"#, r#"[{"key":"a","value":1}]"#),
    (
        "from_entries",
        r#"[{"name":"a","value":1},{"k":"b","v":2},{"key":"c","value":null}]"#,
        r#"{"a":1,"b":2,"c":null}"#,
    ),
    ("with_entries(.value += 1)", r#"{"a":1}"#, r#"{"a":2}"#),
    ("add, (map(.) | max), min, unique, reverse", "[3,1,3]", "7\n3\n1\n[1,3]\n[3,1,3]"),
    ("sort_by(.a) | map(.a)", r#"[{"a":2},{"a":1}]"#, "[1,2]"),
    ("group_by(.a) | length", r#"[{"a":2},{"a":1},{"a":2}]"#, "2"),
    ("any(. > 2), all(. > 2)", "[1,3]", "true\nfalse"),
    ("reduce .[] as $x (0; . + $x)", "[1,2,3]", "6"),
    (". as [$a, {b: $c}] | $a + $c", r#"[1,{"b":2}]"#, "3"),
    ("def f(x): x * 2; f(.)", "4", "8"),
    ("try error(\"no\") catch .", "null", "\"no\""),
    (".a = 1 | .b += 2 | del(.c)", r#"{"b":1,"c":0}"#, r#"{"b":3,"a":1}"#),
    (". + {b: 2} | . * {c: {d: 1}}", r#"{"a":1}"#, r#"{"a":1,"b":2,"c":{"d":1}}"#),
    ("[paths]", r#"{"a":[1]}"#, r#"[["a"],["a",0]]"#),
    ("getpath([\"a\",\"b\"])", r#"{"a":{"b":5}}"#, "5"),
    ("[limit(2; .[])], first(.[]), [range(3)]", "[7,8,9]", "[7,8]\n7\n[0,1,2]"),
    ("startswith(\"ab\"), endswith(\"bc\"), ltrimstr(\"a\"), ascii_upcase", "\"abc\"", "true\ntrue\n\"bc\"\n\"ABC\""),
    ("@base64, (@base64 | @base64d), @uri", "\"a b\"", "\"YSBi\"\n\"a b\"\n\"a%20b\""),
    ("@sh", "[\"a b\",1]", "\"'a b' 1\""),
    ("@csv", "[1,\"a\\\"b\"]", "\"1,\\\"a\\\"\\\"b\\\"\""),
    ("@tsv", "[\"a\\tb\",1]", "\"a\\\\tb\\t1\""),
    ("contains({a: \"x\"}), inside({a: \"x\", b: 1}), index(\"x\")?", r#"{"a":"x"}"#, "true\ntrue"),
    ("tonumber + 1", "\"41\"", "42"),
    ("ascii, (\"a\" | explode)", "65", "\"A\"\n[97]"),
    ("floor, (. | ceil), sqrt", "2.25", "2\n3\n1.5"),
    ("nan, infinite", "null", "null\n1.7976931348623157e+308"),
    ("walk(if type == \"number\" then . + 1 else . end)", "[1,[2]]", "[2,[3]]"),
    ("[splits(\", *\")]", "\"a, b,c\"", r#"["a","b","c"]"#),
    ("env | type", "null", "\"object\""),
    ("$ENV | type", "null", "\"object\""),
    ("flatten", "[1,[2,[3]]]", "[1,2,3]"),
    ("100000000000000000000", "null", "100000000000000000000"),
    ("todate", "0", "\"1970-01-01T00:00:00Z\""),
    (".[\"a-b\"], .\"a-b\"", r#"{"a-b":1}"#, "1\n1"),
    ("not, (. and true), (. or true)", "false", "true\nfalse\ntrue"),
    ("[.[] | numbers, strings]", r#"[1,"a",null]"#, r#"[1,"a"]"#),
    ("trim, ltrim", "\" a \"", "\"a\"\n\"a \""),
    ("label $f | .[] | if . > 1 then ., break $f else . end", "[1,2,3]", "1\n2"),
    ("input", "1 2", "2"),
    ("try input catch .", "1", "\"No more inputs\""),
    ("del(.c[0,1], .x.y)", r#"{"c":[1,2,3]}"#, r#"{"c":[3]}"#),
    ("setpath([\"p\",\"q\",1]; 2)", r#"{"a":1}"#, r#"{"a":1,"p":{"q":[null,2]}}"#),
    ("IN(1, 2), ltrimstr(1)", "2", "true\n2"),
    ("-1 + .", "2", "1"),
];

#[test]
fn filters_give_what_jq_gives() {
    for (filter, input, expected) in FILTERS {
        let ran = json(&["-c", filter], input);
        assert_eq!(ran.output.trim_end(), *expected, "{filter} on {input}: {}", ran.errors);
        assert_eq!(ran.code, 0, "{filter} on {input}: {}", ran.errors);
    }
}

#[test]
fn results_are_laid_out_as_asked() {
    let value = r#"{"b":[1,{}],"a":"ä\n"}"#;
    assert_eq!(json(&["."], value).output, "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": \"ä\\n\"\n}\n");
    assert_eq!(json(&["-cS", "."], value).output, "{\"a\":\"ä\\n\",\"b\":[1,{}]}\n");
    assert_eq!(json(&["-ca", ".a"], value).output, "\"\\u00e4\\n\"\n");
    assert_eq!(json(&["--tab", ".b"], value).output, "[\n\t1,\n\t{}\n]\n");
    assert_eq!(json(&["--indent", "1", "[1]", "-n"], "").output, "[\n 1\n]\n");
    assert_eq!(json(&["-r", ".a"], value).output, "ä\n\n");
    assert_eq!(json(&["-j", ".a, .b[0]"], value).output, "ä\n1");
}

#[test]
fn input_is_read_as_asked() {
    assert_eq!(json(&["-c", "-s", "."], "1 2\n3").output, "[1,2,3]\n");
    assert_eq!(json(&["-cs", "."], "").output, "[]\n");
    assert_eq!(json(&["-cR", "."], "a\nb\n").output, "\"a\"\n\"b\"\n");
    assert_eq!(json(&["-Rsc", "{message: .}"], "a\nb\n").output, "{\"message\":\"a\\nb\\n\"}\n");
    assert_eq!(json(&["-Rnc", "[inputs]"], "a\nb\n").output, "[\"a\",\"b\"]\n");
    assert_eq!(json(&["-n", "1"], "not json").output, "1\n");
    assert_eq!(json(&["."], "").output, "");
}

#[test]
fn variables_come_from_the_command_line() {
    let arguments = ["-nc", "--arg", "a", "1", "--argjson", "b", "{\"x\":2}", "[$a, $b.x, $ARGS.named.a]"];
    assert_eq!(json(&arguments, "").output, "[\"1\",2,\"1\"]\n");
    assert_eq!(json(&["-nc", "$ARGS.positional", "--args", "a", "1"], "").output, "[\"a\",\"1\"]\n");
    assert_eq!(json(&["-nc", "$ARGS.positional", "--jsonargs", "[]", "1"], "").output, "[[],1]\n");
}

#[test]
fn files_are_read() {
    let folder = tempdir();
    let at = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (values, text, filter) = (at("v.json", "1 2"), at("t.txt", "line\n"), at("f.jq", "# a comment\n.+1"));
    assert_eq!(json(&["-c", ".", &values], "").output, "1\n2\n");
    assert_eq!(json(&["-nc", "--slurpfile", "v", &values, "$v"], "").output, "[1,2]\n");
    assert_eq!(json(&["-nc", "--rawfile", "t", &text, "$t"], "").output, "\"line\\n\"\n");
    assert_eq!(json(&["-f", &filter, &values], "").output, "2\n3\n");
    let missing = json(&[".", "/no/such/file"], "");
    assert_eq!(missing.code, 2);
    assert!(missing.errors.contains("/no/such/file"), "{}", missing.errors);
    std::fs::remove_dir_all(&folder).unwrap();
}

fn tempdir() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("tidings-json-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn exit_codes_are_those_of_jq() {
    assert_eq!(json(&["-e", ".a"], r#"{"a":1}"#).code, 0);
    assert_eq!(json(&["-e", ".a"], "{}").code, 1);
    assert_eq!(json(&["-e", ".a"], r#"{"a":false}"#).code, 1);
    assert_eq!(json(&["-e", "empty"], "{}").code, 4);
    let failed = json(&["-c", ".[]"], "3 [4]");
    assert_eq!((failed.code, &*failed.output), (5, "4\n"), "the next input is still worked on");
    assert_eq!(json(&["-n", "1 | halt_error"], "").code, 5);
    assert_eq!(json(&["-n", "halt"], "").code, 0);
}

#[test]
fn what_is_not_json_is_refused() {
    for text in ["{", "{a:1}", "[1,]", "NaN", "# a comment\n1", "b\"x\"", "{1:2}", "01", "'a'", "tru"] {
        let ran = json(&["."], text);
        assert_eq!((ran.code, &*ran.output), (2, ""), "{text}");
        assert!(!ran.errors.is_empty());
    }
    let ran = json(&["-n", "--argjson", "x", "nope", "$x"], "");
    assert_eq!(ran.code, 2);
    assert!(ran.errors.contains("--argjson x"), "{}", ran.errors);
}

#[test]
fn values_nested_without_end_are_refused() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let ran = json(&["-c", "."], &deep);
    assert_eq!(ran.code, 2);
    assert!(ran.errors.contains("nested"), "{}", ran.errors);
    let fine = "[".repeat(500) + &"]".repeat(500);
    assert_eq!(json(&["-c", "."], &fine).output.trim_end(), fine);
}

#[test]
fn faults_of_a_filter_name_the_place() {
    let ran = json(&[".a |\n  nope"], "{}");
    assert_eq!(ran.code, 3);
    assert!(ran.errors.contains("line 2, column 3") && ran.errors.contains("nope"), "{}", ran.errors);
    assert_eq!(json(&["{"], "{}").code, 3);
    assert_eq!(json(&[], "{}").code, 2);
    assert_eq!(json(&["--no-such", "."], "{}").code, 2);
}
