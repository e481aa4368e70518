//! Sessions of clients.

use std::time::Duration;

use tidings_store::{SessionStep, SessionTable, Store};
use tidings_testkit::TempDir;

// edges F19
#[test]
fn sessions_are_there_when_the_store_is_opened_again_and_only_as_many_as_fit() {
    let directory = TempDir::new();
    {
        let table = SessionTable::new(&Store::open(directory.path(), Duration::ZERO));
        assert_eq!(table.read().unwrap(), []);
        let steps = [
            SessionStep::Put([1; 32], b"one".to_vec()),
            SessionStep::Put([2; 32], b"two".to_vec()),
            SessionStep::Put([3; 32], vec![b'x'; 1 << 20]),
            SessionStep::Put([1; 32], b"uno".to_vec()),
            SessionStep::Remove([2; 32]),
        ];
        table.keep(&steps).unwrap();
    }
    let table = SessionTable::new(&Store::open(directory.path(), Duration::from_secs(5)));
    assert_eq!(table.read().unwrap(), [([1; 32], b"uno".to_vec())], "one that is too large is not kept");
    assert!(!SessionTable::new(&Store::in_memory()).is_kept());
}
