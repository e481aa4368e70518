//! A request of a client, from its arrival to its answer: where it goes, what rides with it, who is asked in the middle of it.
//!
//! Belongs here: everything whose life is one call. Not here: links and their making (`servers`), what is told without having
//! been asked for (`notify`, `subscriptions`).

pub(crate) mod answers;
pub(crate) mod exchange;
pub(crate) mod ghosts;
pub(crate) mod paging;
pub(crate) mod relay;
pub(crate) mod routing;
pub(crate) mod seal;
pub(crate) mod server_requests;
