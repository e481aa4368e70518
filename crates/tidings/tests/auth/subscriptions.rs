//! Following resources.

use serde_json::json;
use tidings_testkit::Server;

use crate::{both_eras, error_about, red_and_blue, with_token};

const UPDATED: &str = "notifications/resources/updated";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const RED: &str = "red+file:///r";
const BLUE: &str = "blue+file:///r";

fn was_asked(server: &Server) -> bool {
    let of_resources =
        |r: &tidings_testkit::ReceivedMessage| r.param(&["notifications", "resourceSubscriptions"]).is_array();
    server.received().iter().any(|r| r.method == "resources/subscribe" || of_resources(r))
}

// issue 6.8
#[tokio::test]
async fn a_resource_that_can_not_be_seen_can_not_be_followed() {
    let (red, blue, gateway) = red_and_blue().await;
    let [legacy, modern] = both_eras(&gateway, "red").await;
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let hidden = legacy.request(method, json!({ "uri": BLUE })).await;
        let unknown = legacy.request(method, json!({"uri": "none+file:///r"})).await;
        assert_eq!(error_about(&hidden, BLUE), error_about(&unknown, "none+file:///r"), "{method}");
    }
    assert_eq!(legacy.request("resources/subscribe", json!({ "uri": RED })).await.result(), json!({}));
    let _stream = legacy.open_get().await;
    let uris = json!({"notifications": {"resourceSubscriptions": [BLUE, RED, "none+file:///r"]}});
    let mut listen = modern.start("subscriptions/listen", uris);
    let acknowledged = listen.next_method(ACKNOWLEDGED).await;
    assert_eq!(acknowledged.params()["notifications"], json!({"resourceSubscriptions": [RED]}));
    assert!(was_asked(&red) && !was_asked(&blue));

    // Somebody else follows the other one: of it these two hear nothing.
    let owner = with_token(gateway.client().modern(), "blue").connect().await;
    let mut owned = owner.start("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [BLUE]}}));
    owned.next_method(ACKNOWLEDGED).await;
    assert!(blue.resource_updated("file:///r") > 0);
    assert_eq!(owned.next_method(UPDATED).await.params()["uri"], BLUE);
    assert!(red.resource_updated("file:///r") > 0);
    for client in [&legacy, &modern] {
        let first = client.wait_for_method(UPDATED, 1).await;
        assert_eq!(first.params()["uri"], RED, "{}", client.revision());
        assert_eq!(client.count(UPDATED), 1);
    }
    assert_eq!(owner.count(UPDATED), 1);
}
