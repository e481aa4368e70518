//! The endpoint over TLS, with certificates that openssl makes: replacing them under load, and people who come in with one.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tidings_testkit::{CertificateAuthority, Gateway, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{auth, full, quick};

/// Somebody who signs certificates, in a folder with all of them.
struct Authority(CertificateAuthority);

impl Authority {
    fn new() -> Self {
        Self(CertificateAuthority::new())
    }

    fn issue(&self, file: &str, name: &str) {
        self.0.issue(file, name);
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path(file)
    }

    fn certificate(&self, file: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.path(&format!("{file}.pem"))).unwrap()
    }

    /// Puts one file in the place of another, as tools do that renew certificates.
    fn replace(&self, old: &str, new: PathBuf) {
        std::fs::copy(new, self.path("moving")).unwrap();
        std::fs::rename(self.path("moving"), self.path(old)).unwrap();
    }

    fn toml(&self, more: &str) -> String {
        format!(
            "[gateway]\ntls = {{ cert = {:?}, key = {:?}{more} }}\n",
            self.path("server.pem"),
            self.path("server.key")
        )
    }
}

/// A client that trusts an authority, and may have a certificate of its own.
#[derive(Clone)]
struct TlsCaller {
    connector: TlsConnector,
    address: SocketAddr,
}

impl TlsCaller {
    fn new(gateway: &Gateway, trusted: &Authority, own: Option<(&Authority, &str)>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.certificate("ca")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots);
        let config = match own {
            Some((authority, file)) => {
                let key = PrivateKeyDer::from_pem_file(authority.path(&format!("{file}.key"))).unwrap();
                config.with_client_auth_cert(vec![authority.certificate(file)], key).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        let address = gateway.base_url().strip_prefix("https://").expect("it says that it speaks TLS").parse().unwrap();
        Self { connector: TlsConnector::from(Arc::new(config)), address }
    }

    async fn open(&self) -> std::io::Result<TlsConnection> {
        let stream = TcpStream::connect(self.address).await?;
        let stream = self.connector.connect(ServerName::try_from("localhost").unwrap(), stream).await?;
        let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        Ok(TlsConnection { sender, shown })
    }

    /// The status of one request over a connection of its own; 0 where there is none.
    async fn once(&self, verb: &str, path: &str, token: Option<&str>) -> u16 {
        let Ok(mut connection) = self.open().await else { return 0 };
        connection.send(verb, path, "tools/call", token).await.map_or(0, |answer| answer.status().as_u16())
    }
}

struct TlsConnection {
    sender: SendRequest<Full<Bytes>>,
    /// What the gateway showed.
    shown: CertificateDer<'static>,
}

impl TlsConnection {
    async fn send(
        &mut self,
        verb: &str,
        path: &str,
        method: &str,
        token: Option<&str>,
    ) -> hyper::Result<http::Response<Incoming>> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = match method {
            "tools/call" => json!({"name": "echo", "arguments": {"text": "hello"}, "_meta": meta}),
            _ => json!({"notifications": {"toolsListChanged": true}, "_meta": meta}),
        };
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = Request::builder().method(verb).uri(path).header("host", "localhost");
        for (name, value) in [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
        ] {
            request = request.header(name, value);
        }
        if method == "tools/call" {
            request = request.header("mcp-name", "echo");
        }
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.sender.ready().await?;
        self.sender.send_request(request.body(Full::from(body.to_string())).unwrap()).await
    }

    /// Calls a tool and reads its whole answer.
    async fn call(&mut self) {
        let answer = self.send("POST", "/mcp", "tools/call", None).await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let answer = answer.into_body().collect().await.expect("the whole answer").to_bytes();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(answer["result"].is_object(), "{answer}");
    }
}

