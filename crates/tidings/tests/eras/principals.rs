//! Who is asking, with tokens.

use serde_json::json;
use tidings_testkit::{Client, Gateway, Server};

/// `token-x` and `token-y`.
const AUTH: &str = r#"[auth]
tokens = [
    { name = "x", sha256 = "d4ae844c189c5f38ddd7e60eecdbb09112a913c99f2ff8d6dc16f4205942ed90" },
    { name = "y", sha256 = "bc4b684625de6202b40c04caf3ebee22890eaf93955ecb95dfb1fdf420017732" },
]"#;

// bridging 44
#[tokio::test]
async fn a_session_belongs_to_the_person_who_opened_it() {
    let server = Server::builder("one").echo("echo").stdio().await;
    let gateway = Gateway::builder().toml(AUTH).server("one", &server).serve().await;
    let mine = gateway.client().header("authorization", "Bearer token-x").connect().await;
    assert_eq!(mine.call_tool("echo", json!({})).await.text(), "{}");
    let session = mine.session_id().expect("a session");

    let other = Client::http(gateway.url()).raw().header("authorization", "Bearer token-y").connect().await;
    let stolen = [("mcp-session-id", session.as_str())];
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}).to_string();
    assert_eq!(other.post_raw(call.clone(), &stolen).await.status, 404, "as if it did not exist");
    let get = [stolen[0], ("accept", "text/event-stream")];
    assert_eq!(other.send_http("GET", "", &get).await.status, 404);
    assert_eq!(other.send_http("DELETE", "", &stolen).await.status, 404);
    assert_eq!(server.count("tools/call"), 1);
    assert_eq!(mine.call_tool("echo", json!({})).await.text(), "{}", "the owner's session lives on");

    for token in ["", "Bearer token-z", "token-x", "Basic token-x"] {
        let nobody = Client::http(gateway.url()).raw().connect().await;
        let reply = nobody.post_raw(call.clone(), &[stolen[0], ("authorization", token)]).await;
        assert_eq!(reply.status, 401, "{token:?}");
        // Whoever brought no token at all is only told what is wanted (RFC 6750, section 3.1).
        let unknown = "Bearer error=\"invalid_token\", error_description=\"the token is not known\"";
        let challenge = if token == "Bearer token-z" { unknown } else { "Bearer" };
        assert_eq!(reply.header("www-authenticate"), Some(challenge), "{token:?}");
    }
    assert!(server.received().iter().all(|r| r.header("authorization").is_none()));
}

// bridging A4
#[tokio::test]
async fn the_token_of_a_client_is_never_passed_on() {
    let server = Server::builder("one").modern().echo("echo").http().await;
    let gateway = Gateway::builder().toml(AUTH).server("one", &server).serve().await;
    for client in [gateway.client(), gateway.client().modern()] {
        let client = client.header("authorization", "Bearer token-y").connect().await;
        assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
    }
    let received = server.received();
    assert!(received.len() > 4 && received.iter().all(|r| r.header("authorization").is_none()), "{received:?}");
}
