//! Lists of many servers as one: their order, their pages, their names, and what a bad server can not spoil.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod completion;
mod failures;
mod merged;
mod names;
mod pages;
mod profiles;
