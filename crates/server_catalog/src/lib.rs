//! Servers that could be added: what is known of each, how to find one, and what to configure to run it.
//!
//! [`EntryCatalogue`] is what the rest knows of a catalogue; [`LocalCatalogue`] is the starter set that is built in together
//! with a file of the user's and copies of registries (`remote.rs`, read by `sync.rs`). [`server_keys`] makes the configuration of a server out of an entry, `published/keys.rs` out of what a
//! registry publishes.
//!
//! Not here: starting anything. An entry becomes a server only by the transaction that changes the set of servers.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod bundle;
mod catalogue;
mod docs;
mod index;
mod keys;
mod local;
mod published;
mod releases;
mod remote;
mod starter;
mod stock;
mod sync;

pub use catalogue::{
    CatalogEntry, CatalogueError, EntryCatalogue, EntryHit, EntryPage, EntryQuery, EntryRelease, RefreshReport,
    SourceStatus,
};
pub use docs::documentation;
pub use keys::{ExtraKeys, KeysError, default_prefix, server_keys};
pub use local::{FileFault, LocalCatalogue, RegistryAccess};
pub use published::ReleaseStatus;
pub use releases::{InstalledRelease, PublishedRelease, ReleaseNews, release_news};
pub use remote::{FetchRequest, RegistryFetcher};
pub use sync::SyncFault;
