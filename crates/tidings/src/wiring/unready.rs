//! Servers that can not be run as they are configured: they are shown as failing, with the reason, and the rest starts.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use tidings_engine::{LocalServer, Source, Unready, UnreadyReason};

use crate::lock_files::LockFault;

/// A server that will not be there before its configuration is another.
struct UnreadyServer {
    transport: &'static str,
    fault: Arc<ServerFault>,
}

/// What keeps a server from being run.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServerFault {
    /// Its configuration refers to something that is not there; in the words of the configuration.
    #[error("{0}")]
    Configuration(String),
    /// It can not be known which of its tools are approved.
    #[error("{0}")]
    Approvals(LockFault),
    /// Its URL is that of this gateway.
    #[error("{url} is the address of this gateway; remove it from the configuration")]
    OwnAddress {
        /// The URL as it is written.
        url: String,
    },
}

impl Unready for UnreadyServer {
    fn try_again(&self) -> Result<Arc<dyn LocalServer>, UnreadyReason> {
        Err(Arc::clone(&self.fault).into())
    }

    fn transport(&self) -> &'static str {
        self.transport
    }
}

/// A source that only gives a reason.
pub(super) fn refused(transport: &'static str, fault: ServerFault) -> Source {
    Source::Unready(Arc::new(UnreadyServer { transport, fault: Arc::new(fault) }))
}

/// Whether a URL is that of one of these listeners of ours, as far as its spelling tells. What it does not tell, such as a
/// name of this machine, the handshake finds out.
pub(super) fn is_own_url(url: &str, listeners: &[SocketAddr]) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else { return false };
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    let Some(host) = uri.host() else { return false };
    // A dot at the end only says that a name is complete.
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let same_port = || listeners.iter().filter(|listener| listener.port() == port).map(SocketAddr::ip);
    // RFC 6761: names below `localhost` lead to this machine as well.
    if host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost") {
        return same_port().any(|own| own.is_loopback() || own.is_unspecified());
    }
    let Ok(address) = host.parse::<IpAddr>().map(|address| address.to_canonical()) else { return false };
    same_port().any(|own| {
        let own = own.to_canonical();
        // Whoever connects to the unspecified address reaches this machine.
        own == address || (address.is_unspecified() && own.is_loopback()) || (own.is_unspecified() && is_local(address))
    })
}

/// Whether an address belongs to this machine: only those can be bound to.
fn is_local(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified() || UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    // edges F2
    #[test]
    fn own_urls_are_recognised_in_every_spelling() {
        let listeners = |text: &str| vec![text.parse::<SocketAddr>().unwrap()];
        let loopback = listeners("127.0.0.1:8808");
        for url in [
            "http://127.0.0.1:8808/mcp",
            "http://localhost:8808/mcp",
            "http://LOCALHOST:8808",
            "http://tidings.localhost:8808/mcp?x=1",
            "http://[::ffff:127.0.0.1]:8808/mcp",
            "http://0.0.0.0:8808/mcp",
        ] {
            assert!(is_own_url(url, &loopback), "{url}");
        }
        for url in [
            "http://127.0.0.1:8809/mcp",
            "http://localhost/mcp",
            "https://localhost/mcp",
            "http://192.0.2.1:8808/mcp",
            "http://example.org:8808/mcp",
            "http://[::1]:8808/mcp",
            "no url",
        ] {
            assert!(!is_own_url(url, &loopback), "{url}");
        }
        let everywhere = listeners("0.0.0.0:80");
        for url in ["http://127.0.0.1/mcp", "http://127.8.9.1:80/mcp", "http://localhost", "http://0.0.0.0/"] {
            assert!(is_own_url(url, &everywhere), "{url}");
        }
        assert!(!is_own_url("http://192.0.2.1/mcp", &everywhere), "an address of nobody here");
        assert!(is_own_url("http://[::1]:9/", &listeners("[::1]:9")));
    }
}
