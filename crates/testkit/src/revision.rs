//! The protocol revisions by name.

/// The first revision.
pub const V2024_11_05: &str = "2024-11-05";
/// The revision with batches.
pub const V2025_03_26: &str = "2025-03-26";
/// The revision with elicitation and structured output.
pub const V2025_06_18: &str = "2025-06-18";
/// The last revision with a handshake.
pub const V2025_11_25: &str = "2025-11-25";
/// The first stateless revision.
pub const V2026_07_28: &str = "2026-07-28";

/// Every revision with a handshake, oldest first.
pub const LEGACY: [&str; 4] = [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25];
/// The newest revision with a handshake.
pub const LATEST_LEGACY: &str = V2025_11_25;
/// The stateless revision.
pub const MODERN: &str = V2026_07_28;

/// Whether a revision is stateless. Revisions are dates, so their text sorts by age.
pub fn is_modern(revision: &str) -> bool {
    revision >= MODERN
}

pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
pub(crate) const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
