//! What servers say to replicas that call them without running them, on its way to those that do (ADR 110).

use std::collections::VecDeque;

use bytes::Bytes;
use tidings_hub::fleet::FleetServerName;
use tidings_hub::fleet::frames::{ExchangeId, FleetFrame};

use super::{FORMAT, FleetDriver};

/// Since when replicas read what others heard.
const SAID_FORMAT: u32 = 5;
/// What may wait while the bus or an owner is not there. The last counts most: who is told of a change looks at the server as it is.
const WAITING: usize = 256;
/// Of one message; a longer one is no notification about a list.
const LONGEST: usize = 64 << 10;

/// What could not be passed on yet.
#[derive(Default)]
pub(super) struct SaidElsewhere(VecDeque<(FleetServerName, Bytes)>);

impl FleetDriver {
    /// Passes on what a server said here, now or as soon as that is possible.
    pub(super) fn pass_on(&mut self, server: FleetServerName, message: Bytes) {
        if message.len() > LONGEST || self.try_pass_on(&server, &message) {
            return;
        }
        let waiting = &mut self.said.0;
        // The same once more says nothing new.
        if waiting.iter().any(|known| *known == (server.clone(), message.clone())) {
            return;
        }
        if waiting.len() == WAITING {
            waiting.pop_front();
        }
        waiting.push_back((server, message));
    }

    pub(super) fn pass_on_waiting(&mut self) {
        if self.said.0.is_empty() || !self.outward.bus.is_connected() {
            return;
        }
        for (server, message) in std::mem::take(&mut self.said.0) {
            self.pass_on(server, message);
        }
    }

    /// Whether it was passed on, or nobody has to hear it.
    fn try_pass_on(&mut self, server: &FleetServerName, message: &Bytes) -> bool {
        let Some(known) = self.fold.state().servers().get(server) else { return true };
        match known.owner.clone() {
            Some(owner) if owner == self.local.me => {
                self.said_elsewhere(server, message.clone());
                true
            }
            Some(owner) if self.outward.bus.is_connected() && self.members.common_format(FORMAT) >= SAID_FORMAT => {
                // Of no exchange: numbers of exchanges begin with one.
                let exchange = ExchangeId { caller: self.local.me.clone(), number: 0 };
                let frame = FleetFrame::Said { server: server.clone(), bytes: message.to_vec() };
                self.send(owner, exchange, frame);
                true
            }
            _ => false,
        }
    }

    /// Another replica heard it of a server that runs here. One that moved meanwhile is listed by who has it now.
    pub(super) fn said_elsewhere(&self, server: &FleetServerName, message: Bytes) {
        if let Some(name) = server.server().filter(|_| self.running.contains_key(server)) {
            self.effects.said(name, message);
        }
    }

    /// Whether calls may leave from here to servers of others.
    pub(super) fn set_direct(&self) {
        let has_config = self.fold.state().config().is_none_or(|force| force == self.local.config);
        let may = has_config && self.members.common_format(FORMAT) >= SAID_FORMAT;
        self.desk.direct.send_if_modified(|known| std::mem::replace(known, may) != may);
    }
}
