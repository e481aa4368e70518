//! Using what is behind the gateway: one server, one tool, one prompt, arguments in every form.

use std::process::Stdio;

use serde_json::{Value, json};
use tidings_testkit::{Gateway, ScriptedCall, Server, tidings};
use tokio::io::AsyncWriteExt as _;

use crate::{quick, stderr, stdout};

async fn office() -> (Server, Gateway) {
    let server = Server::builder("office")
        .echo("echo")
        .tool("picture", |call: ScriptedCall| async move {
            let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA".repeat(1_000)});
            call.ok(json!({"content": [image]}))
        })
        .prompt("greet", |call: ScriptedCall| async move { call.ok_message("good morning") })
        .stdio()
        .await;
    let gateway = quick().server("office", &server).serve().await;
    (server, gateway)
}

// edges F17
#[tokio::test]
async fn arguments_are_typed_in_every_form() {
    let (_server, gateway) = office().await;
    std::fs::write(gateway.config().with_file_name("arguments.json"), r#"{"text": "from a file"}"#).unwrap();
    for (words, expected) in [
        (&[r#"{"text": "hi"}"#][..], json!({"text": "hi"})),
        (&["text=hi there", "n:=3"], json!({"text": "hi there", "n": 3})),
        (&["@arguments.json"], json!({"text": "from a file"})),
        (&[], json!({})),
    ] {
        let output = gateway.command(&[&["call", "echo"], words].concat()).await;
        assert!(output.status.success(), "{output:?}");
        assert_eq!(serde_json::from_str::<Value>(&stdout(&output)).unwrap(), expected);
    }
    let mut command = tokio::process::Command::new(tidings());
    command.arg("--data").arg(gateway.data()).args(["call", "echo", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(br#"{"text": "piped"}"#).await.unwrap();
    let output = tidings_testkit::within("tidings call", child.wait_with_output()).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&stdout(&output)).unwrap(), json!({"text": "piped"}));
}

// edges F17
#[tokio::test]
async fn one_tool_one_server_and_one_prompt_are_shown_whole() {
    let (_server, gateway) = office().await;
    let tool = stdout(&gateway.command(&["tools", "echo"]).await);
    assert!(tool.starts_with("echo  of office\n") && tool.contains("tidings call echo"), "{tool}");
    assert!(tool.contains("\"type\": \"object\""), "{tool}");
    let found: Value = serde_json::from_str(&stdout(&gateway.command(&["tools", "echo", "--json"]).await)).unwrap();
    assert_eq!(found["tools"][0]["name"], "echo", "what a program reads is the list as ever");
    let server = stdout(&gateway.command(&["servers", "office"]).await);
    for words in ["office\n", "ready for", "the configuration file", "2 tools, 1 prompt", "echo, picture"] {
        assert!(server.contains(words), "{words}: {server}");
    }
    let unknown = gateway.command(&["servers", "offce"]).await;
    assert!(stderr(&unknown).contains("tidings servers office"), "{unknown:?}");
    let prompt = gateway.command(&["prompt", "greet", "name=Ann"]).await;
    assert_eq!(stdout(&prompt), "user:\ngood morning\n", "{prompt:?}");
    let unknown = gateway.command(&["prompt", "great"]).await;
    assert!(stderr(&unknown).contains("Did you mean greet?"), "{unknown:?}");
}

// edges F17
#[tokio::test]
async fn lists_can_be_limited() {
    let (_server, gateway) = office().await;
    let output = gateway.command(&["tools", "--limit", "1"]).await;
    assert_eq!((stdout(&output).lines().count(), stderr(&output).trim()), (1, "… and 1 more"), "{output:?}");
    let found: Value =
        serde_json::from_str(&stdout(&gateway.command(&["prompts", "-n", "1", "--json"]).await)).unwrap();
    assert_eq!(found["prompts"].as_array().unwrap().len(), 1);
    assert_eq!(gateway.command(&["tools", "--limit", "0"]).await.status.code(), Some(2));
}

// edges F14
#[tokio::test]
async fn binary_content_is_summarised_or_saved() {
    let (_server, gateway) = office().await;
    let output = gateway.command(&["call", "picture"]).await;
    assert_eq!(stdout(&output), "[image/png, 3 KiB; --save DIR keeps it]\n");
    let saved = gateway.command(&["call", "picture", "--save", "pictures"]).await;
    assert!(stdout(&saved).contains("saved as pictures/image-1.png"), "{saved:?}");
    let file = gateway.config().with_file_name("pictures").join("image-1.png");
    assert_eq!(std::fs::metadata(file).unwrap().len(), 3_000);
}

// edges F10
#[tokio::test]
async fn a_refusal_shows_what_its_data_says() {
    let server = Server::builder("one")
        .tool("fail", |call: ScriptedCall| async move { call.error(-32050, "no luck", Some(json!({"luck": 0}))) })
        .stdio()
        .await;
    let gateway = quick().server("one", &server).serve().await;
    let output = gateway.command(&["call", "fail"]).await;
    assert_eq!(stderr(&output), "tidings: no luck (-32050)\n{\"luck\":0}\n");
}
