//! The shape of `[cluster]`.

use schemars::JsonSchema;

use super::access::TextOrList;

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Cluster")]
pub(super) struct ClusterSchema {
    /// The URL of a NATS server with JetStream, or a list of them. A user and a password, or a token, may stand before the host.
    nats: TextOrList,
    /// The name of the cluster: letters, digits, - and _.
    #[schemars(extend("default" = "tidings"))]
    name: Option<String>,
    /// The secret of the cluster, the same for all replicas: 32 bytes or more, or a list of which the first seals and all open.
    secret: TextOrList,
    /// The name of this replica, another one for each.
    replica: String,
    /// How many NATS servers keep what the replicas agreed on.
    #[schemars(extend("default" = 1))]
    copies: Option<u8>,
    /// What this replica logs in to NATS with: the text of a `.creds` file, such as "${file:tidings.creds}".
    credentials: Option<String>,
    /// What servers may ask of the replica that runs them, by `placement`.
    #[schemars(extend("default" = []))]
    labels: Option<Vec<String>>,
    /// The certificates of the connection to NATS. With it, also with `{}`, nothing is said without TLS.
    tls: Option<ClusterTlsSchema>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "ClusterTls")]
struct ClusterTlsSchema {
    /// A PEM file with who signs the certificates of NATS servers; without it those count that this machine trusts.
    ca: Option<String>,
    /// A PEM file with the certificate of this replica, where NATS asks for one. Read again with every connection.
    cert: Option<String>,
    /// A PEM file with its private key. Read again with every connection.
    key: Option<String>,
}
