//! The files in which MCP clients keep their servers: where they are, in which words an entry is written there, changing
//! one entry while every other byte stays, taking that back byte for byte, and reading entries as keys of `[servers.X]`.
//!
//! Everything is told where to look: nothing here reads the environment, asks a person or knows a running gateway.

mod change;
mod client;
mod docker;
mod edit;
mod entry;
mod file;
mod foreign;
mod mask;
mod places;
mod receipt;
mod spelling;

pub use change::{ChangeError, EntryChange, FilePreview};
pub use client::{CLIENTS, KnownClient, by_id};
pub use docker::read_docker_catalogue;
pub use edit::{EditError, FileFormat, entries};
pub use entry::{GatewayReach, TokenInFile};
pub use foreign::{ClientServer, FoundServers, ImportSource, read_file};
pub use mask::masked;
pub use places::{OperatingSystem, UserPlaces};
pub use receipt::{ReceiptFolder, UndoPlan, WriteReceipt};
