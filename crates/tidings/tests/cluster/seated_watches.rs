//! Files, databases and URLs that one replica looks at for all.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, NatsServer, PendingExchange, PostgresServer, TcpCable, TempDir};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::{Fleet, owner_in, replica_with};

const UPDATED: &str = "notifications/resources/updated";
const LIST_CHANGED: &str = "notifications/resources/list_changed";
/// Longer than it takes to hear of a change, to see that there was none.
const QUIET: Duration = Duration::from_millis(1500);

/// Three replicas with these watches, each of which has a seat.
async fn begin(watches: &str, seats: &[&str]) -> Option<Fleet> {
    let nats = NatsServer::start()?;
    let url = nats.url();
    let starting = ["a", "b", "c"].map(|name| replica_with(&url, name, watches, &[]).serve());
    let fleet = Fleet { nats, replicas: futures_util::future::join_all(starting).await };
    for place in 0..3 {
        settled(&fleet, place, 3, seats).await;
    }
    Some(fleet)
}

/// Waits until a replica sees so many others, and whose each seat is.
async fn settled(fleet: &Fleet, place: usize, count: usize, seats: &[&str]) {
    fleet
        .wait(place, "all are there", |cluster| {
            let replicas = cluster["replicas"].as_array().unwrap();
            let connected = replicas.iter().filter(|one| one["state"] == "connected").count();
            connected == count && seats.iter().all(|seat| owner_in(cluster, seat).is_some())
        })
        .await;
}

/// Waits until somebody else has a seat than this replica, which is gone. Gives the places of those that are left.
async fn moved(fleet: &Fleet, left: &[usize], seat: &str, gone: usize) {
    let gone = ["a", "b", "c"][gone];
    for place in left {
        fleet.wait(*place, "another owner", |cluster| owner_in(cluster, seat).is_some_and(|name| name != gone)).await;
    }
}

/// A client that follows a resource, and the list.
struct Follower {
    client: Client,
    _listen: PendingExchange,
}

impl Follower {
    async fn at(gateway: &Gateway, uri: &str) -> Self {
        let client = gateway.client().modern().connect().await;
        let wanted = json!({"notifications": {"resourceSubscriptions": [uri], "resourcesListChanged": true}});
        let mut listen = client.start("subscriptions/listen", wanted);
        listen.next_method("notifications/subscriptions/acknowledged").await;
        Self { client, _listen: listen }
    }

    async fn of(fleet: &Fleet, uri: &str) -> Vec<Self> {
        futures_util::future::join_all(fleet.replicas.iter().map(|gateway| Self::at(gateway, uri))).await
    }

    async fn text(&self, uri: &str) -> String {
        self.client.request("resources/read", json!({ "uri": uri })).await.text()
    }

    fn told(&self) -> usize {
        self.client.count(UPDATED)
    }
}

/// What is read at any of these as soon as one of them was told for the nth time.
async fn told_everywhere(followers: &[&Follower], uri: &str, nth: usize, text: &str) {
    for follower in followers {
        follower.client.wait_for_method(UPDATED, nth).await;
        for other in followers {
            let read = other.text(uri).await;
            assert!(read.contains(text), "{read:?} was read after the notice of {text:?}");
        }
    }
    tokio::time::sleep(QUIET).await;
    for follower in followers {
        assert_eq!(follower.told(), nth, "once each");
    }
}

// cluster: watches
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_is_told_once_at_every_replica_also_when_its_owner_is_killed() {
    let folder = TempDir::new();
    folder.write("one.txt", "1");
    let watch = format!("[watch.notes]\nfile = {:?}\n", folder.join("*.txt"));
    let Some(fleet) = begin(&watch, &["watch.notes"]).await else { return };
    let uri = "watch://notes/one.txt";
    let followers = Follower::of(&fleet, uri).await;
    let all: Vec<&Follower> = followers.iter().collect();
    folder.write("one.txt", "2");
    told_everywhere(&all, uri, 1, "2").await;
    folder.write("two.txt", "new");
    for follower in &followers {
        follower.client.wait_for_method(LIST_CHANGED, 1).await;
        let uris: Vec<Value> = follower.client.list("resources").await.iter().map(|item| item["uri"].clone()).collect();
        assert_eq!(uris, [uri, "watch://notes/two.txt"]);
    }

    // Killed, and nothing changed: a move is no news.
    let first = fleet.owner(0, "watch.notes").await;
    fleet.replicas[first].kill().await;
    let left: Vec<usize> = (0..3).filter(|place| *place != first).collect();
    moved(&fleet, &left, "watch.notes", first).await;
    let both: Vec<&Follower> = left.iter().map(|place| &followers[*place]).collect();
    for follower in &both {
        assert_eq!(follower.text(uri).await, "2");
    }
    tokio::time::sleep(QUIET).await;
    for follower in &both {
        let counts = (follower.told(), follower.client.count(LIST_CHANGED));
        assert_eq!(counts, (1, 1), "the same is no change");
    }
    folder.write("one.txt", "3");
    told_everywhere(&both, uri, 2, "3").await;

    // Killed, and it changes while nobody looks.
    let second = fleet.owner(left[0], "watch.notes").await;
    fleet.replicas[second].kill().await;
    folder.write("one.txt", "4");
    let last: Vec<usize> = left.into_iter().filter(|place| *place != second).collect();
    told_everywhere(&[&followers[last[0]]], uri, 3, "4").await;
}

