//! One server that can not be run as it is configured keeps nobody else from starting.

use serde_json::Value;
use tidings_testkit::*;

fn failing(words: &str) -> impl Fn(&Value) -> bool {
    move |status| status["state"] == "failing" && status["error"].as_str().is_some_and(|error| error.contains(words))
}

// edges F7
#[tokio::test]
async fn an_unset_variable_fails_only_its_server() {
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let holes = "[servers.hole]\ncommand = \"sleep\"\nargs = [\"1000\"]\nenv = { KEY = \"${env:TIDINGS_TEST_UNSET}\" }\n\
                 [servers.where]\nurl = \"${env:TIDINGS_TEST_UNSET_URL}\"\n\
                 [servers.file]\nurl = \"http://127.0.0.1:9\"\nheaders = { Authorization = \"${file:no-such-file}\" }\n";
    let gateway = Gateway::builder().server("alpha", &server).toml(holes).serve().await;
    gateway.wait_server("hole", "failing", failing("TIDINGS_TEST_UNSET")).await;
    gateway.wait_server("where", "failing", failing("TIDINGS_TEST_UNSET_URL")).await;
    gateway.wait_server("file", "failing", failing("no-such-file")).await;
    assert_eq!(gateway.client().connect().await.names("tools").await, ["alpha__echo"]);
    let config = gateway.config().to_string_lossy().into_owned();
    let checked = gateway.command(&["check", "--config", &config]).await;
    assert!(!checked.status.success(), "check still refuses");
    assert!(String::from_utf8_lossy(&checked.stderr).contains("TIDINGS_TEST_UNSET"), "{checked:?}");
}

// edges F7
#[tokio::test]
async fn a_missing_project_fails_alone_and_is_there_when_its_folder_is() {
    let server = Server::builder("alpha").echo("echo").stdio().await;
    let folder = TempDir::new();
    let project = folder.join("scripts");
    let missing = format!("[servers.scripts]\nproject = {:?}\n", project.to_string_lossy());
    let gateway = Gateway::builder().server("alpha", &server).toml(&missing).serve().await;
    gateway.wait_server("scripts", "failing", failing("scripts")).await;
    assert_eq!(gateway.client().connect().await.names("tools").await, ["alpha__echo"]);
    let config = gateway.config().to_string_lossy().into_owned();
    let checked = gateway.command(&["check", "--config", &config]).await;
    assert!(!checked.status.success(), "check still refuses");
    std::fs::create_dir_all(project.join("tools")).unwrap();
    gateway.wait_server("scripts", "ready", |status| status["state"] == "ready").await;
}

// edges F8
#[tokio::test]
async fn without_ca_certificates_only_what_needs_tls_fails() {
    let server = Server::builder("alpha").echo("echo").http().await;
    let nowhere = "/nonexistent/certificates";
    let builder = Gateway::builder().server("alpha", &server).toml("[servers.far]\nurl = \"https://127.0.0.1:9/mcp\"");
    let gateway = builder.env("SSL_CERT_FILE", nowhere).env("SSL_CERT_DIR", nowhere).serve().await;
    gateway.wait_server("far", "failing", failing("install the package ca-certificates")).await;
    assert_eq!(gateway.client().connect().await.names("tools").await, ["alpha__echo"]);
    // Commands speak to the gateway without TLS.
    let mut command = tokio::process::Command::new(tidings());
    command.arg("--data").arg(gateway.data()).arg("servers").env("SSL_CERT_FILE", nowhere).env("SSL_CERT_DIR", nowhere);
    let shown = within("tidings servers", command.output()).await.unwrap();
    assert!(shown.status.success(), "{shown:?}");
}
