//! The network for registries: bounded in time and size, and not into a private network because an entry says so.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, HeaderName, HeaderValue, LOCATION, USER_AGENT, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use serde_json::Value;
use tidings_config::RegistrySettings;
use tidings_server_catalog::{FetchRequest, RegistryFetcher, SyncFault};
use tidings_upstream::{HttpClient, LinkError, is_public};

const AGENT: HeaderValue = HeaderValue::from_static(concat!("tidings/", env!("CARGO_PKG_VERSION")));
/// How often in a row an address may lead to another.
const REDIRECTS: usize = 5;
/// How long a registry of images may take, and how much it may say.
const IMAGE_WITHIN: Duration = Duration::from_secs(20);
const IMAGE_BYTES: usize = 4 << 20;
/// The forms of a manifest, of which the index of all platforms comes first.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

/// The ways to registries. Made when one is first needed: each loads the certificates that the system trusts.
pub(crate) struct RegistryHttp {
    /// Hosts and ports that the configuration names: only these may be in a private network. Another port of the same machine is another
    /// service, which nobody has named.
    declared: Vec<(String, u16)>,
    anywhere: OnceLock<Result<HttpClient, LinkError>>,
    public: OnceLock<Result<HttpClient, LinkError>>,
}

impl RegistryHttp {
    pub(crate) fn new(registries: &[RegistrySettings]) -> Self {
        let hosts = registries.iter().filter_map(|registry| host_and_port(&registry.url.parse().ok()?));
        Self { declared: hosts.collect(), anywhere: OnceLock::new(), public: OnceLock::new() }
    }

    async fn send(
        &self,
        method: Method,
        url: &Uri,
        headers: &[(HeaderName, HeaderValue)],
        within: Duration,
        limit: usize,
    ) -> Result<Response<Bytes>, SyncFault> {
        let unreachable = |reason: &str| SyncFault::Unreachable(reason.to_owned());
        let host = url.host().ok_or_else(|| unreachable("it has no address"))?;
        let is_declared = host_and_port(url).is_some_and(|asked| self.declared.contains(&asked));
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        // A name is looked at by the client's resolver instead, after it was resolved.
        if !is_declared && address.is_ok_and(|address| !is_public(address)) {
            return Err(unreachable("it is an address of a private network that no [[registry]] names"));
        }
        if !is_declared && url.scheme_str() != Some("https") {
            return Err(unreachable("it is not reached over https"));
        }
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.method_mut() = method;
        *request.uri_mut() = url.clone();
        request.headers_mut().insert(USER_AGENT, AGENT);
        for (name, value) in headers {
            request.headers_mut().insert(name.clone(), value.clone());
        }
        let client = match is_declared {
            true => self.anywhere.get_or_init(HttpClient::new),
            false => self.public.get_or_init(HttpClient::public_only),
        };
        let client = client.as_ref().map_err(|error| unreachable(&error.to_string()))?;
        client.fetch(request, within, limit).await.map_err(|error| unreachable(&error.to_string()))
    }

