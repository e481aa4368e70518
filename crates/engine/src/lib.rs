//! Drives the hub: turns what arrives into its events, and what it decides into I/O.
//!
//! - [`Gateway`] is the whole engine; transports for clients hold it and nothing else.
//! - A client is a [`Session`] (legacy) or a [`ModernCaller`]; each of its requests becomes an [`Exchange`], which yields
//!   everything that goes back to the client for it, in order.
//! - Each server has one task that connects it, lists it and connects it again.

mod announce;
mod answers;
mod change;
mod clients;
mod core;
mod dirty;
mod discovery;
mod exchange;
mod gateway;
mod journal;
mod levels;
mod links;
mod meters;
mod own_request;
mod own_view;
mod paging;
mod plan;
mod principal;
mod pulse;
mod questions;
mod relay;
mod routing;
mod schedule;
mod seal;
mod server;
mod servers;
mod session;
mod signals;
mod status;
mod subscriptions;
mod summary;
mod surroundings;

pub use change::{ChangeError, Operation, Prefix, Start};
pub use clients::Connected;
pub use dirty::Reason;
pub use exchange::{Exchange, Reply};
pub use gateway::Gateway;
pub use journal::{Change, ChangedDefinition, ChangedField, Journal};
pub use meters::{Durations, Measures, Outcome, ServerMeasures};
pub use plan::{Isolation, LocalServer, Names, Origin, Patience, ServerPlan, Settings, Source};
pub use principal::Principal;
pub use session::{Caller, ClientSink, ModernCaller, Session};
pub use status::{Catalogue, FailedList, ServerState, ServerStatus};
pub use subscriptions::{FollowedResource, Follower, Receipt};
pub use surroundings::{CallerView, CallingClient, Surroundings};
pub use tidings_hub::ledger::Topic;
pub use tidings_hub::scope::{Audience, Scope};
pub use tidings_hub::subscriptions::{Pace, Phase};
pub use tidings_proto::outcome::Answer;
