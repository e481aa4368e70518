use futures_util::FutureExt as _;
use tidings_testkit::TempDir;

use super::*;

const DESK: &str = "[[servers]]\nid = \"acme/desk\"\nname = \"Ticket desk\"\ndescription = \"Files tickets of customers.\"\n\
    categories = [\"Work\"]\ntags = [\"helpdesk\"]\nnpm = \"@acme/desk\"\n";

fn query(text: &str) -> EntryQuery {
    EntryQuery { text: text.to_owned(), limit: 20, ..EntryQuery::default() }
}

/// How long the processor has worked for this thread.
fn time_of_this_thread() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().unwrap()
}

async fn found(catalogue: &LocalCatalogue, query: EntryQuery) -> Vec<String> {
    catalogue.search(query).await.unwrap().iter().map(|hit| hit.entry.id.clone()).collect()
}

// S4.5
#[tokio::test]
async fn entries_are_found_by_what_they_do_their_name_and_their_words() {
    let folder = TempDir::new();
    let catalogue = LocalCatalogue::open(Some(&folder.write("servers.toml", DESK)), None).unwrap();
    for (text, first) in [
        ("memory", "modelcontextprotocol/memory"),
        ("sequential-thinking", "modelcontextprotocol/sequential-thinking"),
        ("current time in a timezone", "modelcontextprotocol/time"),
        ("read and write files", "modelcontextprotocol/filesystem"),
        ("helpdesk", "acme/desk"),
        ("customer tickets", "acme/desk"),
        ("acme/desk", "acme/desk"),
    ] {
        assert_eq!(found(&catalogue, query(text)).await.first().map(String::as_str), Some(first), "{text}");
    }
}

// S4.5
#[tokio::test]
async fn filters_narrow_and_limits_cut() {
    let folder = TempDir::new();
    let catalogue = LocalCatalogue::open(Some(&folder.write("servers.toml", DESK)), None).unwrap();
    let all = found(&catalogue, query("time")).await;
    assert!(all.len() >= 2, "{all:?}");
    assert_eq!(found(&catalogue, EntryQuery { limit: 1, ..query("time") }).await, all[..1]);
    let official = EntryQuery { official_only: true, ..query("time container") };
    assert!(!found(&catalogue, official).await.contains(&"docker/time".to_owned()));
    let featured = EntryQuery { featured_only: true, ..query("git repository") };
    assert!(!found(&catalogue, featured).await.contains(&"modelcontextprotocol/git".to_owned()));
    let of_file = EntryQuery { sources: vec!["FILE".into()], ..query("files tickets time") };
    assert_eq!(found(&catalogue, of_file).await, ["acme/desk"]);
    let category = EntryQuery { categories: vec!["work".into()], ..query("files") };
    assert_eq!(found(&catalogue, category).await, ["acme/desk"]);
    let tag = EntryQuery { tags: vec!["Clock".into(), "nothing".into()], ..query("time") };
    assert!(found(&catalogue, tag).await.iter().all(|id| id.ends_with("time")));
    let odd = catalogue.search(EntryQuery { sources: vec!["elsewhere".into()], ..query("a") }).await.unwrap_err();
    assert_eq!(odd.to_string(), "there is no source \"elsewhere\"; there is built-in, file, all");
}

// S4.5
#[tokio::test]
async fn the_file_wins_and_a_refresh_tells_what_changed() {
    let folder = TempDir::new();
    let own = DESK.replace("acme/desk\"\nname", "modelcontextprotocol/time\"\nname");
    let path = folder.write("servers.toml", &own);
    let catalogue = LocalCatalogue::open(Some(&path), None).unwrap();
    let get = async |id: &str| catalogue.get(id.to_owned()).await.unwrap();
    assert_eq!(get("modelcontextprotocol/time").await.unwrap().name, "Ticket desk");

    folder.write("servers.toml", DESK);
    let done = catalogue.refresh(Some("file".into())).await.unwrap();
    assert_eq!((done.len(), done[0].added, done[0].changed, done[0].removed), (1, 1, 0, 1));
    assert_eq!(get("modelcontextprotocol/time").await.unwrap().name, "Time", "the built-in one is there again");
    assert_eq!(get("acme/desk").await.unwrap().description, "Files tickets of customers.");

    folder.write("servers.toml", DESK.replace("customers", "everybody"));
    let done = catalogue.refresh(Some("all".into())).await.unwrap();
    assert_eq!(done.iter().map(|one| one.changed).collect::<Vec<_>>(), [0, 1]);
    let listing = catalogue.list(Some("file".into()), 10).await.unwrap();
    assert_eq!((listing.total, listing.entries[0].description.as_str()), (1, "Files tickets of everybody."));
}

