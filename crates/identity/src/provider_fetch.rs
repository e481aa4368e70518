//! Talking to identity providers: bounded in time and size. Their addresses are the configuration's, or what they say themselves.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use tidings_upstream::{HttpClient, LinkError};

/// How long one request may take.
const WITHIN: Duration = Duration::from_secs(10);
/// How long an answer may be.
const LIMIT: usize = 256 << 10;
const AGENT: HeaderValue = HeaderValue::from_static(concat!("tidings/", env!("CARGO_PKG_VERSION")));

/// The way to providers. Made when one is first needed, because it loads the certificates that the system trusts.
static CLIENT: OnceLock<Result<HttpClient, LinkError>> = OnceLock::new();

/// Reads a document.
pub(crate) async fn read(url: &str) -> Result<Bytes, String> {
    let answer = send(Method::GET, url, None, Bytes::new()).await?;
    if answer.status().is_success() {
        return Ok(answer.into_body());
    }
    Err(format!("HTTP status {}", answer.status().as_u16()))
}

/// Sends a form, as somebody.
pub(crate) async fn ask(url: &str, authorization: HeaderValue, form: String) -> Result<Response<Bytes>, String> {
    send(Method::POST, url, Some(authorization), form.into()).await
}

async fn send(
    method: Method,
    url: &str,
    authorization: Option<HeaderValue>,
    body: Bytes,
) -> Result<Response<Bytes>, String> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = url.parse::<Uri>().map_err(|_| "it is not an address")?;
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, AGENT);
    if let Some(authorization) = authorization {
        headers.insert(AUTHORIZATION, authorization);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    }
    let client = CLIENT.get_or_init(HttpClient::new).as_ref().map_err(ToString::to_string)?;
    client.fetch(request, WITHIN, LIMIT).await.map_err(|error| error.to_string())
}

/// Whether an address that a provider names may be used: over TLS, unless the provider itself is on this machine.
pub(crate) fn is_safe(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    uri.scheme_str() == Some("https") || (uri.scheme_str() == Some("http") && is_here)
}
