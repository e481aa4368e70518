//! Where the database is, and how far its word is trusted.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// When the other side is silent for this long, the system asks whether it is still there. That wakes nobody here.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// Where servers put their sockets: Debian and Fedora, and all others.
const SOCKETS: [&str; 2] = ["/var/run/postgresql", "/tmp"];
/// The port, which is a part of the socket's name, when none is given.
const PORT: u16 = 5432;

/// A URL that was understood.
pub(super) struct PostgresAddress {
    pub(super) config: Config,
    pub(super) trust: CertificateTrust,
}

/// Whose certificates are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CertificateTrust {
    /// Those that the system trusts.
    System,
    /// Those signed by a certificate in this file.
    File(PathBuf),
}

/// What is wrong with a connection URL. It is not repeated: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressFault {
    /// Not a URL, or with parameters that mean nothing here.
    #[error("not a connection URL: {0}")]
    Unusable(String),
    /// An unknown way of encryption.
    #[error("sslmode must be disable, prefer, require, verify-ca or verify-full")]
    SslMode,
}

impl PostgresAddress {
    pub(super) fn parse(url: &str) -> Result<Self, AddressFault> {
        // `sslrootcert` and `verify-full` are words of libpq that this driver does not know.
        let (url, mode, root) = without_tls_words(url);
        let mut config: Config = url.parse().map_err(|error| AddressFault::Unusable(cause(&error)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host_path(socket_folder(config.get_ports().first().copied().unwrap_or(PORT)));
        }
        let near = config.get_hosts().iter().all(is_near)
            && config.get_hostaddrs().iter().all(|address| address.is_loopback());
        let mode = match mode.as_deref() {
            Some("disable") => SslMode::Disable,
            // Servers on this machine have no certificate that anybody could check.
            None | Some("prefer") if near && root.is_none() => SslMode::Disable,
            // Whoever sits on the wire could say that there is no encryption: only who writes it down accepts that.
            Some("prefer") => SslMode::Prefer,
            // Encryption without knowing to whom is none: the certificate is always checked.
            None | Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some(_) => return Err(AddressFault::SslMode),
        };
        config.ssl_mode(mode).keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE / 4).keepalives_retries(4);
        // What was sent and is never acknowledged ends the connection as well.
        config.tcp_user_timeout(KEEPALIVE);
        if config.get_application_name().is_none() {
            config.application_name("tidings");
        }
        Ok(Self { config, trust: root.map_or(CertificateTrust::System, CertificateTrust::File) })
    }
}

/// Where a server of this machine has its socket, as `psql` looks for it when no host is named.
fn socket_folder(port: u16) -> &'static Path {
    let holds = |folder: &&str| Path::new(folder).join(format!(".s.PGSQL.{port}")).exists();
    Path::new(SOCKETS.into_iter().find(holds).unwrap_or(SOCKETS[0]))
}

/// Takes out the parameters that are ours to interpret.
fn without_tls_words(url: &str) -> (String, Option<String>, Option<PathBuf>) {
    let Some((base, query)) = url.split_once('?') else { return (url.to_owned(), None, None) };
    let (mut mode, mut root, mut rest) = (None, None, Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
        match name {
            "sslmode" => mode = Some(value),
            "sslrootcert" => root = Some(PathBuf::from(value)),
            _ => rest.push(pair),
        }
    }
    let url = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    (url, mode, root)
}

fn is_near(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
        Host::Unix(_) => true,
    }
}

/// The innermost cause says what happened.
pub(super) fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(inner) = error.source() {
        error = inner;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> (SslMode, CertificateTrust) {
        let address = PostgresAddress::parse(url).unwrap();
        (address.config.get_ssl_mode(), address.trust)
    }

    #[test]
    fn certificates_are_checked_wherever_a_wire_can_be_tapped() {
        assert_eq!(parse("postgresql://localhost/shop"), (SslMode::Disable, CertificateTrust::System));
        assert_eq!(parse("postgresql:///shop?host=/run/postgresql"), (SslMode::Disable, CertificateTrust::System));
        assert_eq!(parse("postgresql:///shop"), (SslMode::Disable, CertificateTrust::System), "a socket");
        assert_eq!(parse("postgresql://localhost/shop?sslmode=require"), (SslMode::Require, CertificateTrust::System));
        assert_eq!(parse("postgresql://db.example/shop"), (SslMode::Require, CertificateTrust::System));
        assert_eq!(
            parse("postgresql://localhost/shop?hostaddr=10.0.0.5"),
            (SslMode::Require, CertificateTrust::System)
        );
        assert_eq!(parse("postgresql://db.example/shop?sslmode=prefer"), (SslMode::Prefer, CertificateTrust::System));
        assert_eq!(parse("postgresql://db.example/shop?sslmode=disable"), (SslMode::Disable, CertificateTrust::System));
        let url = "postgresql://db.example/shop?sslmode=verify-full&sslrootcert=/etc/ca%20x.pem&application_name=a";
        assert_eq!(parse(url), (SslMode::Require, CertificateTrust::File("/etc/ca x.pem".into())));
        assert_eq!(PostgresAddress::parse(url).unwrap().config.get_application_name(), Some("a"));
    }

    #[test]
    fn without_a_host_the_socket_of_this_machine_is_meant() {
        let address = PostgresAddress::parse("postgresql:///shop").unwrap();
        assert!(matches!(address.config.get_hosts(), [Host::Unix(folder)] if folder.is_absolute()));
    }

    #[test]
    fn what_is_not_understood_is_refused_without_repeating_it() {
        assert_eq!(PostgresAddress::parse("postgresql://h/d?sslmode=perhaps").map(drop), Err(AddressFault::SslMode));
        let fault = PostgresAddress::parse("postgresql://u:secret@h/d?zzz=1").map(drop).unwrap_err();
        assert!(matches!(&fault, AddressFault::Unusable(text) if !text.contains("secret")), "{fault}");
    }
}
