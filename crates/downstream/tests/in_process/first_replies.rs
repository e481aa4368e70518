//! First replies that take longer than a request may be silent.

use std::time::Instant;

use serde_json::json;
use tidings_testkit::{Client, Gate, ScriptedAnswer};

use super::*;

/// Fifteen seconds in the life of a gateway.
const SILENCE: Duration = Duration::from_millis(300);

/// What is asked of a server for a request is asked once, however long the request is silent, and its stream is open meanwhile.
// edges C5
#[tokio::test(flavor = "multi_thread")]
async fn a_first_reply_that_takes_long_is_begun_once() {
    for modern in [false, true] {
        let (agreeing, working) = (Gate::new(), Gate::new());
        let (agreed, worked) = (agreeing.clone(), working.clone());
        let server = Server::builder("slow")
            .capabilities(json!({"tools": {}, "resources": {"subscribe": true}}))
            .resource("memo:///note", "text")
            .on_raw("resources/subscribe", move |_| {
                let agreed = agreed.clone();
                async move {
                    agreed.wait().await;
                    ScriptedAnswer::Result("{}".into())
                }
            })
            .tool("work", move |call| {
                let worked = worked.clone();
                async move {
                    worked.wait().await;
                    call.ok_text("done")
                }
            })
            .http()
            .await;
        let options = EndpointOptions { silence: SILENCE, ..EndpointOptions::default() };
        let gateway = Serving::start(vec![plan("slow", at_url(&server))], options).await;
        let client = Client::http(&gateway.url);
        let client = if modern { client.modern() } else { client }.connect().await;
        let call = ("tools/call", json!({"name": "slow__work", "arguments": {}}), &working);
        let subscribe = ("resources/subscribe", json!({"uri": "slow+memo:///note"}), &agreeing);
        let requests = if modern { vec![call] } else { vec![call, subscribe] };
        for (method, params, gate) in requests {
            let begun = Instant::now();
            let mut request = client.start(method, params);
            gate.reached(1).await;
            assert_eq!(request.status().await, 200, "the stream opens");
            assert!(begun.elapsed() >= SILENCE, "{method}: it was no silence");
            // Twice as long as it took to open: whoever begins again has done so by now.
            tokio::time::sleep(2 * SILENCE).await;
            gate.open();
            let answered = request.finish().await;
            assert!(answered.result().is_object(), "{method}: {answered:?}");
            assert_eq!(server.count(method), 1, "modern: {modern}, {method}");
        }
        assert_eq!(server.count("resources/unsubscribe"), 0);
        assert_eq!(server.count("notifications/cancelled"), 0);
        gateway.end().await;
    }
}
