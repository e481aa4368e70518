//! Secrets that are made here, and bytes as people see them.

use crate::failure::CommandFailure;

/// A fresh token: 32 random bytes.
pub(crate) fn fresh() -> Result<String, CommandFailure> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(CommandFailure::failed)?;
    Ok(hex(&random))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
