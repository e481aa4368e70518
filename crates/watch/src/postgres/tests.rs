//! Against a real server, which the test starts.

use serde_json::json;
use tidings_testkit::{PostgresServer, eventually};

use super::examine::{ExaminedTable, TriggerState, examine};
use super::*;
use crate::probe::{OpenProbeListen, ProbeLink};

const URI: &str = "watch://orders";
const QUERY: &str = "select * from orders order by id desc limit 20 -- the newest";

/// A server with a table that notifies, and a role that may only look.
fn shop() -> Option<PostgresServer> {
    let server = PostgresServer::start()?;
    server.sql("create table orders (id int primary key, item text)");
    server.sql("create role app login");
    server.sql("grant select on orders to app");
    server.sql(&trigger_sql("public", "orders", "Orders Changed"));
    Some(server)
}

fn watch(server: &PostgresServer, query: &str) -> PostgresSource {
    let about = AboutResource { id: "orders".to_owned(), ..AboutResource::default() };
    let (url, channel) = (server.url_of("app"), "Orders Changed".to_owned());
    PostgresSource::new(about, PostgresWatch { url, query: query.to_owned(), channel }).unwrap()
}

/// Waits until the remark about trouble was made, or taken back.
async fn until_remark(probe: &ProbeLink, heard: &mut OpenProbeListen, there: bool) {
    loop {
        let list = probe.ask("resources/list", json!({})).await;
        if list["result"]["resources"][0]["description"].is_string() == there {
            return;
        }
        heard.until("list").await;
    }
}

// S1.6
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_read_as_json_and_told_of_when_they_differ() {
    let Some(server) = shop() else { return };
    let probe = ProbeLink::of(watch(&server, QUERY));
    assert_eq!(probe.text(URI).await.unwrap(), "[]");
    let mut heard = probe.listen(&[URI], true).await;
    server.sql("insert into orders values (1, 'tea'), (2, 'milk \"and\" sugar')");
    assert_eq!(heard.next().await, URI);
    let rows = "[\n{\"id\":2,\"item\":\"milk \\\"and\\\" sugar\"},\n{\"id\":1,\"item\":\"tea\"}\n]";
    assert_eq!(probe.text(URI).await.unwrap(), rows);
    server.sql("select pg_notify('Orders Changed', '')");
    server.sql("update orders set item = item");
    server.sql("select pg_notify('orders changed', '')");
    heard.nothing().await;
    server.sql("truncate orders");
    assert_eq!(heard.next().await, URI);
    let list = probe.ask("resources/list", json!({})).await;
    let item = &list["result"]["resources"][0];
    assert_eq!((item["mimeType"].as_str(), item["size"].as_u64()), (Some("application/json"), Some(2)));
    assert!(item["annotations"]["lastModified"].is_string());
}

// S1.1
#[tokio::test(flavor = "multi_thread")]
async fn there_is_one_connection_while_it_is_followed_and_none_otherwise() {
    let Some(server) = shop() else { return };
    let probe = ProbeLink::of(watch(&server, QUERY));
    let connections = || server.sql("select count(*) from pg_stat_activity where application_name = 'tidings'");
    let (one, two) = (probe.listen(&[URI], true).await, probe.listen(&[URI], false).await);
    assert_eq!(connections(), "1");
    drop((one, two));
    eventually("the end of the connection", || (connections() == "0").then_some(())).await;
}

// S1.8
#[tokio::test(flavor = "multi_thread")]
async fn what_changed_while_the_listening_connection_was_gone_is_told() {
    let Some(server) = shop() else { return };
    let probe = ProbeLink::of(watch(&server, QUERY));
    let mut heard = probe.listen(&[URI], true).await;
    server.sql("alter role app nologin");
    server.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'tidings'");
    until_remark(&probe, &mut heard, true).await;
    assert!(probe.text(URI).await.unwrap_err().contains("not permitted to log in"));
    server.sql("insert into orders values (1, 'unheard')");
    server.sql("alter role app login");
    heard.until(URI).await;
    server.sql("insert into orders values (2, 'heard')");
    heard.until(URI).await;
}

// S1.8
#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_only_a_difference_is_told() {
    let Some(mut server) = shop() else { return };
    let probe = ProbeLink::of(watch(&server, QUERY));
    let mut heard = probe.listen(&[URI], true).await;
    server.stop();
    until_remark(&probe, &mut heard, true).await;
    server.start_again();
    until_remark(&probe, &mut heard, false).await;
    heard.nothing().await;
    server.stop();
    until_remark(&probe, &mut heard, true).await;
    server.sql_offline("insert into orders values (1, 'in between')");
    server.start_again();
    heard.until(URI).await;
    assert_eq!(probe.text(URI).await.unwrap(), "[\n{\"id\":1,\"item\":\"in between\"}\n]");
}

