//! Data sources are followed like everything else: the server in the process is a modern one.

use tidings_testkit::*;

use crate::*;

// S1.1, S1.5, S1.6
#[tokio::test]
async fn a_watched_file_is_followed_by_clients_of_both_eras() {
    let dir = TempDir::new();
    let (file, other) = (dir.write("settings.json", "1"), dir.write("other.json", "1"));
    let watches = format!("[watch.settings]\nfile = {file:?}\n[watch.other]\nfile = {other:?}\n");
    let server = three().stdio().await;
    let gateway = quick().server("one", &server).toml(&watches).serve().await;
    let uris = ["watch://settings", "one+file:///a"];
    for client in [gateway.client(), gateway.stdio(), gateway.client().modern(), gateway.stdio().modern()] {
        let follower = Follower::of(client, &uris).await;
        dir.write("other.json", "2");
        dir.write("settings.json", "2");
        assert_eq!(follower.wait_nth(1).await, ["watch://settings"]);
        update(&server, "file:///a");
        assert_eq!(follower.wait("one+file:///a").await.last().unwrap(), "one+file:///a");
        dir.write("settings.json", "3");
        let told = follower.wait_nth(follower.told().len() + 1).await;
        assert_eq!(told.last().unwrap(), "watch://settings");
        assert!(!told.iter().any(|uri| uri == "watch://other"), "{told:?}");
        dir.write("settings.json", "1");
        follower.wait_nth(told.len() + 1).await;
    }
}

// S1.4: each source may have windows of its own.
#[tokio::test]
async fn a_watch_is_told_of_by_its_own_pace() {
    let dir = TempDir::new();
    let file = dir.write("slow.txt", "1");
    let watch = format!("[watch.slow]\nfile = {file:?}\nquiet = \"700ms\"\nmax_wait = \"5s\"\n");
    let gateway = quick().toml(&watch).serve().await;
    let follower = Follower::of(gateway.client(), &["watch://slow"]).await;
    for text in ["2", "3", "4"] {
        dir.write("slow.txt", text);
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    assert_eq!(follower.told(), Vec::<String>::new(), "it was never quiet for so long");
    assert_eq!(follower.wait_nth(1).await, ["watch://slow"]);
}
