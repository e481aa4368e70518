//! Pages for people, where a message for programs was due.

/// Whether a body is a page for people.
pub(crate) fn is_web_page(body: &[u8]) -> bool {
    let start: Vec<u8> = body.trim_ascii_start().iter().take(14).map(u8::to_ascii_lowercase).collect();
    start.starts_with(b"<!doctype html") || start.starts_with(b"<html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_recognised() {
        assert!(is_web_page(b"\n <!DOCTYPE html><html>") && is_web_page(b"<HTML lang=x>"));
        assert!(!is_web_page(b"{\"jsonrpc\"") && !is_web_page(b""));
    }
}
