//! Both eras on both sides: who is let in and how, what each revision is shown, and which errors it gets.

mod admission;
mod batches;
mod errors;
mod header_mirror;
mod introductions;
mod logging;
mod principals;
mod probing;
mod views;

use serde_json::Value;
use tidings_testkit::{Client, Gateway, LEGACY, V2026_07_28, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A client of each revision, oldest first.
async fn every_revision(gateway: &Gateway) -> Vec<Client> {
    let mut clients = Vec::new();
    for revision in LEGACY.into_iter().chain([V2026_07_28]) {
        clients.push(gateway.client().revision(revision).connect().await);
    }
    clients
}

/// One server as the API describes it.
async fn server_status(gateway: &Gateway, name: &str) -> Value {
    let token = std::fs::read_to_string(gateway.data().join("admin.token")).expect("serve wrote its token");
    let address = gateway.base_url().trim_start_matches("http://").to_owned();
    let head = format!(
        "GET /api/v1/servers HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        token.trim()
    );
    let ask = async {
        let mut stream = TcpStream::connect(&address).await?;
        stream.write_all(head.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = within("GET /api/v1/servers", ask).await.expect("the API answers");
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    let all: Value = serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}"));
    let servers = all["servers"].as_array().cloned().unwrap_or_default();
    servers.into_iter().find(|server| server["name"] == name).unwrap_or_else(|| panic!("no {name}: {all}"))
}
