//! Talking to providers: bounded in time and size, over TLS, and not into a private network because a stranger says so.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use serde_json::Value;
use tidings_upstream::{HttpClient, LinkError, is_public};

use crate::discovery::DiscoveryAnswer;
use crate::token_exchange::TokenRequest;
use crate::web_address::WebAddress;

/// How long one request may take.
pub(crate) const WITHIN: Duration = Duration::from_secs(10);
/// How long one that gives tokens may take. Longer: a provider that rotates has taken the old refresh token back when it answers too late, and
/// then somebody has to log in. Shorter than those wait who were refused, and than the gateway takes to end.
pub(crate) const TOKENS_WITHIN: Duration = Duration::from_secs(20);
/// How long an answer may be.
const LIMIT: usize = 256 << 10;
/// How often in a row an address may lead to another of the same origin.
const REDIRECTS: u32 = 3;
const AGENT: HeaderValue = HeaderValue::from_static(concat!("tidings/", env!("CARGO_PKG_VERSION")));

/// The ways to providers. Made when one is first needed: each loads the certificates that the system trusts, and most gateways log in
/// nowhere.
#[derive(Default)]
pub(crate) struct ProviderHttp {
    anywhere: OnceLock<Result<HttpClient, LinkError>>,
    public: OnceLock<Result<HttpClient, LinkError>>,
}

/// Where the provider of a server may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProviderReach {
    /// Anywhere: the server itself is on this machine or in a private network.
    Anywhere,
    /// On the internet, as the server is: what it names must not lead elsewhere.
    Public,
}

/// What a request says beside its address.
struct ProviderMessage {
    kind: Option<HeaderValue>,
    authorization: Option<String>,
    body: Bytes,
    within: Duration,
}

impl Default for ProviderMessage {
    fn default() -> Self {
        Self { kind: None, authorization: None, body: Bytes::new(), within: WITHIN }
    }
}

impl ProviderHttp {
    /// Where the provider of a server may be.
    pub(crate) async fn reach_of(server: &WebAddress) -> ProviderReach {
        let is_private = match server.host().parse::<IpAddr>() {
            Ok(address) => !is_public(address),
            Err(_) if server.is_loopback() => true,
            Err(_) => match tokio::net::lookup_host((server.host(), server.port())).await {
                // One private address is enough: whoever resolves a name to both is inside.
                Ok(mut found) => found.any(|address| !is_public(address.ip())),
                // Looked up by a proxy, most likely, which is for the internet.
                Err(_) => false,
            },
        };
        if is_private { ProviderReach::Anywhere } else { ProviderReach::Public }
    }

