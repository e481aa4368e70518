//! Which items a rule is about: `SERVER/NAME`, as the server spells the name.

use std::fmt;
use std::str::FromStr;

use super::glob::Glob;

/// Items of servers. A name alone would not do: two servers can have tools of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemPattern {
    text: Box<str>,
    server: Glob,
    name: Glob,
}

/// A text is no pattern of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected \"SERVER/NAME\" (\"crm/get_*\", \"crm/*\"), or \"*\" for everything")]
pub struct BadItemPattern;

impl ItemPattern {
    pub(super) fn touches(&self, server: &str) -> bool {
        self.server.matches(server)
    }

    /// Whether it is about everything of the servers that it touches.
    pub(super) fn is_whole(&self) -> bool {
        self.name.is_any()
    }

    pub(crate) fn fits(&self, server: &str, name: &str) -> bool {
        self.touches(server) && self.name.matches(name)
    }
}

impl FromStr for ItemPattern {
    type Err = BadItemPattern;

    fn from_str(text: &str) -> Result<Self, BadItemPattern> {
        let parts = match text {
            "*" => Some(("*", "*")),
            // The first slash: names of servers have none, and URIs have many.
            _ => text.split_once('/').filter(|(server, name)| !server.is_empty() && !name.is_empty()),
        };
        let (server, name) = parts.ok_or(BadItemPattern)?;
        Ok(Self { text: text.into(), server: Glob::new(server), name: Glob::new(name) })
    }
}

impl fmt::Display for ItemPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A URI in its plainest spelling: without escapes, dots and doubled slashes, its scheme and host in small letters. `None` where it is
/// written so already.
pub(super) fn plain_uri(uri: &str) -> Option<String> {
    // Once, as a server does: `%252e` means the text `%2e` there, and no dot.
    let decoded = decoded(uri);
    let (scheme, rest) = decoded.split_once(':').unwrap_or(("", &decoded));
    let scheme = scheme.to_ascii_lowercase();
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            (Some(rest[..end].to_ascii_lowercase()), &rest[end..])
        }
        None => (None, rest),
    };
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let (path, query) = path.split_at(end);
    let mut segments: Vec<&str> = Vec::new();
    let last = path.split('/').count() - 1;
    for (place, segment) in path.split('/').enumerate() {
        match segment {
            "." | ".." => {
                // The first segment is what stands before the first slash: nothing leads above it.
                if segment == ".." && segments.len() > 1 {
                    segments.pop();
                }
                // "a/." is the folder "a/".
                if place == last {
                    segments.push("");
                }
            }
            "" if place != 0 && place != last => {}
            _ => segments.push(segment),
        }
    }
    let mut plain = String::with_capacity(uri.len());
    if !scheme.is_empty() || decoded.starts_with(':') {
        plain.push_str(&scheme);
        plain.push(':');
    }
    if let Some(host) = host {
        plain.push_str("//");
        plain.push_str(&host);
    }
    plain.push_str(&segments.join("/"));
    plain.push_str(query);
    (plain != uri).then_some(plain)
}

/// The text without `%XX`. What is no text then stays as it is.
fn decoded(uri: &str) -> String {
    if !uri.contains('%') {
        return uri.to_owned();
    }
    let bytes = uri.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| (*byte as char).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| uri.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // identity 3
    #[test]
    fn a_pattern_is_a_server_and_a_name() {
        let fits = |text: &str, server, name| text.parse::<ItemPattern>().expect("a pattern").fits(server, name);
        assert!(fits("crm/get_*", "crm", "get_customer"));
        assert!(!fits("crm/get_*", "crm2", "get_customer"));
        assert!(fits("*", "any", "thing") && fits("*/x", "any", "x"));
        assert!(fits("crm/db://a/*", "crm", "db://a/b"));
        for text in ["", "crm", "/x", "crm/"] {
            assert_eq!(text.parse::<ItemPattern>(), Err(BadItemPattern), "{text:?}");
        }
    }

    // identity 3
    #[test]
    fn ways_to_write_the_same_uri_are_one() {
        let table = [
            ("db://a/b", None),
            ("db://a/%62", Some("db://a/b")),
            ("DB://A/b", Some("db://a/b")),
            ("file:///x/../secret/k", Some("file:///secret/k")),
            ("file:///x/./k", Some("file:///x/k")),
            ("file:///x//k", Some("file:///x/k")),
            ("file:///../../k", Some("file:///k")),
            ("file:///x/%2e%2e/k", Some("file:///k")),
            ("file:///x/..", Some("file:///")),
            ("db://a/b/", None),
            ("db://a?q=%2e", Some("db://a?q=.")),
            ("note:x", None),
            ("plain", None),
            ("a/%ff", None),
        ];
        for (uri, plain) in table {
            assert_eq!(plain_uri(uri).as_deref(), plain, "{uri}");
        }
    }
}
