//! What the API and the command line show: sessions, status, resources, prompts; and that the description of the API is
//! true.

use serde_json::{Value, json};
use tidings_testkit::{Server, V2025_06_18};

use crate::{listener, quick, server};

#[tokio::test]
async fn sessions_and_listens_are_shown_with_who_they_are() {
    let one = server("one").await;
    let gateway = quick().server("one", &one).serve().await;
    assert_eq!(gateway.api("GET", "/sessions", Value::Null).await.1, json!({"sessions": []}));
    let legacy = gateway.client().revision(V2025_06_18).connect().await;
    let listener = listener(&gateway).await;
    let sessions = gateway.api("GET", "/sessions", Value::Null).await.1;
    let rows = sessions["sessions"].as_array().unwrap();
    let kinds: Vec<&Value> = rows.iter().map(|row| &row["kind"]).collect();
    assert_eq!(kinds, ["session", "listen"]);
    assert_eq!((&rows[0]["revision"], &rows[0]["principal"]), (&json!(V2025_06_18), &json!("local")));
    let shown = String::from_utf8(gateway.command(&["sessions"]).await.stdout).unwrap();
    assert_eq!(shown.lines().count(), 2, "{shown}");
    legacy.delete().await;
    drop(listener);
    tidings_testkit::within("both to leave", async {
        while gateway.api("GET", "/sessions", Value::Null).await.1 != json!({"sessions": []}) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn resources_prompts_and_the_status_are_shown() {
    let build = || {
        let prompt = |call: tidings_testkit::ScriptedCall| async move { call.ok_message("hi") };
        Server::builder("one").prompt("greet", prompt).resource("file:///r", "r").template("file:///{name}", |_| None)
    };
    let (one, two) = (build().stdio().await, build().stdio().await);
    let gateway = quick().server("one", &one).server("two", &two).serve().await;
    let resources = gateway.api("GET", "/resources", Value::Null).await.1;
    let uris: Vec<&Value> = resources["resources"].as_array().unwrap().iter().map(|r| &r["uri"]).collect();
    assert_eq!(uris, ["one+file:///r", "two+file:///r"]);
    assert_eq!(resources["resourceTemplates"][0]["uriTemplate"], "one+file:///{name}");
    let prompts = gateway.api("GET", "/prompts", Value::Null).await.1;
    assert_eq!(prompts["prompts"][1]["name"], "two__greet");
    for (command, word) in [("resources", "two+file:///r"), ("prompts", "one__greet"), ("status", "2 ready, 0 failing")]
    {
        let output = gateway.command(&[command]).await;
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && shown.contains(word), "{command}: {shown}");
    }
}

/// Every member that the description requires is there, and of a type that it allows.
fn check(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(reference.trim_start_matches('#')).unwrap();
        return check(document, schema, value, place);
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => value.is_null(),
    };
    assert!(types.is_empty() || types.iter().any(|name| is(name)), "{place} is not {types:?}: {value}");
    if let Some(choice) = schema["enum"].as_array() {
        assert!(choice.contains(value), "{place} is none of {choice:?}: {value}");
    }
    // As JSON Schema has it: what is required is required of objects.
    for required in schema["required"].as_array().into_iter().flatten().filter(|_| value.is_object()) {
        assert!(value.get(required.as_str().unwrap()).is_some(), "{place} has no {required}: {value}");
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        let described = schema["properties"].as_object();
        if let Some(known) = described.and_then(|described| described.get(name)) {
            check(document, known, member, &format!("{place}.{name}"));
        } else {
            let open = described.is_none() || !schema["additionalProperties"].is_null();
            assert!(open, "{place}.{name} is not described");
        }
    }
    for item in value.as_array().into_iter().flatten() {
        check(document, &schema["items"], item, &format!("{place}[]"));
    }
}

// S4.3
#[tokio::test]
async fn answers_are_as_the_document_describes_them() {
    let one = Server::builder("one").echo("echo").resource("file:///r", "r").stdio().await;
    let two = server("two").await;
    let gateway = quick().server("one", &one).serve().await;
    gateway.api("PUT", "/servers/two", two.keys()).await;
    let _listener = listener(&gateway).await;
    let (_, document) = gateway.api("GET", "/openapi.json", Value::Null).await;
    let schema = |verb: &str, path: &str, status: &str| {
        let answer = &document["paths"][path][verb]["responses"][status];
        let answer = match answer["$ref"].as_str() {
            Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
            None => answer,
        };
        let content =
            answer["content"].as_object().unwrap_or_else(|| panic!("{verb} {path} {status} is not described"));
        content.values().next().unwrap()["schema"].clone()
    };
    for path in document["paths"].as_object().unwrap().keys() {
        if document["paths"][path]["get"].is_null() || path.ends_with("/stream") {
            continue;
        }
        let real = path.replace("{ticket}", "none").replace("{seq}", "1").replace("{id}", "1");
        let real = real.replace("{kind}/{server}/{name}", "tools/one/echo").replace("{name}", "one");
        let real = real.replace("{digest}", &"0f".repeat(32));
        let (status, answer) = gateway.api("GET", &real, Value::Null).await;
        check(&document, &schema("get", path, &status.to_string()), &answer, path);
    }
    let changes = [
        ("post", "/servers/{name}/restart", "/servers/two/restart", Value::Null),
        // Neither is behind a URL, so nobody can log in to it.
        ("post", "/servers/{name}/login", "/servers/two/login", Value::Null),
        ("post", "/servers/{name}/login/complete", "/servers/two/login/complete", json!({"callback": "?state=x"})),
        ("post", "/servers/{name}/logout", "/servers/two/logout", Value::Null),
        ("post", "/servers/{name}/disable", "/servers/two/disable", Value::Null),
        ("post", "/servers/{name}/enable", "/servers/two/enable", Value::Null),
        ("put", "/servers/{name}", "/servers/two", two.keys()),
        ("put", "/servers/{name}", "/servers/bad", json!({"command": "/no/such"})),
        ("post", "/batch", "/batch", json!({"operations": [{"op": "delete", "name": "nobody"}]})),
        ("delete", "/servers/{name}", "/servers/two", Value::Null),
        ("post", "/reload", "/reload", Value::Null),
    ];
    for (verb, path, real, body) in changes {
        let (status, answer) = gateway.api(&verb.to_uppercase(), real, body).await;
        check(&document, &schema(verb, path, &status.to_string()), &answer, real);
    }
}
