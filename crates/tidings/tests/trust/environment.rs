//! What a command sees of the gateway's environment.

use serde_json::Value;
use tidings_testkit::{Gateway, Server, tidings, within};

use crate::stdout;

// trust T2
#[tokio::test]
async fn a_server_sees_what_programs_need_and_what_it_is_given_and_no_key_of_anybody_else() {
    let plain = Server::builder("plain").echo("a").stdio().await;
    let given = Server::builder("given").echo("b").stdio().await;
    let open = Server::builder("open").echo("c").stdio().await;
    let gateway = Gateway::builder()
        .server("plain", &plain)
        .server_with("given", &given, "env = { COLOUR = \"red\" }\ninherit_env = [\"KIT_*\"]")
        .server_with("open", &open, "inherit_env = \"all\"")
        .env("AWS_SECRET_ACCESS_KEY", "hush")
        .env("KIT_KEY", "k")
        .env("HTTPS_PROXY", "http://127.0.0.1:9")
        .env("LC_TIME", "C");
    let _gateway = gateway.serve().await;
    let seen = |server: &Server, name: &str| server.processes()[0].env.get(name).cloned().unwrap_or(Value::Null);
    for server in [&plain, &given, &open] {
        for name in ["PATH", "HTTPS_PROXY", "LC_TIME", "TIDINGS_DEPTH"] {
            assert!(seen(server, name).is_string(), "{name}");
        }
    }
    assert!(seen(&plain, "AWS_SECRET_ACCESS_KEY").is_null() && seen(&plain, "KIT_KEY").is_null());
    assert_eq!((seen(&given, "COLOUR"), seen(&given, "KIT_KEY")), ("red".into(), "k".into()));
    assert!(seen(&given, "AWS_SECRET_ACCESS_KEY").is_null());
    assert_eq!(seen(&open, "AWS_SECRET_ACCESS_KEY"), "hush");
}

// trust T2
#[tokio::test]
async fn a_server_that_fails_without_a_variable_says_which_and_so_does_doctor() {
    let script = "[servers.forge]\ncommand = \"sh\"\nargs = [\"-c\", \"echo 'FORGE_TOKEN is required' >&2; exit 1\"]\n";
    let gateway = Gateway::builder().toml(script).env("FORGE_TOKEN", "hush").serve().await;
    let line = gateway.stderr().wait_for("the reason", |line| line.contains("inherit_env")).await;
    assert!(line.contains("FORGE_TOKEN is set for the gateway") && !line.contains("hush"), "{line}");
    let (_, state) = gateway.api("GET", "/servers", Value::Null).await;
    assert!(state["servers"][0]["error"].to_string().contains("inherit_env"), "{state}");
    let told = doctor(&gateway).await;
    assert!(told.contains("FORGE_TOKEN set here, and not passed on to it"), "{told}");
    let good = Server::builder("forge").echo("a").stdio().await;
    let all = "[gateway]\ninherit_env = [\"FORGE_TOKEN\"]\n";
    let gateway = Gateway::builder().toml(all).server("forge", &good).env("FORGE_TOKEN", "hush").serve().await;
    assert_eq!(good.processes()[0].env["FORGE_TOKEN"], "hush", "for all of them at once");
    let told = doctor(&gateway).await;
    assert!(!told.contains("not passed on"), "{told}");
}

/// What `tidings doctor` says where the variable is set.
async fn doctor(gateway: &Gateway) -> String {
    let mut command = tokio::process::Command::new(tidings());
    command.arg("--data").arg(gateway.data()).arg("doctor").kill_on_drop(true);
    command.env("TIDINGS_CONFIG", gateway.data().with_file_name("tidings.toml")).env("FORGE_TOKEN", "hush");
    stdout(&within("doctor", command.output()).await.unwrap())
}