/// A URL that counts how often it is asked.
struct CountedUrl {
    url: String,
    answer: Arc<Mutex<(u16, String)>>,
    asked: Arc<AtomicUsize>,
}

impl CountedUrl {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/now", listener.local_addr().unwrap());
        let answer = Arc::new(Mutex::new((200, "1".to_owned())));
        let asked = Arc::new(AtomicUsize::new(0));
        let (answers, count) = (Arc::clone(&answer), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answers, count) = (Arc::clone(&answers), Arc::clone(&count));
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = stream.read_u8().await else { return };
                        head.push(byte);
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                    let (status, body) = answers.lock().unwrap().clone();
                    let length = body.len();
                    let text =
                        format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
                    let _ = stream.write_all(text.as_bytes()).await;
                });
            }
        });
        Self { url, answer, asked }
    }

    fn answers(&self, status: u16, body: &str) {
        *self.answer.lock().unwrap() = (status, body.to_owned());
    }
}

// cluster: watches
#[tokio::test(flavor = "multi_thread")]
async fn a_url_is_asked_once_per_interval_for_all_replicas_and_what_fails_is_shown_at_all() {
    let page = CountedUrl::start().await;
    let watch = format!("[watch.page]\nhttp = {:?}\nevery = \"1s\"\n", page.url);
    let Some(fleet) = begin(&watch, &["watch.page"]).await else { return };
    assert_eq!(page.asked.load(Ordering::Relaxed), 0, "nobody follows it");
    let uri = "watch://page";
    let followers = Follower::of(&fleet, uri).await;
    let all: Vec<&Follower> = followers.iter().collect();
    page.answers(200, "2");
    told_everywhere(&all, uri, 1, "2").await;
    let (before, begun) = (page.asked.load(Ordering::Relaxed), tokio::time::Instant::now());
    tokio::time::sleep(Duration::from_secs(6)).await;
    let polls = page.asked.load(Ordering::Relaxed) - before;
    let seconds = begun.elapsed().as_secs_f64();
    // The pause between two differs a little each time.
    assert!(polls >= 2 && polls as f64 <= seconds * 1.3 + 1.0, "{polls} requests in {seconds:.1} s");

    page.answers(500, "");
    for gateway in &fleet.replicas {
        let fails = |server: &Value| {
            let warning = server["warning"].as_str().unwrap_or_default();
            warning.contains("watch.page, at") && warning.contains("does not answer")
        };
        gateway.wait_server("watch", "says that it fails", fails).await;
    }
    let owner = fleet.owner(0, "watch.page").await;
    let said = fleet.replicas[(owner + 1) % 3].command(&["servers"]).await;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains(&format!("watch.page, at replica \"{}\"", ["a", "b", "c"][owner])), "{said}");
    page.answers(200, "2");
    for gateway in &fleet.replicas {
        gateway.wait_server("watch", "goes again", |server| server["warning"].is_null()).await;
    }
    assert!(followers.iter().all(|follower| follower.told() == 1), "a failure is no change");

    fleet.replicas[owner].kill().await;
    page.answers(200, "3");
    let left: Vec<&Follower> = (0..3).filter(|place| *place != owner).map(|place| &followers[place]).collect();
    told_everywhere(&left, uri, 2, "3").await;

    drop(followers);
    tokio::time::sleep(QUIET * 2).await;
    let asked = page.asked.load(Ordering::Relaxed);
    tokio::time::sleep(QUIET * 2).await;
    assert_eq!(page.asked.load(Ordering::Relaxed), asked, "nobody follows it any more");
}

// cluster: watches
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_database_are_listened_for_by_one_replica() {
    let Some(database) = PostgresServer::start() else { return };
    database.sql("create table orders (id int)");
    let insert = |id: usize| {
        database.sql(&format!("insert into orders values ({id}); select pg_notify('orders_changed', '')"));
    };
    let (url, query) = (database.url(), "select max(id) as id from orders");
    let watch = format!("[watch.orders]\npostgres = {url:?}\nquery = {query:?}\nchannel = \"orders_changed\"\n");
    let Some(fleet) = begin(&watch, &["watch.orders"]).await else { return };
    let uri = "watch://orders";
    let followers = Follower::of(&fleet, uri).await;
    let all: Vec<&Follower> = followers.iter().collect();
    insert(7);
    told_everywhere(&all, uri, 1, "{\"id\":7}").await;
    let connected =
        "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()";
    assert_eq!(database.sql(connected).trim(), "1", "one replica listens for all, and nobody reads");

    let owner = fleet.owner(0, "watch.orders").await;
    fleet.replicas[owner].kill().await;
    insert(8);
    let left: Vec<&Follower> = (0..3).filter(|place| *place != owner).map(|place| &followers[place]).collect();
    told_everywhere(&left, uri, 2, "{\"id\":8}").await;
}

