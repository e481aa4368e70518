//! A call that was given up may still be at work in its server: what the server says beside the streams of calls is then
//! nobody's, and above all not somebody else's.

use serde_json::{Value, json};
use tidings_testkit::{
    Client, ClientReply, Gate, Gateway, PendingExchange, ReceivedMessage, Server, ServerBuilder, within,
};

use crate::{auth, quick, with_token};

const LOG: &str = "notifications/message";
const OTHER: &str = "notifications/vendor/news";

/// How a call is given up.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Abandonment {
    Cancelled,
    TimedOut,
    SessionEnded,
    ConnectionDropped,
}

/// `work` answers only when the gate of whoever called lets it, given up or not.
fn hard_working(first: &Gate, second: &Gate) -> ServerBuilder {
    let (first, second) = (first.clone(), second.clone());
    Server::builder("alpha").capabilities(json!({"tools": {}, "logging": {}})).tool("work", move |call| {
        let is_first = call.argument("who") == "first";
        let gate = if is_first { first.clone() } else { second.clone() };
        async move {
            call.open_stream();
            let mut waiting = std::pin::pin!(gate.wait());
            for step in 1.. {
                // Progress keeps a call from timing out.
                if step == 1 || !is_first {
                    call.progress(json!(step));
                }
                let pause = tokio::time::sleep(std::time::Duration::from_millis(100));
                tokio::select! {
                    () = &mut waiting => break,
                    () = pause => {}
                }
            }
            call.ok_text("worked")
        }
    })
}

async fn able(gateway: &Gateway, token: &str) -> Client {
    let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let client = with_token(gateway.client(), token).capabilities(capabilities).connect().await;
    let name = token.to_owned();
    client.on_request(move |request| match request.method.as_str() {
        "elicitation/create" => ClientReply::Result(json!({"action": "accept", "content": {"name": name}})),
        "roots/list" => ClientReply::Result(json!({"roots": [{"uri": format!("file:///{name}")}]})),
        _ => ClientReply::Result(json!({"role": "assistant", "model": name, "content": {"type": "text", "text": ""}})),
    });
    client
}

fn work(client: &Client, who: &str) -> PendingExchange {
    let params = json!({"name": "alpha__work", "arguments": {"who": who}});
    client.call("tools/call").params(params).progress_token("1").start()
}

/// Asks everything beside the streams of calls; what came back: an elicitation, a sampling, the roots.
async fn ask_aside(server: &Server, round: &str) -> [Value; 3] {
    let form =
        json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}});
    let sampling = json!({"messages": [], "maxTokens": 5});
    let asked = [("elicitation/create", form), ("sampling/createMessage", sampling), ("roots/list", json!({}))];
    let mut heard = Vec::new();
    for (method, params) in asked {
        let id = format!("{round} {method}");
        let question = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        assert_eq!(server.ask_raw(question.to_string()), 1);
        let quoted = format!("{id:?}");
        let fits = |r: &ReceivedMessage| r.is_response() && r.id.as_ref().is_some_and(|id| id.as_str() == quoted);
        let reply = server.wait_for(fits).await;
        heard.push(if reply.error().is_null() { reply.result() } else { reply.error()["code"].clone() });
    }
    heard.try_into().expect("three questions")
}

fn refused() -> [Value; 3] {
    [json!({"action": "cancel"}), json!(-32601), json!(-32601)]
}

fn given_by(name: &str) -> [Value; 3] {
    let sampled = json!({"role": "assistant", "model": name, "content": {"type": "text", "text": ""}});
    let roots = json!({"roots": [{"uri": format!("file:///{name}")}]});
    [json!({"action": "accept", "content": {"name": name}}), sampled, roots]
}

/// Everything a client got that was not for its own call.
fn foreign(client: &Client) -> Vec<ReceivedMessage> {
    let is_foreign = |r: &ReceivedMessage| r.is_request() || r.is_notification(LOG) || r.is_notification(OTHER);
    client.received().into_iter().filter(is_foreign).collect()
}

