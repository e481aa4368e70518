//! `[page]`.

/// Whether the gateway is shown in a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSettings {
    /// Whether it is.
    pub enabled: bool,
}

impl Default for PageSettings {
    fn default() -> Self {
        Self { enabled: true }
    }
}
