//! What every part of the engine runs on: the settings, the tasks it owns, its end, and a coarse clock.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::coarse_timer::CoarseTimer;
use crate::plan::Settings;

pub(crate) struct EngineRuntime {
    pub(crate) settings: Settings,
    pub(crate) tasks: TaskTracker,
    /// Rings when everything ends: every task that waits listens to it.
    pub(crate) stop: CancellationToken,
    /// No more is begun.
    pub(crate) draining: CancellationToken,
    pub(crate) coarse_timer: CoarseTimer,
}

impl EngineRuntime {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            draining: CancellationToken::new(),
            coarse_timer: CoarseTimer::default(),
        }
    }

    /// Runs something that the engine owns and waits for at its end.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }
}
