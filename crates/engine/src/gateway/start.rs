//! What a gateway is started with.

use std::sync::Arc;

use serde_json::Value;
use tidings_hub::policy::AccessPolicy;
use tidings_proto::Era;
use tidings_upstream::LinkConnector;

use crate::fleet::FleetSettings;
use crate::observe::audit::AuditTrail;
use crate::observe::journal::Journal;
use crate::observe::telemetry::TelemetrySink;
use crate::plan::limit_desk::LimitDesk;
use crate::plan::{ServerPlan, Settings};

/// The servers and the settings that a gateway begins with, and who is told of what happens in it.
pub struct GatewayStart {
    /// How the whole gateway behaves.
    pub settings: Settings,
    /// The servers that are there from the start, in the order of their lists.
    pub plans: Vec<ServerPlan>,
    /// Makes links to servers.
    pub connector: LinkConnector,
    /// The capabilities and the era of the one client there will ever be (stdio); `None` where there may be many.
    pub only_client: Option<(Value, Era)>,
    /// Is told of every change.
    pub journal: Option<Arc<dyn Journal>>,
    /// Is told of every call and decision.
    pub audit: Option<Arc<dyn AuditTrail>>,
    /// The rules that decide who may have which items.
    pub policy: Option<Arc<AccessPolicy>>,
    /// How often people may use what, where that is limited.
    pub limits: Option<Arc<LimitDesk>>,
    /// Is told of every span, where somebody exports traces.
    pub telemetry: Option<Arc<dyn TelemetrySink>>,
    /// The cluster that this gateway is a replica of.
    pub fleet: Option<FleetSettings>,
}

impl GatewayStart {
    /// A start for any number of clients, of which nobody is told.
    pub fn new(settings: Settings, plans: Vec<ServerPlan>, connector: LinkConnector) -> Self {
        let (only_client, journal, audit, policy, limits, telemetry, fleet) = Default::default();
        Self { settings, plans, connector, only_client, journal, audit, policy, limits, telemetry, fleet }
    }
}
