//! What others may ask of a search and do to it.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

/// A search that can be looked at and made to forget.
pub trait SearchControl: Send + Sync {
    /// What it searches with and how that is, as JSON.
    fn describe(&self) -> Value;

    /// Forgets what was learnt from use, for all callers. Gives how many uses that were, or why it can not be done.
    fn forget(&self) -> Pin<Box<dyn Future<Output = Result<usize, String>> + Send>>;
}
