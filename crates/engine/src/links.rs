//! The links to servers, and what is under way over them.
//!
//! Belongs here: which links are up, how they are, which calls and questions are in flight on them, and requests of our own. Not
//! here: making links and giving them up (`lifecycle`), and what a call means (`call`).

pub(crate) mod in_flight;
pub(crate) mod link_table;
pub(crate) mod link_watch;
pub(crate) mod live_link;
pub(crate) mod log_levels;
pub(crate) mod open_links;
pub(crate) mod own_request;
pub(crate) mod told_level;
