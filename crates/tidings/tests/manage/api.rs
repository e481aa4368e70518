//! Changes over the HTTP API: one transaction each, told once, and a refusal that says why.

use serde_json::{Value, json};

use crate::{listener, quick, server};

// S4.1, S4.3
#[tokio::test]
async fn a_server_that_is_put_can_be_used_and_everybody_is_told_once() {
    let (one, two) = (server("one").await, server("two").await);
    let gateway = quick().server("one", &one).serve().await;
    let mut listener = listener(&gateway).await;
    let (status, answer) = gateway.api("PUT", "/servers/two", two.keys()).await;
    assert_eq!(
        (status, &answer["name"], &answer["state"], &answer["source"]),
        (201, &json!("two"), &json!("ready"), &json!("runtime"))
    );
    let called = listener.client.call_tool("two__two", json!({"text": "hi"})).await;
    assert_eq!(called.text(), r#"{"text":"hi"}"#);
    listener.expect(&["tools"]).await;
    let (status, answer) = gateway.api("DELETE", "/servers/two", Value::Null).await;
    assert_eq!((status, answer), (200, json!({"removed": "two"})));
    listener.expect(&["tools"]).await;
    assert_eq!(listener.client.names("tools").await, ["one"]);
    two.wait_all_exited().await;
}

// S4.3, S4.4
#[tokio::test]
async fn a_batch_is_one_commit_or_none() {
    let (one, two, three) = (server("one").await, server("two").await, server("three").await);
    let gateway = quick().server("one", &one).serve().await;
    let mut listener = listener(&gateway).await;
    let put = |name: &str, server: Value| json!({"op": "put", "name": name, "server": server});
    let broken = json!({"operations": [put("two", two.keys()), put("x", json!({"command": "/no/such/program"}))]});
    let (status, problem) = gateway.api("POST", "/batch", broken).await;
    assert_eq!(status, 502, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("/no/such/program"), "{problem}");
    assert_eq!(listener.client.names("tools").await, ["one"]);
    let whole = json!({"operations": [put("two", two.keys()), put("three", three.keys())]});
    let (status, answer) = gateway.api("POST", "/batch", whole).await;
    assert_eq!((status, answer["servers"].as_array().map(Vec::len)), (200, Some(2)), "{answer}");
    listener.expect(&["tools"]).await;
    let swap = json!({"operations": [{"op": "delete", "name": "two"}, {"op": "delete", "name": "three"}]});
    assert_eq!(gateway.api("POST", "/batch", swap).await.0, 200);
    listener.expect(&["tools"]).await;
}

// S4.2, S4.3
#[tokio::test]
async fn what_is_refused_says_why_and_changes_nothing() {
    let one = server("one").await;
    let gateway = quick().server("one", &one).serve().await;
    let before = gateway.api("GET", "/servers", Value::Null).await;
    let noisy = json!({"command": "sh", "args": ["-c", "echo the disk is on fire >&2; exit 3"]});
    let cases = [
        ("PUT", "/servers/x", json!({"command": "/no/such/program"}), 502, "/no/such/program"),
        ("PUT", "/servers/x", noisy, 502, "the disk is on fire"),
        ("PUT", "/servers/x", json!({"comand": "x"}), 422, "command"),
        ("PUT", "/servers/x", json!([]), 400, "object"),
        ("PUT", "/servers/one", json!({"command": "x"}), 409, "configuration file"),
        ("PUT", "/servers/x", json!({"command": "x", "prefix": "one"}), 409, "prefix"),
        ("DELETE", "/servers/one", Value::Null, 409, "configuration file"),
        ("DELETE", "/servers/x", Value::Null, 404, "no server"),
        ("POST", "/servers/x/restart", Value::Null, 404, "no server"),
        ("POST", "/servers/x/disable", Value::Null, 404, "no server"),
        ("POST", "/batch", json!({"operations": []}), 400, "operations"),
        ("PATCH", "/servers/x", Value::Null, 405, "openapi"),
    ];
    for (verb, path, body, status, word) in cases {
        let (given, problem) = gateway.api(verb, path, body.clone()).await;
        assert_eq!((given, &problem["status"]), (status, &json!(status)), "{verb} {path} {body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(word), "{verb} {path} {body}: {problem}");
    }
    assert_eq!(gateway.api("GET", "/servers", Value::Null).await, before);
}

#[tokio::test]
async fn every_page_of_the_api_wants_the_token() {
    let gateway = quick().serve().await;
    let (status, document) = gateway.api("GET", "/openapi.json", Value::Null).await;
    assert_eq!(status, 200);
    for path in document["paths"].as_object().unwrap().keys() {
        let (status, body) = gateway.get(&format!("/api/v1{}", path.replace("{name}", "x"))).await;
        assert_eq!(status, 401, "{path}: {body}");
    }
}

// S4.3
#[tokio::test]
async fn a_server_is_switched_off_restarted_and_on_again() {
    let (one, two) = (server("one").await, server("two").await);
    let gateway = quick().server("one", &one).server("two", &two).serve().await;
    let mut listener = listener(&gateway).await;
    assert_eq!(gateway.api("POST", "/servers/two/restart", Value::Null).await.0, 200);
    assert_eq!(gateway.api("POST", "/servers/two/disable", Value::Null).await.0, 200);
    listener.expect(&["tools"]).await;
    assert_eq!(gateway.server_status("two").await["state"], "disabled");
    gateway.terminate().await;
    let again = gateway.again().await;
    assert_eq!(again.server_status("two").await["state"], "disabled", "it stays off");
    let mut after = crate::listener(&again).await;
    let (status, server) = again.api("POST", "/servers/two/enable", Value::Null).await;
    assert_eq!((status, &server["state"]), (200, &json!("ready")), "{server}");
    after.expect(&["tools"]).await;
}
