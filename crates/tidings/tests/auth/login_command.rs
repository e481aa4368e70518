//! `tidings login` in the hands of a person who makes mistakes.

use std::process::Stdio;

use serde_json::json;
use tidings_testkit::{Server, within};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use crate::people_links::patient;
use crate::scripted_provider::{door, provider};

// identity 1: "pasted by who began"
#[tokio::test]
async fn an_address_of_something_else_is_asked_for_again_and_the_login_goes_on() {
    let (issuer, given) = provider().await;
    let server = Server::builder("crm").echo("echo").on_http(move |request| door(&issuer, &given, request));
    let server = server.http().await;
    let gateway = patient("").server("crm", &server).serve().await;
    gateway.wait_server("crm", "in need of a login", |crm| crm["state"] == "needs login").await;
    let doctor = gateway.command(&["doctor"]).await;
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(said.contains("tidings login crm") && said.contains("nothing is tried until then"), "{said}");

    let mut command = Command::new(tidings_testkit::tidings());
    command.arg("--data").arg(gateway.data()).args(["login", "crm", "--paste"]).env("TIDINGS_CONFIG", gateway.config());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let (mut pasted, mut lines) = (child.stdin.take().unwrap(), BufReader::new(child.stderr.take().unwrap()).lines());
    let mut line_with = async |text: &str| {
        within(text, async {
            loop {
                let line = lines.next_line().await.unwrap().unwrap_or_else(|| panic!("it ended before {text:?}"));
                if line.contains(text) {
                    return line;
                }
            }
        })
        .await
    };
    let authorize = line_with("/authorize?").await;
    let state = authorize.split(['?', '&']).find_map(|pair| pair.strip_prefix("state=")).unwrap().to_owned();
    pasted.write_all(b"https://elsewhere.example/?code=x&state=y\n").await.unwrap();
    line_with("Paste the whole address").await;
    let address = format!("{}/oauth/callback?code=ada&state={state}\n", gateway.base_url());
    pasted.write_all(address.as_bytes()).await.unwrap();
    let ended = within("the end of the command", child.wait_with_output()).await.unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "Logged in to crm: 1 tool.\n");
    let client = gateway.client().connect().await;
    assert_eq!(client.call_tool("echo", json!({})).await.text(), "{}");
}
