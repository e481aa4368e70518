//! The embedded store of a data directory: one file, `tidings.redb`, and one table per subject.
//!
//! The first process on a data directory owns the file; another one runs without it and says so. A file that can not be
//! read is moved aside, reported, and never fatal.
//!
//! - [`Store`] opens the file. It blocks, so it is for the start of a process or a thread of its own.
//! - [`ChangeLog`] is the append-only log of what servers offered and no longer offer; its table is `tables/changes.rs`.
//!   Beside it stands what every server was last known to list (`lists.rs`, `tables/lists.rs`), and what each item said since when
//!   (`tables/definitions.rs`).
//! - [`AuditLog`] is the log of who did what; its table is `tables/audit.rs`. Both logs are chains (`chain.rs`), which
//!   [`verify`] goes along.
//! - [`ServerTable`] keeps the servers that were added at run time; its table is `tables/servers.rs`.
//! - [`RegistryTable`] keeps copies of registries of servers; its table is `tables/registry.rs`.
//! - [`SessionTable`] keeps the sessions of clients; its table is `tables/sessions.rs`.
//! - [`HookTable`] keeps what webhooks received last; its table is `tables/hooks.rs`.
//! - [`OutboundTable`] keeps how far each URL of `[[notify]]` came; its table is `tables/outbound.rs`.
//! - [`UseTable`] keeps which tool was used after which question; its table is `tables/uses.rs`.
//! - [`VectorTable`] keeps what an embeddings endpoint answered; its table is `tables/vectors.rs`.
//! - [`VaultTable`] keeps secrets for servers, sealed; its table is `tables/vault.rs`.

mod audit;
mod audit_batch;
mod audit_clock;
mod audit_lanes;
mod audit_sinks;
mod call_course;
mod call_subjects;
mod chain;
mod chain_key;
mod checkpoint;
mod compact_block;
mod database_file;
mod draft;
mod hex_digits;
mod lists;
mod log;
mod record;
mod since;
mod slot;
mod store;
mod tables;
mod verify;

pub use audit::{AuditLog, AuditTail};
pub use audit_lanes::{AuditEntry, AuditQueue, EntrySheet};
pub use audit_sinks::SinkSettings;
pub use call_course::{CallCourse, CallEnding};
pub use call_subjects::{SUBJECT_PARTS, SubjectParts};
pub use chain::ChainPlace;
pub use chain_key::ChainKey;
pub use checkpoint::Checkpoint;
pub use database_file::StoreError;
pub use draft::RecordDraft;
pub use lists::{ItemHash, ListDelta, ListOwner, ListedItem, Listing};
pub use log::{ChangeLog, LogError, LogTail};
pub use record::{ChangeRecord, ChangedItem, FieldChange, ItemRemark, MOST_NAMES};
pub use since::{LogPosition, SinceError};
pub use store::Store;
pub use tables::audit::AuditLimits;
pub use tables::changes::{ChangeQuery, ChangeRow, ChangeRows, LogLimits, QueryStart};
pub use tables::definitions::{DefinedItem, DefinitionState, ItemPlace};
pub use tables::hooks::{HookTable, KeptDelivery};
pub use tables::outbound::OutboundTable;
pub use tables::registry::{CopyState, CopyStep, RegistryCopy, RegistryTable};
pub use tables::servers::{KeepError, KeepStep, KeptServers, ServerTable};
pub use tables::sessions::{SessionKey, SessionStep, SessionTable};
pub use tables::uses::{KeptUse, UseTable};
pub use tables::vault::{VaultError, VaultTable};
pub use tables::vectors::{VectorKey, VectorTable};
pub use verify::{LogReport, VerifyReport, verify};
