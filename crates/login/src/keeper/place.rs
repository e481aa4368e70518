//! Where grants are kept.

use tidings_store::VaultTable;

use crate::web_address::WebAddress;

/// What the vault calls a grant.
pub(super) const GRANT: &str = "grant";

/// A grant belongs to a server at an address, and to a person where each has their own: the same name elsewhere is somebody else.
pub(super) fn place(name: &str, address: &WebAddress, person: Option<&str>) -> String {
    // Neither a name of a server nor an address has a space in it.
    let of_person = person.map(|person| format!(" {person}")).unwrap_or_default();
    format!("{name} {}{of_person}", address.canonical())
}

/// The people of whom a grant is kept. Blocks.
pub(crate) fn kept_people(vault: &VaultTable, name: &str, address: &WebAddress) -> Vec<String> {
    let prefix = place(name, address, Some(""));
    let names = vault.names(GRANT, &prefix).unwrap_or_else(|error| {
        tracing::warn!(server = name, %error, "the people who are logged in can not be counted");
        Vec::new()
    });
    names.iter().filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned)).collect()
}
