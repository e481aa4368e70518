//! Real files, real events.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use tidings_testkit::{TempDir, eventually};

use super::*;
use crate::probe::ProbeLink;

mod torture;

pub(super) fn about(id: &str) -> AboutResource {
    AboutResource { id: id.to_owned(), ..AboutResource::default() }
}

fn probe(path: &Path) -> ProbeLink {
    ProbeLink::of(FileSource::new(about("w"), path))
}

/// Replaces a file as editors do.
fn replace(path: &Path, content: &str) {
    let next = path.with_file_name(".next");
    fs::write(&next, content).unwrap();
    fs::rename(&next, path).unwrap();
}

// S1.6
#[tokio::test]
async fn a_file_is_listed_with_type_size_and_date_and_can_be_read() {
    let dir = TempDir::new();
    let file = dir.write("settings.json", "{\"a\":1}");
    let probe = probe(&file);
    let list = probe.ask("resources/list", json!({})).await;
    let item = &list["result"]["resources"][0];
    assert_eq!((item["uri"].as_str(), item["name"].as_str()), (Some("watch://w"), Some("w")));
    assert_eq!((item["mimeType"].as_str(), item["size"].as_u64()), (Some("application/json"), Some(7)));
    let date = item["annotations"]["lastModified"].as_str().unwrap();
    assert!(date.starts_with("20") && date.ends_with('Z'), "{date}");
    assert_eq!(probe.text("watch://w").await.unwrap(), "{\"a\":1}");
    assert_eq!(probe.text("watch://other").await.unwrap_err(), "resource not found");
}

// S1.4
#[test]
fn each_watch_has_its_own_patience() {
    use tidings_engine::{LocalServer as _, Patience};
    let patience = Patience { quiet: Some(Duration::from_millis(250)), max_wait: None };
    let source: std::sync::Arc<dyn WatchedSource> =
        std::sync::Arc::new(FileSource::new(about("w"), Path::new("/nowhere/")));
    let server = crate::WatchServer::new(vec![(source, patience)]);
    assert_eq!((server.patience("watch://w/a"), server.patience("watch://x")), (patience, Patience::default()));
}

#[tokio::test]
async fn what_is_not_text_is_read_as_base64() {
    let dir = TempDir::new();
    let probe = probe(&dir.write("x.bin", [0xff, 0xfe]));
    let answer = probe.ask("resources/read", json!({ "uri": "watch://w" })).await;
    assert_eq!(answer["result"]["contents"][0]["blob"], "//4=");
}

// S1.1, S1.6
#[tokio::test]
async fn a_file_is_watched_only_while_it_is_followed() {
    let dir = TempDir::new();
    let probe = probe(&dir.write("a.txt", "1"));
    let list_only = probe.listen(&[], true).await;
    assert!(!probe.is_watching(), "its list does not change");
    let first = probe.listen(&["watch://w", "watch://unknown"], false).await;
    assert_eq!(first.acknowledged, json!({ "resourceSubscriptions": ["watch://w"] }));
    let second = probe.listen(&["watch://w"], false).await;
    drop(first);
    assert!(probe.is_watching());
    drop((second, list_only));
    assert!(!probe.is_watching());
}

#[tokio::test]
async fn every_way_to_change_a_file_is_told_and_a_touch_is_not() {
    let dir = TempDir::new();
    let file = dir.write("a.txt", "0");
    let probe = probe(&file);
    let mut heard = probe.listen(&["watch://w"], false).await;
    fs::write(&file, "1").unwrap();
    heard.until("watch://w").await;
    replace(&file, "2");
    heard.until("watch://w").await;
    fs::rename(&file, dir.join("b.txt")).unwrap();
    heard.until("watch://w").await;
    assert_eq!(probe.text("watch://w").await.unwrap_err(), "resource not found");
    fs::rename(dir.join("b.txt"), &file).unwrap();
    heard.until("watch://w").await;
    fs::remove_file(&file).unwrap();
    heard.until("watch://w").await;
    fs::write(&file, "3").unwrap();
    heard.until("watch://w").await;
    // Creating and filling it may have been two changes.
    while heard.soon(Duration::from_millis(200)).await.is_some() {}
    fs::File::options().write(true).open(&file).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    replace(&file, "3");
    fs::write(dir.join("neighbour"), "x").unwrap();
    heard.nothing().await;
    assert_eq!(probe.text("watch://w").await.unwrap(), "3");
}

