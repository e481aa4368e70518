//! People who come in with tokens of an identity provider, and tokens that end while the gateway runs. The provider is a script: what it is
//! asked is counted. A real one is in `conformance/provider.mjs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use tidings_testkit::{Client, ClientBuilder, Gateway, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::{auth, follow, full, quick, with_token};

/// An identity provider with one key at a time.
pub(crate) struct Provider {
    pub(crate) issuer: String,
    state: Arc<ProviderState>,
}

struct ProviderState {
    key: std::sync::Mutex<(String, EcdsaKeyPair)>,
    /// Keys before that one, which are published on, as providers do that replace theirs.
    earlier: std::sync::Mutex<Vec<Value>>,
    readings: AtomicUsize,
    questions: AtomicUsize,
    is_silent: std::sync::atomic::AtomicBool,
    /// What the next ID tokens say otherwise than usual.
    identity: std::sync::Mutex<Value>,
}

/// The client that the gateway is to this provider, and what it gives away beside ID tokens.
pub(crate) const BROWSER_CLIENT: &str = "gateway-browser";

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap()
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Provider {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(ProviderState {
            key: std::sync::Mutex::new(("1".to_owned(), key())),
            earlier: std::sync::Mutex::default(),
            readings: AtomicUsize::new(0),
            questions: AtomicUsize::new(0),
            is_silent: false.into(),
            identity: std::sync::Mutex::new(json!({})),
        });
        let (served, own) = (Arc::clone(&state), issuer.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (state, issuer) = (Arc::clone(&served), own.clone());
                tokio::spawn(async move {
                    let request = whole_request(&mut stream).await;
                    let (status, body) = state.answer(&issuer, &request);
                    let head =
                        format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                });
            }
        });
        Self { issuer, state }
    }

    fn rotate(&self, id: &str) {
        let mut known = self.state.key.lock().unwrap();
        self.state.earlier.lock().unwrap().push(published(&known));
        *known = (id.to_owned(), key());
    }

    fn readings(&self) -> usize {
        self.state.readings.load(Ordering::SeqCst)
    }

    /// A token for the gateway, with these claims in the place of the usual ones.
    pub(crate) fn token(&self, gateway: &Gateway, claims: &Value) -> String {
        self.token_as(gateway, None, claims)
    }

    fn token_as(&self, gateway: &Gateway, kid: Option<&str>, changes: &Value) -> String {
        let key = self.state.key.lock().unwrap();
        let mut claims = json!({
            "iss": self.issuer, "aud": gateway.url(), "sub": "ada", "exp": now() + 300, "scope": "mcp", "groups": ["dev"],
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let header = json!({"alg": "ES256", "typ": "at+jwt", "kid": kid.unwrap_or(&key.0)});
        signed(&key.1, &header, &claims)
    }

    /// The next ID tokens say this otherwise than usual.
    pub(crate) fn identity_says(&self, changes: Value) {
        *self.state.identity.lock().unwrap() = changes;
    }

    pub(crate) fn falls_silent(&self, is_silent: bool) {
        self.state.is_silent.store(is_silent, Ordering::SeqCst);
    }

    /// The same as [`Self::toml`], with the gateway as a client that can ask whose a browser is.
    pub(crate) fn toml_with_browsers(&self) -> String {
        self.toml().replace(" }\n", &format!(", client_id = {BROWSER_CLIENT:?}, client_secret = \"hunter2\" }}\n"))
    }

    pub(crate) fn toml(&self) -> String {
        format!("[auth]\njwt = {{ issuer = {:?}, scopes = [\"mcp\"], admin = [\"group:ops\"] }}\n", self.issuer)
    }
}

fn published((id, key): &(String, EcdsaKeyPair)) -> Value {
    let point = key.public_key().as_ref();
    json!({"kty": "EC", "crv": "P-256", "kid": id, "x": encoded(&point[1..33]), "y": encoded(&point[33..])})
}

fn signed(key: &EcdsaKeyPair, header: &Value, claims: &Value) -> String {
    let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    format!("{message}.{}", encoded(key.sign(&SystemRandom::new(), message.as_bytes()).unwrap()))
}

/// A request with its body.
async fn whole_request(stream: &mut tokio::net::TcpStream) -> String {
    let (mut request, mut part) = (String::new(), vec![0; 16 << 10]);
    while let Ok(read @ 1..) = stream.read(&mut part).await {
        request.push_str(&String::from_utf8_lossy(&part[..read]));
        let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break;
        }
    }
    request
}

