//! The hub from outside: tables against simple models, and the catalogue over generated offers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agreed_approvals;
mod approvals;
mod built_ins;
mod calls;
mod channel;
mod client_profiles;
mod deliveries;
mod drives;
mod generate;
mod golden_views;
mod grant_keeper;
mod hearing;
mod increments;
mod ledger;
mod link_health;
mod names;
mod own_links;
mod own_views;
mod pages;
mod parks;
mod policies;
mod refresh;
mod scopes;
mod server_requests;
mod session_views;
mod shaped_views;
mod shared_grants;
mod subscriptions;
mod task_questions;
mod tasks;
mod uris;
mod widened_schemas;
