//! The set of servers, and what is known of each.
//!
//! Belongs here: the state of a server, and finding the link that carries something to it. Not here: its life (`lifecycle`), what
//! it offers (`discovery`) and what is asked of it (`call`).

pub(crate) mod gateway_loop;
pub(crate) mod own_links;
pub(crate) mod server;
pub(crate) mod server_set;
