//! What authors of script projects rely on: the shell helpers, the JSON tool, scaffolds and examples.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sdk;