#[tokio::test]
async fn a_file_behind_links_is_followed_when_any_of_them_is_turned() {
    let dir = TempDir::new();
    for version in ["v1", "v2"] {
        fs::create_dir(dir.join(version)).unwrap();
        dir.write(&format!("{version}/settings.json"), version);
    }
    symlink("v1", dir.join("current")).unwrap();
    symlink("current/settings.json", dir.join("settings.json")).unwrap();
    let probe = probe(&dir.join("settings.json"));
    let mut heard = probe.listen(&["watch://w"], false).await;
    symlink("v2", dir.join("next")).unwrap();
    fs::rename(dir.join("next"), dir.join("current")).unwrap();
    heard.until("watch://w").await;
    assert_eq!(probe.text("watch://w").await.unwrap(), "v2");
    // At once: writing in place empties the file first, which may be seen as a change of its own.
    replace(&dir.join("v2/settings.json"), "v2.1");
    heard.until("watch://w").await;
    dir.write("v1/settings.json", "v1.1");
    heard.nothing().await;
}

#[tokio::test]
async fn a_folder_may_appear_later_go_and_come_back() {
    let dir = TempDir::new();
    let folder = dir.join("a/b/c");
    let probe = probe(&folder.join(""));
    let mut heard = probe.listen(&["watch://w/x.txt"], true).await;
    assert!(probe.uris().await.is_empty());
    for round in ["1", "2"] {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("x.txt"), round).unwrap();
        heard.until("watch://w/x.txt").await;
        let list = async { while probe.uris().await != ["watch://w/x.txt"] {} };
        tidings_testkit::within("the list", list).await;
        fs::remove_dir_all(dir.join("a")).unwrap();
        heard.until("watch://w/x.txt").await;
        assert!(probe.uris().await.is_empty());
    }
}

#[tokio::test]
async fn the_list_of_a_folder_is_announced_when_files_come_and_go_only() {
    let dir = TempDir::new();
    dir.write("a.md", "a");
    let probe = probe(dir.path());
    let mut heard = probe.listen(&[], true).await;
    assert!(probe.is_watching());
    dir.write("a.md", "changed");
    dir.write(".hidden", "x");
    heard.nothing().await;
    fs::create_dir(dir.join("sub")).unwrap();
    fs::write(dir.join("sub/b.md"), "b").unwrap();
    heard.until("list").await;
    assert_eq!(probe.uris().await, ["watch://w/a.md", "watch://w/sub/b.md"]);
    fs::rename(dir.join("sub"), dir.join("other")).unwrap();
    heard.until("list").await;
    assert_eq!(probe.uris().await, ["watch://w/a.md", "watch://w/other/b.md"]);
    let templates = probe.ask("resources/templates/list", json!({})).await;
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "watch://w/{+path}");
}

#[tokio::test]
async fn links_in_a_folder_follow_what_they_lead_to() {
    let dir = TempDir::new();
    dir.write("a.txt", "1");
    symlink("a.txt", dir.join("link")).unwrap();
    let probe = probe(dir.path());
    let mut heard = probe.listen(&["watch://w/link"], false).await;
    dir.write("a.txt", "2");
    heard.until("watch://w/link").await;
    assert_eq!(probe.text("watch://w/link").await.unwrap(), "2");
}

#[tokio::test]
async fn without_events_it_is_polled_and_says_so() {
    let dir = TempDir::new();
    let file = dir.write("a.txt", "1");
    let probe = ProbeLink::of(FileSource::polling(about("w"), &file, Duration::from_millis(5)));
    let mut heard = probe.listen(&["watch://w"], true).await;
    heard.until("list").await;
    let list = probe.ask("resources/list", json!({})).await;
    let description = list["result"]["resources"][0]["description"].as_str().unwrap().to_owned();
    assert!(description.contains("looked at every"), "{description}");
    fs::write(&file, "2").unwrap();
    heard.until("watch://w").await;
    fs::remove_file(&file).unwrap();
    heard.until("watch://w").await;
}

#[tokio::test]
async fn a_long_file_is_told_of_without_being_compared() {
    let dir = TempDir::new();
    let long = vec![b'x'; usize::try_from(LONGEST_COMPARED).unwrap() + 1];
    let file = dir.write("a.log", &long);
    let probe = probe(&file);
    let mut heard = probe.listen(&["watch://w"], false).await;
    heard.nothing().await;
    fs::write(&file, [&long[..], b"y"].concat()).unwrap();
    heard.until("watch://w").await;
    assert_eq!(probe.text("watch://w").await.unwrap().len(), long.len() + 1);
}

#[tokio::test]
async fn closing_the_link_ends_the_listen_with_a_result() {
    let dir = TempDir::new();
    let probe = probe(&dir.write("a.txt", "1"));
    let mut heard = probe.listen(&["watch://w"], false).await;
    probe.link.close().await;
    let end = heard.end().await;
    assert_eq!(end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    drop(heard);
    eventually("the end of the watch", || (!probe.is_watching()).then_some(())).await;
}
