//! Telling clients that lists changed: who is owed what, in which words, and when the transport takes it.
//!
//! Belongs here: the way from a commit of the catalogue to a notification. Not here: changes of single resources
//! (`subscriptions`), and learning of changes (`discovery`).

pub(crate) mod announce;
pub(crate) mod listeners;
pub(crate) mod summary;
