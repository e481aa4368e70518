//! One file per table.

pub(crate) mod changes;
