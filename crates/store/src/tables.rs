//! One file per table. Each owns the form in which its rows are kept, and reads what earlier versions wrote.

pub(crate) mod audit;
pub(crate) mod changes;
pub(crate) mod definitions;
pub(crate) mod hooks;
mod lists;
pub(crate) mod outbound;
pub(crate) mod registry;
pub(crate) mod servers;
pub(crate) mod sessions;
pub(crate) mod uses;
pub(crate) mod vault;
pub(crate) mod vectors;
