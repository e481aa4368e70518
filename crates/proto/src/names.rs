//! Names of tools and prompts, on both sides of the gateway.

/// How long a public name may be, in bytes.
pub const MAX_PUBLIC_NAME: usize = 64;

/// A configured server's name as it stands in front of tool and prompt names.
pub fn name_prefix(server: &str) -> String {
    server.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

/// A configured server's name as it stands in front of URI schemes. A scheme must begin with a letter.
pub fn scheme_prefix(server: &str) -> String {
    let mut out: String = server
        .chars()
        .map(|c| c.to_ascii_lowercase())
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '-' })
        .collect();
    if !out.starts_with(|c: char| c.is_ascii_alphabetic()) {
        out.insert(0, 's');
    }
    out
}

/// `prefix__local`, cut and hashed when it would be too long. The way back is a table, never a split.
pub fn public_name(prefix: &str, local: &str) -> String {
    let full = format!("{prefix}__{local}");
    if full.len() <= MAX_PUBLIC_NAME {
        return full;
    }
    let digest = blake3::hash(full.as_bytes()).to_hex();
    let keep = full.floor_char_boundary(MAX_PUBLIC_NAME - 9);
    format!("{}_{}", &full[..keep], &digest[..8])
}
