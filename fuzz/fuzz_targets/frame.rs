//! Any bytes as a message: what is accepted is JSON, and patching its id changes only the id.
#![no_main]

#[allow(dead_code, reason = "shared with the other target and the property tests")]
#[path = "../../crates/wire/tests/wire/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::frame(data));
