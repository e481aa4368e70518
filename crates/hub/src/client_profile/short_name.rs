//! Names that fit a budget.

use tidings_proto::PublicName;

/// How many bytes at the end of a short name are not of the whole one: an underscore, and digits of a hash.
const TAIL: usize = 9;

/// What a name is cut to and hashed for, if it is too long. `attempt`: how many names before this one were taken.
pub(crate) fn short_name(full: &str, budget: usize, attempt: usize) -> Option<PublicName> {
    if full.len() <= budget {
        return None;
    }
    // Of the whole name, and no counter, so that it is the same after a restart.
    let text = [full, &"\0".repeat(attempt)].concat();
    let digest = blake3::hash(text.as_bytes()).to_hex();
    let keep = full.floor_char_boundary(budget.saturating_sub(TAIL));
    Some(PublicName::new(format!("{}_{}", &full[..keep], &digest[..TAIL - 1])))
}

/// What a short name keeps of the whole one; `None` for what no short name looks like.
pub(crate) fn short_name_stem(short: &str) -> Option<&str> {
    let (stem, tail) = short.split_at_checked(short.len().checked_sub(TAIL)?)?;
    let digits = tail.strip_prefix('_')?;
    digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(stem)
}
