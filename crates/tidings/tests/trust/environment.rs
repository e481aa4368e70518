//! What a command sees of the gateway's environment.

use serde_json::Value;
use tidings_testkit::{Gateway, Server, TempDir, tidings, within};

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

// issue 14: existing configurations go on working, or doctor says in one sentence what to add
#[tokio::test]
async fn doctor_says_what_an_older_configuration_has_to_add() {
    let home = TempDir::new();
    std::fs::create_dir_all(home.join("hooked/server.d")).unwrap();
    home.write("hooked/server.d/policy.sh", "#!/bin/sh\n");
    let server = Server::builder("lone").echo("call_tool").stdio().await;
    let gateway = "[gateway]\nlisten = \"127.0.0.1:0\"\nexpose = \"both\"\n";
    home.write("tidings.toml", format!("{gateway}[servers.lone]\n{}\n", server.toml()));
    home.write("hooked.toml", format!("{gateway}[servers.hooked]\nproject = \"hooked\"\n"));
    let data = home.join("data");
    let run = async |config: &str, data: &str| {
        let mut command = tokio::process::Command::new(tidings());
        command.arg("doctor").current_dir(home.path()).env("TIDINGS_CONFIG", config).env("TIDINGS_DATA", data);
        stdout(&within("doctor", command.env("HOME", home.path()).kill_on_drop(true).output()).await.unwrap())
    };
    let path = |name: &str| home.path().canonicalize().unwrap().join(name).display().to_string();
    let told = run(&path("tidings.toml"), data.to_str().unwrap()).await;
    assert!(told.contains("call_tool belongs to the gateway, so clients see it with the server's prefix"), "{told}");
    assert!(!told.contains("export "), "{told}");
    let told = run(&path("hooked.toml"), data.to_str().unwrap()).await;
    assert!(told.contains("server.d/policy.sh does not run") && told.contains("allow_hooks = true"), "{told}");
    let told = run("tidings.toml", data.to_str().unwrap()).await;
    assert!(told.contains(&format!("export TIDINGS_CONFIG={}", path("tidings.toml"))), "{told}");
    let told = run(&path("tidings.toml"), "data").await;
    assert!(told.contains(&format!("export TIDINGS_DATA={}", path("data"))), "{told}");
}
