//! Servers in containers: where what they would leave behind is remembered.

use std::sync::Arc;

use tidings_upstream::{LinkConnector, LinkError, ProcessLauncher};

use crate::data::DataDir;

/// A connector that remembers in the data directory what it would leave behind.
pub(super) fn connector(launcher: Arc<ProcessLauncher>, data: Option<&DataDir>) -> Result<LinkConnector, LinkError> {
    match data {
        // Who starts containers may do it from another folder the next time.
        Some(data) => {
            let home = data.path().join("containers");
            LinkConnector::with_home(launcher, std::path::absolute(&home).unwrap_or(home))
        }
        None => LinkConnector::new(launcher),
    }
}

/// Removes, beside everything else, what killed gateways left. It has deadlines of its own.
pub(super) fn sweep(connector: &LinkConnector) {
    connector.sweep_beside();
}
