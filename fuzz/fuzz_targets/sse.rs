//! Any bytes as an event stream: how it is cut into chunks changes nothing.
#![no_main]

#[allow(dead_code, reason = "shared with the other target and the property tests")]
#[path = "../../crates/wire/tests/wire/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::event_stream(data));
