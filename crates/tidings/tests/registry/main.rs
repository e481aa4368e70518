//! Changes of the configuration file through the real gateway: it is saved, and everybody is told.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod published;
mod reload;
mod stand_in;
mod start;
