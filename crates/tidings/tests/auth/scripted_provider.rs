//! A provider of tokens for servers behind the gateway, as a script: it says yes to everybody, gives a new refresh token each time, and
//! takes the old ones back. A real one is in `conformance/login.mjs`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use serde_json::{Value, json};
use tidings_testkit::{Gateway, ReceivedMessage, ScriptedAnswer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// What a provider gave away, and to whom.
#[derive(Default)]
pub(crate) struct Given {
    access: Mutex<HashMap<String, String>>,
    refresh: Mutex<HashMap<String, String>>,
    count: AtomicUsize,
    /// How long the next token lives, in seconds; an hour where it is 0.
    life: AtomicU64,
    refreshes: AtomicUsize,
    /// Whether the token endpoint is out of order.
    is_away: AtomicBool,
    /// Whether the server has one tool more for ada.
    pub(crate) grown: AtomicBool,
}

impl Given {
    pub(crate) fn owner(&self, authorization: Option<&str>) -> Option<String> {
        let token = authorization?.strip_prefix("Bearer ")?;
        self.access.lock().unwrap().get(token).cloned()
    }

    pub(crate) fn take_back(&self, who: &str) {
        self.access.lock().unwrap().retain(|_, owner| owner != who);
        self.refresh.lock().unwrap().retain(|_, owner| owner != who);
    }

    /// No token that was given so far is good any more; another can be had for each.
    pub(crate) fn end_access(&self) {
        self.access.lock().unwrap().clear();
    }

    pub(crate) fn next_lives(&self, seconds: u64) {
        self.life.store(seconds, Ordering::SeqCst);
    }

    /// How often somebody came with a refresh token, good or not.
    pub(crate) fn refreshes(&self) -> usize {
        self.refreshes.load(Ordering::SeqCst)
    }

    pub(crate) fn is_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
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
        if field("refresh_token").is_some() {
            self.refreshes.fetch_add(1, Ordering::SeqCst);
        }
        if self.is_away.load(Ordering::SeqCst) {
            return (503, Value::Null);
        }
        let who = match (field("code"), field("refresh_token")) {
            // The code says who has logged in.
            (Some(code), _) => Some(code.to_owned()),
            (None, refresh) => refresh.and_then(|token| self.refresh.lock().unwrap().remove(token)),
        };
        let Some(who) = who else { return (400, json!({ "error": "invalid_grant" })) };
        // With a new token the old one is no good any more.
        self.access.lock().unwrap().retain(|_, owner| *owner != who);
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let (access, refresh) = (format!("access-{number}"), format!("refresh-{number}"));
        self.access.lock().unwrap().insert(access.clone(), who.clone());
        self.refresh.lock().unwrap().insert(refresh.clone(), who);
        let life = match self.life.swap(0, Ordering::SeqCst) {
            0 => 3600,
            seconds => seconds,
        };
        let given =
            json!({"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": life});
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

/// Starts a provider; gives where it is.
pub(crate) async fn provider() -> (String, Arc<Given>) {
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

/// What a server says at its door: where tokens come from, and 401 to whoever has none that is good.
pub(crate) fn door(issuer: &str, given: &Given, request: &ReceivedMessage) -> Option<ScriptedAnswer> {
    if request.path.starts_with("/.well-known/oauth-protected-resource") {
        let host = request.header("host").unwrap_or_default();
        let document = json!({"resource": format!("http://{host}/mcp"), "authorization_servers": [issuer]});
        return Some(ScriptedAnswer::http(200, document.to_string()));
    }
    let is_known = given.owner(request.header("authorization")).is_some();
    let headers = vec![("www-authenticate".to_owned(), "Bearer".to_owned())];
    (!is_known).then(|| ScriptedAnswer::Http { status: 401, headers, body: Default::default() })
}

/// Where a browser that the gateway has sent to the provider comes back to, as this account, and the cookie that it brings.
pub(crate) fn way_back(gateway: &Gateway, sent: &reqwest::Response, account: &str) -> (String, String) {
    let to = sent.headers()[LOCATION].to_str().unwrap();
    let state = to.split(['?', '&']).find_map(|pair| pair.strip_prefix("state=")).unwrap();
    let cookie = sent.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    (format!("{}/oauth/callback?code={account}&state={state}", gateway.base_url()), cookie)
}

/// It comes back. Gives the last status.
pub(crate) async fn come_back(gateway: &Gateway, sent: &reqwest::Response, account: &str) -> u16 {
    let (back, cookie) = way_back(gateway, sent, account);
    browser().get(back).header(COOKIE, cookie).send().await.unwrap().status().as_u16()
}

/// A browser that shows where it is sent.
pub(crate) fn browser() -> reqwest::Client {
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}
