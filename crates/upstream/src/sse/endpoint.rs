//! Where a server behind HTTP+SSE takes messages: it says so in the first event of its stream.

use http::Uri;

use crate::LinkError;

/// The address that an `endpoint` event names, relative to that of the stream. One of another origin is refused: what is sent
/// there carries the credentials of this server.
pub(super) fn resolve(stream: &Uri, endpoint: &str) -> Result<Uri, LinkError> {
    // A fragment is never sent to a server.
    let named = endpoint.split('#').next().unwrap_or_default().trim();
    let invalid = || LinkError::Protocol(format!("its endpoint is no URL: {endpoint:?}"));
    let (scheme, authority) = stream.scheme_str().zip(stream.authority()).ok_or_else(invalid)?;
    let path = stream.path();
    let absolute = if named.is_empty() {
        return Err(invalid());
    } else if has_scheme(named) {
        named.to_owned()
    } else if named.starts_with("//") {
        format!("{scheme}:{named}")
    } else if named.starts_with('/') {
        format!("{scheme}://{authority}{named}")
    } else if named.starts_with('?') {
        format!("{scheme}://{authority}{path}{named}")
    } else {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{}", without_dots(&format!("{folder}/{named}")))
    };
    let resolved: Uri = absolute.parse().map_err(|_| invalid())?;
    if !is_same_origin(stream, &resolved) {
        return Err(LinkError::Unusable(format!(
            "it names an endpoint of another origin, {}, where its credentials must not go",
            absolute.split('?').next().unwrap_or_default()
        )));
    }
    Ok(resolved)
}

/// Whether a reference begins with a scheme rather than with a path that happens to have a colon.
fn has_scheme(reference: &str) -> bool {
    reference.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

fn is_same_origin(one: &Uri, other: &Uri) -> bool {
    let port = |url: &Uri| url.port_u16().or(if url.scheme_str() == Some("https") { Some(443) } else { Some(80) });
    let same_host = one.host().zip(other.host()).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other));
    same_host && one.scheme() == other.scheme() && port(one) == port(other)
}

/// A path with its `.` and `..` carried out; the query is left alone.
fn without_dots(reference: &str) -> String {
    let (path, query) = match reference.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (reference, None),
    };
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            other => kept.push(other),
        }
    }
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(stream: &str, endpoint: &str) -> Result<String, String> {
        let stream: Uri = stream.parse().unwrap();
        resolve(&stream, endpoint).map(|url| url.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_endpoint_is_read_relative_to_the_stream() {
        for (stream, endpoint, expected) in [
            ("http://h:1/sse", "/messages?sessionId=a", "http://h:1/messages?sessionId=a"),
            ("http://h:1/a/sse", "messages/?session_id=b", "http://h:1/a/messages/?session_id=b"),
            ("http://h:1/a/sse", "../messages?x=..", "http://h:1/messages?x=.."),
            ("http://h:1/a/sse", "./m", "http://h:1/a/m"),
            ("http://h/sse?key=1", "?s=2", "http://h/sse?s=2"),
            ("http://h/sse", "http://H:80/m#top", "http://H:80/m"),
            ("https://h/sse", "//h:443/m", "https://h:443/m"),
            ("http://h/sse", "/m?next=http://other/", "http://h/m?next=http://other/"),
        ] {
            assert_eq!(resolved(stream, endpoint), Ok(expected.to_owned()), "{endpoint}");
        }
    }

    #[test]
    fn an_endpoint_of_another_origin_is_refused() {
        for endpoint in
            ["http://other/m", "https://h:1/m", "http://h:2/m", "//other/m", "http://h:1@other/m", "http://h/m"]
        {
            let refusal = resolved("http://h:1/sse", endpoint).unwrap_err();
            assert!(refusal.contains("another origin"), "{endpoint}: {refusal}");
        }
        for endpoint in ["", "  ", "#x"] {
            assert!(resolved("http://h:1/sse", endpoint).unwrap_err().contains("no URL"), "{endpoint:?}");
        }
    }
}