    /// Reads a document.
    pub(crate) async fn read(&self, url: &str, reach: ProviderReach) -> Result<Option<Bytes>, String> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS {
            let answer = self.send(Method::GET, &url, reach, ProviderMessage::default()).await?;
            let status = answer.status();
            if status.is_redirection() {
                // Only to the same origin: another one would speak for this one.
                match followed(&url, answer.headers().get(LOCATION)) {
                    Some(next) => url = next,
                    None => return Ok(None),
                }
            } else if status.is_success() {
                return Ok(Some(answer.into_body()));
            } else if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
                // Not the word of a place that has nothing: it may be the one that counts, so it is asked again.
                return Err(format!("HTTP status {}", status.as_u16()));
            } else {
                return Ok(None);
            }
        }
        // A circle, or a chain that is too long, is a place that has nothing.
        Ok(None)
    }

    /// The same, for a step of the discovery.
    pub(crate) async fn answer(&self, url: &str, reach: ProviderReach, take: impl FnOnce(DiscoveryAnswer<'_>)) {
        match self.read(url, reach).await {
            Ok(Some(body)) => take(DiscoveryAnswer::Body(&body)),
            Ok(None) => take(DiscoveryAnswer::Absent),
            Err(reason) => take(DiscoveryAnswer::Silent(reason)),
        }
    }

    /// Sends a form.
    pub(crate) async fn post_form(
        &self,
        url: &str,
        reach: ProviderReach,
        request: TokenRequest,
        within: Duration,
    ) -> Result<Response<Bytes>, String> {
        let kind = Some(HeaderValue::from_static("application/x-www-form-urlencoded"));
        let message = ProviderMessage { kind, authorization: request.authorization, body: request.body.into(), within };
        self.send(Method::POST, url, reach, message).await
    }

    /// Sends JSON.
    pub(crate) async fn post_json(
        &self,
        url: &str,
        reach: ProviderReach,
        body: &Value,
    ) -> Result<Response<Bytes>, String> {
        let kind = Some(HeaderValue::from_static("application/json"));
        let message = ProviderMessage { kind, authorization: None, body: body.to_string().into(), within: WITHIN };
        self.send(Method::POST, url, reach, message).await
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        reach: ProviderReach,
        message: ProviderMessage,
    ) -> Result<Response<Bytes>, String> {
        let ProviderMessage { kind, authorization, body, within } = message;
        let address = WebAddress::parse(url).ok_or("it is not an http address")?;
        // Again, though the discovery looks too: endpoints of a kept grant come by here without a discovery.
        if !address.is_safe() {
            return Err("it is not reached over https".to_owned());
        }
        // Only what is written as an address is seen here; a name is looked at by the client's resolver, after it was
        // resolved.
        let is_inside = address.host().parse::<IpAddr>().is_ok_and(|ip| !is_public(ip));
        if reach == ProviderReach::Public && is_inside {
            return Err("it is an address of a private network, and the server is not in one".to_owned());
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = url.parse().map_err(|_| "it is not an address")?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, AGENT);
        if let Some(kind) = kind {
            headers.insert(CONTENT_TYPE, kind);
        }
        if let Some(authorization) = authorization {
            let mut value = HeaderValue::try_from(authorization).map_err(|_| "the secret can not be sent")?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let client = match reach {
            ProviderReach::Anywhere => self.anywhere.get_or_init(HttpClient::new),
            ProviderReach::Public => self.public.get_or_init(HttpClient::public_only),
        };
        let client = client.as_ref().map_err(ToString::to_string)?;
        client.fetch(request, within, LIMIT).await.map_err(|error| error.to_string())
    }
}

/// Where a redirect leads, if that is on the same origin.
fn followed(from: &str, location: Option<&HeaderValue>) -> Option<String> {
    let to = location?.to_str().ok()?;
    let origin = WebAddress::parse(from)?.origin();
    // Two slashes begin another host (RFC 3986, 4.2).
    let to = if to.starts_with('/') && !to.starts_with("//") { format!("{origin}{to}") } else { to.to_owned() };
    (WebAddress::parse(&to)?.origin() == origin).then_some(to)
}

/// The pause that somebody asks for.
pub(crate) fn retry_after(answer: &Response<Bytes>) -> Option<Duration> {
    let text = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    match text.trim().parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        // A date is the other form (RFC 9110, 10.2.3); one that has passed asks for nothing.
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_followed_on_its_own_origin_only() {
        let to = |location: &'static str| followed("https://h.example/a", Some(&HeaderValue::from_static(location)));
        assert_eq!(to("/b").as_deref(), Some("https://h.example/b"));
        assert_eq!(to("https://h.example/c").as_deref(), Some("https://h.example/c"));
        assert_eq!(
            (to("https://evil.example/a"), to("//evil.example/a"), to("http://h.example/a")),
            (None, None, None)
        );
    }

    #[tokio::test]
    async fn a_public_server_leads_nowhere_inside() {
        let http = ProviderHttp::default();
        for url in ["https://10.0.0.1/x", "http://127.0.0.1:1/x", "https://169.254.169.254/x"] {
            let refused = http.read(url, ProviderReach::Public).await.expect_err("it is refused");
            assert!(refused.contains("private network"), "{url}: {refused}");
        }
        let plain = http.read("http://h.example/x", ProviderReach::Public).await;
        assert!(plain.is_err_and(|refused| refused.contains("https")));
    }
}
