//! The set of servers, what is known of each, and finding the link that carries something to it.
//!
//! Belongs here: state, and waiting for it. Not here: a server's life (`lifecycle`), what it offers (`discovery`) and what is asked
//! of it (`call`).

pub(crate) mod direct_calls;
pub(crate) mod gateway_loop;
pub(crate) mod link_access;
pub(crate) mod link_maker;
pub(crate) mod offer_screen;
pub(crate) mod own_link_table;
pub(crate) mod presence;
pub(crate) mod server;
pub(crate) mod server_links;
pub(crate) mod server_pool;
pub(crate) mod server_set;
