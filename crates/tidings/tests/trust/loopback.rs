//! What stays on this machine.

use tidings_testkit::{Gateway, Server, TempDir, tidings, within};

use crate::stdout;

// trust T6
#[tokio::test]
async fn the_key_to_the_gateway_does_not_travel_through_a_proxy() {
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let visited = tokio::spawn(async move { proxy.accept().await.map(drop) });
    let mut command = tokio::process::Command::new(tidings());
    command.arg("--data").arg(gateway.data()).arg("servers").kill_on_drop(true);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        command.env(name, &url);
    }
    let output = within("the command", command.env("NO_PROXY", "").env("no_proxy", "").output()).await.unwrap();
    assert!(!visited.is_finished(), "the proxy was given the key: {output:?}");
    assert!(output.status.success() && stdout(&output).contains("alpha"), "{output:?}");
}

// trust T5
#[cfg(target_os = "linux")]
#[tokio::test]
async fn another_user_of_the_machine_can_call_nothing() {
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let address = gateway.url().trim_start_matches("http://").trim_end_matches("/mcp").replace(':', "/");
    let ask = |verb: &str, path: &str, body: &str| {
        let request = format!(
            "{verb} {path} HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n\
             Accept: application/json, text/event-stream\\r\\nConnection: close\\r\\nContent-Length: {}\\r\\n\\r\\n{body}",
            body.len()
        );
        format!("exec 3<>/dev/tcp/{address}; printf '{request}' >&3; cat <&3")
    };
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    let script = ask("POST", "/mcp", hello);
    let run = async |as_user: &[&str], script: &str| {
        let words: Vec<&str> = as_user.iter().copied().chain(["bash", "-c", script]).collect();
        let mut command = tokio::process::Command::new(words[0]);
        let output = within("the other user", command.args(&words[1..]).kill_on_drop(true).output()).await.unwrap();
        stdout(&output)
    };
    assert!(run(&["env"], &script).await.contains("200 OK"), "the own user needs no token");
    // Only root can become somebody else; the kernel's answer itself has a test of its own.
    if std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        let refused = run(&nobody, &script).await;
        assert!(refused.contains(" 403 ") && refused.contains("[auth]"), "{refused}");
        assert!(run(&nobody, &ask("GET", "/metrics", "")).await.contains(" 403 "));
        assert!(run(&nobody, &ask("GET", "/sse", "")).await.contains(" 403 "));
        assert!(run(&nobody, &ask("POST", "/messages?sessionId=x", hello)).await.contains(" 403 "));
        assert!(run(&nobody, &ask("GET", "/healthz", "")).await.contains(" 200 "), "health is nobody's secret");
    }
}

// trust T5
#[tokio::test]
async fn where_everybody_needs_a_token_nobody_on_this_machine_comes_in_without() {
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let toml = "[gateway]\nauth = \"token\"\n";
    let gateway = Gateway::builder().toml(toml).server("alpha", &server).serve().await;
    let hello = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let stranger = gateway.client().raw().connect().await;
    assert_eq!(stranger.post_raw(hello, &[]).await.status, 401);
    assert_eq!(gateway.get("/metrics").await.0, 401);
    let key = std::fs::read_to_string(gateway.data().join("admin.token")).unwrap();
    let client = gateway.client().header("authorization", &format!("Bearer {}", key.trim())).connect().await;
    assert_eq!(client.call_tool("echo", serde_json::json!({"text": "x"})).await.text(), r#"{"text":"x"}"#);
}

// trust T5
#[cfg(unix)]
#[tokio::test]
async fn sockets_of_the_file_system_serve_the_user_of_the_gateway_and_nobody_else() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = TempDir::new();
    let more = home.join("more.sock");
    let toml =
        format!("[gateway]\nlisten = [\"127.0.0.1:0\", \"127.0.0.1:0\", {:?}]\n", format!("unix:{}", more.display()));
    let gateway = Gateway::builder().toml(&toml).serve().await;
    let own = gateway.data().join("gateway.sock");
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for socket in [&own, &more] {
        assert_eq!(std::fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::UnixStream::connect(socket).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within("an answer", stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        if cfg!(target_os = "linux") && rustix_is_root() {
            // Also where its mode was widened.
            std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o777)).unwrap();
            // Folders of this test alone: that of all temporary files is everybody's, and stays as it is.
            let temporary = std::env::temp_dir();
            for folder in socket.ancestors().skip(1).take(2).filter(|folder| !temporary.starts_with(folder)) {
                std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            let socket = socket.display().to_string();
            let as_nobody = async |command: &[&str]| {
                let words = ["--reuid=65534", "--regid=65534", "--clear-groups"];
                let output =
                    tokio::process::Command::new("setpriv").args(words).args(command).kill_on_drop(true).output();
                within("another user", output).await.unwrap()
            };
            // The file system lets them in: an attack that fails on its way would prove nothing.
            assert!(as_nobody(&["test", "-w", &socket]).await.status.success());
            let attack = as_nobody(&["curl", "-sS", "--unix-socket", &socket, "http://localhost/metrics"]).await;
            assert!(!attack.status.success() && stdout(&attack).is_empty(), "{attack:?}");
        }
    }
}

#[cfg(unix)]
fn rustix_is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

// trust T5
#[cfg(unix)]
#[tokio::test]
async fn commands_prefer_the_socket_to_a_port_that_may_be_somebody_elses_by_now() {
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("alpha", &server).serve().await;
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let file = gateway.data().join("gateway.json");
    let address = gateway.base_url().trim_start_matches("http://").to_owned();
    let said = std::fs::read_to_string(&file).unwrap();
    assert!(said.contains(&address), "{said}");
    std::fs::write(&file, said.replace(&address, &port.local_addr().unwrap().to_string())).unwrap();
    let visited = tokio::spawn(async move { port.accept().await.map(drop) });
    for words in [&["servers"][..], &["call", "echo", "text=x"], &["changes"], &["status"]] {
        let output = within("the command", gateway.command(words)).await;
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    assert!(!visited.is_finished(), "the key was sent to whoever has the port");
}

// trust T12
#[tokio::test]
async fn metrics_are_closed_where_tokens_are_asked_for() {
    let digest = "0".repeat(64);
    let auth = format!("[auth]\ntokens = [{{ name = \"a\", sha256 = \"{digest}\", servers = [\"*\"] }}]\n");
    let gateway = Gateway::builder().toml(&auth).serve().await;
    assert_eq!(gateway.get("/metrics").await.0, 401);
    assert_eq!(gateway.get_as_admin("/metrics").await.0, 200);
    assert_eq!(gateway.get("/healthz").await.0, 200);
    let open = Gateway::builder().serve().await;
    assert_eq!(open.get("/metrics").await.0, 200);
}

// trust T12
#[cfg(unix)]
#[test]
fn a_configuration_that_a_command_makes_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = TempDir::new();
    let mut command = std::process::Command::new(tidings());
    command.args(["add", "x", "--url", "https://example.com/mcp", "--header", "Authorization=Bearer hush"]);
    let output = command.current_dir(home.path()).env_clear().env("HOME", home.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mode = std::fs::metadata(home.join(".config/tidings/tidings.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}