impl ProviderState {
    /// The token endpoint. The code says who has logged in, with which number: `WHO.NONCE`.
    fn identity(&self, issuer: &str, request: &str) -> (u16, String) {
        let body = request.split("\r\n\r\n").nth(1).unwrap_or_default();
        let field = |name: &str| body.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        // gateway-browser:hunter2
        let is_client = request.contains("Basic Z2F0ZXdheS1icm93c2VyOmh1bnRlcjI=");
        let code = field("code")
            .and_then(|code| code.split_once('.'))
            .filter(|_| is_client && field("code_verifier").is_some());
        let Some((who, nonce)) = code else { return (400, json!({"error": "invalid_grant"}).to_string()) };
        let mut claims =
            json!({"iss": issuer, "aud": BROWSER_CLIENT, "sub": who, "nonce": nonce, "iat": now(), "exp": now() + 300});
        let mut header = json!({"alg": "ES256", "typ": "JWT"});
        for (name, value) in self.identity.lock().unwrap().as_object().unwrap() {
            match name.strip_prefix("header.") {
                Some(name) => header[name] = value.clone(),
                None => claims[name] = value.clone(),
            }
        }
        let key = self.key.lock().unwrap();
        let id_token = match header["alg"].as_str() {
            Some("none") => format!("{}.{}.", encoded(header.to_string()), encoded(claims.to_string())),
            _ => signed(&key.1, &header, &claims),
        };
        (
            200,
            json!({"access_token": "access-of-the-browser", "token_type": "Bearer", "id_token": id_token}).to_string(),
        )
    }

    fn answer(&self, issuer: &str, request: &str) -> (u16, String) {
        let line = request.lines().next().unwrap_or_default();
        if self.is_silent.load(Ordering::SeqCst) {
            return (503, String::new());
        }
        if line.contains("/.well-known/oauth-authorization-server") {
            return (404, String::new());
        }
        if line.contains("/.well-known/openid-configuration") {
            let at = |path: &str| format!("{issuer}/{path}");
            let document = json!({"issuer": issuer, "jwks_uri": at("keys"), "authorization_endpoint": at("authorize"), "token_endpoint": at("token")});
            return (200, document.to_string());
        }
        if line.starts_with("POST /token") {
            return self.identity(issuer, request);
        }
        if line.starts_with("POST /ask") {
            self.questions.fetch_add(1, Ordering::SeqCst);
            if request.contains("token=opaque%2Dodd") {
                return (400, json!({"error": "unsupported_token_type"}).to_string());
            }
            let is_ours = request.contains("Basic YzpzJTI2"); // c:s%26
            let is_good = request.contains("token=opaque%2Dgood");
            let aud = request.split("for%3D").nth(1).and_then(|rest| rest.split('&').next()).unwrap_or("none");
            let claims =
                json!({"active": is_ours && is_good, "sub": "bob", "aud": aud, "scope": "mcp", "exp": now() + 300});
            return (200, claims.to_string());
        }
        self.readings.fetch_add(1, Ordering::SeqCst);
        let mut keys = vec![published(&self.key.lock().unwrap())];
        keys.extend(self.earlier.lock().unwrap().iter().cloned());
        (200, json!({ "keys": keys }).to_string())
    }
}

pub(crate) fn bearing(client: ClientBuilder, token: &str) -> ClientBuilder {
    client.header("authorization", &format!("Bearer {token}"))
}

/// The status of a ping with a token, and its challenge.
async fn ping(gateway: &Gateway, token: &str) -> (u16, String) {
    let client = Client::http(gateway.url()).raw().connect().await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let authorization = format!("Bearer {token}");
    let headers: Vec<(&str, &str)> =
        if token.is_empty() { Vec::new() } else { vec![("authorization", authorization.as_str())] };
    let reply = client.post_raw(ping.to_string(), &headers).await;
    (reply.status, reply.header("www-authenticate").unwrap_or_default().to_owned())
}

