//! Clients: who they are, what they may see, what they asked to be told.

pub(crate) mod bells;
pub(crate) mod kept_session;
pub(crate) mod person_view;
pub(crate) mod principal;
pub(crate) mod quota;
pub(crate) mod session;
pub(crate) mod sessions;
