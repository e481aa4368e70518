//! Both races of a subscription, with the SDK's client: a change before the server has agreed, and a change while the
//! client leaves.

use std::time::Duration;

use rmcp::model::{ServerNotification, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams};
use serde_json::json;
use tidings_testkit::{eventually, within};

use crate::visit::{ERAS, Era, QUIET, TRANSPORTS, Visit};

const NOTE: &str = "scripted+memo://note";
const OTHER: &str = "scripted+memo://form";

// S1.2, S1.3, S1.7, bridging 17, 18
#[tokio::test]
async fn the_sdks_client_is_told_of_an_early_change_when_it_is_agreed_and_of_a_late_one_not_at_all() {
    for servers in ERAS {
        for over in TRANSPORTS {
            legacy(Visit::pay(Era::Legacy, over, servers).await, servers).await;
            modern(Visit::pay(Era::Modern, over, servers).await, servers).await;
        }
    }
}

/// The server changes the note before it agrees, waits, and agrees.
async fn agree_late(visit: &Visit, servers: Era, held: usize) {
    let agree = &visit.doormen[0].agree;
    agree.reached(held).await;
    if servers == Era::Legacy {
        let params = json!({ "uri": "memo://note" }).to_string();
        let method = "notifications/resources/updated";
        visit.scripted.notify_raw(tidings_wire::notification(method, Some(params.as_bytes())));
    }
    // Longer than the quiet window, so that it is ready to be told.
    tokio::time::sleep(QUIET + Duration::from_millis(200)).await;
    assert!(visit.seen.no_more_updates(), "told before the server agreed");
    agree.open();
    if servers == Era::Modern {
        // The first word of a modern server on a stream is that it agrees; the change comes right behind it.
        eventually("an open stream", || (visit.scripted.resource_updated("memo://note") > 0).then_some(())).await;
    }
}

#[allow(deprecated, reason = "the SDK calls the older era so")]
async fn legacy(mut visit: Visit, servers: Era) {
    let peer = visit.client.peer().clone();
    let agree = visit.doormen[0].agree.clone();
    agree.close();
    let held = agree.arrived() + 1;
    let asked = peer.subscribe(SubscribeRequestParams::new(NOTE));
    let (answer, ()) = tokio::join!(within("the answer", asked), agree_late(&visit, servers, held));
    answer.expect("an answer");
    assert_eq!(visit.seen.updated().await, NOTE);
    within("the answer", peer.subscribe(SubscribeRequestParams::new(OTHER))).await.expect("an answer");
    assert!(visit.scripted.resource_updated("memo://note") > 0);
    within("the answer", peer.unsubscribe(UnsubscribeRequestParams::new(NOTE))).await.expect("an answer");
    assert!(visit.scripted.resource_updated("memo://form") > 0);
    assert_eq!(visit.seen.updated().await, OTHER, "and nothing of what it left");
    visit.leave().await;
}

async fn modern(visit: Visit, servers: Era) {
    let agree = visit.doormen[0].agree.clone();
    agree.close();
    let held = agree.arrived() + 1;
    let filter = |uri: &str| SubscriptionFilter::builder().resource_subscriptions([uri]).build();
    let asked = visit.client.peer().listen(filter(NOTE));
    let (answer, ()) = tokio::join!(within("the acknowledgement", asked), agree_late(&visit, servers, held));
    let mut listen = answer.expect("an acknowledgement");
    assert_eq!(listen.acknowledged().resource_subscriptions, Some(vec![NOTE.to_owned()]));
    assert_eq!(updated(within("an update", listen.next()).await.expect("an answer")), NOTE);
    let other = within("the acknowledgement", visit.client.peer().listen(filter(OTHER))).await;
    let mut other = other.expect("an acknowledgement");
    assert!(visit.scripted.resource_updated("memo://note") > 0);
    drop(listen);
    assert!(visit.scripted.resource_updated("memo://form") > 0);
    assert_eq!(updated(within("an update", other.next()).await.expect("an answer")), OTHER);
    assert!(visit.seen.no_more_updates(), "and nothing of what it left");
    drop(other);
    visit.leave().await;
}

fn updated(told: Option<ServerNotification>) -> String {
    match told {
        Some(ServerNotification::ResourceUpdatedNotification(updated)) => updated.params.uri,
        other => panic!("{other:?}"),
    }
}
