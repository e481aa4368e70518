//! `for = "principal"`: each person logs in for themselves. The provider is a script; a real one is in `conformance/people.mjs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{COOKIE, LOCATION};
use serde_json::{Value, json};
use tidings_testkit::{Client, Gate, Gateway, ListFollower, ScriptedAnswer, ScriptedCall, Server, ServerBuilder};

use crate::people_links::patient;
use crate::policies::people;
use crate::scripted_provider::{Given, browser, come_back, door, provider, way_back};
use crate::{auth, with_token};

/// A server that lets nobody in without a token, and lists one tool more for dan.
pub(crate) fn crm(issuer: &str, given: &Arc<Given>) -> ServerBuilder {
    let named = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let (issuer, doorkeeper, lists, asked) =
        (issuer.to_owned(), Arc::clone(given), Arc::clone(given), Arc::clone(given));
    Server::builder("crm")
        .on_http(move |request| door(&issuer, &doorkeeper, request))
        .on_raw("tools/list", move |call| {
            let who = lists.owner(call.received().header("authorization"));
            let names = match who.as_deref() {
                Some("dan") => &["whoami", "audit"][..],
                Some("ada") if lists.grown.load(Ordering::SeqCst) => &["whoami", "more"],
                _ => &["whoami"],
            };
            let answer = call.ok(json!({ "tools": names.iter().map(|name| named(name)).collect::<Vec<Value>>() }));
            async move { answer }
        })
        .tool("whoami", move |call| {
            let who = asked.owner(call.received().header("authorization")).unwrap_or_default();
            let answer = call.ok_text(&who);
            async move { answer }
        })
}

/// The page in an answer.
pub(crate) fn page(text: &str) -> String {
    text.split_whitespace()
        .find(|word| word.contains("/connect/"))
        .unwrap_or_else(|| panic!("no page: {text}"))
        .to_owned()
}

/// A person opens the page of a login, shows a token of Tidings, and logs in at the provider. Gives the last status.
async fn visit(page: &str, gateway: &Gateway, token: &str, account: &str) -> u16 {
    let browser = browser();
    let opened = browser.get(page).send().await.unwrap();
    assert_eq!(opened.status(), 200);
    let proof = format!("token=token-{token}");
    let sent = browser.post(page).header("content-type", "application/x-www-form-urlencoded").body(proof);
    let proved = sent.send().await.unwrap();
    if proved.status() != 303 {
        return proved.status().as_u16();
    }
    come_back(gateway, &proved, account).await
}

/// Logs a person in by the tool for it.
async fn log_in(client: &Client, gateway: &Gateway, who: &str) {
    let asked = client.call_tool("log_in", json!({})).await;
    assert_eq!(visit(&page(&asked.text()), gateway, who, who).await, 200);
}

async fn clients(gateway: &Gateway, who: &str) -> [ListFollower; 2] {
    let legacy = ListFollower::begin(with_token(gateway.client(), who).connect().await).await;
    let modern = ListFollower::begin(with_token(gateway.client().modern(), who).connect().await).await;
    for follower in [&legacy, &modern] {
        assert_eq!(follower.client.names("tools").await, ["log_in"], "{who}");
    }
    [legacy, modern]
}

pub(crate) async fn people_of(gateway: &Gateway) -> Value {
    gateway.api("GET", "/servers/crm", Value::Null).await.1["people"].clone()
}

// identity 1: "the truth about `needs login`": a person's first call comes before their server has said whether it knows them.
#[tokio::test]
async fn nobody_is_told_that_no_login_is_missing_before_that_is_known() {
    let (issuer, given) = provider().await;
    let gate = Gate::new();
    let held = |gate: &Gate| {
        let gate = gate.clone();
        move |_: ScriptedCall| {
            let gate = gate.clone();
            async move {
                gate.wait().await;
                let headers = vec![("www-authenticate".to_owned(), "Bearer".to_owned())];
                ScriptedAnswer::Http { status: 401, headers, body: Default::default() }
            }
        }
    };
    let builder = Server::builder("crm")
        .on_http(move |request| door(&issuer, &given, request).filter(|_| request.path.starts_with("/.well-known/")));
    let server = builder.on_raw("server/discover", held(&gate)).on_raw("initialize", held(&gate)).http().await;
    let toml = people(&[("ada", "support")]);
    let gateway = patient(&toml).server_with("crm", &server, "auth = { for = \"principal\" }\n").serve().await;
    let ada = with_token(gateway.client(), "ada").connect().await;

    let mut asked = std::pin::pin!(ada.call_tool("log_in", json!({})));
    // What is not known is not said, however long the server takes; what would be said at once is said within this time.
    let early = tokio::time::timeout(Duration::from_millis(300), &mut asked).await;
    assert!(early.is_err(), "{}", early.unwrap().text());
    gate.open();
    page(&asked.await.text());
}

