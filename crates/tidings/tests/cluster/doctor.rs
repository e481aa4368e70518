//! `tidings doctor` and the NATS of a cluster.

use serde_json::Value;
use tidings_testkit::{NatsServer, TempDir, within};
use tokio::process::Command;

use crate::{SECRET, counting, replica};

/// What it says of the cluster, from a machine where no gateway runs.
async fn of_cluster(url: &str, secret: &str, more: &str) -> Vec<Value> {
    let dir = TempDir::new();
    let cluster = format!("[cluster]\nnats = {url:?}\nsecret = {secret:?}\nreplica = \"z\"\n{more}");
    dir.write("tidings.toml", format!("[gateway]\nlisten = \"127.0.0.1:0\"\n{cluster}"));
    let mut doctor = Command::new(tidings_testkit::tidings());
    doctor.args(["doctor", "--json", "--config"]).arg(dir.join("tidings.toml")).arg("--data").arg(dir.join("data"));
    let output = within("the doctor", doctor.kill_on_drop(true).output()).await.unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = said["findings"].as_array().unwrap();
    let findings: Vec<_> = findings.iter().filter(|found| found["about"] == "cluster").cloned().collect();
    let is_problem = findings.iter().any(|found| found["level"] == "problem");
    assert_eq!(output.status.success(), said["ok"] == true, "{said:#}");
    assert!(!is_problem || said["ok"] == false, "{said:#}");
    findings
}

fn one(findings: &[Value]) -> (&str, &str, &str) {
    let [found] = findings else { panic!("one finding: {findings:#?}") };
    let text = |key: &str| found[key].as_str().unwrap_or_default();
    (text("level"), text("what"), text("remedy"))
}

// cluster: each trouble of the bus is named with its remedy, and a bus in order with how far it is.
#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_says_what_is_wrong_with_the_bus() {
    let Some(mut nats) = NatsServer::start() else { return };
    let found = of_cluster(&nats.url(), SECRET, "").await;
    let (level, what, _) = one(&found);
    assert!(level == "ok" && what.contains("no replica came yet"), "{found:#?}");

    let files = counting("files").stdio().await;
    let running = replica(&nats, "a", &[("files", &files)]).await;
    running.wait_server("files", "ready", |server| server["state"] == "ready").await;
    let found = of_cluster(&nats.url(), SECRET, "").await;
    let (level, what, _) = one(&found);
    assert!(level == "ok" && what.contains("the log has ") && what.contains("of at most 256 MiB"), "{found:#?}");

    let found = of_cluster(&nats.url(), "another secret of 32 bytes or more", "").await;
    let (level, what, remedy) = one(&found);
    assert!(level == "problem" && what.contains("another secret") && remedy.contains("`secret`"), "{found:#?}");

    let found = of_cluster(&nats.url(), SECRET, "copies = 3\n").await;
    let (level, what, remedy) = one(&found);
    assert!(level == "note" && what.contains("`copies` is 3"), "{found:#?}");
    assert!(remedy.contains("nats stream edit tidings-tidings-log --replicas 3"), "{found:#?}");

    nats.kill();
    let found = of_cluster(&nats.url(), SECRET, "").await;
    let (level, _, remedy) = one(&found);
    assert!(level == "problem" && remedy.contains("start NATS"), "{found:#?}");
}
