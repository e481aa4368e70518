//! `tidings doctor`: what it finds, and that every trouble comes with its remedy.

use std::net::TcpListener;
use std::process::Stdio;

use serde_json::Value;
use tidings_testkit::{Gateway, PostgresServer, Server, TempDir, within};
use tokio::process::Command;

/// A folder with a configuration and a data directory.
struct Patient {
    dir: TempDir,
}

/// What the doctor says, and how it ends.
struct Diagnosis {
    ok: bool,
    findings: Vec<Value>,
}

impl Patient {
    fn new(toml: &str) -> Self {
        let dir = TempDir::new();
        // Port 0 is always free.
        dir.write("tidings.toml", format!("[gateway]\nlisten = \"127.0.0.1:0\"\n{toml}"));
        Self { dir }
    }

    async fn see(&self) -> Diagnosis {
        see(&self.dir.join("tidings.toml"), &self.dir.join("data")).await
    }
}

async fn output(config: &std::path::Path, data: &std::path::Path, more: &[&str]) -> std::process::Output {
    let mut doctor = Command::new(tidings_testkit::tidings());
    doctor.arg("doctor").args(more).arg("--config").arg(config).arg("--data").arg(data);
    let output = within("the doctor", doctor.stdin(Stdio::null()).kill_on_drop(true).output()).await;
    output.expect("tidings runs")
}

async fn see(config: &std::path::Path, data: &std::path::Path) -> Diagnosis {
    let output = output(config, data, &["--json"]).await;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    let findings = said["findings"].as_array().cloned().unwrap_or_default();
    let troubles = findings.iter().filter(|finding| finding["level"] != "ok");
    for trouble in troubles {
        assert!(trouble["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{trouble}");
    }
    let ok = output.status.success();
    assert_eq!(said["ok"], ok, "{said}");
    assert_eq!(output.status.code(), Some(if ok { 0 } else { 1 }));
    Diagnosis { ok, findings }
}

impl Diagnosis {
    /// The finding about something.
    fn about(&self, about: &str) -> &Value {
        let found = self.findings.iter().find(|finding| finding["about"] == about);
        found.unwrap_or_else(|| panic!("nothing about {about}: {:#?}", self.findings))
    }

    fn says(&self, about: &str, level: &str, words: &str) {
        let finding = self.about(about);
        assert_eq!(finding["level"], level, "{finding}");
        assert!(finding["what"].as_str().is_some_and(|what| what.contains(words)), "{finding}");
    }
}

// S1.6
#[tokio::test(flavor = "multi_thread")]
async fn the_trigger_of_a_watched_table_is_printed_until_it_is_installed() {
    let Some(server) = PostgresServer::start() else { return };
    server.sql("create schema shop");
    server.sql("create table shop.orders (id int)");
    let (url, query) = (server.url(), "select * from shop.orders");
    let watch = format!("[watch.orders]\npostgres = {url:?}\nquery = {query:?}\nchannel = \"orders_changed\"\n");
    let patient = Patient::new(&watch);
    let diagnosis = patient.see().await;
    assert!(!diagnosis.ok);
    diagnosis.says("watch orders", "problem", "no trigger of shop.orders notifies \"orders_changed\"");
    let sql = diagnosis.about("watch orders")["sql"].as_str().unwrap_or_default();
    let text = output(&patient.dir.join("tidings.toml"), &patient.dir.join("data"), &[]).await;
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(sql.lines().all(|line| text.contains(line)), "{text}");
    server.sql(sql);
    let diagnosis = patient.see().await;
    assert!(diagnosis.ok, "{:#?}", diagnosis.findings);
    diagnosis.says("watch orders", "ok", "shop.orders has a trigger");

    // What it says is true: a change is told.
    let gateway = Gateway::builder().toml(&watch).serve().await;
    let client = gateway.client().modern().connect().await;
    let filter = serde_json::json!({ "notifications": { "resourceSubscriptions": ["watch://orders"] } });
    let mut listen = client.start("subscriptions/listen", filter);
    listen.next_method("notifications/subscriptions/acknowledged").await;
    server.sql("insert into shop.orders values (1)");
    listen.next_method("notifications/resources/updated").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there_or_a_query_that_fails_is_a_problem() {
    let Some(mut server) = PostgresServer::start() else { return };
    let url = server.url();
    let watch = format!("[watch.orders]\npostgres = {url:?}\nquery = \"select * from nowhere\"\nchannel = \"c\"\n");
    let patient = Patient::new(&watch);
    patient.see().await.says("watch orders", "problem", "relation \"nowhere\" does not exist");
    server.stop();
    patient.see().await.says("watch orders", "problem", "the database can not be reached");
}

#[tokio::test]
async fn each_server_and_watch_is_looked_at_by_itself() {
    let server = Server::builder("one").echo("echo").stdio().await;
    let patient = Patient::new("");
    let file = patient.dir.write("there.txt", "here");
    let toml = format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\n[servers.one]\n{}[servers.gone]\ncommand = \"/nowhere/server\"\nargs = [\"-x\"]\n\
         [watch.here]\nfile = {file:?}\n[watch.later]\nfile = {:?}\n[watch.api]\nhttp = \"http://127.0.0.1:9/\"\n\
         [watch.ci]\nwebhook = \"ci\"\nsecret = \"s\"\n",
        server.toml(),
        patient.dir.join("later/*.txt"),
    );
    patient.dir.write("tidings.toml", toml);
    let diagnosis = patient.see().await;
    assert!(!diagnosis.ok);
    diagnosis.says("configuration", "ok", "2 of 2 servers enabled, 4 watches");
    diagnosis.says("data", "ok", "is made when it is needed");
    diagnosis.says("gateway", "ok", "none is running");
    diagnosis.says("server one", "ok", "ready, 1 tool,");
    diagnosis.says("server gone", "problem", "/nowhere/server");
    assert!(
        diagnosis.about("server gone")["remedy"].as_str().is_some_and(|remedy| remedy.ends_with("/nowhere/server -x"))
    );
    diagnosis.says("watch here", "ok", "can be read");
    diagnosis.says("watch later", "note", "is not there");
    diagnosis.says("watch api", "problem", "can not be reached");
    diagnosis.says("watch ci", "ok", "/hooks/ci");
}

#[tokio::test]
async fn a_running_gateway_is_asked_instead_of_starting_its_servers_again() {
    let server = Server::builder("one").echo("echo").stdio().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    let diagnosis = see(gateway.config(), gateway.data()).await;
    assert!(diagnosis.ok, "{:#?}", diagnosis.findings);
    diagnosis.says("gateway", "ok", "runs and answers at http://127.0.0.1:");
    diagnosis.says("server one", "ok", "ready");
    assert_eq!(server.processes().len(), 1, "nothing was started beside it");
    let elsewhere = TempDir::new();
    let other = elsewhere.write("tidings.toml", "[servers.two]\ncommand = \"two\"\n");
    let diagnosis = see(&other, gateway.data()).await;
    // edges F9
    diagnosis.says("server two", "problem", "command not found");
}

#[tokio::test]
async fn a_broken_configuration_a_taken_port_and_a_useless_data_directory_are_problems() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let patient = Patient::new("");
    let listen = taken.local_addr().expect("an address").to_string();
    patient.dir.write("tidings.toml", format!("[gateway]\nlisten = {listen:?}\n"));
    patient.dir.write("data", "a file");
    let diagnosis = patient.see().await;
    assert!(!diagnosis.ok);
    diagnosis.says("gateway", "problem", "is used by another program");
    diagnosis.says("data", "problem", "is not a directory");
    patient.dir.write("tidings.toml", "[servers.x]\nurl = 5\n[watch.y]\nfil = \"a\"\n");
    let diagnosis = patient.see().await;
    let faults = diagnosis.findings.iter().filter(|finding| finding["about"] == "configuration").count();
    assert!(!diagnosis.ok && faults >= 2, "{:#?}", diagnosis.findings);
    diagnosis.says("configuration", "problem", "tidings.toml:2:");
}