// S4.5
#[tokio::test]
async fn a_file_that_broke_is_reported_and_what_it_said_before_stays() {
    let folder = TempDir::new();
    let path = folder.write("servers.toml", DESK);
    let catalogue = LocalCatalogue::open(Some(&path), None).unwrap();
    folder.write("servers.toml", &(DESK.to_owned() + "tag = []\n"));
    let done = catalogue.refresh(None).await.unwrap();
    let error = done[1].source.error.clone().unwrap();
    assert!(error.contains("servers.toml:8:1: servers[0].tag: unknown key; did you mean \"tags\"?"), "{error}");
    assert_eq!(found(&catalogue, query("helpdesk")).await, ["acme/desk"]);
    assert_eq!(catalogue.sources()[1].error, Some(error));
    folder.write("servers.toml", DESK);
    catalogue.refresh(None).await.unwrap();
    assert_eq!(catalogue.sources()[1].error, None);

    let missing = LocalCatalogue::open(Some(&folder.join("none.json")), None).err().unwrap().to_string();
    assert!(missing.starts_with("there is no file ") && missing.contains("none.json"), "{missing}");
}

// reach 5
#[tokio::test]
async fn nobody_is_held_up_while_many_entries_are_indexed() {
    let folder = TempDir::new();
    let path = folder.write("servers.toml", DESK);
    let catalogue = LocalCatalogue::open(Some(&path), None).unwrap();
    let many: String = (0..4_000)
        .map(|n| {
            DESK.replace("acme/desk", &format!("acme/desk{n}")).replace("tickets", &format!("tickets of house {n}"))
        })
        .collect();
    folder.write("servers.toml", &many);
    // One thread serves all: whoever computes on it is a pause for everybody else. Its own time is looked at, which a busy machine does not change.
    let begun = time_of_this_thread();
    let done = catalogue.refresh(Some("file".into())).await.unwrap();
    let refreshing = time_of_this_thread() - begun;
    assert_eq!((done[0].added, catalogue.get("acme/desk3999".into()).await.unwrap().is_some()), (4_000, true));
    let begun = time_of_this_thread();
    drop(index(&catalogue.state().sources));
    let indexing = time_of_this_thread() - begun;
    assert!(refreshing < indexing / 2, "{refreshing:?} on the thread of all, where indexing takes {indexing:?}");
}

// reach 5
#[test]
fn a_search_holds_up_nobody_who_shares_the_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let catalogue = LocalCatalogue::open(None, None).unwrap();
        let (go, held) = std::sync::mpsc::channel::<()>();
        // The one thread for work that takes its time is busy, so whatever is there at the first look was done on this one.
        let busy = tokio::task::spawn_blocking(move || held.recv());
        let mut search = catalogue.search(query("memory"));
        let mut list = catalogue.list(None, 1);
        assert!((&mut search).now_or_never().is_none(), "a search is done by whoever asks");
        assert!((&mut list).now_or_never().is_none(), "a list is counted by whoever asks");
        go.send(()).unwrap();
        busy.await.unwrap().unwrap();
        assert!(!search.await.unwrap().is_empty());
        assert!(list.await.unwrap().total > 1);
    });
}

// reach 5
#[tokio::test]
async fn who_stops_waiting_for_a_search_leaves_its_turn_to_others() {
    let catalogue = LocalCatalogue::open(None, None).unwrap();
    for _ in 0..10 * LOOKUPS {
        drop((&mut catalogue.search(query("memory"))).now_or_never());
    }
    let hits = tokio::time::timeout(Duration::from_secs(60), catalogue.search(query("memory"))).await;
    assert!(!hits.expect("a turn is free").unwrap().is_empty());
}
