//! Addresses of servers and providers: their parts, where their metadata stands, and which of them may be used.

use std::net::IpAddr;

use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What RFC 3986 lets stand as it is.
const UNRESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An absolute `http` or `https` address, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebAddress {
    scheme: String,
    authority: String,
    /// Without a slash at its end; empty for the root.
    path: String,
}

impl WebAddress {
    /// `None` if it is no such address, or holds a user name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let authority = uri.authority()?.as_str().to_ascii_lowercase();
        // A user name in an address is a credential that would stand in logs, and a way to make a host look like
        // another.
        if !matches!(scheme.as_str(), "http" | "https") || authority.contains('@') || uri.host()?.is_empty() {
            return None;
        }
        let default = if scheme == "https" { ":443" } else { ":80" };
        // Without the default port: origins are compared as text.
        let authority = authority.strip_suffix(default).unwrap_or(&authority).to_owned();
        Some(Self { scheme, authority, path: uri.path().trim_end_matches('/').to_owned() })
    }

    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// The server as a resource: without a query, and without a slash that says nothing.
    pub(crate) fn canonical(&self) -> String {
        format!("{}{}", self.origin(), self.path)
    }

    pub(crate) fn host(&self) -> &str {
        match self.authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => self.authority.split(':').next().unwrap_or_default(),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        let after = self.authority.rsplit(']').next().unwrap_or_default();
        let written = after.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        written.unwrap_or(if self.scheme == "https" { 443 } else { 80 })
    }

    /// Whether a secret may be sent there: over TLS, or without leaving this machine.
    pub(crate) fn is_safe(&self) -> bool {
        self.scheme == "https" || self.is_loopback()
    }

    pub(crate) fn is_loopback(&self) -> bool {
        // A dot at the end is the same name, fully qualified.
        let host = self.host().trim_end_matches('.');
        host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
            || host == "localhost"
            // RFC 6761, 6.3: names below it never leave this machine.
            || host.ends_with(".localhost")
    }

    /// Whether another address is this one or lies below it.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let below = other.path.strip_prefix(&self.path);
        // At a slash only: `/api` does not cover `/apis`.
        self.origin() == other.origin() && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Where a resource describes itself (RFC 9728): below the well-known path, and at the root.
    pub(crate) fn resource_metadata(&self) -> Vec<String> {
        let root = format!("{}/.well-known/oauth-protected-resource", self.origin());
        match self.path.is_empty() {
            true => vec![root],
            // The exact place first (RFC 9728, 3.1); many servers only have the one at the root.
            false => vec![format!("{root}{}", self.path), root],
        }
    }

    /// Where a provider describes itself (RFC 8414, then OpenID Connect in both spellings).
    pub(crate) fn provider_metadata(&self) -> Vec<String> {
        let (origin, path) = (self.origin(), &self.path);
        let mut places = vec![
            // Inserted between host and path (RFC 8414, 3.1), and not appended as OpenID Connect has it below.
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
        ];
        if !path.is_empty() {
            places.push(format!("{origin}{path}/.well-known/openid-configuration"));
        }
        places
    }
}

/// The fields of a form or of a query, encoded.
pub(crate) fn encode_fields<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let encode = |text: &'a str| utf8_percent_encode(text, &UNRESERVED);
    let fields = fields.into_iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    fields.collect::<Vec<_>>().join("&")
}

/// One value, encoded.
pub(crate) fn encode_value(text: &str) -> String {
    utf8_percent_encode(text, &UNRESERVED).to_string()
}

/// An address with more fields in its query; it may have some.
pub(crate) fn with_query(address: &str, fields: &str) -> String {
    // An endpoint may have a query of its own, which has to stay (RFC 6749, 3.1).
    let sign = if address.contains('?') { '&' } else { '?' };
    format!("{address}{sign}{fields}")
}

/// The fields of a query.
pub(crate) fn decode_fields(query: &str) -> Vec<(String, String)> {
    // The plus before the percent signs: `%2B` is a plus that was meant.
    let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let fields = query.split('&').filter(|field| !field.is_empty());
    fields.map(|field| field.split_once('=').unwrap_or((field, ""))).map(|(k, v)| (decode(k), decode(v))).collect()
}

/// The value of a field that stands there exactly once.
pub(crate) fn single<'f>(fields: &'f [(String, String)], name: &str) -> Option<&'f str> {
    let mut found = fields.iter().filter(|(key, _)| key == name);
    let first = found.next()?;
    // RFC 6749, 3.1: parameters must not be there more than once. Of two, none can be trusted.
    found.next().is_none().then_some(first.1.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> WebAddress {
        WebAddress::parse(text).expect("an address")
    }

    #[test]
    fn metadata_stands_in_each_of_its_places_in_order() {
        assert_eq!(
            address("https://H.example:443/a/mcp/").resource_metadata(),
            [
                "https://h.example/.well-known/oauth-protected-resource/a/mcp",
                "https://h.example/.well-known/oauth-protected-resource"
            ]
        );
        assert_eq!(
            address("https://h.example/t").provider_metadata(),
            [
                "https://h.example/.well-known/oauth-authorization-server/t",
                "https://h.example/.well-known/openid-configuration/t",
                "https://h.example/t/.well-known/openid-configuration"
            ]
        );
        assert_eq!(address("https://h.example").provider_metadata().len(), 2);
    }

    #[test]
    fn a_secret_goes_over_tls_or_stays_on_this_machine() {
        for (text, is_safe) in [
            ("https://h.example", true),
            ("http://127.0.0.1:9", true),
            ("http://[::1]:9/x", true),
            ("http://localhost", true),
            ("http://h.example", false),
            ("http://127.0.0.1.evil.example", false),
        ] {
            assert_eq!(address(text).is_safe(), is_safe, "{text}");
        }
        assert_eq!(WebAddress::parse("https://me@h.example/"), None);
        assert_eq!(WebAddress::parse("ftp://h.example/"), None);
        assert_eq!((address("http://[::1]:9/x").port(), address("https://h/x").port()), (9, 443));
    }

    #[test]
    fn a_resource_covers_what_lies_below_it() {
        let server = address("https://h.example/a/mcp");
        for (text, covers) in [
            ("https://h.example", true),
            ("https://h.example/a", true),
            ("https://h.example/a/mcp/", true),
            ("https://h.example/a/mc", false),
            ("https://h.example/b", false),
            ("https://evil.example/a/mcp", false),
            ("http://h.example/a/mcp", false),
        ] {
            assert_eq!(address(text).covers(&server), covers, "{text}");
        }
    }

    #[test]
    fn fields_come_back_as_they_went_and_a_double_one_counts_for_nothing() {
        let text = encode_fields([("a b", "c&d=é"), ("e", "")]);
        assert_eq!(decode_fields(&text), [("a b".to_owned(), "c&d=é".to_owned()), ("e".into(), String::new())]);
        let fields = decode_fields("code=1&code=2&state=s");
        assert_eq!((single(&fields, "code"), single(&fields, "state")), (None, Some("s")));
    }
}
