//! One file a screen.

pub(crate) mod add;
pub(crate) mod approvals;
pub(crate) mod calls;
pub(crate) mod clients;
pub(crate) mod confirm;
pub(crate) mod connect;
pub(crate) mod door;
pub(crate) mod feed;
pub(crate) mod follows;
pub(crate) mod problem;
pub(crate) mod servers;
pub(crate) mod tool;
pub(crate) mod tools;
pub(crate) mod tried;
