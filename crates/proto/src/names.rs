//! Names of tools, prompts and resources, on both sides of the gateway. Which server has a name, and who gives way to whom, is the
//! hub's to say (`hub/catalogue/names.rs`).

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// What clients call something: a tool or prompt as it is listed to them, in another spelling that is understood, or the URI of a
/// resource on their side. A clone shares the text.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicName(Arc<str>);

/// What a server calls something of its own: a tool, a prompt, or a resource by its URI. A clone shares the text.
///
/// There is no way from one to the other but a table, and [`Self::unchanged`] where the two are the same on purpose.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalName(Arc<str>);

impl PublicName {
    /// A name that a client said, or that the gateway gave.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// For something that is shown as its server calls it.
    pub fn unchanged(local: &LocalName) -> Self {
        Self(Arc::clone(&local.0))
    }

    /// The text, for a message or for somebody who reads.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl LocalName {
    /// A name that a server said, or that is looked for among its own.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// For a server that is asked by the very name that the client used.
    pub fn unchanged(public: &PublicName) -> Self {
        Self(Arc::clone(&public.0))
    }

    /// The text, for a message or for somebody who reads.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, shared.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

// No `Deref`: a function that takes `&str` would then take either side of a rename without a word.
macro_rules! reads_as_text {
    ($name:ident) => {
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

reads_as_text!(PublicName);
reads_as_text!(LocalName);

/// How long a public name may be, in bytes.
pub const MAX_PUBLIC_NAME: usize = 64;

/// What stands between the prefix of a server and a name of its own.
pub const SEPARATOR: &str = "__";

/// `prefix__local`, cut and hashed when it would be too long. The way back is a table, never a split.
pub fn public_name(prefix: &str, local: &LocalName) -> PublicName {
    let full = format!("{prefix}{SEPARATOR}{local}");
    if full.len() <= MAX_PUBLIC_NAME {
        return PublicName::new(full);
    }
    // Of the whole name: two that differ only behind the cut stay different, and the name is the same after every
    // restart.
    let digest = blake3::hash(full.as_bytes()).to_hex();
    // Eight digits and the underscore before them.
    let keep = full.floor_char_boundary(MAX_PUBLIC_NAME - 9);
    PublicName::new(format!("{}_{}", &full[..keep], &digest[..8]))
}
