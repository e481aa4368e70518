//! The gateway as a process: what it prints, where it keeps things, and what becomes of it when those around it go away.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod closed_pipes;
mod data_directory;
mod loops;
mod partial;
