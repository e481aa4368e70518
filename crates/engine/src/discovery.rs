//! Learning what a server offers: what makes its lists be looked at again, and the looking itself. When to look is decided by
//! the hub's `refresh`.
//!
//! Belongs here: the way from a signal of a server to a new offer. Not here: who is told of it (`notify`).

pub(crate) mod lister;
pub(crate) mod look;
pub(crate) mod refresh;
pub(crate) mod session_view;
pub(crate) mod signals;
