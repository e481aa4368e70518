//! How a replica is let in at NATS: where its servers are, with which login, over which TLS.
//!
//! async-nats reads no login out of a URL and would print one that stands in it; so addresses are given to it bare. Why a server did not let a
//! replica in is told apart here: whoever reads it has to know which key of the configuration is wrong.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::rustls::pki_types::pem::PemObject as _;
use async_nats::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use async_nats::{Client, ClientError, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerAddr};
use percent_encoding::percent_decode_str;

use super::ANSWER_WITHIN;
use crate::bus::BusError;

const PING_EVERY: Duration = Duration::from_millis(500);
const RECONNECT_EVERY: Duration = Duration::from_millis(100);
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// What a replica shows at the door of NATS, and whom it believes to be NATS.
#[derive(Clone, Default)]
pub struct NatsAccess {
    /// The text of a `.creds` file.
    pub credentials: Option<String>,
    /// With it nothing is said without TLS.
    pub tls: Option<NatsTls>,
}

impl std::fmt::Debug for NatsAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NatsAccess").field("tls", &self.tls).finish_non_exhaustive()
    }
}

/// The certificates of the connection, in PEM files that are read with every attempt.
#[derive(Clone, Debug, Default)]
pub struct NatsTls {
    /// Who signs the certificates of the servers; without it whom this machine trusts.
    pub ca: Option<PathBuf>,
    /// The certificate of this replica, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// A way in, checked as far as that is possible from this side.
pub(super) struct NatsDoor {
    addresses: Vec<ServerAddr>,
    login: UrlLogin,
    access: NatsAccess,
    name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum UrlLogin {
    #[default]
    None,
    Token(String),
    User(String, String),
}

impl NatsDoor {
    pub(super) fn new(servers: &[String], access: NatsAccess, cluster: &str) -> Result<Self, BusError> {
        let mut login = UrlLogin::None;
        let mut addresses = Vec::new();
        for server in servers {
            // What is wrong with it must not be said with the login in it.
            let address: ServerAddr = server.parse().map_err(|error| {
                BusError::Refused(format!("an address in `nats` of [cluster] can not be read: {error}"))
            })?;
            let mut url = address.into_inner();
            // The first login that is found counts: the client shows one to all servers.
            if login == UrlLogin::None {
                login = login_of(url.username(), url.password());
            }
            // Only a URL without a host has no place for them.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            addresses.push(ServerAddr::from_url(url).map_err(super::refused)?);
        }
        Ok(Self { addresses, login, access, name: format!("tidings {cluster}") })
    }

