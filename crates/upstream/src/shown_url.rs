//! What logs and errors show of a URL. Many servers take their key in it.

use std::fmt;

/// A segment of a path that is at least this long, with letters and digits, is taken for a key.
const KEY: usize = 16;

/// A URL as logs and errors show it: without user, query and fragment, and without what may be a key in its path.
pub struct ShownUrl<'u>(&'u str);

impl<'u> ShownUrl<'u> {
    /// To be shown instead of this.
    pub fn of(url: &'u str) -> Self {
        Self(url)
    }
}

impl fmt::Display for ShownUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = match self.0.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            // A path alone, as redirects have it.
            None if self.0.starts_with('/') => (None, self.0),
            // Nothing is known of where a secret may stand.
            None => return f.write_str("…"),
        };
        let end = rest.find(['?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest[..end].split_at(rest[..end].find('/').unwrap_or(end));
        // From the right: a password may hold an `@`.
        if let Some(scheme) = scheme {
            write!(f, "{scheme}://{}", authority.rsplit('@').next().unwrap_or_default())?;
        }
        for segment in path.split('/').skip(1) {
            write!(f, "/{}", if is_key(segment) { "…" } else { segment })?;
        }
        if end < rest.len() { f.write_str("?…") } else { Ok(()) }
    }
}

fn is_key(segment: &str) -> bool {
    let has = |is: fn(char) -> bool| segment.contains(is);
    segment.len() >= KEY && has(|c| c.is_ascii_digit()) && has(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    // trust T10
    #[test]
    fn a_key_in_a_url_is_not_shown() {
        let table = [
            ("https://user:p@ss@host:8080/mcp?key=hush#x", "https://host:8080/mcp?…"),
            ("https://host/s/Zm9vYmFyMTIzNDU2Nzg5/mcp", "https://host/s/…/mcp"),
            ("https://host/v1/streamable-http/mcp", "https://host/v1/streamable-http/mcp"),
            ("http://127.0.0.1:1", "http://127.0.0.1:1"),
            ("/mcp/?key=hush", "/mcp/?…"),
            ("hush", "…"),
        ];
        for (url, shown) in table {
            assert_eq!(ShownUrl::of(url).to_string(), shown);
        }
    }
}
