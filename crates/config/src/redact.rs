//! What may be shown of values that may hold a secret.

/// A URL without its user, query and fragment.
pub(crate) fn without_secrets(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    match bare.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            // From the right: a password may hold an `@`.
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        // Not a URL, so nothing is known of where a secret may stand.
        None => "…".to_owned(),
    }
}