// identity 1: "the truth about `needs login`": a server that fails has not said that it knows somebody.
#[tokio::test]
async fn a_server_that_fails_is_not_taken_for_one_that_lets_people_in() {
    let (issuer, given) = provider().await;
    let is_up = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&is_up);
    let server = Server::builder("crm").on_http(move |request| {
        if failing.load(Ordering::Relaxed) || request.path.starts_with("/.well-known/") {
            return door(&issuer, &given, request);
        }
        Some(ScriptedAnswer::http(503, "not today"))
    });
    let server = server.http().await;
    let pace = "[notifications]\nlist_quiet = \"20ms\"\nlist_max_wait = \"200ms\"\n";
    let other = Server::builder("other").http().await;
    let builder = Gateway::builder().toml(&people(&[("ada", "support")])).toml(pace).server("other", &other);
    let gateway = builder.server_with("crm", &server, "auth = { for = \"principal\" }\n").serve().await;
    let ada = with_token(gateway.client(), "ada").connect().await;

    let said = ada.call_tool("log_in", json!({})).await;
    assert_eq!(said.result()["isError"], true, "{}", said.text());
    assert!(said.text().contains("not known yet") && said.text().contains("crm"), "{}", said.text());
    is_up.store(true, Ordering::Relaxed);
    // Tried again by itself; a call that comes before waits for it, or says once more that it is not known.
    let asked = async {
        loop {
            let text = ada.call_tool("log_in", json!({})).await.text();
            if !text.contains("not known yet") {
                return text;
            }
        }
    };
    page(&tokio::time::timeout(Duration::from_secs(20), asked).await.expect("it is tried again"));
}

// identity 1, 5
#[tokio::test]
async fn each_person_logs_in_for_themselves_and_sees_and_is_told_of_their_own() {
    for is_modern in [false, true] {
        let (issuer, given) = provider().await;
        let script = crm(&issuer, &given);
        let server = if is_modern { script.modern_only().http().await } else { script.http().await };
        let toml = people(&[("ada", "support"), ("dan", "dev")]);
        let keys = "auth = { for = \"principal\" }\npoll_interval = \"1h\"\n";
        let gateway = patient(&toml).server_with("crm", &server, keys).serve().await;
        let (mut adas, mut dans) = (clients(&gateway, "ada").await, clients(&gateway, "dan").await);
        assert_eq!(people_of(&gateway).await, json!({"logged_in": 0, "need_login": 2}));

        // The page is for who asked.
        let asked = adas[0].client.call_tool("log_in", json!({})).await.text();
        assert_eq!(visit(&page(&asked), &gateway, "dan", "dan").await, 403);
        log_in(&adas[0].client, &gateway, "ada").await;
        for follower in &mut adas {
            follower.expect(&["tools"]).await;
            assert_eq!(follower.client.names("tools").await, ["whoami"]);
            assert_eq!(follower.client.call_tool("whoami", json!({})).await.text(), "ada");
        }
        for follower in &dans {
            assert_eq!(follower.client.names("tools").await, ["log_in"]);
        }
        assert_eq!(people_of(&gateway).await, json!({"logged_in": 1, "need_login": 1}));

        log_in(&dans[1].client, &gateway, "dan").await;
        for follower in &mut dans {
            // The first that they are told: nothing was said to them of her login.
            follower.expect(&["tools"]).await;
            assert_eq!(follower.client.names("tools").await, ["whoami", "audit"]);
            assert_eq!(follower.client.call_tool("whoami", json!({})).await.text(), "dan");
        }
        assert_eq!(adas[0].client.names("tools").await, ["whoami"]);

        // A login that was taken back is missing to that person, and to nobody else.
        given.take_back("dan");
        let refused = dans[0].client.call_tool("whoami", json!({})).await;
        assert_eq!(refused.result()["isError"], true);
        page(&refused.text());
        for follower in &mut dans {
            follower.expect(&["tools"]).await;
            assert_eq!(follower.client.names("tools").await, ["whoami", "audit", "log_in"], "the last list stays");
        }
        assert_eq!(adas[1].client.call_tool("whoami", json!({})).await.text(), "ada");
        assert_eq!(people_of(&gateway).await, json!({"logged_in": 1, "need_login": 1}));
        for follower in &adas {
            assert_eq!(follower.count("tools"), follower.told["tools"], "she was told of nothing of his");
        }
        // identity 8.7: what opens the gateway goes no further.
        let heard = server.record().all();
        assert!(heard.iter().any(|message| message.header("authorization").is_some()));
        for message in heard {
            assert!(!format!("{message:?}").contains("token-"), "{message:?}");
        }
    }
}

