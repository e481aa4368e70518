//! How fast a message is validated: `cargo run --release -p tidings-wire --example scan_speed`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidings_wire::{Frame, FrameLimits, encode_string};

/// What follows in each tool after its description.
const SCHEMA: &str = concat!(
    r#""inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"The words to look for"},"#,
    r#""limit":{"type":"integer","minimum":1,"maximum":500,"default":50},"cursor":{"type":"string"},"#,
    r#""order":{"type":"string","enum":["newest","oldest","best"]}},"required":["query"]},"#,
    r#""annotations":{"readOnlyHint":true,"openWorldHint":false}"#,
);

const CALL: &[u8] = concat!(
    r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","#,
    r#""params":{"name":"search_table_1","arguments":{"query":"rust","limit":10}}}"#,
)
.as_bytes();

/// A `tools/list` result of at least `size` bytes, with the mix of short keys and longer descriptions such lists have.
fn tools_list(size: usize) -> Bytes {
    let mut text = String::from(r#"{"jsonrpc":"2.0","id":7,"result":{"tools":["#);
    for i in 0.. {
        if text.len() >= size {
            break;
        }
        if i > 0 {
            text.push(',');
        }
        let description = format!(
            "Searches the records of table {i} for the words given.\n\nReturns at most `limit` rows, newest first; \
             pass the \"cursor\" of the last answer to read on. Dates are ISO 8601."
        );
        let description = encode_string(&description);
        text.push_str(&format!(
            r#"{{"name":"search_table_{i}","title":"Table {i}","description":{description},{SCHEMA}}}"#
        ));
    }
    text.push_str("]}}");
    text.into()
}

fn measure(name: &str, message: &Bytes) {
    let limits = FrameLimits::default();
    let mut best = f64::MAX;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        let round = Instant::now();
        for _ in 0..50 {
            let frame = Frame::parse(black_box(message.clone()), &limits);
            assert!(black_box(frame).is_ok(), "the sample is a message");
        }
        best = best.min(round.elapsed().as_secs_f64() / 50.0);
    }
    println!("{name}: {} bytes, {:.0} MB/s", message.len(), message.len() as f64 / best / 1e6);
}

fn main() {
    let list = tools_list(100_000);
    measure("tools/list", &list);
    let text = encode_string(&"Plain prose, as a file or a web page gives. ".repeat(2_300));
    measure("long text", &format!(r#"{{"jsonrpc":"2.0","id":8,"result":{{"text":{text}}}}}"#).into());
    measure("small call", &Bytes::from_static(CALL));
}