async fn story(abandonment: Abandonment, over_http: bool) {
    let (first, second) = (Gate::new(), Gate::new());
    let script = hard_working(&first, &second);
    let server = if over_http { script.http().await } else { script.stdio().await };
    let other = Server::builder("beta").echo("echo").stdio().await;
    let timeout = if abandonment == Abandonment::TimedOut { "1s" } else { "5m" };
    let gateway = quick(&auth(&[("red", &["*"], false), ("blue", &["*"], false)]))
        .server_with("alpha", &server, &format!("timeout = {timeout:?}"))
        .server("beta", &other)
        .serve()
        .await;
    let (red, blue) = (able(&gateway, "red").await, able(&gateway, "blue").await);
    let (red_stream, blue_stream) = (red.open_get().await, blue.open_get().await);

    // Red's call is given up, and its server goes on.
    let modern = with_token(gateway.client().modern(), "red").connect().await;
    let mut abandoned =
        if abandonment == Abandonment::ConnectionDropped { work(&modern, "first") } else { work(&red, "first") };
    first.reached(1).await;
    // Its server has taken it: over HTTP its stream is open.
    abandoned.next_method("notifications/progress").await;
    match abandonment {
        Abandonment::Cancelled => red.cancel(&abandoned).await,
        Abandonment::TimedOut => {
            assert!(abandoned.finish().await.error()["message"].to_string().contains("did not answer within"))
        }
        Abandonment::SessionEnded => assert_eq!(red.delete().await, 204),
        Abandonment::ConnectionDropped => drop(abandoned),
    }
    server.wait_for_method("notifications/cancelled", 1).await;

    // Blue's is the only one that anybody waits for.
    let waiting = work(&blue, "second");
    second.reached(1).await;
    assert_eq!(ask_aside(&server, "uncertain").await, refused(), "{abandonment:?}, http: {over_http}");
    assert_eq!(server.notify(LOG, json!({"level": "error", "data": "for red's eyes"})), 1);
    assert_eq!(server.notify(OTHER, json!({"about": "red"})), 1);
    assert_eq!(ask_aside(&server, "still uncertain").await, refused(), "{abandonment:?}, http: {over_http}");

    // Red's is over at last: from now on the owner is certain.
    first.open();
    let mut round = 0;
    within("a certain owner", async {
        while ask_aside(&server, &format!("round {round}")).await != given_by("blue") {
            round += 1;
        }
    })
    .await;
    server.notify(LOG, json!({"level": "error", "data": "for blue"}));
    second.open();
    let exchange = waiting.finish().await;
    assert_eq!(exchange.text(), "worked");
    let got: Vec<String> = foreign(&blue).iter().map(|r| r.method.clone()).collect();
    let told = foreign(&blue).iter().filter(|r| r.is_notification(LOG)).map(|r| r.param(&["data"])).collect::<Vec<_>>();
    assert!(!got.contains(&OTHER.to_owned()), "{abandonment:?}, http: {over_http}: {got:?}");
    assert!(!told.contains(&json!("for red's eyes")), "{abandonment:?}, http: {over_http}: {told:?}");
    assert!(foreign(&red).is_empty(), "what can not be known to be red's is not given to red either");
    drop((red_stream, blue_stream));
}

// edges B1; bridging 39
#[tokio::test]
async fn what_a_server_asks_for_a_cancelled_call_is_refused_and_shown_to_nobody() {
    for over_http in [false, true] {
        story(Abandonment::Cancelled, over_http).await;
    }
}

// edges B1; bridging 39
#[tokio::test]
async fn what_a_server_asks_for_a_call_that_timed_out_is_refused_and_shown_to_nobody() {
    for over_http in [false, true] {
        story(Abandonment::TimedOut, over_http).await;
    }
}

// edges B1; bridging 39
#[tokio::test]
async fn what_a_server_asks_for_a_call_whose_client_is_gone_is_refused_and_shown_to_nobody() {
    for over_http in [false, true] {
        for abandonment in [Abandonment::SessionEnded, Abandonment::ConnectionDropped] {
            story(abandonment, over_http).await;
        }
    }
}

// edges B1: a link that ends takes everything with it that its server was still at work on.
#[tokio::test]
async fn a_new_connection_knows_no_abandoned_calls() {
    let (first, second) = (Gate::new(), Gate::new());
    let server = hard_working(&first, &second).stdio().await;
    let other = Server::builder("beta").echo("echo").stdio().await;
    let tokens = auth(&[("red", &["*"], false), ("blue", &["*"], false)]);
    let gateway = quick(&tokens).server("alpha", &server).server("beta", &other).serve().await;
    let (red, blue) = (able(&gateway, "red").await, able(&gateway, "blue").await);
    let abandoned = work(&red, "first");
    first.reached(1).await;
    red.cancel(&abandoned).await;
    server.wait_for_method("notifications/cancelled", 1).await;
    let spawned = server.processes().len();
    server.exit(1);
    server.wait_spawned(spawned + 1).await;
    gateway.wait_server("alpha", "ready again", |status| status["state"] == "ready").await;
    let waiting = work(&blue, "second");
    second.reached(1).await;
    assert_eq!(ask_aside(&server, "anew").await, given_by("blue"));
    second.open();
    drop(waiting);
}
