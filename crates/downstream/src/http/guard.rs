//! Requests that a web page of somebody else may have caused.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};

/// Whether `Origin` and `Host` are those of a program or a page on this machine, or of this very site.
pub(super) fn allowed(headers: &HeaderMap, loopback: bool, own_name: Option<&str>) -> bool {
    let host = headers.get(HOST).and_then(|v| v.to_str().ok());
    // A name that an attacker's DNS points here is still the attacker's name.
    // A request without `Host` is no browser's, so it needs no check.
    let is_local = |authority: &str| is_local(authority, own_name);
    if loopback && host.is_some_and(|host| !is_local(host)) {
        return false;
    }
    // An origin that is no text names no site and is refused, as is the `null` of a sandboxed page.
    match headers.get(ORIGIN).map(|v| v.to_str().unwrap_or_default()) {
        None => true,
        Some(origin) => {
            let site = origin.split_once("://").map(|(_, site)| site);
            // Reached by a name of its own, a page of the same site may call it.
            site.is_some_and(|site| is_local(site) || (!loopback && host == Some(site)))
        }
    }
}

fn is_local(authority: &str, own_name: Option<&str>) -> bool {
    // An IPv6 address stands in brackets, and has colons of its own.
    let name = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    // Only this one of all names below `localhost`: another program may serve pages under the others.
    own_name.is_some_and(|own| name.eq_ignore_ascii_case(own))
        || name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut map = HeaderMap::new();
        map.insert(HOST, HeaderValue::from_str(host).expect("a header"));
        if let Some(origin) = origin {
            map.insert(ORIGIN, HeaderValue::from_str(origin).expect("a header"));
        }
        map
    }

    #[test]
    fn only_this_machine_may_ask_on_loopback() {
        for (host, origin, expected) in [
            ("localhost:7337", None, true),
            ("127.0.0.1:7337", Some("http://localhost:7337"), true),
            ("[::1]:7337", Some("http://[::1]:7337"), true),
            ("evil.example:7337", None, false),
            ("localhost:7337", Some("http://evil.example"), false),
            ("localhost:7337", Some("null"), false),
            ("localhost.evil.example", None, false),
            ("tidings-1.localhost:7337", Some("http://tidings-1.localhost:7337"), true),
            ("tidings-2.localhost:7337", None, false),
            ("tidings-1.localhost.evil.example", None, false),
            ("127.0.0.1:7337", Some("http://evil.localhost:9999"), false),
        ] {
            assert_eq!(
                allowed(&headers(host, origin), true, Some("tidings-1.localhost")),
                expected,
                "{host} {origin:?}"
            );
        }
    }

    #[test]
    fn a_public_site_accepts_its_own_pages() {
        assert!(allowed(&headers("mcp.example", Some("https://mcp.example")), false, None));
        assert!(!allowed(&headers("mcp.example", Some("https://evil.example")), false, None));
    }
}
