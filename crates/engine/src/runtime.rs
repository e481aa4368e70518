//! What every part of the engine runs on: the settings, the tasks it owns, its end, and a coarse clock.

use std::sync::Arc;

use tidings_hub::client_profile::ClientProfile;
use tidings_wire::{ByteSpan, get, string_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::coarse_timer::CoarseTimer;
use crate::fleet::FleetDesk;
use crate::observe::audit::AuditTrail;
use crate::observe::telemetry::TelemetrySink;
use crate::plan::Settings;
use crate::plan::limit_desk::LimitDesk;

pub(crate) struct EngineRuntime {
    pub(crate) settings: Settings,
    pub(crate) tasks: TaskTracker,
    /// Rings when everything ends: every task that waits listens to it.
    pub(crate) stop: CancellationToken,
    /// No more is begun.
    pub(crate) draining: CancellationToken,
    pub(crate) coarse_timer: CoarseTimer,
    /// Who is told what was called and decided.
    pub(crate) audit: Option<Arc<dyn AuditTrail>>,
    /// How often people may use what, where that is limited.
    pub(crate) limits: Option<Arc<LimitDesk>>,
    /// Who exports traces, if anybody does.
    pub(crate) telemetry: Option<Arc<dyn TelemetrySink>>,
    /// The other replicas, where there are some.
    pub(crate) fleet: Option<Arc<FleetDesk>>,
}

impl EngineRuntime {
    pub(crate) fn new(
        settings: Settings,
        audit: Option<Arc<dyn AuditTrail>>,
        limits: Option<Arc<LimitDesk>>,
        telemetry: Option<Arc<dyn TelemetrySink>>,
        fleet: Option<Arc<FleetDesk>>,
    ) -> Self {
        Self {
            settings,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            draining: CancellationToken::new(),
            coarse_timer: CoarseTimer::default(),
            audit,
            limits,
            telemetry,
            fleet,
        }
    }

    /// What is known of a client, by the object in which it says what it is.
    pub(crate) fn profile_of(&self, info: &[u8]) -> Option<Arc<ClientProfile>> {
        let whole = ByteSpan::new(0, info.len());
        let text = |name: &str| get(info, whole, name).and_then(|at| string_at(info, at));
        self.settings.clients.of(&text("name")?, || text("version")).cloned()
    }

    /// Runs something that the engine owns and waits for at its end.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }
}
