//! Secrets that are made here.

use tidings_wire::hex;

use crate::failure::CommandFailure;

/// A fresh token: 32 random bytes.
pub(crate) fn fresh() -> Result<String, CommandFailure> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(CommandFailure::failed)?;
    Ok(hex(&random))
}
