//! Well-known servers, to begin with. The file is of the same kind as a user's own.

use std::path::Path;

use tidings_config::{CatalogueEntry, parse_catalogue};

const NAME: &str = "starter.toml";
const TEXT: &str = include_str!("starter.toml");

/// The servers that are built in.
pub(crate) fn entries() -> Vec<CatalogueEntry> {
    // A test reads it with every build; a fault here would cost the starter set, nothing else.
    parse_catalogue(TEXT, Path::new(NAME)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::default_prefix;

    // S4.5
    #[test]
    fn the_starter_set_is_valid_and_has_every_kind() {
        let entries = parse_catalogue(TEXT, Path::new(NAME)).unwrap_or_else(|errors| panic!("{errors}"));
        let kinds: BTreeSet<&str> = entries.iter().map(|entry| entry.run.kind()).collect();
        assert_eq!(kinds, BTreeSet::from(["container", "npm", "pypi", "url"]));
        for entry in &entries {
            assert!(!entry.categories.is_empty() && !entry.tags.is_empty(), "{}", entry.id);
            assert!(entry.docs.is_some(), "{}", entry.id);
            assert!(!default_prefix(&entry.id).is_empty());
        }
    }
}
