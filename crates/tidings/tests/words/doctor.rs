//! `tidings doctor --config X` beside a gateway that serves something else.

use serde_json::{Value, json};
use tidings_testkit::{Server, TempDir};

use crate::{quick, stdout};

// edges F9
#[tokio::test]
async fn a_named_file_is_examined_and_not_what_the_gateway_beside_it_serves() {
    let one = Server::builder("one").echo("one").stdio().await;
    let two = Server::builder("two").echo("two").stdio().await;
    let gateway = quick().server("one", &one).serve().await;
    let folder = TempDir::new();
    let file = folder
        .write("other.toml", format!("[servers.two]\n{}\n[servers.broken]\ncommand = \"/no/such\"\n", two.toml()));
    let output = gateway.command(&["doctor", "--json", "--config", file.to_str().unwrap()]).await;
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let about =
        |name: &str| report["findings"].as_array().unwrap().iter().find(|finding| finding["about"] == name).cloned();
    assert!(about("server one").is_none(), "it is no server of that file: {report:#}");
    assert_eq!(about("server two").unwrap()["level"], "ok", "{report:#}");
    assert_eq!(about("server broken").unwrap()["level"], "problem", "{report:#}");
    assert!(
        about("gateway").unwrap()["what"].as_str().unwrap().contains(gateway.config().to_str().unwrap()),
        "{report:#}"
    );

    let own = gateway.config().to_str().unwrap().to_owned();
    let output = gateway.command(&["doctor", "--json", "--config", &own]).await;
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        one.processes().len(),
        1,
        "the gateway's own file: its servers are asked, not started again: {report:#}"
    );
}

// reach 4
#[tokio::test]
async fn servers_with_apps_are_recommended_alone_where_there_are_others() {
    let tool =
        json!({"name": "show", "inputSchema": {"type": "object"}, "_meta": {"ui": {"resourceUri": "ui://a/page"}}});
    let apps = Server::builder("apps").tool_def(tool, |call| async move { call.ok_text("") }).stdio().await;
    let plain = Server::builder("plain").echo("echo").stdio().await;
    let findings = async |gateway: tidings_testkit::GatewayBuilder| {
        let gateway = gateway.serve().await;
        let output = gateway.command(&["doctor", "--json"]).await;
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let is_about = |finding: &&Value| finding["remedy"].as_str().is_some_and(|remedy| remedy.contains("/mcp/s/"));
        let found: Vec<Value> = report["findings"].as_array().unwrap().iter().filter(is_about).cloned().collect();
        (found, gateway.base_url().to_owned())
    };
    let (found, base) = findings(quick().server("my-apps", &apps).server("plain", &plain)).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["about"], &found[0]["level"]), (&json!("server my-apps"), &json!("note")));
    assert!(found[0]["remedy"].as_str().unwrap().ends_with(&format!("{base}/mcp/s/my-apps")), "{found:?}");
    let (found, _) = findings(quick().server("my-apps", &apps)).await;
    assert!(found.is_empty(), "it is served as it is already: {found:?}");
}
