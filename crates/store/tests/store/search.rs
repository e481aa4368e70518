//! What search keeps: uses of tools, and vectors.

use std::time::Duration;

use tidings_store::{KeptUse, Store, UseTable, VectorTable};
use tidings_testkit::TempDir;

fn one(principal: &str, tool: &str, count: u32) -> KeptUse {
    let [principal, question, server, tool] = [principal, "letter send", "mail", tool].map(str::to_owned);
    KeptUse { principal, question, server, tool, count, last: 7 }
}

// issue 19
#[test]
fn uses_are_there_after_a_restart_until_they_are_forgotten() {
    let directory = TempDir::new();
    let open = || Store::open(directory.path(), Duration::ZERO);
    {
        let table = UseTable::new(&open());
        assert_eq!(table.read().unwrap(), []);
        table.keep(&one("ann", "post", 1), &[]).unwrap();
        table.keep(&one("ann", "post", 2), &[]).unwrap();
        table.keep(&one("ben", "draft", 1), &[]).unwrap();
        table.keep(&one("ben", "shred", 1), &[one("ben", "draft", 1)]).unwrap();
    }
    let table = UseTable::new(&open());
    assert_eq!(table.read().unwrap(), [one("ann", "post", 2), one("ben", "shred", 1)]);
    table.forget().unwrap();
    assert_eq!(table.read().unwrap(), []);
    table.forget().unwrap();
}

// issue 19
#[test]
fn vectors_are_found_by_their_key_and_without_a_file_none_is_kept() {
    let directory = TempDir::new();
    let store = Store::open(directory.path(), Duration::ZERO);
    let table = VectorTable::new(&store);
    assert_eq!(table.read(&[[1; 32], [2; 32]]).unwrap(), [None, None]);
    table.keep(&[([1; 32], vec![0.5, -1.0])], 7).unwrap();
    assert_eq!(table.read(&[[2; 32], [1; 32]]).unwrap(), [None, Some(vec![0.5, -1.0])]);
    let memory = VectorTable::default();
    memory.keep(&[([1; 32], vec![0.5])], 7).unwrap();
    assert_eq!(memory.read(&[[1; 32]]).unwrap(), [None]);
}
