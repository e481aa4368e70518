//! Reading what `tidings_wire::hex` writes.

/// Bytes from hexadecimal digits, if there are as many as there should be.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let mut out = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (at, pair) in digits.chunks_exact(2).enumerate() {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        out[at] = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(out)
}
