//! By which URI a resource is known: to whom it belongs, and by which name its followers are told.

use tidings_testkit::*;

use crate::*;

const WINDOWS: &str = "[notifications]\nresource_quiet = \"20ms\"\nresource_max_wait = \"200ms\"\n";

fn table(name: &str, server: &Server, keys: &str) -> String {
    format!("[servers.{name}]\n{}\n{keys}\n", server.toml())
}

async fn text(client: &Client, uri: &str) -> String {
    client.request("resources/read", json!({ "uri": uri })).await.text()
}

// edges B6
#[tokio::test(flavor = "multi_thread")]
async fn followers_are_told_by_the_acknowledged_name_after_the_prefix_of_a_server_changed() {
    for server in in_all_ways(three).await {
        let other = Server::builder("other").resource("file:///o", "o").stdio().await;
        let head = format!("[gateway]\nnames = \"prefix\"\n{WINDOWS}{}", table("other", &other, ""));
        let gateway = Gateway::builder().toml(&format!("{head}{}", table("one", &server, ""))).serve().await;
        let mut followers = Vec::new();
        for client in all_clients(&gateway).into_iter().take(3) {
            followers.push(Follower::of(client, &["one+file:///a", "one+file:///b"]).await);
        }
        for (keys, now) in [("prefix = \"two\"", "two+file:///a"), ("uris = \"transparent\"", "file:///a")] {
            gateway.rewrite_config(&format!("{head}{}", table("one", &server, keys)));
            let listed = async {
                while !followers[0].client.names("resources").await.contains(&now.to_owned()) {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
            };
            within("the new names", listed).await;
            let told: Vec<usize> = followers.iter().map(|follower| follower.told().len()).collect();
            // A new content, and not only a word of the server: that may still be said over the link that is being replaced.
            server.put_resource(ScriptedEntry::resource("file:///a", now));
            server.resource_updated("file:///a");
            for (follower, told) in followers.iter().zip(told) {
                let all = follower.wait_nth(told + 1).await;
                assert!(all.iter().all(|uri| uri == "one+file:///a" || uri == "one+file:///b"), "{keys}: {all:?}");
            }
        }
        // It can be left by the name that was acknowledged, and followed by the new one.
        let legacy = &followers[0];
        legacy.client.request(UNSUBSCRIBE, json!({"uri": "one+file:///a"})).await.result();
        let told = legacy.told();
        update(&server, "file:///b");
        assert_eq!(legacy.wait_nth(told.len() + 1).await.last().unwrap(), "one+file:///b");
        legacy.client.request(SUBSCRIBE, json!({"uri": "file:///a"})).await.result();
        update(&server, "file:///a");
        legacy.wait("file:///a").await;
        let shown = gateway.command(&["subscriptions"]).await;
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert_eq!(shown.matches("testkit (").count(), 4, "{shown}");
    }
}

// edges B6: removed and added again by another name.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_with_another_prefix_is_told_of_by_the_acknowledged_name() {
    let server = three().http().await;
    let other = Server::builder("other").resource("file:///o", "o").stdio().await;
    let head = format!("[gateway]\nnames = \"prefix\"\n{WINDOWS}{}", table("other", &other, ""));
    let gateway = Gateway::builder().toml(&format!("{head}{}", table("one", &server, ""))).serve().await;
    let follower = Follower::of(gateway.client(), &["one+file:///a"]).await;
    gateway.rewrite_config(&head);
    assert_eq!(follower.wait_nth(1).await, ["one+file:///a"], "told that it is gone");
    gateway.rewrite_config(&format!("{head}{}", table("one", &server, "prefix = \"two\"")));
    let listed = async {
        while !follower.client.names("resources").await.contains(&"two+file:///a".to_owned()) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    within("the new names", listed).await;
    let told = follower.told().len();
    server.put_resource(ScriptedEntry::resource("file:///a", "another content"));
    server.resource_updated("file:///a");
    assert!(follower.wait_nth(told + 1).await.iter().all(|uri| uri == "one+file:///a"));
    follower.client.request(UNSUBSCRIBE, json!({"uri": "one+file:///a"})).await.result();
}

// edges B5; URI mapping with a scheme that looks like a prefix
#[tokio::test(flavor = "multi_thread")]
async fn a_scheme_that_looks_like_the_prefix_of_another_server_stays_with_the_server_that_lists_it() {
    const URI: &str = "git+https://example.org/repo";
    let alone = Server::builder("alone").resource(URI, "of the lone one").resource("file:///x", "x").stdio().await;
    let git = Server::builder("git").resource("https://example.org/other", "of git").stdio().await;
    // Both from the beginning: the list decides.
    for transparent_first in [true, false] {
        let mut tables = [table("alone", &alone, "uris = \"transparent\""), table("git", &git, "")];
        if !transparent_first {
            tables.reverse();
        }
        let gateway = Gateway::builder().toml(&format!("{WINDOWS}{}", tables.concat())).serve().await;
        for client in [gateway.client(), gateway.client().modern()] {
            let follower = Follower::of(client, &[URI, "git+https://example.org/other"]).await;
            assert_eq!(text(&follower.client, URI).await, "of the lone one");
            assert_eq!(text(&follower.client, "git+https://example.org/other").await, "of git");
            update(&alone, URI);
            assert_eq!(follower.wait_nth(1).await, [URI]);
            update(&git, "https://example.org/other");
            assert_eq!(follower.wait_nth(2).await[1], "git+https://example.org/other");
        }
    }
    // The lone server is there, and one called git is added: what the lone one does not list would go to it.
    let gateway = Gateway::builder().toml(&format!("{WINDOWS}{}", table("alone", &alone, ""))).serve().await;
    let client = gateway.client().connect().await;
    let (status, refused) = gateway.api("PUT", "/servers/git", git.keys()).await;
    assert_eq!(status, 409, "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("prefix"), "{refused}");
    assert_eq!(text(&client, URI).await, "of the lone one");
    let (status, added) = gateway.api("PUT", "/servers/vcs", git.keys()).await;
    assert!(status < 300, "{added}");
    assert_eq!(text(&client, URI).await, "of the lone one");
    assert_eq!(text(&client, "vcs+https://example.org/other").await, "of git");
}
