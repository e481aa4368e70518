//! Advertised only where it works.

use tidings_testkit::*;

use crate::*;

async fn advertised(gateway: &Gateway) -> [Value; 2] {
    let legacy = gateway.client().connect().await.initialize_result();
    let modern = gateway.client().modern().connect().await.request("server/discover", json!({})).await.result();
    [legacy, modern].map(|result| result["capabilities"]["resources"]["subscribe"].clone())
}

// S1.2; architecture invariant 11
#[tokio::test]
async fn following_resources_is_advertised_when_some_server_can_be_followed() {
    let mute = || three().capabilities(json!({"resources": {}}));
    for (server, offers) in [
        (three().stdio().await, true),
        (three().modern_only().http().await, true),
        (mute().http().await, false),
        (mute().modern_only().stdio().await, false),
    ] {
        let gateway = Gateway::builder().server("one", &server).serve().await;
        let expected = if offers { json!(true) } else { Value::Null };
        assert_eq!(advertised(&gateway).await, [expected.clone(), expected], "alone");
    }
    let server = mute().http().await;
    let toml = format!("[servers.one]\n{}poll_interval = \"1s\"\n", server.toml());
    let gateway = Gateway::builder().toml(&toml).serve().await;
    assert_eq!(advertised(&gateway).await, [json!(true), json!(true)], "polled");
    let gateway = Gateway::builder().server("one", &server).server("two", &server).serve().await;
    assert_eq!(advertised(&gateway).await, [json!(true), Value::Null], "who is frozen at the start, and who is not");
}
