//! Logging in to servers with OAuth: what there is to log in to, the way of a person there and back, and the keepers of what was granted.
//!
//! One gateway holds one grant for a server, for all its clients, or one for each person. The decisions about it are [`tidings_hub::grant_keeper`]; here are the
//! messages of the standards, without I/O (`challenge`, `metadata`, `discovery`, `client_registration`, `authorization`,
//! `token_exchange`, `client_assertion`), and what sends them (`provider_session`, `keeper`, `logins`, `routes`).
//!
//! Tokens leave this crate as headers of requests to the server that they are for, and sealed to the store. No error, no log line and no
//! page holds one.

mod authorization;
mod browser_proof;
mod challenge;
mod client_assertion;
mod client_registration;
mod discovery;
mod grant_record;
mod keeper;
mod login_page;
mod logins;
mod metadata;
mod pending;
mod people_door;
mod provider_http;
mod provider_session;
mod routes;
mod server_keepers;
mod server_login;
mod shared_grants;
mod token_exchange;
mod web_address;

pub use logins::{
    BegunLogin, CompletedLogin, DeviceLogin, LoginBearer, LoginFault, Logins, PersonMoved, ServerReconnect,
};
pub use pending::LoginOutcome;
pub use people_door::{AskerDoor, PeopleDoor, PersonProvider, TicketAsker};
pub use routes::routes;
pub use shared_grants::{GrantLog, GrantWritten};
pub use tidings_hub::fleet::decision_commits::DecisionBase;
