//! Names that fit a budget.

use tidings_proto::PublicName;

/// What a name is cut to and hashed for, if it is too long. `attempt`: how many names before this one were taken.
pub(crate) fn short_name(full: &str, budget: usize, attempt: usize) -> Option<PublicName> {
    if full.len() <= budget {
        return None;
    }
    // Of the whole name, and no counter, so that it is the same after a restart.
    let text = [full, &"\0".repeat(attempt)].concat();
    let digest = blake3::hash(text.as_bytes()).to_hex();
    // Eight digits and the underscore before them.
    let keep = full.floor_char_boundary(budget.saturating_sub(9));
    Some(PublicName::new(format!("{}_{}", &full[..keep], &digest[..8])))
}
