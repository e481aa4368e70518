//! A gate that holds handlers until the test lets them go.

use std::sync::Arc;

use tokio::sync::watch;

use crate::record::within;

/// Closed when made. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    state: Arc<watch::Sender<GateState>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct GateState {
    open: bool,
    arrived: usize,
    permits: usize,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self { state: Arc::new(watch::Sender::new(GateState::default())) }
    }

    /// Waits here until the gate is open, or until one of the passes given out by [`Gate::release`] is free.
    pub async fn wait(&self) {
        self.state.send_modify(|s| s.arrived += 1);
        // Before the first look, so that a pass that is given during it ends the wait below.
        let mut changes = self.state.subscribe();
        loop {
            let mut passed = false;
            self.state.send_if_modified(|s| {
                passed = s.open || s.permits > 0;
                // An open gate takes no pass from anybody.
                s.permits = s.permits.saturating_sub(usize::from(!s.open));
                // Nobody is woken: that a pass was taken lets nobody else through.
                false
            });
            if passed {
                return;
            }
            let _ = changes.changed().await;
        }
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.state.send_modify(|s| s.open = true);
    }

    /// Holds again whoever comes from now on.
    pub fn close(&self) {
        self.state.send_modify(|s| s.open = false);
    }

    /// Lets one of those that wait through, or the next that comes.
    pub fn release(&self) {
        self.state.send_modify(|s| s.permits += 1);
    }

    /// How many have arrived so far, those who went through included.
    pub fn arrived(&self) -> usize {
        self.state.borrow().arrived
    }

    /// Waits until `count` have arrived.
    pub async fn reached(&self, count: usize) {
        let mut changes = self.state.subscribe();
        within(&format!("{count} arrivals at a gate"), async {
            let _ = changes.wait_for(|s| s.arrived >= count).await;
        })
        .await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
