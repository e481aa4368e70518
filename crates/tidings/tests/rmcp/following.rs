//! The SDK's client follows resources, in the way of its era.

use rmcp::model::{ServerNotification, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams};
use tidings_testkit::within;

use crate::visit::{ERAS, Era, TRANSPORTS, Visit};

const NOTE: &str = "scripted+memo://note";
const OTHER: &str = "scripted+memo://form";

// S1.1, S1.5, bridging B2
#[tokio::test]
async fn the_sdks_client_of_each_era_is_told_of_what_it_follows() {
    for servers in ERAS {
        for over in TRANSPORTS {
            legacy(Visit::pay(Era::Legacy, over, servers).await).await;
            modern(Visit::pay(Era::Modern, over, servers).await).await;
        }
    }
}

#[allow(deprecated, reason = "the SDK calls the older era so")]
async fn legacy(mut visit: Visit) {
    let peer = visit.client.peer().clone();
    within("the answer", peer.subscribe(SubscribeRequestParams::new(NOTE))).await.expect("an answer");
    within("the answer", peer.subscribe(SubscribeRequestParams::new(OTHER))).await.expect("an answer");
    assert!(visit.scripted.resource_updated("memo://note") > 0);
    assert_eq!(visit.seen.updated().await, NOTE);
    within("the answer", peer.unsubscribe(UnsubscribeRequestParams::new(NOTE))).await.expect("an answer");
    visit.scripted.resource_updated("memo://note");
    assert!(visit.scripted.resource_updated("memo://form") > 0);
    assert_eq!(visit.seen.updated().await, OTHER, "and nothing of the other before");
    visit.leave().await;
}

async fn modern(visit: Visit) {
    let filter = SubscriptionFilter::builder().resource_subscriptions([NOTE, "nobody+memo://none"]).build();
    let mut listen = within("the acknowledgement", visit.client.peer().listen(filter)).await.expect("an answer");
    assert_eq!(listen.acknowledged().resource_subscriptions, Some(vec![NOTE.to_owned()]));
    assert!(visit.scripted.resource_updated("memo://note") > 0);
    match within("an update", listen.next()).await.expect("an answer") {
        Some(ServerNotification::ResourceUpdatedNotification(updated)) => assert_eq!(updated.params.uri, NOTE),
        other => panic!("{other:?}"),
    }
    drop(listen);
    visit.leave().await;
}
