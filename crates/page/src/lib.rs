//! The page of the gateway, served at `/`: what changed, who was told, what each client still believes.
//!
//! Plain data in, HTML out. Nothing here does I/O or reads a clock; whoever serves it hands over what is known, and the time. What is not
//! known is shown as that. All text of others passes [`foreign`], which spells out what can not be seen.

mod door;
mod notices;
mod parts;
mod screens;

pub use door::{DOOR_HEADERS, Door, DoorKeys, DoorSession, LinkFault};
pub use notices::{NoticeCounts, NoticesView, ToldView};
pub use parts::{PagePart, PagePlace, ROWS, Shell, foreign};
pub use screens::add::{AddScreen, EntryView};
pub use screens::approvals::{ApprovalsScreen, HeldDefinition};
pub use screens::calls::{CallFilter, CallRow, CallsScreen, OutdatedCall};
pub use screens::clients::{
    BeliefView, ClientEventView, ClientScreen, ClientView, ClientsScreen, client_rank, client_state,
};
pub use screens::confirm::ConfirmScreen;
pub use screens::connect::ConnectScreen;
pub use screens::door::{DoorReason, door};
pub use screens::feed::{ChangeScreen, ChangeView, ChangedFieldView, ChangedItemView, FeedFilter, FeedScreen};
pub use screens::follows::{FollowView, FollowsScreen, follow_rank};
pub use screens::problem::{log_in, problem};
pub use screens::servers::{ServerScreen, ServerView, ServersScreen, server_rank};
pub use screens::tool::{ToolScreen, ToolStep};
pub use screens::tools::{ToolView, ToolsScreen};
pub use screens::tried::{TriedPhase, TriedScreen};

/// The style sheet.
pub const STYLE: &str = include_str!("../assets/page.css");
/// The script. It adds to pages that work without it.
pub const SCRIPT: &str = include_str!("../assets/page.js");
