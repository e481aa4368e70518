//! What each client was told, and whether it listed again.

use serde_json::{Value, json};
use tidings_testkit::*;

use crate::{Feed, add, full, get, quick};

async fn state_of(gateway: &Gateway, kind: &str) -> Value {
    let (status, found) = get(gateway, "/clients").await;
    assert_eq!(status, 200);
    let all = found["clients"].as_array().unwrap();
    all.iter().find(|client| client["kind"] == kind).cloned().unwrap_or_else(|| panic!("{kind}: {found}"))
}

// page clients
#[tokio::test]
async fn a_client_that_was_told_is_waited_for_until_it_lists_again() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    for modern in [false, true] {
        let kind = if modern { "listen" } else { "session" };
        let builder = gateway.client();
        let client = if modern { builder.modern() } else { builder }.connect().await;
        let mut listen = None;
        if modern {
            let mut pending =
                client.start("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
            pending.next_method("notifications/subscriptions/acknowledged").await;
            listen = Some(pending);
        } else {
            listen.replace(client.open_get().await);
            client.wait_for_method("notifications/tools/list_changed", 1).await;
        }
        client.names("tools").await;
        let before = state_of(&gateway, kind).await;
        assert_eq!((&before["state"], &before["notices"]), (&json!("heard"), &json!(0)), "{before}");
        let heard = client.count("notifications/tools/list_changed");
        add(&server, &format!("for_{modern}"));
        client.wait_for_method("notifications/tools/list_changed", heard + 1).await;
        let told = state_of(&gateway, kind).await;
        assert_eq!((&told["state"], &told["lists"][0]["outdated"]), (&json!("waiting"), &json!(true)), "{told}");
        client.names("prompts").await;
        assert_eq!(state_of(&gateway, kind).await["state"], "waiting", "it listed something else");
        client.names("tools").await;
        assert_eq!(state_of(&gateway, kind).await["state"], "heard");
        let (_, ledger) = get(&gateway, &format!("/clients/{}/ledger", told["id"])).await;
        let events: Vec<&str> =
            ledger["events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(events, ["listed", "listed", "told", "listed"], "the newest first: {ledger}");
        drop(listen);
    }
}

// page clients
#[tokio::test]
async fn a_change_knows_who_was_told_and_who_waits() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let listening = gateway.client().connect().await;
    let deaf = gateway.client().connect().await;
    let _heard = listening.open_get().await;
    listening.wait_for_method("notifications/tools/list_changed", 1).await;
    let heard = listening.count("notifications/tools/list_changed");
    let mut feed = Feed::all(&gateway).await;
    add(&server, "new");
    feed.next().await;
    listening.wait_for_method("notifications/tools/list_changed", heard + 1).await;
    let (_, change) = get(&gateway, "/changes?kind=tools&name=new").await;
    let change = change["changes"][0].clone();
    let path = format!("/changes/{}", change["seq"]);
    assert_eq!(get(&gateway, &path).await.1, change);
    let (_, known) = get(&gateway, &format!("{path}/deliveries")).await;
    let counts = ["owed", "told", "waiting", "left", "spared"].map(|key| known[key].as_u64().unwrap());
    assert_eq!(counts, [2, 1, 1, 0, 0], "{known}");
    assert_eq!(known["clients"].as_array().unwrap().len(), 1, "{known}");
    assert_eq!(known["commit"], change["commit"]);
    // It says so when it hears of it.
    let _late = deaf.open_get().await;
    deaf.wait_for_method("notifications/tools/list_changed", 1).await;
    let (_, known) = get(&gateway, &format!("{path}/deliveries")).await;
    assert_eq!((&known["told"], &known["waiting"]), (&json!(2), &json!(0)), "{known}");
    for (path, status) in [
        ("/changes/999/deliveries", 404),
        ("/clients/999", 404),
        ("/clients/999/ledger", 404),
        ("/clients?state=x", 400),
    ] {
        assert_eq!(get(&gateway, path).await.0, status, "{path}");
    }
}

// page feed
#[tokio::test]
async fn changes_are_filtered_by_what_they_are() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let mut feed = Feed::all(&gateway).await;
    for name in ["first", "second", "third"] {
        add(&server, name);
        feed.next().await;
    }
    let numbers = async |query: &str| -> Vec<u64> {
        let (status, found) = get(&gateway, &format!("/changes?{query}")).await;
        assert_eq!(status, 200, "{found}");
        found["changes"].as_array().unwrap().iter().map(|change| change["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers("q=SECOND").await, [2]);
    assert_eq!(numbers("severity=quiet").await, [1, 2, 3]);
    assert_eq!(numbers("severity=quiet&limit=2").await, [2, 3], "the newest");
    assert_eq!(numbers("severity=quiet&before=3&limit=1").await, [2]);
    assert_eq!(numbers("server=one&kind=tools&since=1").await, [2, 3]);
    assert_eq!(numbers("before=3&limit=1").await, [2]);
    assert!(numbers("severity=suspect").await.is_empty() && numbers("kind=prompts").await.is_empty());
    for wrong in ["severity=loud", "before=x"] {
        assert_eq!(get(&gateway, &format!("/changes?{wrong}")).await.0, 400, "{wrong}");
    }
}