// identity 2
#[tokio::test]
async fn somebody_with_a_token_of_the_provider_comes_in_and_others_are_told_where_to_get_one() {
    let (provider, red) = (Provider::start().await, full("red").stdio().await);
    let gateway = quick(&provider.toml()).server("red", &red).serve().await;
    for era in [gateway.client(), gateway.client().modern()] {
        let client = bearing(era, &provider.token(&gateway, &json!({}))).connect().await;
        assert!(client.names("tools").await.contains(&"echo".to_owned()));
    }
    assert_eq!(provider.readings(), 1);
    let (status, challenge) = ping(&gateway, "").await;
    let place = format!("resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"", gateway.base_url());
    assert_eq!((status, challenge.as_str()), (401, format!("Bearer scope=\"mcp\", {place}").as_str()));
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
        let (status, document) = gateway.get(path).await;
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!((status, &document["resource"]), (200, &json!(gateway.url())));
        assert_eq!(document["authorization_servers"], json!([provider.issuer]));
        assert_eq!(document["scopes_supported"], json!(["mcp"]));
    }
    let (status, challenge) = ping(&gateway, &provider.token(&gateway, &json!({"scope": "openid"}))).await;
    assert_eq!(status, 403);
    assert!(challenge.contains("error=\"insufficient_scope\", scope=\"mcp\""), "{challenge}");
    // The API is for those whom `admin` names.
    for (groups, expected) in [(json!(["dev"]), 403), (json!(["ops"]), 200)] {
        let token = provider.token(&gateway, &json!({ "groups": groups }));
        let api = Client::http(format!("{}/api/v1/servers", gateway.base_url())).raw().connect().await;
        let authorization = format!("Bearer {token}");
        assert_eq!(api.send_http("GET", "", &[("authorization", &authorization)]).await.status, expected);
    }
}

// identity 8.4
#[tokio::test]
async fn forged_tokens_get_401_and_name_no_reason_to_ask_the_provider_again() {
    let (provider, other, red) = (Provider::start().await, Provider::start().await, full("red").stdio().await);
    let gateway = quick(&provider.toml()).server("red", &red).serve().await;
    let good = provider.token(&gateway, &json!({}));
    assert_eq!(ping(&gateway, &good).await.0, 200);
    let (head, tail) = good.split_once('.').unwrap();
    let (claims, signature) = tail.split_once('.').unwrap();
    let unsigned = |header: Value| format!("{}.{claims}.", encoded(header.to_string()));
    let hmac = {
        let message = format!("{}.{claims}", encoded(json!({"alg": "HS256", "kid": "1"}).to_string()));
        let secret = provider.state.key.lock().unwrap().1.public_key().as_ref().to_vec();
        let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        format!("{message}.{}", encoded(ring::hmac::sign(&secret, message.as_bytes())))
    };
    let forged = [
        ("no signature", unsigned(json!({"alg": "none"}))),
        ("no signature under a name", unsigned(json!({"alg": "ES256", "kid": "1"}))),
        ("the public key as a secret", hmac),
        ("another audience", provider.token(&gateway, &json!({"aud": "https://other.example/mcp"}))),
        ("an ID token", provider.token(&gateway, &json!({"aud": "client-7", "nonce": "n"}))),
        ("another issuer", other.token(&gateway, &json!({}))),
        ("the name of the issuer", other.token(&gateway, &json!({"iss": provider.issuer}))),
        ("expired", provider.token(&gateway, &json!({"exp": now() - 60}))),
        ("not yet", provider.token(&gateway, &json!({"nbf": now() + 120}))),
        ("nobody's", provider.token(&gateway, &json!({"sub": ""}))),
        ("a key of another name", provider.token_as(&gateway, Some("../../1"), &json!({}))),
        ("another signature", format!("{head}.{}.{signature}", encoded(json!({"iss": provider.issuer}).to_string()))),
        ("half of it", good[..good.len() / 2].to_owned()),
    ];
    for (what, token) in &forged {
        let (status, challenge) = ping(&gateway, token).await;
        assert_eq!(status, 401, "{what}: {challenge}");
        assert!(challenge.contains("error=\"invalid_token\""), "{what}: {challenge}");
    }
    assert!(provider.readings() <= 2, "one for the start, one for the first key that is not there");
    assert_eq!(ping(&gateway, &good).await.0, 200);
}