// identity 1: "Both sealed … Nothing is discovered again at start"
#[tokio::test]
async fn after_a_restart_nobody_logs_in_again() {
    let (issuer, given) = provider().await;
    let server = crm(&issuer, &given).http().await;
    let toml = people(&[("ada", "support"), ("dan", "dev")]);
    let gateway = patient(&toml).server_with("crm", &server, "auth = { for = \"principal\" }\n").serve().await;
    for who in ["ada", "dan"] {
        log_in(&clients(&gateway, who).await[0].client, &gateway, who).await;
    }
    assert!(gateway.terminate().await.success());
    let gateway = gateway.again().await;
    assert_eq!(people_of(&gateway).await, json!({"logged_in": 2, "need_login": 0}));
    assert_eq!(gateway.server_status("crm").await["state"], "ready");
    for who in ["ada", "dan"] {
        let client = with_token(gateway.client().modern(), who).connect().await;
        assert_eq!(client.call_tool("whoami", json!({})).await.text(), who);
        assert!(!client.names("tools").await.contains(&"log_in".to_owned()));
    }
}

// identity 5: what is not announced to a person is polled for that person
#[tokio::test]
async fn what_a_server_stops_announcing_to_a_person_is_polled() {
    let (issuer, given) = provider().await;
    let server = crm(&issuer, &given).modern_only().http().await;
    let toml = people(&[("ada", "support")]);
    let keys = "auth = { for = \"principal\" }\npoll_interval = \"200ms\"\n";
    let gateway = patient(&toml).server_with("crm", &server, keys).serve().await;
    let mut adas = clients(&gateway, "ada").await;
    log_in(&adas[0].client, &gateway, "ada").await;
    for follower in &mut adas {
        follower.expect(&["tools"]).await;
        assert_eq!(follower.client.names("tools").await, ["whoami"]);
    }
    server.wait_listening(1).await;
    let asked = server.count("subscriptions/listen");
    server.fail_next("subscriptions/listen", 1_000);
    server.end_listens();
    server.wait_for_method("subscriptions/listen", asked + 1).await;
    given.grown.store(true, Ordering::SeqCst);
    for follower in &mut adas {
        follower.expect(&["tools"]).await;
        assert_eq!(follower.client.names("tools").await, ["whoami", "more"]);
    }
}

