//! TLS in front of the endpoint. The certificate, its key and those who sign certificates of clients are files, which are read again when they
//! change: connections that are open go on, the next ones get what is new, and what can not be used leaves what was there.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tidings_folder_events::FileBell;
use tidings_identity::{Authenticator, ClientCertificate};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

/// How long a client may take to agree on keys.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often the files are read without an event: a link that leads to another folder is none of the file's.
const LOOK: Duration = Duration::from_secs(10);
/// Two files are not replaced at once: how long the second may take before the first is looked at.
const SETTLE: Duration = Duration::from_millis(100);
/// What every TLS connection begins with.
const HANDSHAKE_RECORD: u8 = 0x16;

/// The files that TLS needs.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, and those between it and one that clients trust.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who signs the certificates of clients; without it none is asked for.
    pub client_ca: Option<PathBuf>,
    /// Whether nobody comes in without one.
    pub client_cert_required: bool,
}

/// Why files can not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    /// A file can not be read.
    #[error("{}: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// In the words of the system.
        reason: String,
    },
    /// A file holds something else.
    #[error("{}: there is no {what} in PEM in it", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        what: &'static str,
    },
    /// They do not go together, or are of no use.
    #[error("{} and {}: {reason}", .cert.display(), .key.display())]
    Unusable {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
        /// In the words of the library.
        reason: String,
    },
}

/// How connections begin. Clones are one.
#[derive(Clone)]
pub struct TlsEntrance(Arc<TlsState>);

struct TlsState {
    files: TlsFiles,
    now: ArcSwap<TlsMaterial>,
}

/// What the files held when they were read.
struct TlsMaterial {
    config: Arc<ServerConfig>,
    /// The digests of the three, to see whether they are others.
    read: [[u8; 32]; 3],
    /// Rings when others sign the certificates of clients.
    signers_replaced: CancellationToken,
}

/// A connection whose keys are agreed on.
pub(super) struct TlsConnection {
    pub(super) stream: TlsStream<TcpStream>,
    /// Whose the other end is, if it showed that.
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    /// Rings when its certificate has to be looked at anew.
    pub(super) signers_replaced: CancellationToken,
}

impl TlsEntrance {
    /// Reads the files.
    pub fn open(files: TlsFiles) -> Result<Self, TlsFault> {
        let now = ArcSwap::from_pointee(TlsMaterial::read(&files)?);
        Ok(Self(Arc::new(TlsState { files, now })))
    }

    /// Agrees on keys with a client, in bounded time; `None` where that does not come about.
    pub(super) async fn accept(&self, stream: TcpStream) -> Option<TlsConnection> {
        tokio::time::timeout(HANDSHAKE, self.handshake(stream)).await.ok()?
    }

    async fn handshake(&self, mut stream: TcpStream) -> Option<TlsConnection> {
        let mut first = [0];
        if stream.peek(&mut first).await.ok()? != 0 && first[0] != HANDSHAKE_RECORD {
            // Somebody who forgot the `s` would else be told of a broken connection.
            let text = "this address speaks TLS: use https://\n";
            let head = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n";
            let _ = stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes()).await;
            let _ = stream.shutdown().await;
            return None;
        }
        // Of one reading: who signed the certificate that is shown is known by what it is checked with.
        let now = self.0.now.load_full();
        let accepted = TlsAcceptor::from(Arc::clone(&now.config)).accept(stream).await;
        let stream = accepted.inspect_err(|error| tracing::debug!(%error, "a TLS handshake failed")).ok()?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let certificate = shown.and_then(|shown| ClientCertificate::read(shown)).map(Arc::new);
        Some(TlsConnection { stream, certificate, signers_replaced: now.signers_replaced.clone() })
    }

    /// Reads the files again whenever they may have changed, until the end.
    pub(super) async fn follow(self, authenticator: Authenticator, closing: CancellationToken) {
        let files: BTreeSet<PathBuf> = self.0.files.all().map(Path::to_owned).collect();
        let mut bell = FileBell::new(LOOK);
        let mut told = None;
        loop {
            // Before they are read: what changes after this rings.
            bell.watch(&files);
            let state = Arc::clone(&self.0);
            let read = tokio::task::spawn_blocking(move || TlsMaterial::read(&state.files)).await;
            match read {
                Ok(Ok(fresh)) => {
                    told = None;
                    self.take(fresh, &authenticator);
                }
                Ok(Err(fault)) => {
                    // Once, and not with every look.
                    if told.as_ref() != Some(&fault) {
                        tracing::warn!("the certificate of TLS stays as it is: {fault}");
                        told = Some(fault);
                    }
                }
                Err(_) => return,
            }
            tokio::select! {
                () = bell.rung() => {}
                () = tokio::time::sleep(LOOK) => {}
                () = closing.cancelled() => return,
            }
            tokio::time::sleep(SETTLE).await;
        }
    }

    fn take(&self, mut fresh: TlsMaterial, authenticator: &Authenticator) {
        let before = self.0.now.load_full();
        if before.read == fresh.read {
            return;
        }
        let ([_, _, were], [_, _, are]) = (&before.read, &fresh.read);
        let same_signers = were == are;
        if same_signers {
            fresh.signers_replaced = before.signers_replaced.clone();
        }
        self.0.now.store(Arc::new(fresh));
        if !same_signers {
            // Connections first: none of them brings its old certificate again.
            before.signers_replaced.cancel();
            authenticator.look_at_certificates_anew();
        }
        tracing::info!(cert = %self.0.files.cert.display(), "the certificate of TLS was read again");
    }
}

impl TlsFiles {
    fn all(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()].into_iter().flatten().map(PathBuf::as_path)
    }

    fn unusable(&self, reason: &impl ToString) -> TlsFault {
        TlsFault::Unusable { cert: self.cert.clone(), key: self.key.clone(), reason: reason.to_string() }
    }
}

impl TlsMaterial {
    fn read(files: &TlsFiles) -> Result<Self, TlsFault> {
        let (cert, key) = (bytes(&files.cert)?, bytes(&files.key)?);
        let signers = files.client_ca.as_deref().map(bytes).transpose()?;
        let chain = certificates(&files.cert, &cert)?;
        let secret = PrivateKeyDer::from_pem_slice(&key)
            .map_err(|_| TlsFault::Empty { path: files.key.clone(), what: "private key" })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| files.unusable(&error))?;
        let builder = match files.client_ca.as_deref().zip(signers.as_deref()) {
            None => builder.with_no_client_auth(),
            Some((path, signers)) => {
                let mut roots = RootCertStore::empty();
                for signer in certificates(path, signers)? {
                    roots.add(signer).map_err(|error| files.unusable(&error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if files.client_cert_required { verifier } else { verifier.allow_unauthenticated() };
                builder.with_client_cert_verifier(verifier.build().map_err(|error| files.unusable(&error))?)
            }
        };
        let mut config = builder.with_single_cert(chain, secret).map_err(|error| files.unusable(&error))?;
        // The endpoint speaks this and nothing else.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let read = [digest(&cert), digest(&key), digest(&signers.unwrap_or_default())];
        Ok(Self { config: Arc::new(config), read, signers_replaced: CancellationToken::new() })
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, TlsFault> {
    let unreadable = |error: io::Error| TlsFault::Unreadable { path: path.to_owned(), reason: error.to_string() };
    std::fs::read(path).map_err(unreadable)
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
    digest
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let found: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem).flatten().collect();
    if found.is_empty() { Err(TlsFault::Empty { path: path.to_owned(), what: "certificate" }) } else { Ok(found) }
}
