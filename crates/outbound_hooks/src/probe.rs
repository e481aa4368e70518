//! Whether a URL can be reached, for `tidings doctor`. Nothing is told to it.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Full;
use tidings_config::NotifySettings;
use tidings_upstream::{HttpClient, LinkError};

use crate::hooks::is_declared;

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why it can not be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeFault {
    /// It is no URL.
    #[error("not a URL that can be posted to")]
    Url,
    /// It does not answer.
    #[error("{0}")]
    Link(LinkError),
    /// It does not answer in time.
    #[error("no answer within 5 s")]
    Late,
}

/// Asks what may be sent there. Any answer shows that somebody is there; most receivers know only POST and say so.
pub async fn probe(settings: &NotifySettings) -> Result<StatusCode, ProbeFault> {
    let url: Uri = settings.url.parse().map_err(|_| ProbeFault::Url)?;
    let anywhere = settings.private || is_declared(url.host().unwrap_or_default());
    let client = if anywhere { HttpClient::new() } else { HttpClient::public_only() }.map_err(ProbeFault::Link)?;
    let mut request = Request::new(Full::<Bytes>::default());
    *request.method_mut() = Method::OPTIONS;
    *request.uri_mut() = url;
    let sent = tokio::time::timeout(PATIENCE, client.send(request)).await.map_err(|_| ProbeFault::Late)?;
    sent.map(|response| response.status()).map_err(ProbeFault::Link)
}