/// Tokens with names of keys that nobody has, and how many of them are sent at a time.
const STRANGERS: usize = 10_000;
const AT_ONCE: usize = 32;

// identity 8.4: "10,000 unknown `kid`: 1 fetch"; identity 4: "HTTP 429 is for failed logins per address"
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_tokens_with_unknown_keys_are_refused_by_one_reading() {
    let (provider, red) = (Provider::start().await, full("red").stdio().await);
    let gateway = quick(&provider.toml()).server("red", &red).serve().await;
    let good = provider.token(&gateway, &json!({}));
    assert_eq!(ping(&gateway, &good).await.0, 200);
    assert_eq!(provider.readings(), 1);
    let begun = std::time::Instant::now();
    // Their signature is not looked at before there is a key.
    let (_, rest) = good.split_once('.').unwrap();
    let http = reqwest::Client::new();
    let workers = (0..AT_ONCE).map(|worker| {
        let (http, url, rest) = (http.clone(), gateway.url(), rest.to_owned());
        tokio::spawn(async move {
            let mut named = 0;
            for number in (worker..STRANGERS).step_by(AT_ONCE) {
                let head =
                    encoded(json!({"alg": "ES256", "typ": "at+jwt", "kid": format!("made up {number}")}).to_string());
                let sent =
                    http.post(&url).bearer_auth(format!("{head}.{rest}")).header("content-type", "application/json");
                let answer = sent.body("{}").send().await.unwrap();
                match answer.status().as_u16() {
                    401 => named += 1,
                    429 => assert!(answer.headers().contains_key("retry-after"), "{number}"),
                    other => panic!("{number}: {other}"),
                }
            }
            named
        })
    });
    let mut named = 0;
    for worker in workers.collect::<Vec<_>>() {
        named += worker.await.unwrap();
    }
    // All of them came from one address: each minute the first sixty are told what is wrong, and the others to wait.
    let minutes = usize::try_from(begun.elapsed().as_secs() / 60).unwrap() + 1;
    assert!((60..=60 * minutes).contains(&named), "{named} in {:?}", begun.elapsed());
    // One for all of them, and on a machine that takes longer one for each half minute.
    let later = usize::try_from(begun.elapsed().as_secs() / 30).unwrap();
    let made = provider.readings() - 1;
    assert!((1..=1 + later).contains(&made), "{made} in {:?}", begun.elapsed());
    assert_eq!(ping(&gateway, &good).await.0, 200);
}

