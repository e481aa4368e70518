//! The page of the gateway, served at `/`: what changed, who was told, what each client still believes.
//!
//! Plain data in, HTML out. Nothing here does I/O or reads a clock; whoever serves it hands over what is known, and the time. What is not
//! known is shown as that. All text of others passes [`foreign`], which spells out what can not be seen.

mod door;
mod notices;
mod parts;
mod screens;
mod spark;

pub use door::{DOOR_HEADERS, Door, DoorKeys, DoorSession, LinkFault};
pub use notices::{NoticeCounts, NoticesView, ToldView};
pub use parts::{PagePart, PagePlace, ROWS, Shell, few, foreign};
pub use screens::add::{AddScreen, EntryView};
pub use screens::approvals::{ApprovalsScreen, HeldDefinition};
pub use screens::calls::{CallFilter, CallRow, CallsScreen, OutdatedCall};
pub use screens::clients::{
    BeliefView, ClientEventView, ClientScreen, ClientView, ClientsScreen, client_rank, client_state,
};
pub use screens::confirm::ConfirmScreen;
pub use screens::connect::ConnectScreen;
pub use screens::door::{DoorReason, door};
pub use screens::feed::{
    ChangeScreen, ChangeView, ChangedFieldView, ChangedItemView, FeedFilter, FeedScreen, SERVER_CHOICES,
};
pub use screens::follows::{FollowView, FollowsScreen, follow_changes, follow_key, follow_rank, follow_state};
pub use screens::problem::{log_in, problem};
pub use screens::servers::{ServerScreen, ServerView, ServersScreen, server_rank, server_state};
pub use screens::tool::{ToolScreen, ToolStep};
pub use screens::tools::{ToolView, ToolsScreen};
pub use screens::tried::{TriedPhase, TriedScreen};

/// What an address of the style sheet and of the script ends in: another text has another address, so that browsers may keep both.
pub const ASSETS_VERSION: u64 = fingerprint(SCRIPT.as_bytes(), fingerprint(STYLE.as_bytes(), FINGERPRINT));

/// Where a fingerprint begins.
const FINGERPRINT: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: it has to tell things apart that nobody made alike on purpose.
const fn fingerprint(text: &[u8], begun: u64) -> u64 {
    let (mut hash, mut at) = (begun, 0);
    while at < text.len() {
        hash = (hash ^ text[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

/// The style sheet.
pub const STYLE: &str = include_str!("../assets/page.css");
/// The script. It adds to pages that work without it.
pub const SCRIPT: &str = include_str!("../assets/page.js");