// identity 5
#[tokio::test]
async fn what_a_server_says_over_the_connection_of_one_person_reaches_nobody_else() {
    let (issuer, given) = provider().await;
    let server = crm(&issuer, &given).resource("file:///r", "text").modern_only().http().await;
    let toml = people(&[("ada", "support"), ("dan", "dev")]);
    let gateway = patient(&toml).server_with("crm", &server, "auth = { for = \"principal\" }\n").serve().await;
    let (adas, dans) = (clients(&gateway, "ada").await, clients(&gateway, "dan").await);
    log_in(&adas[0].client, &gateway, "ada").await;
    let (ada, dan) = (&adas[1].client, &dans[0].client);
    assert_eq!(ada.names("tools").await, ["whoami"]);
    let follow = json!({"notifications": {"resourceSubscriptions": ["file:///r"]}});
    let mut listen = ada.start("subscriptions/listen", follow.clone());
    let honoured = listen.next_method("notifications/subscriptions/acknowledged").await.params();
    assert_eq!(honoured["notifications"], follow["notifications"]);
    // One for her lists, and one for what she follows.
    server.wait_listening(2).await;
    server.notify_raw(r#"{"jsonrpc":"2.0","method":"notifications/crm/told","params":{"to":"ada"}}"#);
    server.resource_updated("file:///r");
    ada.wait_for_method("notifications/resources/updated", 1).await;
    assert_eq!(dan.names("tools").await, ["log_in"]);
    assert_eq!(dan.count("notifications/crm/told"), 0, "{:?}", dan.received());
}

// identity 1: "MUST check that who opens it is who asked"; the callback is for the browser that opened it, or for who began
#[tokio::test]
async fn nobody_else_opens_the_page_of_a_login_or_ends_it() {
    let (issuer, given) = provider().await;
    let server = crm(&issuer, &given).http().await;
    let gateway = patient(&auth(&[("boss", &["*"], true)])).server("crm", &server).serve().await;
    gateway.wait_server("crm", "in need of a login", |crm| crm["state"] == "needs login").await;
    let begin = format!("{}/api/v1/servers/crm/login", gateway.base_url());
    let begun = browser().post(begin).bearer_auth("token-boss").send().await.unwrap().text().await.unwrap();
    let begun: Value = serde_json::from_str(&begun).unwrap();
    let (page, ticket) = (begun["url"].as_str().unwrap(), begun["ticket"].as_str().unwrap());
    let show = async |cookie: &str, token: Option<&str>| {
        let request = match token {
            None => browser().get(page),
            Some(token) => browser().post(page).body(format!("token={token}")),
        };
        request.header(COOKIE, cookie).send().await.unwrap()
    };
    // Anybody can make up a cookie of that name.
    let made_up = format!("tidings_login_{}=made-up", &ticket[..8]);
    let asked = show(&made_up, None).await;
    assert_eq!((asked.status().as_u16(), asked.headers().get(LOCATION)), (200, None));
    assert_eq!(show(&made_up, Some("token-nobody")).await.status(), 403);
    let sent = show(&made_up, Some("token-boss")).await;
    assert_eq!(sent.status(), 303);
    // From now on it is open for that browser alone.
    for (cookie, token) in [("", None), (&*made_up, None), ("", Some("token-boss")), (&*made_up, Some("token-boss"))] {
        assert_eq!(show(cookie, token).await.status(), 404, "{cookie} {token:?}");
    }
    let (back, cookie) = way_back(&gateway, &sent, "eve");
    for cookie in ["", &*made_up] {
        assert_eq!(browser().get(&back).header(COOKIE, cookie).send().await.unwrap().status(), 404, "{cookie}");
    }
    // Who owns the machine is an admin, too, but has not begun it.
    let (status, said) = gateway.api("POST", "/servers/crm/login/complete", json!({ "callback": back })).await;
    assert_eq!(status, 404, "{said}");
    assert_eq!(gateway.server_status("crm").await["state"], "needs login");
    assert_eq!(show(&cookie, None).await.status(), 303, "the browser that opened it may load it again");
    assert_eq!(come_back(&gateway, &sent, "boss").await, 200);
    assert_eq!(come_back(&gateway, &sent, "boss").await, 404, "once");
    let boss = with_token(gateway.client().modern(), "boss").connect().await;
    assert_eq!(boss.call_tool("whoami", json!({})).await.text(), "boss");
}

// identity 5: a listen or session that began before there was a server of their own is told of the first one, and of the login to it
#[tokio::test]
async fn who_followed_before_their_first_server_is_told_of_it_and_of_their_login() {
    for is_modern in [false, true] {
        let (issuer, given) = provider().await;
        let script = crm(&issuer, &given);
        let server = if is_modern { script.modern_only().http().await } else { script.http().await };
        let (red, blue) =
            (Server::builder("red").echo("one").http().await, Server::builder("blue").echo("two").http().await);
        let toml = people(&[("ada", "support"), ("dan", "dev")]);
        let gateway = patient(&toml).server("red", &red).server("blue", &blue).serve().await;
        let mut followers = Vec::new();
        for who in ["ada", "dan"] {
            followers.push(ListFollower::begin(with_token(gateway.client(), who).connect().await).await);
            followers.push(ListFollower::begin(with_token(gateway.client().modern(), who).connect().await).await);
        }
        for follower in &followers {
            assert_eq!(follower.client.names("tools").await.len(), 2);
        }
        let file = std::fs::read_to_string(gateway.config()).unwrap();
        let added = format!("{file}\n[servers.crm]\n{}auth = {{ for = \"principal\" }}\n", server.toml());
        std::fs::write(gateway.config(), added).unwrap();
        // Nobody asks: they are told that there is a login to be made.
        for follower in &mut followers {
            follower.expect(&["tools"]).await;
        }
        // He asks, she does not, and both are told on.
        for follower in &followers[2..] {
            assert!(follower.client.names("tools").await.contains(&"log_in".to_owned()));
        }
        log_in(&followers[1].client, &gateway, "ada").await;
        for follower in &mut followers[..2] {
            follower.expect(&["tools"]).await;
            let names = follower.client.names("tools").await;
            assert!(names.iter().any(|name| name.ends_with("whoami")), "{names:?}");
        }
        for follower in &followers[2..] {
            assert_eq!(follower.count("tools"), follower.told["tools"], "he was told of nothing of hers");
        }
    }
}