    pub(super) async fn connect(&self) -> Result<Client, BusError> {
        let mut options = ConnectOptions::new()
            .name(&self.name)
            .ping_interval(PING_EVERY)
            .reconnect_delay_callback(|_| RECONNECT_EVERY)
            .connection_timeout(CONNECT_WITHIN)
            .request_timeout(Some(ANSWER_WITHIN))
            .event_callback(says_once());
        options = match &self.login {
            UrlLogin::None => options,
            UrlLogin::Token(token) => options.token(token.clone()),
            UrlLogin::User(user, password) => options.user_and_password(user.clone(), password.clone()),
        };
        if let Some(credentials) = &self.access.credentials {
            // The library finds no seed without the end of the last line, and a file that is read into a text has lost it.
            let file = format!("{}\n", credentials.trim_end());
            options = options.credentials(&file).map_err(|error| BusError::Login(error.to_string()))?;
        }
        if let Some(tls) = &self.access.tls {
            // Also for addresses that do not ask for it: the login must not be sent in clear.
            options = options.require_tls(true);
            if let Some(ca) = &tls.ca {
                // Read here only to say what is wrong with it; the library reads it for itself.
                certificates(ca).await?;
                options = options.add_root_certificates(ca.clone());
            }
            if let Some((certificate, key)) = &tls.certificate {
                certificates(certificate).await?;
                private_key(key).await?;
                options = options.add_client_certificate(certificate.clone(), key.clone());
            }
        }
        options.connect(&self.addresses[..]).await.map_err(|error| not_let_in(&error))
    }
}

/// A name alone is a token, as all clients of NATS have it.
fn login_of(user: &str, password: Option<&str>) -> UrlLogin {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    match password {
        Some(password) => UrlLogin::User(decoded(user), decoded(password)),
        None if user.is_empty() => UrlLogin::None,
        None => UrlLogin::Token(decoded(user)),
    }
}

async fn certificates(file: &Path) -> Result<(), BusError> {
    let read = pem(file).await?;
    match CertificateDer::pem_slice_iter(&read).next() {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(BusError::Tls(format!("{}: {error}", file.display()))),
        None => Err(BusError::Tls(format!("{} holds no certificate", file.display()))),
    }
}

async fn private_key(file: &Path) -> Result<(), BusError> {
    let read = pem(file).await?;
    let key = PrivateKeyDer::from_pem_slice(&read);
    key.map(drop).map_err(|error| BusError::Tls(format!("{} holds no private key: {error}", file.display())))
}

/// async-nats would not say which file it could not read.
async fn pem(file: &Path) -> Result<Vec<u8>, BusError> {
    tokio::fs::read(file).await.map_err(|error| BusError::Tls(format!("{}: {error}", file.display())))
}

/// Why no server let this replica in.
fn not_let_in(error: &ConnectError) -> BusError {
    let text = error.to_string();
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => BusError::Login(text),
        ConnectErrorKind::Tls => BusError::Tls(text),
        // An expired login is worded by the server, and an alert of TLS comes while reading.
        // Without their first letters, which may be capital ones.
        _ if text.contains("uthenticat") || text.contains("uthoriz") => BusError::Login(text),
        _ if is_tls(error) => BusError::Tls(text),
        _ => BusError::Refused(text),
    }
}

fn is_tls(error: &(dyn Error + 'static)) -> bool {
    use async_nats::rustls::Error as TlsError;
    let mut next = Some(error);
    while let Some(error) = next {
        // What an `io::Error` wraps is not its source, so it is looked for apart.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if error.is::<TlsError>() || inner.is_some_and(|inner| inner.is::<TlsError>()) {
            return true;
        }
        next = error.source();
    }
    false
}

/// A connection that is lost is made again ten times a second; why that fails is said once, until it succeeds.
fn says_once() -> impl Fn(Event) -> std::future::Ready<()> + Send + Sync + 'static {
    let is_said = Arc::new(AtomicBool::new(false));
    move |event| {
        match event {
            Event::Connected => is_said.store(false, Ordering::Relaxed),
            Event::ClientError(ClientError::Other(error)) if !is_said.swap(true, Ordering::Relaxed) => {
                tracing::warn!(error, "the connection to NATS is lost; it is tried again ten times a second");
            }
            _ => {}
        }
        std::future::ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(servers: &[&str]) -> NatsDoor {
        let servers: Vec<String> = servers.iter().map(|server| (*server).to_owned()).collect();
        NatsDoor::new(&servers, NatsAccess::default(), "c").expect("addresses")
    }

    // cluster
    #[test]
    fn a_login_is_read_from_the_url_and_does_not_stay_in_the_address() {
        let door = door(&["nats://b:4222", "nats://an%20na:p%40ss@a:4222"]);
        assert_eq!(door.login, UrlLogin::User("an na".to_owned(), "p@ss".to_owned()));
        let shown = format!("{:?}", door.addresses);
        assert!(!shown.contains("p%40ss") && !shown.contains("na:"), "{shown}");
    }

    // cluster
    #[test]
    fn a_name_alone_is_a_token() {
        assert_eq!(door(&["tls://s3cret@a"]).login, UrlLogin::Token("s3cret".to_owned()));
        assert_eq!(door(&["nats://a"]).login, UrlLogin::None);
    }

    // cluster
    #[test]
    fn an_address_that_can_not_be_read_is_not_shown() {
        let refused = NatsDoor::new(&["nats://u:hunter2@[".to_owned()], NatsAccess::default(), "c");
        let said = refused.map(|_| ()).expect_err("no address").to_string();
        assert!(said.contains("`nats`") && !said.contains("hunter2"), "{said}");
    }
}