// identity 8.4: "rotation: 0 failures"
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_replaced_under_load_fails_nobody() {
    let (provider, red) = (Arc::new(Provider::start().await), full("red").stdio().await);
    let gateway = Arc::new(quick(&provider.toml()).server("red", &red).serve().await);
    assert_eq!(ping(&gateway, &provider.token(&gateway, &json!({}))).await.0, 200);
    let (sent, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let workers: Vec<_> = (0..8)
        .map(|worker| {
            let (provider, gateway, sent, is_over) =
                (Arc::clone(&provider), Arc::clone(&gateway), Arc::clone(&sent), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut number = 0;
                while !is_over.load(Ordering::SeqCst) {
                    // Each is new to the gateway, by the key of that moment.
                    let token = provider.token(&gateway, &json!({"sub": format!("{worker}-{number}")}));
                    assert_eq!(ping(&gateway, &token).await.0, 200, "{worker}-{number}");
                    number += 1;
                    sent.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let reaches = |count: usize| {
        let sent = Arc::clone(&sent);
        async move {
            while sent.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await
            }
        }
    };
    within("tokens of the first key", reaches(100)).await;
    provider.rotate("2");
    within("tokens of the second key", reaches(300)).await;
    is_over.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await.expect("nobody is refused");
    }
    assert_eq!(provider.readings(), 2);
}

// identity 8.4, 7
#[tokio::test]
async fn a_new_key_is_taken_up_and_a_provider_that_is_away_locks_out_nobody_who_is_known() {
    let (provider, red) = (Provider::start().await, full("red").stdio().await);
    let gateway = quick(&provider.toml()).server("red", &red).serve().await;
    let old = provider.token(&gateway, &json!({}));
    assert_eq!(ping(&gateway, &old).await.0, 200);
    provider.rotate("2");
    for sub in ["a", "b", "c"] {
        assert_eq!(ping(&gateway, &provider.token(&gateway, &json!({ "sub": sub }))).await.0, 200);
    }
    assert_eq!(ping(&gateway, &old).await.0, 200, "known until its end");
    assert_eq!(provider.readings(), 2);
    provider.state.is_silent.store(true, Ordering::SeqCst);
    assert_eq!(
        ping(&gateway, &provider.token(&gateway, &json!({"sub": "d"}))).await.0,
        200,
        "by the keys that are known"
    );
}

// identity 2
#[tokio::test]
async fn an_opaque_token_is_asked_about_once_and_a_silent_provider_is_no_refusal() {
    let (provider, red) = (Provider::start().await, full("red").stdio().await);
    let toml = format!(
        "[auth]\nintrospection = {{ url = \"{}/ask\", client_id = \"c\", client_secret = \"s&\", audience = \"us\" }}\n",
        provider.issuer
    );
    let gateway = quick(&toml).server("red", &red).serve().await;
    let asked = || provider.state.questions.load(Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(ping(&gateway, "opaque-good-for=us").await.0, 200);
    }
    assert_eq!(asked(), 1);
    for _ in 0..3 {
        assert_eq!(ping(&gateway, "opaque-bad-for=us").await.0, 401);
    }
    assert_eq!(asked(), 2, "a refusal is remembered for a moment");
    assert_eq!(ping(&gateway, "opaque-good-for=them").await.0, 401, "meant for somebody else");
    assert_eq!(ping(&gateway, "opaque-odd").await.0, 401, "of a kind that the provider does not vouch for");
    provider.state.is_silent.store(true, Ordering::SeqCst);
    assert_eq!(ping(&gateway, "opaque-good-2-for=us").await.0, 503);
    assert_eq!(ping(&gateway, "opaque-good-for=us").await.0, 200);
}

// identity 2
#[tokio::test]
async fn a_token_that_is_taken_away_ends_its_sessions_and_streams_and_nobody_elses() {
    let red = full("red").stdio().await;
    let gateway = quick(&auth(&[("one", &["*"], false), ("two", &["*"], false)])).server("red", &red).serve().await;
    let file = std::fs::read_to_string(gateway.config()).unwrap();
    let mut clients = Vec::new();
    for token in ["one", "two"] {
        for era in [gateway.client(), gateway.client().modern()] {
            let client = with_token(era, token).connect().await;
            let stream = follow(&client).await;
            clients.push((token, client, stream));
        }
    }
    // The second token goes, a third comes.
    let line = |name: &str| auth(&[(name, &["*"], false)]).lines().nth(2).unwrap().to_owned();
    std::fs::write(gateway.config(), file.replace(&line("two"), &line("three"))).unwrap();
    for (token, client, stream) in &mut clients {
        match *token {
            "two" => {
                within("the end of the stream of a token that is gone", async {
                    while stream.next().await.is_some() {}
                })
                .await;
                assert_eq!(client.start("tools/list", json!({})).status().await, 401);
            }
            _ => assert!(client.names("tools").await.contains(&"echo".to_owned())),
        }
    }
    let sessions = async || gateway.api("GET", "/sessions", Value::Null).await.1.to_string();
    within("the end of the sessions of the token", async { while sessions().await.contains("\"two\"") {} }).await;
    assert!(sessions().await.contains("\"one\""));
    assert!(!with_token(gateway.client(), "three").connect().await.names("tools").await.is_empty());
    // A file that would let nobody in changes nothing.
    let none = file.replace(&line("one"), "").replace(&line("two"), "");
    std::fs::write(gateway.config(), none).unwrap();
    gateway.stderr().wait_for("the reason", |line| line.contains("auth.tokens is empty")).await;
    assert!(clients[0].1.names("tools").await.contains(&"echo".to_owned()));
}