#[tokio::test]
async fn a_key_that_others_can_read_is_a_problem() {
    use std::os::unix::fs::PermissionsExt as _;
    let patient = Patient::new("");
    std::fs::create_dir(patient.dir.join("data")).expect("a directory");
    let token = patient.dir.write("data/admin.token", "secret");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).expect("permissions");
    let diagnosis = patient.see().await;
    assert!(
        !diagnosis.ok
            && diagnosis.findings.iter().any(|f| f["remedy"].as_str().is_some_and(|r| r.starts_with("chmod 600 ")))
    );
}

// cluster: watches
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_is_examined_where_a_replica_may_look_at_it() {
    let watch = |labels: &str| {
        format!(
            "[cluster]\nnats = \"nats://127.0.0.1:9\"\nsecret = \"0123456789abcdef0123456789abcdef\"\nreplica = \"a\"\n{labels}\
             [watch.one]\nfile = \"/nowhere/one.txt\"\nplacement = [\"disk\"]\n"
        )
    };
    let elsewhere = Patient::new(&watch("")).see().await;
    elsewhere.says("watch one", "note", "is looked at by replicas that have \"disk\"");
    let here = Patient::new(&watch("labels = [\"disk\"]\n")).see().await;
    let found = here.about("watch one")["what"].as_str().unwrap_or_default().to_owned();
    assert!(!found.contains("replicas"), "{found}");
}