    async fn get_whole(&self, request: FetchRequest) -> Result<Vec<u8>, SyncFault> {
        let mut url = address(&request.url)?;
        let mut headers = vec![(ACCEPT, HeaderValue::from_static("application/json, */*;q=0.5"))];
        for (name, value) in &request.headers {
            let name = HeaderName::try_from(name.as_str()).map_err(|_| unsendable(name))?;
            let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| unsendable(name.as_str()))?;
            value.set_sensitive(true);
            headers.push((name, value));
        }
        for _ in 0..=REDIRECTS {
            let answer = self.send(Method::GET, &url, &headers, request.within, request.limit).await?;
            let status = answer.status();
            let location = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            match location.filter(|_| status.is_redirection()) {
                Some(to) if request.follows || is_same_origin(&url, to) => url = joined(&url, to)?,
                _ if status.is_success() => return Ok(answer.into_body().into()),
                _ => return Err(SyncFault::Status(status.as_u16())),
            }
        }
        Err(SyncFault::Unreachable("it leads from one address to the next".to_owned()))
    }

    /// The digest of an image, asked of its registry as the distribution specification has it.
    async fn digest(&self, image: &str) -> Result<String, SyncFault> {
        let (host, name, tag) = parts(image);
        let is_local = host.starts_with("localhost") || host.starts_with("127.0.0.1");
        // A registry on this machine has no certificate; `send` lets it through only where the configuration names it.
        let scheme = if is_local { "http" } else { "https" };
        let url = address(&format!("{scheme}://{host}/v2/{name}/manifests/{tag}"))?;
        let mut headers = vec![(ACCEPT, HeaderValue::from_static(MANIFESTS))];
        // `HEAD`: the digest is a header, and a manifest may be long.
        let mut answer = self.send(Method::HEAD, &url, &headers, IMAGE_WITHIN, IMAGE_BYTES).await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            // Even what anybody may read needs a token at most registries, which they give to anybody.
            let challenge = answer.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
            let realm = challenge.and_then(|challenge| token_address(challenge, &name));
            let realm = address(&realm.ok_or(SyncFault::Status(401))?)?;
            // Without the headers of the first request: where tokens come from is the registry's word, and may be
            // anybody.
            let given = self.send(Method::GET, &realm, &[], IMAGE_WITHIN, IMAGE_BYTES).await?;
            let given: Value = serde_json::from_slice(given.body()).unwrap_or_default();
            let token = given["token"].as_str().or_else(|| given["access_token"].as_str());
            let bearer = format!("Bearer {}", token.ok_or(SyncFault::Status(401))?);
            let mut bearer = HeaderValue::try_from(bearer).map_err(|_| SyncFault::Status(401))?;
            bearer.set_sensitive(true);
            headers.push((AUTHORIZATION, bearer));
            answer = self.send(Method::HEAD, &url, &headers, IMAGE_WITHIN, IMAGE_BYTES).await?;
        }
        if !answer.status().is_success() {
            return Err(SyncFault::Status(answer.status().as_u16()));
        }
        let digest = answer.headers().get("docker-content-digest").and_then(|digest| digest.to_str().ok());
        // Checked, because it becomes part of a command: it must not be anything but a digest.
        let digest = digest.filter(|digest| {
            digest
                .strip_prefix("sha256:")
                .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
        });
        digest.map(str::to_owned).ok_or_else(|| SyncFault::Unreachable("it names no digest of the image".to_owned()))
    }
}

impl RegistryFetcher for RegistryHttp {
    fn get(&self, request: FetchRequest) -> BoxFuture<'_, Result<Vec<u8>, SyncFault>> {
        Box::pin(self.get_whole(request))
    }

    fn image_digest(&self, image: String) -> BoxFuture<'_, Result<String, SyncFault>> {
        Box::pin(async move { self.digest(&image).await })
    }
}

fn unsendable(name: &str) -> SyncFault {
    SyncFault::Unreachable(format!("the header {name} can not be sent"))
}

fn address(url: &str) -> Result<Uri, SyncFault> {
    url.parse().map_err(|_| SyncFault::Unreachable(format!("{url:?} is no address")))
}

/// Whom a URL leads to.
fn host_and_port(url: &Uri) -> Option<(String, u16)> {
    let usual = if url.scheme_str() == Some("http") { 80 } else { 443 };
    Some((url.host()?.to_ascii_lowercase(), url.port_u16().unwrap_or(usual)))
}

fn is_same_origin(from: &Uri, to: &str) -> bool {
    let Ok(to) = joined(from, to) else { return false };
    // The scheme, too: a redirect from `https` to `http` would send the headers in the open.
    from.scheme() == to.scheme() && from.authority() == to.authority()
}

/// Where a redirect leads.
fn joined(from: &Uri, to: &str) -> Result<Uri, SyncFault> {
    if to.starts_with('/') && !to.starts_with("//") {
        let (scheme, authority) = (from.scheme_str().unwrap_or("https"), from.authority().map_or("", |at| at.as_str()));
        return address(&format!("{scheme}://{authority}{to}"));
    }
    let to = address(to)?;
    match to.host() {
        Some(_) => Ok(to),
        None => Err(SyncFault::Unreachable("it leads nowhere".to_owned())),
    }
}

