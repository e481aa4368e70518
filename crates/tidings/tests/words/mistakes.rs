//! Mistakes that everybody makes once: the error names what is wrong and the next command.

use tidings_testkit::{Server, TempDir};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::{quick, stderr};

/// Something that answers every request with these bytes. Ends with the test.
async fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = [0; 4096];
                let _ = stream.read(&mut asked).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    address.to_string()
}

const PAGE: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 35\r\nconnection: close\r\n\r\n<!DOCTYPE html><html>Welcome</html>";
const NOT_ALLOWED: &str = "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const MOVED: &str = "HTTP/1.1 308 Permanent Redirect\r\nlocation: https://new.example/mcp\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
// An alert of TLS, as a server sends it to somebody who does not speak it.
const ALERT: &str = "\u{15}\u{3}\u{1}\0\u{2}\u{2}F";

// edges F15
#[tokio::test]
async fn each_mistake_is_named_with_what_to_do() {
    let one = Server::builder("one").echo("search_notes").echo("add_note").stdio().await;
    let gateway = quick().server("one", &one).serve().await;
    let (page, old, moved, alert) =
        (answering(PAGE).await, answering(NOT_ALLOWED).await, answering(MOVED).await, answering(ALERT).await);
    let http = |address: &str, path: &str| format!("http://{address}{path}");
    let cases: Vec<(Vec<String>, Vec<&str>)> = [
        (
            vec!["call", "serch_notes"],
            vec!["there is no tool \"serch_notes\"", "Did you mean search_notes?", "tidings tools search_notes"],
        ),
        (vec!["call", "xyzzy"], vec!["there is no tool \"xyzzy\"", "tidings tools"]),
        (vec!["add", "x", "npx", "-y", "pkg"], vec!["needs -- before it", "tidings add x -- npx -y pkg"]),
        (vec!["add", "x", "http://h/mcp"], vec!["tidings add x --url http://h/mcp"]),
        (vec!["add", "x", "--", "npx -y pkg"], vec!["command = \"npx\", args = [\"-y\", \"pkg\"]"]),
        (vec!["add", "x", "--", "uvx-that-is-not-there"], vec!["command not found", "not in the PATH"]),
        (vec!["add", "x", "--url", &http(&page, "/")], vec!["a web page (HTML)", "MCP endpoint"]),
        (vec!["add", "x", "--url", &http(&old, "/sse")], vec!["405", "path of `url`", "/mcp", "/sse"]),
        (vec!["add", "x", "--url", &http(&moved, "/mcp")], vec!["308", "url = \"https://new.example/mcp\""]),
        (vec!["add", "x", "--url", &http(&alert, "/mcp")], vec!["speaks TLS", "url = \"https://"]),
        (vec!["add", "x", "--url", &format!("https://{page}/mcp")], vec!["does not speak TLS", "url = \"http://"]),
        (vec!["add", "x", "--url", "http://127.0.0.1:1/mcp"], vec!["correct the port in `url`"]),
        (vec!["servers", "on"], vec!["Did you mean one?", "tidings servers one"]),
    ]
    .into_iter()
    .map(|(words, said)| (words.into_iter().map(str::to_owned).collect(), said))
    .collect();
    for (words, said) in cases {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = gateway.command(&words).await;
        let errors = stderr(&output);
        assert!(!output.status.success(), "{words:?} did not fail");
        for expected in said {
            assert!(errors.contains(expected), "{words:?} does not say {expected:?}:\n{errors}");
        }
    }
}

// edges F15
#[tokio::test]
async fn a_folder_that_is_missing_is_not_taken_for_a_missing_command() {
    let (status, answer) = {
        let one = Server::builder("one").echo("echo").stdio().await;
        let gateway = quick().server("one", &one).serve().await;
        gateway.api("PUT", "/servers/x", serde_json::json!({"command": "sh", "cwd": "/no/such/folder"})).await
    };
    assert_ne!(status, 200);
    let said = answer["detail"].as_str().unwrap();
    assert!(said.contains("there is no folder /no/such/folder") && said.contains("`cwd`"), "{said}");
}

// edges F15
#[tokio::test]
async fn a_port_that_is_taken_is_named_with_another() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = other.local_addr().unwrap().to_string();
    let folder = TempDir::new();
    let serve = |data: &str| {
        let mut command = tokio::process::Command::new(tidings_testkit::tidings());
        command.args(["serve", "--listen", &address, "--data", data]).current_dir(folder.path()).kill_on_drop(true);
        async move { tidings_testkit::within("tidings serve", command.output()).await.unwrap() }
    };
    let output = serve(folder.join("data").to_str().unwrap()).await;
    let said = stderr(&output);
    assert!(said.contains(&format!("another program listens on {address}")), "{said}");
    assert!(said.contains("tidings serve --listen 127.0.0.1:"), "{said}");
}
