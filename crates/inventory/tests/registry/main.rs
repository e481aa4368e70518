//! The set of servers changes while clients are connected: through a real gateway in this process, with scripted servers
//! and clients of both eras over HTTP.
//!
//! That nothing is said is shown by what is said next: a real change, and nothing before it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod additions;
mod beside;
mod failures;
mod house;
mod keeping;
mod random;
mod removals;
mod replacements;
mod restarts;
