//! The heart of the gateway, without I/O: it takes facts and a time, and says what follows.
//!
//! - [`calls`]: who asked what of whom; ids and progress tokens there and back; cancellation; deadlines.
//! - [`server_requests`]: what servers ask of clients, and whose turn it is to answer.
//! - [`drive`]: a modern server's questions to a legacy client, round by round.
//! - [`parks`]: calls whose client answers a question of the server by sending its request again.
//! - [`tasks`]: work that servers go on with after the call that began it was answered: whose it is and what was heard of it.
//! - [`ledger`]: who is owed which announcement.
//! - [`departures`]: names of tools that went, for whoever still calls one.
//! - [`subscriptions`]: who follows which resource, and what is asked of servers for it.
//! - [`link_health`]: whether a link can be trusted, when it ends, and when the next one is made.
//! - [`fleet`]: several replicas that are one gateway: the state they agree on, who runs which server, requests between them.
//! - [`grant_keeper`]: which token a server is sent, when it is renewed, when a person has to log in.
//! - [`refresh`]: when a server's lists are looked at again, and who waits for it.
//! - [`own_links`]: links that one session or principal has for itself: when they are made, how many, when they end.
//! - [`session_view`]: what a session with such links sees, and when they are looked at again.
//! - [`approvals`]: which definitions of a server clients may see, where somebody has to approve them.
//! - [`scope`]: which servers somebody may use.
//! - [`policy`]: which items of them, by rules.
//! - [`limits`]: how often, and how many at a time.
//! - [`catalogue`]: immutable snapshots of every server's lists, merged and rendered for each view.
//! - [`client_profile`]: what is known of the clients people use, and what they are shown because of it.
//!
//! Nothing here awaits, spawns or reads the time.

pub mod approvals;
mod backoff;
pub mod calls;
pub mod catalogue;
pub mod channel;
pub mod client_profile;
pub mod deliveries;
pub mod departures;
pub mod drive;
pub mod fleet;
pub mod grant_keeper;
mod id_map;
pub mod ledger;
pub mod limits;
pub mod link_health;
pub mod own_links;
pub mod parks;
pub mod policy;
pub mod refresh;
pub mod scope;
pub mod server_requests;
pub mod session_view;
pub mod subscriptions;
pub mod task_questions;
pub mod tasks;
pub mod who;

pub use backoff::RetryBackoff;
pub use id_map::IdMap;

/// A configured server, for the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u32);

/// One client: a legacy session, or a single modern exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientKey(pub u64);

/// One connection to a server. A reconnect makes a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkKey(pub u64);
