//! Resource URIs on both sides of the gateway.

/// How one server's URIs appear to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UriMap {
    /// As they are.
    Transparent,
    /// With `prefix+` before the scheme: reversible, stateless, and safe for templates.
    Prefix(Box<str>),
}

impl UriMap {
    /// Whether nothing is changed.
    pub fn is_transparent(&self) -> bool {
        matches!(self, Self::Transparent)
    }

    /// From the server's to the client's.
    pub fn outward(&self, uri: &str) -> String {
        match self {
            Self::Transparent => uri.to_owned(),
            Self::Prefix(prefix) => format!("{prefix}+{uri}"),
        }
    }

    /// From the client's to the server's; `None` when it is not one of this server's. Schemes are case-insensitive.
    pub fn inward<'u>(&self, uri: &'u str) -> Option<&'u str> {
        match self {
            Self::Transparent => Some(uri),
            Self::Prefix(prefix) => {
                let head = uri.get(..prefix.len())?;
                let rest = uri.get(prefix.len()..)?;
                head.eq_ignore_ascii_case(prefix).then(|| rest.strip_prefix('+')).flatten()
            }
        }
    }
}
