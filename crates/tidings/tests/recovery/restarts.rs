//! The restart table, scripted: every status by which a server may refuse a session that it has forgotten.

use super::*;

const UPDATED: &str = "notifications/resources/updated";
/// How servers refuse a session that they do not know, or no longer.
const STATUSES: [u16; 5] = [400, 401, 404, 409, 410];

/// A legacy server over HTTP, and the gateway before it.
struct Scene {
    server: Server,
    gateway: Gateway,
    client: Client,
    runs: Runs,
    gate: Gate,
    same: Content,
    other: Content,
}

impl Scene {
    async fn new(status: u16) -> Self {
        let (runs, gate) = (Runs::default(), Gate::new());
        let (same, other) = (Content::default(), Content::default());
        let server = worker(&runs, &gate).refuses_sessions_with(status);
        let server = server.entry_resource(resource("file:///same", &same));
        let server = server.entry_resource(resource("file:///other", &other)).http().await;
        let gateway = Gateway::builder().quick().server("one", &server).serve().await;
        let client = gateway.client().connect().await;
        let scene = Self { server, gateway, client, runs, gate, same, other };
        assert!(worked(&scene.call("first").await));
        scene
    }

    async fn call(&self, job: &str) -> Exchange {
        self.client.call_tool("work", json!({ "job": job })).await
    }

    async fn restart(&self) {
        self.server.kill().await;
        self.server.revive().await;
    }

    fn finish(&self, status: u16) {
        self.runs.assert_none_ran_twice();
        assert_eq!(self.server.faults(), Vec::<String>::new(), "{status}");
    }
}

// edges A1
#[tokio::test]
async fn a_call_works_soon_after_a_restart_however_the_old_session_is_refused() {
    for status in STATUSES {
        let scene = Scene::new(status).await;
        for round in ["a", "b"] {
            scene.restart().await;
            let took = wait_until_it_works(&scene.gateway, "one", &scene.client, round).await;
            assert!(took < CALL_WORKS, "{status}: {took:?}");
        }
        scene.finish(status);
    }
}

/// The refusal proves that the call was not run: it goes over the next session, and its caller notices nothing.
// edges A1
#[tokio::test]
async fn a_call_that_meets_a_forgotten_session_is_answered_by_the_next_one() {
    for status in STATUSES {
        let scene = Scene::new(status).await;
        for round in 0..3 {
            scene.server.forget_sessions();
            let reply = scene.call(&format!("met {round}")).await;
            assert!(worked(&reply), "{status}: {reply:?}");
        }
        assert_eq!(scene.server.initializes(), 4);
        scene.gateway.wait_server("one", "ready", |status| status["state"] == "ready").await;
        scene.finish(status);
    }
}

/// Whether it ran is not known: its caller is told, and it is not sent again.
// edges A1, invariant 12
#[tokio::test]
async fn a_call_that_runs_while_its_server_dies_fails_alone_and_is_not_repeated() {
    for status in STATUSES {
        let scene = Scene::new(status).await;
        let running =
            scene.client.start("tools/call", json!({"name": "work", "arguments": {"job": "cut", "hold": true}}));
        scene.gate.reached(1).await;
        scene.restart().await;
        let reply = running.finish().await;
        assert_eq!(reply.error_code(), -32603, "{status}");
        let took = wait_until_it_works(&scene.gateway, "one", &scene.client, "after").await;
        assert!(took < CALL_WORKS, "{status}: {took:?}");
        scene.finish(status);
    }
}

/// Nobody calls: the stream on which the server speaks is what tells.
// edges A1
#[tokio::test]
async fn an_idle_follower_hears_what_changed_while_its_server_was_away_and_nothing_else() {
    for status in STATUSES {
        let scene = Scene::new(status).await;
        let follower = scene.gateway.client().modern().connect().await;
        let wanted = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
            "resourceSubscriptions": ["file:///same", "file:///other"]});
        let mut listen = follower.start("subscriptions/listen", json!({ "notifications": wanted }));
        listen.next_method("notifications/subscriptions/acknowledged").await;
        for uri in ["file:///same", "file:///other"] {
            follower.request("resources/read", json!({ "uri": uri })).await.result();
        }
        scene.server.kill().await;
        scene.gateway.wait_server("one", "failing", |status| status["state"] == "failing").await;
        *scene.other.lock().unwrap() = "another".to_owned();
        scene.server.put_tool(Tool::text_tool("new", "new"));
        scene.server.revive().await;
        let back = Instant::now();
        follower.wait_for_method("notifications/tools/list_changed", 1).await;
        follower.wait_for_method(UPDATED, 1).await;
        assert!(back.elapsed() < FOLLOWER_KNOWS, "{status}: {:?}", back.elapsed());
        let mut tools = follower.names("tools").await;
        tools.sort();
        assert_eq!(tools, ["new", "work"]);
        // And it goes on: what is told later is the next thing that is told.
        eventually("a subscription", || (scene.server.resource_updated("file:///same") > 0).then_some(())).await;
        follower.wait_for_method(UPDATED, 2).await;
        let told: Vec<String> = follower
            .received()
            .iter()
            .filter(|r| r.is_notification(UPDATED))
            .map(|r| text_of(&r.param(&["uri"])))
            .collect();
        assert_eq!(told, ["file:///other", "file:///same"], "{status}");
        assert_eq!(follower.count("notifications/tools/list_changed"), 1, "{status}");
        assert_eq!(follower.count("notifications/prompts/list_changed"), 0, "{status}");
        assert_eq!(follower.count("notifications/resources/list_changed"), 0, "{status}");
        assert_eq!(*scene.same.lock().unwrap(), "");
        scene.finish(status);
    }
}

/// A stream that is refused on a good session is no sign of a server that has none.
// edges A1
#[tokio::test]
async fn a_session_that_only_the_stream_finds_forgotten_is_replaced() {
    for status in STATUSES {
        let scene = Scene::new(status).await;
        scene.server.close_get_streams();
        scene.server.forget_sessions();
        let back = Instant::now();
        eventually("a new session", || (scene.server.initializes() == 2).then_some(())).await;
        assert!(back.elapsed() < FOLLOWER_KNOWS, "{status}: {:?}", back.elapsed());
        scene.finish(status);
    }
}

/// A refusal that is about the call itself is its answer, and the session stays.
// edges A1
#[tokio::test]
async fn an_error_that_only_sounds_like_a_lost_session_is_the_answer() {
    let server = Server::builder("one").on_http(|received| {
        (received.method == "tools/call").then(|| ScriptedAnswer::Http {
            status: 400,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"session is a required argument"}}"#
                .replace("ID", received.id.as_ref().map_or("null", |id| id.as_str()))
                .into(),
        })
    });
    let server = server.tool("work", |call| async move { call.ok_text("never") }).http().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    let client = gateway.client().connect().await;
    let reply = client.call_tool("work", json!({})).await;
    assert_eq!(reply.error_code(), -32602, "{reply:?}");
    assert_eq!((server.initializes(), server.count("tools/call")), (1, 1));
}
