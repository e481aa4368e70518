//! Resource URIs on both sides of the gateway.

use std::borrow::Cow;

use tidings_wire::{ByteSpan, Patch, encode_string, get, get_path, string_at};

/// The scheme of MCP Apps. Hosts know an app's resource by it, so it must stay what it is.
const UI: &str = "ui://";

/// The scheme of the gateway's own resources. No server's URI is shown with it.
const OWN: &str = "watch:";

/// How one server's URIs appear to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UriMap {
    /// URIs are shown as they are written: those of the gateway's own servers.
    Transparent,
    /// URIs are shown as the server wrote them, but for those that would be taken for the gateway's own (`watch:`): they get
    /// the prefix.
    Bare(Box<str>),
    /// With `prefix+` before the scheme: reversible, stateless, and safe for templates. `ui://x` becomes `ui://prefix/x`.
    Prefix(Box<str>),
}

impl UriMap {
    /// Whether URIs are shown as they are, but for what [`Self::leaves`] says.
    pub fn is_transparent(&self) -> bool {
        !matches!(self, Self::Prefix(_))
    }

    /// Whether this URI of the server is shown as it is.
    pub fn leaves(&self, uri: &str) -> bool {
        match self {
            Self::Transparent => true,
            Self::Bare(_) => !is_own(uri),
            Self::Prefix(_) => false,
        }
    }

    /// Whether every URI in this message of the server is shown as it is. Where that is not certain, it says no.
    pub fn leaves_all(&self, message: &[u8]) -> bool {
        match self {
            Self::Transparent => true,
            Self::Bare(_) => !may_hold_own(message),
            Self::Prefix(_) => false,
        }
    }

    /// The server's URI, where the client's has the prefix of this server.
    pub fn by_prefix<'u>(&self, uri: &'u str) -> Option<Cow<'u, str>> {
        match self {
            Self::Transparent => None,
            // Only before the own scheme: `prefix+https:` may be a URI that the server itself has.
            Self::Bare(prefix) => after(uri, prefix, '+').filter(|uri| is_own(uri)).map(Cow::from),
            Self::Prefix(_) => self.inward(uri),
        }
    }

    /// From the server's to the client's.
    pub fn outward(&self, uri: &str) -> String {
        match self {
            Self::Transparent => uri.to_owned(),
            Self::Bare(prefix) if is_own(uri) => format!("{prefix}+{uri}"),
            Self::Bare(_) => uri.to_owned(),
            Self::Prefix(prefix) => match split_ui(uri) {
                // Clients know pages by the scheme, so it stays in front and the prefix goes into the host.
                Some((scheme, rest)) => format!("{scheme}{prefix}/{rest}"),
                None => format!("{prefix}+{uri}"),
            },
        }
    }

    /// From the client's to the server's; `None` when it is not one of this server's. Schemes are case-insensitive.
    pub fn inward<'u>(&self, uri: &'u str) -> Option<Cow<'u, str>> {
        match self {
            Self::Transparent => Some(uri.into()),
            // The prefix first: it stands only before `watch:`, which is never shown bare.
            Self::Bare(_) => self.by_prefix(uri).or_else(|| self.leaves(uri).then(|| uri.into())),
            Self::Prefix(prefix) => match split_ui(uri) {
                Some((scheme, rest)) => Some(format!("{scheme}{}", after(rest, prefix, '/')?).into()),
                None => Some(after(uri, prefix, '+')?.into()),
            },
        }
    }

    /// Maps the resource of an app that a `_meta` names, in either spelling.
    pub fn map_ui_resource(&self, bytes: &[u8], meta: ByteSpan, patch: &mut Patch) {
        if self.is_transparent() {
            return;
        }
        // The second spelling is that of drafts of the extension, which servers still send.
        for at in [get_path(bytes, meta, &["ui", "resourceUri"]), get(bytes, meta, "ui/resourceUri")] {
            if let Some((at, uri)) = at.and_then(|at| Some((at, string_at(bytes, at)?))) {
                patch.replace(at, encode_string(&self.outward(&uri)));
            }
        }
    }
}

fn is_own(uri: &str) -> bool {
    uri.get(..OWN.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(OWN))
}

/// Whether a text of JSON may hold a URI with the scheme of the gateway's own. On the path of every answer of a server that is alone, so it
/// looks at colons and backslashes only, in one pass, and reads nothing.
fn may_hold_own(message: &[u8]) -> bool {
    let scheme = &OWN.as_bytes()[..OWN.len() - 1];
    memchr::memchr2_iter(b':', b'\\', message).any(|at| match message[at] {
        // In a message most colons follow a quote: its last letter alone tells nearly all of them from the scheme.
        b':' => {
            // It wraps where too little stands before the colon, and a range that begins so far out is none.
            let before = message[..at].get(at.wrapping_sub(scheme.len())..).unwrap_or_default();
            before.last().map(u8::to_ascii_lowercase) == scheme.last().copied() && before.eq_ignore_ascii_case(scheme)
        }
        // A letter or the colon may be written as an escape, which is rare enough to be looked at properly.
        _ => message[at..].starts_with(b"\\u00"),
    })
}

fn split_ui(uri: &str) -> Option<(&str, &str)> {
    uri.split_at_checked(UI.len()).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(UI))
}

fn after<'u>(text: &'u str, prefix: &str, seam: char) -> Option<&'u str> {
    let head = text.get(..prefix.len())?;
    // Clients may write the scheme and the host of a URI in other cases.
    head.eq_ignore_ascii_case(prefix).then(|| text[prefix.len()..].strip_prefix(seam)).flatten()
}
