//! `https`: a page of a public host that the project may ask.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::Full;
use tidings_proto::code;
use tidings_upstream::{HttpClient, is_public};

use crate::run::outcome::ScriptFault;
use crate::run::resource::{ProvidedContent, ResourceReading};
use crate::run::{ScriptCall, ScriptRunner, cancelled};

/// The client, made when it is first needed.
#[derive(Default)]
pub(in crate::run) struct WebProvider(OnceLock<HttpClient>);

impl WebProvider {
    fn client(&self) -> Result<&HttpClient, ScriptFault> {
        if let Some(client) = self.0.get() {
            return Ok(client);
        }
        let client = HttpClient::public_only().map_err(|error| ScriptFault::internal(error.to_string()))?;
        // Two calls at once may both make one; the first is kept.
        Ok(self.0.get_or_init(|| client))
    }
}

impl ScriptRunner {
    pub(in crate::run) async fn read_https(
        &self,
        reading: &ResourceReading,
        call: &ScriptCall<'_>,
    ) -> Result<ProvidedContent, ScriptFault> {
        let invalid = |why: &str| ScriptFault::new(code::INVALID_PARAMS, format!("{}: {why}", reading.uri));
        let uri: Uri = reading.uri.parse().map_err(|_| invalid("not a URL"))?;
        let authority = uri.authority().ok_or_else(|| invalid("no host"))?;
        if uri.scheme_str() != Some("https") {
            return Err(invalid("the https provider reads https:// addresses"));
        }
        if authority.as_str().contains('@') {
            return Err(invalid("a user name or password in an address is not sent"));
        }
        let host = authority.host().trim_matches(['[', ']']).to_ascii_lowercase();
        self.permits_host("HTTPS", &host)?;
        // Numbers that some take for an address: `2130706433`, `0x7f000001`, `127.1`.
        let last = host.rsplit('.').next().unwrap_or_default();
        if last.starts_with(|first: char| first.is_ascii_digit()) && host.parse::<IpAddr>().is_err() {
            return Err(invalid("neither the name nor the address of a host"));
        }
        // Names are checked when they are resolved, for the connection that is then used.
        if host.parse::<IpAddr>().is_ok_and(|address| !is_public(address)) || host == "localhost" {
            return Err(invalid("a private address"));
        }
        let within = Duration::from_secs(self.number("MCPBASH_HTTPS_TIMEOUT", 15, 60));
        let limit = self.number("MCPBASH_HTTPS_MAX_BYTES", 10 << 20, 20 << 20);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let agent = self
            .home
            .environment
            .get("MCPBASH_HTTPS_USER_AGENT")
            .unwrap_or(concat!("tidings/", env!("CARGO_PKG_VERSION")));
        let request = Request::get(uri).header(header::USER_AGENT, agent).body(Full::<Bytes>::default());
        let request = request.map_err(|error| invalid(&error.to_string()))?;
        let client = self.web.client()?;
        let answer = tokio::select! {
            () = call.stop.cancelled() => return Err(cancelled()),
            answer = client.fetch(request, within, limit) => answer,
        };
        let answer = answer.map_err(|error| ScriptFault::internal(format!("{}: {error}", reading.uri)))?;
        match answer.status() {
            status if status.is_success() => {
                let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
                Ok(ProvidedContent { mime_type: kind.map(str::to_owned), bytes: answer.into_body().to_vec() })
            }
            // The new host was not permitted, and could be private.
            status if status.is_redirection() => {
                let to = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("elsewhere");
                Err(ScriptFault::internal(format!("{}: redirects to {to}, which is not followed", reading.uri)))
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                Err(ScriptFault::new(code::RESOURCE_NOT_FOUND, "Resource not found"))
            }
            status => Err(ScriptFault::internal(format!("{}: HTTP status {status}", reading.uri))),
        }
    }
}