// S1.8
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_down_at_first_is_told_of_when_it_is_up() {
    let Some(mut server) = shop() else { return };
    server.stop();
    let probe = ProbeLink::of(watch(&server, QUERY));
    let mut heard = probe.listen(&[URI], false).await;
    assert_eq!(heard.acknowledged, json!({ "resourceSubscriptions": [URI] }));
    server.start_again();
    heard.until(URI).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_can_only_look_and_only_within_limits() {
    let Some(server) = shop() else { return };
    server.sql("grant all on orders to app");
    server.sql("create function sneak() returns int language sql as 'insert into orders values (9) returning id'");
    let refused = async |query: &str| {
        let mut watch = watch(&server, query);
        watch.limits = rows::RowLimits { time: Duration::from_millis(200), rows: 5, bytes: 200 };
        ProbeLink::of(watch).text(URI).await.unwrap_err()
    };
    let table = [
        ("select sneak()", "read-only transaction"),
        ("delete from orders returning *", "syntax error"),
        ("select 1) x; drop table orders; select 1 from (select 1", "multiple commands"),
        ("select pg_sleep(60)", "statement timeout"),
        ("select generate_series(1, 6)", "more than 5 rows"),
        ("select repeat('x', 300)", "more than 200 bytes"),
        ("select * from nowhere", "does not exist"),
    ];
    for (query, reason) in table {
        let error = refused(query).await;
        assert!(error.contains(reason), "{query}: {error}");
    }
    assert_eq!(server.sql("select count(*) from orders"), "0");
}

/// A certificate for localhost, signed by itself; `false` when it can not be made.
fn certificate(folder: &std::path::Path) -> bool {
    let request = "[req]\ndistinguished_name = dn\nx509_extensions = ext\nprompt = no\n[dn]\nCN = localhost\n\
                   [ext]\nsubjectAltName = DNS:localhost\nbasicConstraints = critical, CA:FALSE\n";
    std::fs::write(folder.join("request.cnf"), request).unwrap();
    let mut openssl = std::process::Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-config", "request.cnf"]);
    openssl.args(["-keyout", "server.key", "-out", "server.crt"]).current_dir(folder);
    openssl.output().is_ok_and(|output| output.status.success())
}

// S1.6
#[tokio::test(flavor = "multi_thread")]
async fn connections_are_encrypted_and_only_to_whom_the_certificate_names() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let keep = tidings_testkit::TempDir::new();
    if !certificate(keep.path()) {
        return eprintln!("\n*** SKIPPED: this test needs openssl; install it with: apt-get install openssl ***\n");
    }
    let copy = |data: &std::path::Path| {
        for name in ["server.crt", "server.key"] {
            std::fs::copy(keep.join(name), data.join(name)).unwrap();
        }
    };
    let settings = ["ssl=on", "listen_addresses=127.0.0.1", &format!("port={free}")];
    let Some(_server) = PostgresServer::start_with(&settings, copy) else { return };
    let read = async |host: &str, more: &str| {
        let about = AboutResource { id: "orders".to_owned(), ..AboutResource::default() };
        let url = format!("postgresql://tidings@{host}:{free}/postgres?{more}");
        let query = "select ssl from pg_stat_ssl where pid = pg_backend_pid()".to_owned();
        ProbeLink::of(PostgresSource::new(about, PostgresWatch { url, query, channel: "c".to_owned() }).unwrap())
            .text(URI)
            .await
    };
    let trusted = format!("sslmode=verify-full&sslrootcert={}", keep.join("server.crt").display());
    assert_eq!(read("localhost", &trusted).await.unwrap(), "[\n{\"ssl\":true}\n]");
    assert_eq!(read("localhost", "").await.unwrap(), "[\n{\"ssl\":false}\n]", "on this machine nobody listens");
    for (host, more) in [("127.0.0.1", trusted.as_str()), ("localhost", "sslmode=require")] {
        let error = read(host, more).await.unwrap_err();
        assert!(error.contains("certificate"), "{host} {more}: {error}");
    }
    let missing = read("localhost", "sslmode=require&sslrootcert=/nowhere").await.unwrap_err();
    assert_eq!(missing, "/nowhere holds no certificate");
}

// S1.6
#[tokio::test(flavor = "multi_thread")]
async fn an_examination_finds_the_tables_of_a_query_and_whether_they_tell() {
    let Some(server) = shop() else { return };
    server.sql("create table items (name text)");
    server.sql("create table days (day date) partition by range (day)");
    server.sql("create table day_one partition of days for values from ('2026-01-01') to ('2026-01-02')");
    server.sql("create view named as select o.id, i.name from orders o join items i on i.name = o.item");
    server.sql("create materialized view kept as select 1 as one");
    let look = async |query: &str| {
        let (url, channel) = (server.url(), "Orders Changed".to_owned());
        let found = examine(PostgresWatch { url, query: query.to_owned(), channel }).await;
        found.map(|tables| tables.into_iter().map(|t| (t.table, t.trigger)).collect::<Vec<_>>())
    };
    let table = |name: &str, state: TriggerState| (format!("public.{name}"), state);
    use TriggerState::{Disabled, Impossible, Installed, Missing, Partial};
    let through_a_view = vec![table("items", Missing), table("orders", Installed)];
    assert_eq!(look("select * from named -- a view").await.unwrap(), through_a_view);
    assert_eq!(look("select * from days").await.unwrap(), [table("days", Missing)]);
    assert_eq!(look("select * from kept;").await.unwrap(), [table("kept", Impossible("a materialized view"))]);
    let (url, query, channel) = (server.url(), "select * from items".to_owned(), "Orders Changed".to_owned());
    let examined = examine(PostgresWatch { url, query, channel }).await.unwrap();
    let [ExaminedTable { sql, .. }] = &examined[..] else { panic!("{examined:?}") };
    server.sql(sql);
    assert_eq!(look("select * from items").await.unwrap(), [table("items", Installed)]);
    server.sql("alter table items disable trigger all");
    assert_eq!(look("select * from items").await.unwrap(), [table("items", Disabled)]);
    server.sql("create function given() returns trigger language plpgsql as 'begin perform pg_notify(tg_argv[0], null); return null; end'");
    server.sql("create trigger told after insert on items execute function given('Orders Changed')");
    let partly = Partial(vec!["UPDATE", "DELETE", "TRUNCATE"]);
    assert_eq!(look("select * from items").await.unwrap(), [table("items", partly)]);
    let wrong = look("select * from nowhere").await.unwrap_err();
    assert!(wrong.to_string().contains("nowhere"), "{wrong}");
}