/// Host, name and tag of an image, with what is left out of the names of the best-known registry.
fn parts(image: &str) -> (String, String, String) {
    let (name, tag) = match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    };
    let (host, name) = match name.split_once('/') {
        // As Docker reads it: the first part is a host only if it can not be the name of a user there.
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest.to_owned()),
        Some(_) => ("docker.io", name.to_owned()),
        None => ("docker.io", format!("library/{name}")),
    };
    match host {
        "docker.io" | "index.docker.io" => {
            let name = if name.contains('/') { name } else { format!("library/{name}") };
            ("registry-1.docker.io".to_owned(), name, tag.to_owned())
        }
        other => (other.to_owned(), name, tag.to_owned()),
    }
}

/// Where a token is to be had: `Bearer realm="…",service="…",scope="…"`.
fn token_address(challenge: &str, name: &str) -> Option<String> {
    let challenge = challenge.strip_prefix("Bearer ").or_else(|| challenge.strip_prefix("bearer "))?;
    let member = |key: &str| {
        let (_, after) = challenge.split_once(&format!("{key}=\""))?;
        after.split_once('"').map(|(value, _)| value)
    };
    let realm = member("realm")?;
    let service = member("service").unwrap_or_default();
    let mark = if realm.contains('?') { '&' } else { '?' };
    let scope = crate::url_text::encode(&format!("repository:{name}:pull"));
    Some(format!("{realm}{mark}service={}&scope={scope}", crate::url_text::encode(service)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // reach 5
    #[test]
    fn an_image_is_asked_for_where_it_is() {
        let hub = |name: &str, tag: &str| ("registry-1.docker.io".to_owned(), name.to_owned(), tag.to_owned());
        assert_eq!(parts("docker.io/acme/desk:1.0"), hub("acme/desk", "1.0"));
        assert_eq!(parts("acme/desk:1.0"), hub("acme/desk", "1.0"));
        assert_eq!(parts("redis:7"), hub("library/redis", "7"));
        let local = ("127.0.0.1:5000".to_owned(), "clock".to_owned(), "1".to_owned());
        assert_eq!(parts("127.0.0.1:5000/clock:1"), local);
        let asked = token_address(r#"Bearer realm="https://auth.example/token",service="r.example""#, "acme/desk");
        assert_eq!(
            asked.as_deref(),
            Some("https://auth.example/token?service=r.example&scope=repository%3Aacme%2Fdesk%3Apull")
        );
    }

    // reach 5
    #[test]
    fn a_registry_is_a_host_and_a_port() {
        let of = |url: &str| host_and_port(&url.parse().expect("a URL"));
        assert_eq!(of("https://R.example/x"), of("https://r.example:443"));
        assert_ne!(of("https://r.example"), of("https://r.example:8443"));
        assert_ne!(of("http://r.example"), of("https://r.example"));
    }

    // reach 5
    #[tokio::test]
    async fn another_port_of_a_named_host_is_not_named() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let settings = |url: String| RegistrySettings {
            name: "house".into(),
            url,
            headers: Vec::new(),
            refresh: Duration::from_secs(3_600),
        };
        let http = RegistryHttp::new(&[settings("http://127.0.0.1:1/".to_owned())]);
        let request = FetchRequest {
            url: format!("http://127.0.0.1:{port}/x"),
            headers: Vec::new(),
            within: Duration::from_secs(5),
            limit: 10,
            follows: true,
        };
        let refused = http.get(request).await.expect_err("it is refused").to_string();
        assert!(refused.contains("private network"), "{refused}");
        let asked = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(asked.is_err(), "it was connected");
    }

    // reach 5
    #[tokio::test]
    async fn what_an_entry_names_leads_nowhere_inside() {
        let http = RegistryHttp::new(&[]);
        for url in ["http://127.0.0.1:1/x", "https://10.0.0.1/x", "https://169.254.169.254/x", "http://h.example/x"] {
            let request = FetchRequest {
                url: url.to_owned(),
                headers: Vec::new(),
                within: Duration::from_secs(5),
                limit: 10,
                follows: true,
            };
            let refused = http.get(request).await.expect_err("it is refused").to_string();
            assert!(refused.contains("private network") || refused.contains("https"), "{url}: {refused}");
        }
    }
}
