//! `[limits]`.

use std::time::Duration;

/// One limit, counted for each person by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// What people call it.
    pub name: String,
    /// Whom it is about.
    pub who: Vec<String>,
    /// Whom it is not about all the same.
    pub except: Vec<String>,
    /// Which items it is about, as `SERVER/NAME`.
    pub what: Vec<String>,
    /// So many in a time.
    pub rate: Option<(u32, Duration)>,
    /// So many at a time.
    pub concurrent: Option<u32>,
    /// So many in a day.
    pub per_day: Option<u64>,
}
