//! Drives the hub: turns what arrives into its events, and what it decides into I/O.
//!
//! - [`Gateway`] is the whole engine; transports for clients hold it and nothing else.
//! - A client is a [`Session`] (legacy) or a [`ModernCaller`]; each of its requests becomes an [`Exchange`], which yields
//!   everything that goes back to the client for it, in order.
//! - Each server has one task that connects it, lists it and connects it again.

mod call;
mod client;
mod coarse_timer;
mod discovery;
mod fleet;
mod gateway;
mod lifecycle;
mod links;
mod notify;
mod observe;
mod plan;
mod runtime;
mod servers;
mod subscriptions;

pub use call::exchange::{Exchange, Reply};
pub use call::routing::RoutedTool;
pub use client::kept_session::{KeptFollow, KeptSession};
pub use client::principal::Principal;
pub use client::quota::{OverQuota, Quota, QuotaBook, QuotaLimits, QuotaMeasure, QuotaSeat};
pub use client::session::{Caller, ClientSink, ModernCaller, Session, SessionCaller};
pub use discovery::approvals::{ApprovalChoice, DecisionRefusal, PendingApproval};
pub use fleet::{
    BusError, BusExamination, Decided, DecisionBase, DecisionFollower, DecisionKind, DecisionOutcome, FleetDecisions,
    FleetSettings, FleetShown, FleetWatches, ForwardedAnswer, ForwardedHttp, FoundLog, HttpEnd, HttpPiece, KeptStep,
    LONGEST_DECISION, LONGEST_SUBJECT, LoggedChange, MOST_DECISIONS, NatsAccess, NatsTls, ReplicaShown, ReplicaState,
    SeatedWatch, SetFollower, WatchHost, WatchSeat, WatchSeats,
};
pub use gateway::approvals::{OfferedItem, OfferedServer};
pub use gateway::{Gateway, GatewayStart};
pub use lifecycle::change::{AgreedChange, ChangeError, OfferReview, Operation, Prefix, Start};
pub use notify::listeners::{Connected, ConnectedBy};
pub use notify::notices::OwedNotice;
pub use notify::standing::{ClientEvent, ClientEvents, CommitNotices, StandingClient, ToldClient};
pub use observe::audit::{AuditTrail, AuditedCall, AuditedDecision, CallOutcome, KeptArguments, LONGEST_TEXT};
pub use observe::call_meters::{CALL_ENDS, CallKind, CallMeasures, KindMeasures, ToolMeasures};
pub use observe::journal::{Change, ChangedDefinition, ChangedField, FirstListing, ItemDigest, Journal, JournalServer};
pub use observe::meters::{DroppedMessages, Durations, Measures, Outcome, Population, ServerMeasures};
pub use observe::status::{Catalogue, FailedList, Origin, ServerState, ServerStatus};
pub use observe::telemetry::{EndedSpan, SpanAttributes, SpanKind, SpanValue, TelemetrySink};
pub use plan::approval::{ApprovalKeeper, ApprovalPlan, ApprovalRecord, KeepFault, KeepOccasion};
pub use plan::limit_desk::LimitDesk;
pub use plan::seal_key::SealKey;
pub use plan::surroundings::{CallerView, CallingClient, Surroundings};
pub use plan::{
    CallTimes, Isolation, ListAnnouncements, ListPages, LocalServer, Names, Patience, ServerPlacement, ServerPlan,
    Settings, Source, Unready, UnreadyReason, WaitLimits,
};
pub use subscriptions::{FollowedResource, Follower, Receipt};
pub use tidings_hub::approvals::{
    ApprovalDecision, ApprovalMode, ApprovalPolicy, ApprovalVerdict, Approvals, ApprovedItem, DefinitionFinding,
    HeldItem, HeldView, SCREENED,
};
pub use tidings_hub::deliveries::{ClientStanding, DEAF_CALLS};
pub use tidings_hub::ledger::Topic;
pub use tidings_hub::own_links::OwnLinkLimits;
pub use tidings_hub::parks::ParkLimits;
pub use tidings_hub::policy::AccessPolicy;
pub use tidings_hub::refresh::{RefreshPace, RefreshReason};
pub use tidings_hub::scope::{AccessScope, ServerAudience};
pub use tidings_hub::subscriptions::{NoticePace, ResourcePhase};
pub use tidings_proto::outcome::ClientAnswer;
