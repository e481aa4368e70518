//! `for = "principal"`: each person logs in for themselves. The provider is a script; a real one is in `conformance/people.mjs`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, ListFollower, ScriptedAnswer, Server, ServerBuilder};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::people_links::patient;
use crate::policies::people;
use crate::with_token;

/// What a provider gave away, and to whom.
#[derive(Default)]
struct Given {
    access: Mutex<HashMap<String, String>>,
    refresh: Mutex<HashMap<String, String>>,
    count: AtomicUsize,
    /// Whether the server has one tool more for ada.
    grown: AtomicBool,
}

impl Given {
    fn owner(&self, authorization: Option<&str>) -> Option<String> {
        let token = authorization?.strip_prefix("Bearer ")?;
        self.access.lock().unwrap().get(token).cloned()
    }

    fn take_back(&self, who: &str) {
        self.access.lock().unwrap().retain(|_, owner| owner != who);
        self.refresh.lock().unwrap().retain(|_, owner| owner != who);
    }

    fn answer(&self, issuer: &str, request: &str) -> (u16, Value) {
        if request.starts_with("POST /register") {
            return (201, json!({ "client_id": "gateway" }));
        }
        if !request.starts_with("POST /token") {
            return match request.starts_with("GET /.well-known/oauth-authorization-server") {
                true => (200, metadata(issuer)),
                false => (404, Value::Null),
            };
        }
        let body = request.split("\r\n\r\n").nth(1).unwrap_or_default();
        let field = |name: &str| body.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let who = match (field("code"), field("refresh_token")) {
            // The code says who has logged in.
            (Some(code), _) => Some(code.to_owned()),
            (None, refresh) => refresh.and_then(|token| self.refresh.lock().unwrap().remove(token)),
        };
        let Some(who) = who else { return (400, json!({ "error": "invalid_grant" })) };
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let (access, refresh) = (format!("access-{number}"), format!("refresh-{number}"));
        self.access.lock().unwrap().insert(access.clone(), who.clone());
        self.refresh.lock().unwrap().insert(refresh.clone(), who);
        let given =
            json!({"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600});
        (200, given)
    }
}

fn metadata(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "registration_endpoint": format!("{issuer}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    })
}

async fn provider() -> (String, Arc<Given>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let given: Arc<Given> = Arc::default();
    let (served, own) = (Arc::clone(&given), issuer.clone());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (given, issuer) = (Arc::clone(&served), own.clone());
            tokio::spawn(async move {
                let mut request = String::new();
                let mut part = vec![0; 16 << 10];
                // Until the body is as long as its head says.
                while let Ok(read @ 1..) = stream.read(&mut part).await {
                    request.push_str(&String::from_utf8_lossy(&part[..read]));
                    let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
                    let head = head.to_ascii_lowercase();
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                    if body.len() >= length.unwrap_or(0) {
                        break;
                    }
                }
                let (status, body) = given.answer(&issuer, &request);
                let body = body.to_string();
                let head = format!(
                    "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            });
        }
    });
    (issuer, given)
}

/// A server that lets nobody in without a token, and lists one tool more for dan.
fn crm(issuer: &str, given: &Arc<Given>) -> ServerBuilder {
    let named = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let (issuer, door, lists, asked) = (issuer.to_owned(), Arc::clone(given), Arc::clone(given), Arc::clone(given));
    Server::builder("crm")
        .on_http(move |request| {
            if request.path.starts_with("/.well-known/oauth-protected-resource") {
                let host = request.header("host").unwrap_or_default();
                let document = json!({"resource": format!("http://{host}/mcp"), "authorization_servers": [issuer]});
                return Some(ScriptedAnswer::http(200, document.to_string()));
            }
            let is_known = door.owner(request.header("authorization")).is_some();
            let headers = vec![("www-authenticate".to_owned(), "Bearer".to_owned())];
            (!is_known).then(|| ScriptedAnswer::Http { status: 401, headers, body: Default::default() })
        })
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
fn page(text: &str) -> String {
    text.split_whitespace()
        .find(|word| word.contains("/connect/"))
        .unwrap_or_else(|| panic!("no page: {text}"))
        .to_owned()
}

/// A person opens the page of a login, shows a token of Tidings, and logs in at the provider. Gives the last status.
async fn visit(page: &str, gateway: &Gateway, token: &str, account: &str) -> u16 {
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let opened = browser.get(page).send().await.unwrap();
    assert_eq!(opened.status(), 200);
    let proof = format!("token=token-{token}");
    let sent = browser.post(page).header("content-type", "application/x-www-form-urlencoded").body(proof);
    let proved = sent.send().await.unwrap();
    if proved.status() != 303 {
        return proved.status().as_u16();
    }
    let to = proved.headers()[LOCATION].to_str().unwrap();
    let state = to.split(['?', '&']).find_map(|pair| pair.strip_prefix("state=")).unwrap();
    let cookie = proved.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let back = format!("{}/oauth/callback?code={account}&state={state}", gateway.base_url());
    browser.get(back).header(COOKIE, cookie).send().await.unwrap().status().as_u16()
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

async fn people_of(gateway: &Gateway) -> Value {
    gateway.api("GET", "/servers/crm", Value::Null).await.1["people"].clone()
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

// identity 1: the page is for who asked, whatever a browser says that it was given
#[tokio::test]
async fn a_cookie_that_nobody_was_given_opens_no_login() {
    let (issuer, given) = provider().await;
    let server = crm(&issuer, &given).http().await;
    let toml = people(&[("ada", "support"), ("dan", "dev")]);
    let gateway = patient(&toml).server_with("crm", &server, "auth = { for = \"principal\" }\n").serve().await;
    let ada = with_token(gateway.client().modern(), "ada").connect().await;
    assert_eq!(ada.names("tools").await, ["log_in"]);
    let page = page(&ada.call_tool("log_in", json!({})).await.text());
    let ticket = page.rsplit('/').next().unwrap();
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let invented = format!("tidings_login_{}=invented", &ticket[..8]);
    let opened = browser.get(&page).header(COOKIE, &invented).send().await.unwrap();
    assert_eq!((opened.status().as_u16(), opened.headers().get(LOCATION)), (200, None), "a token is asked for");
    assert!(opened.text().await.unwrap().contains("Your Tidings token"));
    // The ticket is not used up by that.
    assert_eq!(visit(&page, &gateway, "ada", "ada").await, 200);
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
