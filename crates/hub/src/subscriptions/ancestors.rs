//! What a URI lies under: a server may announce a child of the resource that was subscribed to.

/// So many levels are looked at, from below: nobody can make a change expensive by a long URI.
const MOST: usize = 64;

/// The URIs that are path prefixes of this one, nearest first, each with and without its last slash. A query or fragment
/// makes a URI a child of the one without it. The scheme and the authority are nobody's parent.
pub(super) fn ancestors(uri: &str) -> impl Iterator<Item = &str> {
    let path_end = uri.find(['?', '#']).unwrap_or(uri.len());
    let root = root_of(&uri[..path_end]);
    // A URI with a query lies under the same one without it.
    let whole = (path_end < uri.len()).then_some(path_end);
    let slashes = uri[root..path_end].rmatch_indices('/').take(MOST).flat_map(move |(at, _)| {
        let at = root + at;
        // A follower may have written the folder with its slash or without.
        [at + 1, at]
    });
    // Neither the empty text nor the URI itself is a parent of it.
    whole.into_iter().chain(slashes).filter(move |end| *end > 0 && *end < uri.len()).map(|end| &uri[..end])
}

/// Where the path begins.
fn root_of(uri: &str) -> usize {
    let Some(colon) = uri.find(':').filter(|at| !uri[..*at].contains('/')) else { return 0 };
    match uri[colon + 1..].strip_prefix("//") {
        Some(rest) => colon + 3 + rest.find('/').unwrap_or(rest.len()),
        None => colon + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::ancestors;

    fn all(uri: &str) -> Vec<&str> {
        ancestors(uri).collect()
    }

    #[test]
    fn a_path_lies_under_each_of_its_prefixes() {
        assert_eq!(all("db://h/a/b"), ["db://h/a/", "db://h/a", "db://h/", "db://h"]);
        assert_eq!(all("db://h/a/"), ["db://h/a", "db://h/", "db://h"]);
        assert_eq!(all("file:///a/b"), ["file:///a/", "file:///a", "file:///", "file://"]);
        assert_eq!(all("note:a/b"), ["note:a/", "note:a"]);
        assert_eq!(all("db://h/t?id=1/2"), ["db://h/t", "db://h/", "db://h"]);
        assert_eq!(all("db://h"), [] as [&str; 0]);
        assert_eq!(all("note:a"), [] as [&str; 0]);
        assert_eq!(all(""), [] as [&str; 0]);
    }

    #[test]
    fn a_long_uri_costs_no_more_than_64_levels() {
        let long = format!("db://h{}", "/é".repeat(10_000));
        assert_eq!(all(&long).len(), 128);
    }
}
