//! Connections that break while a call runs.

use super::*;

// bridging 33: also where nothing of the answer has come yet, so that nobody can come back for it.
#[tokio::test]
async fn a_legacy_call_without_an_answer_so_far_goes_on_when_its_connection_breaks() {
    let gate = Gate::new();
    for revision in LEGACY {
        gate.close();
        let server = script(&gate).stdio().await;
        let gateway = Gateway::builder().server("alpha", &server).serve().await;
        let client = gateway.client().revision(revision).connect().await;
        client.call_tool("echo", json!({})).await.result();
        wait_connections(&gateway, 0).await;
        let running = client.start("tools/call", json!({"name": "slow"}));
        server.wait_for(|r| r.method == "tools/call" && r.value()["params"]["name"] == "slow").await;
        wait_connections(&gateway, 1).await;
        drop(running);
        wait_connections(&gateway, 0).await;
        client.call_tool("echo", json!({})).await.result();
        assert_eq!(server.count("notifications/cancelled"), 0, "{revision}");
        gate.open();
        let (_, status) = gateway.get_as_admin("/api/v1/status").await;
        assert!(status.contains("requests_in_flight"), "{status}");
        within("the end of the call", async {
            while !gateway.get_as_admin("/api/v1/status").await.1.replace(' ', "").contains("\"requests_in_flight\":0")
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        assert_eq!(server.count("notifications/cancelled"), 0, "{revision}: it ran to its end");
    }
}
