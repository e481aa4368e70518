//! The set of servers, and each server's life: configured, started, connected, connected again, removed.
//!
//! Belongs here: what owns links and processes. Not here: what a server offers (`discovery`) and what is asked of it (`call`).

pub(crate) mod change;
pub(crate) mod companion;
pub(crate) mod connecting;
pub(crate) mod gateway_loop;
pub(crate) mod link_watch;
pub(crate) mod links;
pub(crate) mod own_links;
pub(crate) mod own_request;
pub(crate) mod plan;
pub(crate) mod removal;
pub(crate) mod server;
pub(crate) mod server_set;
pub(crate) mod startup;
pub(crate) mod surroundings;