// cluster: watches
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_stays_where_its_labels_are_and_who_is_cut_off_hears_of_it_once() {
    let folder = TempDir::new();
    let file = folder.write("one.txt", "1");
    let Some(nats) = NatsServer::start() else { return };
    let cable = TcpCable::start(nats.port()).await;
    let far = format!("nats://127.0.0.1:{}", cable.port());
    let watches = format!(
        "[watch.one]\nfile = {file:?}\nplacement = [\"disk\"]\n[watch.lost]\nfile = {file:?}\nplacement = [\"moon\"]\n"
    );
    let begin = |name: &'static str, url: String, labels: &str| {
        replica_with(&url, name, &format!("{labels}{watches}"), &[]).serve()
    };
    let replicas = vec![begin("a", nats.url(), "labels = [\"disk\"]\n").await, begin("b", far, "").await];
    let fleet = Fleet { nats, replicas };
    for place in 0..2 {
        settled(&fleet, place, 2, &["watch.one"]).await;
        assert_eq!(fleet.owner(place, "watch.one").await, 0);
        let lost = |server: &Value| {
            let warning = server["warning"].as_str().unwrap_or_default();
            warning.contains("watch.lost: no replica has all of its `placement` (\"moon\")")
        };
        fleet.replicas[place].wait_server("watch", "says what nobody looks at", lost).await;
    }
    let uri = "watch://one";
    let (here, there) = (Follower::at(&fleet.replicas[0], uri).await, Follower::at(&fleet.replicas[1], uri).await);
    cable.pull();
    fleet
        .wait(1, "it notices", |cluster| {
            cluster["replicas"].as_array().unwrap().iter().any(|one| one["state"] == "isolated")
        })
        .await;
    std::fs::write(&file, "2").unwrap();
    here.client.wait_for_method(UPDATED, 1).await;
    let refused = there.client.request("resources/read", json!({ "uri": uri })).await;
    assert!(refused.error_code() != 0, "it can not know what is in there");
    assert_eq!(there.client.list("resources").await[0]["uri"], uri, "what it knows of it is still listed");
    assert_eq!(there.told(), 0);
    cable.plug();
    told_everywhere(&[&here, &there], uri, 1, "2").await;

    // Another file is another set of seats.
    let text = std::fs::read_to_string(fleet.replicas[0].config()).unwrap();
    fleet.replicas[0].rewrite_config(&text.replace("[\"moon\"]", "[\"mars\"]"));
    let is_refused = |line: &String| line.contains("the same at all replicas of a cluster");
    fleet.replicas[0].stderr().wait_for("the refusal", is_refused).await;
}

// cluster: watches
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_cut_off_goes_on_for_its_own_and_nobody_is_told_twice() {
    let folder = TempDir::new();
    let file = folder.write("one.txt", "1");
    let Some(nats) = NatsServer::start() else { return };
    let cable = TcpCable::start(nats.port()).await;
    let far = format!("nats://127.0.0.1:{}", cable.port());
    let watch = format!("[watch.one]\nfile = {file:?}\n");
    let begin = |name: &'static str, url: String| replica_with(&url, name, &watch, &[]).serve();
    let mut fleet = Fleet { nats, replicas: vec![begin("a", far).await] };
    settled(&fleet, 0, 1, &["watch.one"]).await;
    fleet.replicas.push(begin("b", fleet.nats.url()).await);
    for place in 0..2 {
        settled(&fleet, place, 2, &["watch.one"]).await;
        assert_eq!(fleet.owner(place, "watch.one").await, 0, "who comes later takes nothing");
    }
    let uri = "watch://one";
    let (cut, there) = (Follower::at(&fleet.replicas[0], uri).await, Follower::at(&fleet.replicas[1], uri).await);
    cable.pull();
    moved(&fleet, &[1], "watch.one", 0).await;
    assert_eq!((there.told(), there.text(uri).await.as_str()), (0, "1"), "a move is no news");
    std::fs::write(&file, "2").unwrap();
    for follower in [&cut, &there] {
        follower.client.wait_for_method(UPDATED, 1).await;
        assert_eq!(follower.text(uri).await, "2");
    }
    cable.plug();
    moved(&fleet, &[0, 1], "watch.one", 0).await;
    for place in 0..2 {
        settled(&fleet, place, 2, &["watch.one"]).await;
    }
    told_everywhere(&[&cut, &there], uri, 1, "2").await;
    std::fs::write(&file, "3").unwrap();
    told_everywhere(&[&cut, &there], uri, 2, "3").await;
}
