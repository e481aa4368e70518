//! Finding, listing and reading about servers that could be added.

use serde_json::{Value, json};
use tidings_testkit::TempDir;

use crate::{call, refusal, with_tools};

const DESK: &str = "[[servers]]\nid = \"acme/ticket-desk\"\nname = \"Ticket desk\"\ndescription = \"Files tickets of \
    customers.\"\ncategories = [\"Work\"]\ntags = [\"helpdesk\"]\nnpm = \"@acme/desk\"\n\
    variables = [{ name = \"DESK_KEY\", description = \"the key\", required = true, secret = true }]\n";

fn ids(found: &Value) -> Vec<&str> {
    found["entries"].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap()).collect()
}

// S4.5
#[tokio::test]
async fn entries_of_the_file_and_of_the_starter_set_are_found() {
    let folder = TempDir::new();
    let path = folder.write("servers.toml", DESK);
    let gateway = with_tools(&format!("catalogue = {path:?}")).serve().await;
    for client in [gateway.client().connect().await, gateway.client().modern().connect().await] {
        let found = call(&client, "find", json!({"query": "customer tickets"})).await;
        assert_eq!(ids(&found)[0], "acme/ticket-desk");
        assert_eq!(found["entries"][0]["required_environment"], json!(["DESK_KEY"]));
        assert_eq!(ids(&call(&client, "find", json!({"query": "memory"})).await)[0], "modelcontextprotocol/memory");
        let narrowed = json!({"query": "files", "sources": ["file"], "tags": ["helpdesk"], "limit": 1000});
        assert_eq!(ids(&call(&client, "find", narrowed).await), ["acme/ticket-desk"]);
        let one = call(&client, "list", json!({"limit": 1})).await;
        assert_eq!(ids(&one), ["acme/ticket-desk"]);
        assert!(one["total"].as_u64().unwrap() > 20);
        assert_eq!(call(&client, "list", json!({"source": "file"})).await["total"], 1);

        let docs = client.call_tool("mcp_registry_get_docs", json!({"entry_id": "acme/ticket-desk"})).await;
        assert!(docs.text().contains("npx -y @acme/desk") && docs.text().contains("`DESK_KEY` (required, secret)"));
        assert_eq!(docs.result()["structuredContent"]["documentation"], docs.text());
    }
}

// S4.5
#[tokio::test]
async fn a_refresh_reads_the_file_again() {
    let folder = TempDir::new();
    let path = folder.write("servers.toml", DESK);
    let gateway = with_tools(&format!("catalogue = {path:?}")).serve().await;
    let client = gateway.client().connect().await;
    let more = DESK.replace("ticket-desk", "front-desk").replace("tickets", "guests");
    folder.write("servers.toml", format!("{DESK}{more}"));
    let done = call(&client, "refresh", json!({"source": "file"})).await;
    assert_eq!((&done["sources"][0]["added"], &done["sources"][0]["removed"]), (&json!(1), &json!(0)));
    assert_eq!(ids(&call(&client, "find", json!({"query": "guests"})).await)[0], "acme/front-desk");

    folder.write("servers.toml", "[[servers]]\nid = 5\n");
    let problem = refusal(&client, "refresh", json!({"source": "all"})).await;
    assert!(problem.contains("servers.toml:2:6: servers[0].id: expected a string, found an integer"), "{problem}");
    let status = call(&client, "status", json!({})).await;
    assert!(status["sources"][1]["error"].as_str().unwrap().contains("servers.toml:2:6"), "{status}");
    assert_eq!(status["sources"][1]["entries"], 2, "what was read before is still there");
}

// S4.5
#[tokio::test]
async fn odd_arguments_are_explained() {
    let gateway = with_tools("").serve().await;
    let client = gateway.client().connect().await;
    let table = [
        ("find", json!({}), "`query` must be what the server should do, such as \"search the web\""),
        ("find", json!({"query": "a", "limit": 0}), "`limit` must be a whole number above 0"),
        ("find", json!({"query": "a", "tags": "b"}), "`tags` must be a list of strings"),
        ("find", json!({"query": "a", "official_only": 1}), "`official_only` must be true or false"),
        ("find", json!({"query": "a", "sources": ["x"]}), "there is no source \"x\"; there is built-in, all"),
        ("list", json!({"source": "docker"}), "there is no source \"docker\"; there is built-in, all"),
        ("refresh", json!({}), "`source` must be the name of a source, or \"all\""),
        ("active", json!({"all": true}), "`all`: this tool takes no arguments"),
    ];
    for (tool, arguments, expected) in table {
        assert_eq!(refusal(&client, tool, arguments).await, expected);
    }
    let problem = refusal(&client, "get_docs", json!({"entry_id": "memry"})).await;
    assert!(problem.starts_with("there is no entry \"memry\"; did you mean modelcontextprotocol/memory"), "{problem}");
}

#[tokio::test]
async fn a_catalogue_that_can_not_be_read_is_refused_by_check_and_at_the_start() {
    let folder = TempDir::new();
    folder.write("servers.json", "{\"servers\": [{\"id\": \"a\"}]}");
    let config = folder.write("tidings.toml", "[gateway]\ncatalogue = \"./servers.json\"\n");
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["check"]] {
        let mut run = tokio::process::Command::new(tidings_testkit::tidings());
        run.args(command).arg("--config").arg(&config).arg("--data").arg(folder.join("data"));
        let output = tidings_testkit::within("its end", run.kill_on_drop(true).output()).await.unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("tidings.toml:2:1: gateway.catalogue: "), "{said}");
        assert!(said.contains("servers.json:1:14: servers[0]: needs one of the keys npm, "), "{said}");
    }
}
