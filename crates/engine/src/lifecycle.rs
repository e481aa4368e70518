//! Each server's life: started, connected, connected again, removed; and changes of the set of servers while everything runs.
//!
//! Belongs here: what makes links and processes, and ends them. Not here: what a server offers (`discovery`) and what is asked of
//! it (`call`).

pub(crate) mod change;
pub(crate) mod companion;
pub(crate) mod connecting;
pub(crate) mod link_sink;
pub(crate) mod removal;
pub(crate) mod startup;
