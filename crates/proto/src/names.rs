//! Names of tools and prompts, on both sides of the gateway.

/// How long a public name may be, in bytes.
pub const MAX_PUBLIC_NAME: usize = 64;

/// What stands between the prefix of a server and a name of its own.
pub const SEPARATOR: &str = "__";

/// `prefix__local`, cut and hashed when it would be too long. The way back is a table, never a split.
pub fn public_name(prefix: &str, local: &str) -> String {
    let full = format!("{prefix}{SEPARATOR}{local}");
    if full.len() <= MAX_PUBLIC_NAME {
        return full;
    }
    // Of the whole name: two that differ only behind the cut stay different, and the name is the same after every
    // restart.
    let digest = blake3::hash(full.as_bytes()).to_hex();
    // Eight digits and the underscore before them.
    let keep = full.floor_char_boundary(MAX_PUBLIC_NAME - 9);
    format!("{}_{}", &full[..keep], &digest[..8])
}
