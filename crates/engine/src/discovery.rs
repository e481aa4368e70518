//! Learning what a server offers: which list is dirty, when to look, and the looking itself.
//!
//! Belongs here: the way from a signal of a server to a new offer. Not here: who is told of it (`notify`).

pub(crate) mod dirty;
pub(crate) mod lister;
pub(crate) mod look;
pub(crate) mod schedule;
pub(crate) mod signals;
