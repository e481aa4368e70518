//! Which other processes the gateway is one with.

use std::fmt;
use std::path::PathBuf;

use crate::redact::without_secrets;

/// `[cluster]`: other processes that serve the same clients.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The URLs of NATS servers; with a login, it is the same in all that have one.
    pub nats: Vec<String>,
    /// The name of the cluster.
    pub name: String,
    /// The secrets of the cluster; the first seals, all open.
    pub secrets: Vec<String>,
    /// The name of this replica.
    pub replica: String,
    /// How many NATS servers keep each stream.
    pub copies: usize,
    /// What this replica logs in to NATS with: the text of a `.creds` file.
    pub credentials: Option<String>,
    /// What servers may ask of the replica that runs them.
    pub labels: Vec<String>,
    /// Whom it believes to be NATS, and what it shows; with it nothing is said without TLS.
    pub tls: Option<ClusterTls>,
}

/// `tls` of `[cluster]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterTls {
    /// Who signs the certificates of NATS servers; without it those that this machine trusts.
    pub ca: Option<PathBuf>,
    /// The certificate of this replica and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl fmt::Debug for ClusterSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nats: Vec<_> = self.nats.iter().map(|server| without_secrets(server)).collect();
        f.debug_struct("ClusterSettings")
            .field("nats", &nats)
            .field("name", &self.name)
            .field("replica", &self.replica)
            .finish_non_exhaustive()
    }
}