// identity 8.12
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_replaced_under_load_fails_no_request_and_the_next_connections_see_it() {
    let authority = Authority::new();
    authority.issue("server", "gateway");
    authority.issue("next", "gateway");
    let (before, after) = (authority.certificate("server"), authority.certificate("next"));
    std::fs::copy(authority.path("server.key"), authority.path("old.key")).unwrap();
    let red = full("red").stdio().await;
    let gateway = quick(&authority.toml("")).server("red", &red).without_waiting().serve().await;
    let caller = TlsCaller::new(&gateway, &authority, None);
    within("the gateway to be ready", async { while caller.once("GET", "/readyz", None).await != 200 {} }).await;
    assert_eq!(caller.open().await.unwrap().shown, before);
    let calls = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (caller, calls, after) = (caller.clone(), Arc::clone(&calls), after.clone());
            tokio::spawn(async move {
                // One connection that was there before, and a new one after some calls on it.
                let (mut kept, mut seen) = (caller.open().await.unwrap(), 0);
                while seen < 20 {
                    for _ in 0..9 {
                        kept.call().await;
                    }
                    let mut fresh = caller.open().await.expect("a connection");
                    fresh.call().await;
                    calls.fetch_add(10, Ordering::Relaxed);
                    seen += usize::from(fresh.shown == after);
                }
            })
        })
        .collect();
    within("calls", async {
        while calls.load(Ordering::Relaxed) < 100 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The key first: until the certificate follows, the two do not go together.
    authority.replace("server.key", authority.path("next.key"));
    authority.replace("server.pem", authority.path("next.pem"));
    for worker in workers {
        within("calls with the next certificate", worker).await.expect("no call fails");
    }
    let (made, took) = (calls.load(Ordering::Relaxed), begun.elapsed());
    println!("{made} calls in {} ms", took.as_millis());
    // True of a program as it is installed: `cargo nextest run --release -p tidings --test auth tls`.
    let is_many = made as f64 >= 1_000.0 * took.as_secs_f64();
    assert!(cfg!(debug_assertions) || is_many, "less than 1,000 calls in a second: {made} in {took:?}");
    // A key that does not belong to the certificate changes nothing.
    authority.replace("server.key", authority.path("old.key"));
    gateway
        .stderr()
        .wait_for("the reason", |line| line.contains("stays as it is") && line.contains("server.key"))
        .await;
    let mut fresh = caller.open().await.unwrap();
    assert_eq!(fresh.shown, after);
    fresh.call().await;
    // The commands of this machine need no certificate, and whoever forgets the `s` is told.
    let servers = gateway.command(&["servers"]).await;
    assert!(servers.status.success() && String::from_utf8_lossy(&servers.stdout).contains("red"), "{servers:?}");
    let mut plain = TcpStream::connect(caller.address).await.unwrap();
    plain.write_all(b"GET /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut told = String::new();
    within("an answer without TLS", plain.read_to_string(&mut told)).await.unwrap();
    assert!(told.starts_with("HTTP/1.1 400") && told.contains("https://"), "{told}");
}

// identity 2
#[tokio::test]
async fn a_certificate_names_who_comes_in_as_long_as_its_name_and_its_signer_are_let_in() {
    let (authority, other) = (Authority::new(), Authority::new());
    authority.issue("server", "gateway");
    for name in ["laptop", "one.ops", "stranger"] {
        authority.issue(name, name);
    }
    other.issue("laptop", "laptop");
    let red = full("red").stdio().await;
    let tokens = auth(&[("tok", &["*"], false)]);
    let rules = "certificates = [{ name = \"laptop\", servers = [\"red\"] }, { name = \"*.ops\", admin = true }]\n";
    authority.replace("signers.pem", authority.path("ca.pem"));
    let tls = authority.toml(&format!(", client_ca = {:?}", authority.path("signers.pem")));
    let gateway = quick(&format!("{tokens}{rules}{tls}")).server("red", &red).without_waiting().serve().await;
    let with = |signer: &Authority, file: &str| TlsCaller::new(&gateway, &authority, Some((signer, file)));
    let nobody = TlsCaller::new(&gateway, &authority, None);
    within("the gateway to be ready", async { while nobody.once("GET", "/readyz", None).await != 200 {} }).await;
    let laptop = with(&authority, "laptop");
    assert_eq!(laptop.once("POST", "/mcp", None).await, 200);
    assert_eq!(with(&authority, "stranger").once("POST", "/mcp", None).await, 401, "nobody let it in");
    assert_eq!(with(&other, "laptop").once("POST", "/mcp", None).await, 0, "somebody else signed it");
    assert_eq!(nobody.once("POST", "/mcp", None).await, 401);
    assert_eq!(nobody.once("POST", "/mcp", Some("token-tok")).await, 200, "a token does, too");
    assert_eq!(laptop.once("POST", "/mcp", Some("wrong")).await, 401, "a token that is sent has to be good");
    let api = "/api/v1/servers";
    assert_eq!(
        (laptop.once("GET", api, None).await, with(&authority, "one.ops").once("GET", api, None).await),
        (403, 200)
    );
    // Its rule goes, and with it what it opened.
    let mut connection = laptop.open().await.unwrap();
    let stream = connection.send("POST", "/mcp", "subscriptions/listen", None).await.unwrap();
    assert_eq!(stream.status(), 200);
    let file = std::fs::read_to_string(gateway.config()).unwrap();
    gateway.rewrite_config(&file.replace("\"laptop\"", "\"desktop\""));
    let _ = within("the end of the stream", stream.into_body().collect()).await;
    assert_eq!(laptop.once("POST", "/mcp", None).await, 401);
    gateway.rewrite_config(&file);
    within("the rule to be back", async { while laptop.once("POST", "/mcp", None).await != 200 {} }).await;
    // Another signer: what the first one signed is worth nothing any longer.
    let mut connection = laptop.open().await.unwrap();
    let stream = connection.send("POST", "/mcp", "subscriptions/listen", None).await.unwrap();
    authority.replace("signers.pem", other.path("ca.pem"));
    let _ = within("the end of the stream", stream.into_body().collect()).await;
    assert_eq!(with(&other, "laptop").once("POST", "/mcp", None).await, 200);
    assert_eq!(laptop.once("POST", "/mcp", None).await, 0);
}
