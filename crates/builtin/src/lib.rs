//! The gateway's own tools, as servers that live in the process behind the same link as any other: the router does not
//! know the difference. Belongs here: `retrieve_tools`, `call_tool`, `mcp_registry_*`, `log_in`. Not here: data sources (`watch`) and
//! script projects (`project`), which are servers of the user's.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod displaced;
mod local;
mod login_tools;
mod notice;
mod registry_tools;
mod search_service;
mod search_tools;

pub use login_tools::LoginTools;
pub use notice::NoticeServer;
pub use registry_tools::{RegistryTools, StartConsent};
pub use search_service::{EndpointSettings, SearchService, SearchSettings, SearchTables};
pub use search_tools::SearchTools;
