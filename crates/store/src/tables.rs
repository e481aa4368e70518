//! One file per table.

pub(crate) mod changes;
pub(crate) mod hooks;
pub(crate) mod servers;
pub(crate) mod sessions;
