//! The behaviour of the wire crate from outside: stories, and properties over generated texts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod checks;
mod compose;
mod editing;
mod envelope;
mod event_stream;
mod faults;
mod generate;
mod ids;
mod scanner;
mod text;
mod unreadable;
