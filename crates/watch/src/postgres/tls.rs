//! Encrypted connections: rustls under tokio-postgres. Certificates are always checked.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::client;

use super::address::CertificateTrust;

/// Why no certificate can be checked.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoTrust {
    #[error("{} holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    #[error("certificates can not be checked: {0}")]
    Verifier(rustls::Error),
}

/// Makes connections that trust the same.
#[derive(Clone)]
pub(super) struct PostgresTls(Arc<ClientConfig>);

/// The connector for one host, whose name the certificate has to have.
pub(super) struct ToHost {
    config: Arc<ClientConfig>,
    host: ServerName<'static>,
}

/// The stream of a TLS connection, in the form that tokio-postgres asks for.
pub(super) struct EncryptedConnection<S>(client::TlsStream<S>);

impl PostgresTls {
    pub(super) fn new(trust: &CertificateTrust) -> Result<Self, NoTrust> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(NoTrust::Verifier)?;
        let builder = match trust {
            CertificateTrust::System => builder.with_platform_verifier().map_err(NoTrust::Verifier)?,
            CertificateTrust::File(path) => {
                let mut roots = RootCertStore::empty();
                let found = CertificateDer::pem_file_iter(path).into_iter().flatten().flatten();
                if roots.add_parsable_certificates(found).0 == 0 {
                    return Err(NoTrust::NoCertificate(path.clone()));
                }
                builder.with_root_certificates(roots)
            }
        };
        Ok(Self(Arc::new(builder.with_no_client_auth())))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for PostgresTls {
    type Stream = EncryptedConnection<S>;
    type TlsConnect = ToHost;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<ToHost, Self::Error> {
        // A socket has no host, and is never encrypted.
        let host = if host.is_empty() { "localhost" } else { host };
        Ok(ToHost { config: Arc::clone(&self.0), host: ServerName::try_from(host.to_owned())? })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for ToHost {
    type Stream = EncryptedConnection<S>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<EncryptedConnection<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let connector = tokio_rustls::TlsConnector::from(self.config);
            Ok(EncryptedConnection(connector.connect(self.host, stream).await?))
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for EncryptedConnection<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedConnection<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, out)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedConnection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
