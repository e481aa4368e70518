//! Who is let in at a real NATS server: by user and password, by a token, by credentials, by a certificate.

use tidings_cluster::{BusError, FleetBus as _, NatsAccess, NatsBus, NatsSettings, NatsTls};
use tidings_testkit::{CertificateAuthority, NatsOperator, NatsServer};
use tokio::time::{Instant, sleep};

use crate::{DEADLINE, SECRET, id, plan, settings};

fn at(server: &NatsServer, url: String, access: NatsAccess) -> NatsSettings {
    NatsSettings { servers: vec![url], access, ..settings(server, "one", SECRET, 1) }
}

/// Comes in, and writes something: streams are a right of their own.
async fn let_in(settings: NatsSettings) -> NatsBus {
    let (bus, _arrivals) = NatsBus::connect(settings).await.unwrap();
    assert_eq!(bus.append(&id(1), &plan(), None).await.unwrap(), 1);
    bus
}

async fn refusal(settings: NatsSettings) -> BusError {
    NatsBus::connect(settings).await.map(drop).unwrap_err()
}

async fn refused_login(settings: NatsSettings) -> String {
    let refused = refusal(settings).await;
    assert!(matches!(refused, BusError::Login(_)), "{refused:?}");
    refused.to_string()
}

async fn refused_tls(settings: NatsSettings) -> String {
    let refused = refusal(settings).await;
    assert!(matches!(refused, BusError::Tls(_)), "{refused:?}");
    refused.to_string()
}

async fn connected(bus: &NatsBus, wanted: bool) {
    let deadline = Instant::now() + DEADLINE;
    while bus.is_connected() != wanted {
        assert!(Instant::now() < deadline, "connected is not {wanted}");
        sleep(std::time::Duration::from_millis(10)).await;
    }
}

// cluster: a login in the URL, with characters that have a meaning there.
#[tokio::test]
async fn a_user_and_a_password_in_the_url_are_a_login() {
    let users = "authorization { users = [{ user: \"an na\", password: \"p@ss/word\" }] }\n";
    let Some(mut server) = NatsServer::start_with(users) else { return };
    let bus = let_in(at(&server, server.url_with("an%20na:p%40ss%2Fword"), NatsAccess::default())).await;

    let said = refused_login(at(&server, server.url_with("anna:hunter2"), NatsAccess::default())).await;
    assert!(said.contains("`nats`") && !said.contains("hunter2"), "{said}");
    refused_login(at(&server, server.url(), NatsAccess::default())).await;

    // After a restart of the server the login is shown again.
    server.kill();
    connected(&bus, false).await;
    server.run();
    connected(&bus, true).await;
}

// cluster
#[tokio::test]
async fn a_name_alone_in_the_url_is_a_token() {
    let Some(server) = NatsServer::start_with("authorization { token: \"s3cret\" }\n") else { return };
    let_in(at(&server, server.url_with("s3cret"), NatsAccess::default())).await;
    refused_login(at(&server, server.url_with("other"), NatsAccess::default())).await;
}

// cluster: a token of an account, and the proof that the replica has its key.
#[tokio::test]
async fn credentials_of_an_account_are_a_login() {
    let operator = NatsOperator::new();
    let Some(mut server) = NatsServer::start_with(&operator.server_settings()) else { return };
    let with = |credentials: String| NatsAccess { credentials: Some(credentials), tls: None };
    let (credentials, _) = operator.credentials();
    let bus = let_in(at(&server, server.url(), with(credentials.clone()))).await;

    let (stranger, seed) = NatsOperator::new().credentials();
    let said = refused_login(at(&server, server.url(), with(stranger.clone()))).await;
    assert!(said.contains("`credentials`") && !said.contains(&seed), "{said}");
    refused_login(at(&server, server.url(), NatsAccess::default())).await;
    // The token of one and the seed of another.
    let mixed: Vec<&str> = credentials.lines().take(4).chain(stranger.lines().skip(4)).collect();
    refused_login(at(&server, server.url(), with(mixed.join("\n") + "\n"))).await;

    // Another nonce is signed with every connection.
    server.kill();
    connected(&bus, false).await;
    server.run();
    connected(&bus, true).await;
}

// cluster
#[tokio::test]
async fn a_server_with_tls_is_believed_and_shown_a_certificate() {
    let authority = CertificateAuthority::new();
    authority.issue("nats", "nats");
    authority.issue("replica", "replica");
    let path = |file: &str| authority.path(file);
    let tls = format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}\n",
        path("nats.pem"),
        path("nats.key"),
        path("ca.pem")
    );
    let Some(server) = NatsServer::start_with(&tls) else { return };
    let with = |tls: NatsTls| at(&server, server.url(), NatsAccess { credentials: None, tls: Some(tls) });
    let certificate = Some((path("replica.pem"), path("replica.key")));
    let_in(with(NatsTls { ca: Some(path("ca.pem")), certificate: certificate.clone() })).await;

    let said = refused_tls(with(NatsTls { ca: Some(path("ca.pem")), certificate: None })).await;
    assert!(said.contains("`tls` of [cluster]"), "{said}");
    let other = CertificateAuthority::new();
    refused_tls(with(NatsTls { ca: Some(other.path("ca.pem")), certificate: certificate.clone() })).await;
    let said = refused_tls(with(NatsTls { ca: Some(path("gone.pem")), certificate: certificate.clone() })).await;
    assert!(said.contains("gone.pem"), "{said}");
    let swapped = Some((path("replica.key"), path("replica.key")));
    let said = refused_tls(with(NatsTls { ca: Some(path("ca.pem")), certificate: swapped })).await;
    assert!(said.contains("replica.key holds no certificate"), "{said}");
}

// cluster: who asks for TLS says nothing to a server that has none.
#[tokio::test]
async fn nothing_is_said_without_tls_where_it_is_asked_for() {
    let Some(server) = NatsServer::start() else { return };
    let access = NatsAccess { credentials: None, tls: Some(NatsTls::default()) };
    refusal(at(&server, server.url(), access)).await;
}
