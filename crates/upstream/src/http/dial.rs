//! Opening connections: TLS, and the proxies that the environment names.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service;

use super::reach::{CheckedResolver, NetworkReach, is_localhost};
use crate::LinkError;

/// How long to wait for the connection itself.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a connection is silent before the other end is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Opens connections with or without TLS, as the URL says.
pub(super) type TlsOrPlain = HttpsConnector<HttpDialer>;

/// A connector that trusts what the system trusts.
pub(super) fn connector(reach: NetworkReach) -> Result<TlsOrPlain, LinkError> {
    // Fails only when one was installed before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let tcp = |reach| {
        let mut tcp = HttpConnector::new_with_resolver(CheckedResolver::new(reach));
        // It would refuse `https`, which the layer above turns into TLS.
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        // A stream on which a server is silent looks like one whose other end is gone, until the kernel asks.
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE / 4));
        tcp.set_keepalive_retries(Some(4));
        tcp
    };
    let dialer = |untrusting| HttpDialer {
        reach,
        tcp: tcp(reach),
        // A proxy may well stand in a private network; the check is for the target.
        proxy: tcp(NetworkReach::Anywhere),
        proxies: Matcher::from_env().into(),
        untrusting,
    };
    let (tls, untrusting) = match HttpsConnectorBuilder::new().try_with_platform_verifier() {
        Ok(tls) => (tls, None),
        // Most of what a gateway does needs no TLS, so only that may fail (docs/adr/0028).
        Err(error) => {
            let roots = rustls::RootCertStore::empty();
            let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
            (HttpsConnectorBuilder::new().with_tls_config(config), Some(NoRoots(error.to_string())))
        }
    };
    // One request per connection at a time is what cancelling by closing needs; HTTP/2 would share it.
    Ok(tls.https_or_http().enable_http1().wrap_connector(dialer(untrusting)))
}

/// Opens connections, through a tunnel where `HTTPS_PROXY` and its kin say so.
#[derive(Clone)]
pub(super) struct HttpDialer {
    reach: NetworkReach,
    tcp: HttpConnector<CheckedResolver>,
    /// The way to a proxy, which the environment names and which looks names up by itself.
    proxy: HttpConnector<CheckedResolver>,
    proxies: std::sync::Arc<Matcher>,
    /// Why nobody can be trusted.
    untrusting: Option<NoRoots>,
}

/// The machine has no certificates of authorities.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "this machine has no CA certificates, so no https:// server can be trusted ({0}); install the package ca-certificates, or \
     name a bundle with SSL_CERT_FILE"
)]
struct NoRoots(String);

type Dialed = Pin<Box<dyn Future<Output = Result<TokioIo<TcpStream>, DialError>> + Send>>;
type DialError = Box<dyn std::error::Error + Send + Sync>;

/// Whether a target is this machine, whatever a proxy would make of its name: what is meant for it, such as the key to the
/// gateway, is nobody else's.
fn is_loopback(target: &Uri) -> bool {
    let host = target.host().unwrap_or_default();
    // A name may be written with the dot of the root.
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => is_localhost(host),
    }
}

impl Service<Uri> for HttpDialer {
    type Response = TokioIo<TcpStream>;
    type Error = DialError;
    type Future = Dialed;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Dialed {
        if let Some(reason) = self.untrusting.clone().filter(|_| target.scheme() == Some(&http::uri::Scheme::HTTPS)) {
            return Box::pin(async move { Err(reason.into()) });
        }
        if let Some(objection) = target.host().and_then(|host| self.reach.objection(host)) {
            return Box::pin(async move { Err(objection.into()) });
        }
        match self.proxies.intercept(&target).filter(|_| !is_loopback(&target)) {
            None => {
                let mut tcp = self.tcp.clone();
                Box::pin(async move { Ok(tcp.call(target).await?) })
            }
            Some(proxy) => {
                // Also for `http://`: a tunnel leads to one host, as every connection of the pool does, and needs no
                // other form of request.
                let mut tunnel = Tunnel::new(proxy.uri().clone(), self.proxy.clone());
                if let Some(credentials) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(credentials.clone());
                }
                Box::pin(async move { Ok(tunnel.call(target).await?) })
            }
        }
    }
}
