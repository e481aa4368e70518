//! What others may ask of a search and do to it.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

/// A search that can be looked at and made to forget.
pub trait SearchControl: Send + Sync {
    /// What it searches with and how that is, as JSON.
    fn describe(&self) -> Value;

    /// Forgets what was learnt from use, for all callers. Gives how many uses that were, or why it can not be done.
    fn forget(&self) -> Pin<Box<dyn Future<Output = Result<usize, ForgetFault>> + Send>>;
}

/// Why what was learnt is not forgotten.
#[derive(Debug, thiserror::Error)]
pub enum ForgetFault {
    /// The store that keeps it can not be read or changed.
    #[error("{0}")]
    Store(Box<dyn Error + Send + Sync>),
    /// Whoever was to forget it stopped in the middle.
    #[error("the store could not be changed")]
    Stopped,
}

impl ForgetFault {
    /// A store failed.
    pub fn store(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Store(Box::new(error))
    }
}
