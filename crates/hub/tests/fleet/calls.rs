//! Calls in a simulated world: carried out where they arrive, or forwarded to the owner.

use std::time::Duration;

use tidings_hub::fleet::FleetServerName;
use tidings_hub::fleet::frames::{ExchangeId, ExchangeKind, FleetFrame, NumberedItem, OpenFrame};
use tidings_hub::fleet::incoming::{IncomingSteps, OpenFacts, OpenVerdict};
use tidings_hub::fleet::outgoing::{ForwardedEvent, OutgoingSteps};
use tidings_hub::fleet::{OwnerEpoch, ReplicaId};

use crate::bus::{MILLI, SECOND};
use crate::defects::PlantedDefect;
use crate::replica::{Arrival, WaitingCall};
use crate::world::SimulatedWorld;

impl SimulatedWorld {
    /// A client's call: it waits for an owner for a while.
    pub(crate) fn call(&mut self, replica: usize, call: usize) {
        let until = self.now + 10 * SECOND;
        self.replicas[replica].calls.push(WaitingCall { call, until, exchange: None });
        self.drive_calls(replica);
    }

    fn drive_calls(&mut self, replica: usize) {
        let waiting = std::mem::take(&mut self.replicas[replica].calls);
        for mut waiting in waiting {
            if waiting.exchange.is_none() && !self.place(replica, &mut waiting) {
                continue;
            }
            self.replicas[replica].calls.push(waiting);
        }
    }

    /// Carries a call out here or sends it to the owner. False: it is over.
    fn place(&mut self, replica: usize, waiting: &mut WaitingCall) -> bool {
        let server = self.calls[waiting.call].server.clone();
        if self.replicas[replica].ownership.serves(&server).is_some() {
            let now = self.now;
            self.checks.ran(waiting.call, now, now);
            self.calls[waiting.call].ended = Some(false);
            return false;
        }
        if waiting.until < self.now {
            self.calls[waiting.call].ended = Some(true);
            return false;
        }
        let Some((owner, epoch)) = self.owner(replica, &server) else { return true };
        let known = &mut self.replicas[replica];
        let local = known.clock(self.now);
        let open = OpenFrame {
            kind: ExchangeKind::Call,
            server,
            epoch,
            sequence: known.fold.state().sequence(),
            beat: known.members.returned(),
            window: 0,
            bytes: waiting.call.to_le_bytes().to_vec(),
        };
        if let Some((number, steps)) = known.outgoing.open(owner, open, local) {
            waiting.exchange = Some(number);
            self.calls[waiting.call].sent = self.now;
            self.checks.counts.forwarded += 1;
            self.outgoing(replica, steps);
        }
        true
    }

    fn owner(&self, replica: usize, server: &FleetServerName) -> Option<(ReplicaId, OwnerEpoch)> {
        let known = &self.replicas[replica];
        let state = known.fold.state().servers().get(server)?;
        let owner = state.owner.clone().filter(|owner| *owner != known.id)?;
        Some((owner, state.epoch))
    }

    pub(crate) fn drive_exchanges(&mut self, replica: usize) {
        let known = &mut self.replicas[replica];
        let local = known.clock(self.now);
        let outgoing = known.outgoing.tick(local);
        let incoming = known.incoming.tick(local);
        self.outgoing(replica, outgoing);
        self.incoming(replica, incoming);
        let later = std::mem::take(&mut self.replicas[replica].later);
        for (exchange, open) in later {
            self.opened(replica, exchange, open);
        }
        self.drive_calls(replica);
    }

    pub(crate) fn outgoing(&mut self, replica: usize, steps: OutgoingSteps) {
        let from = self.replicas[replica].id.clone();
        for (to, exchange, frame) in steps.send {
            if self.defect == PlantedDefect::NoRepair && matches!(frame, FleetFrame::Again { .. }) {
                continue;
            }
            self.send(replica, to, Arrival::Frame { from: from.clone(), exchange, frame });
        }
        for (number, event) in steps.events {
            self.came_of(replica, number, &event);
        }
    }

    fn came_of(&mut self, replica: usize, number: u64, event: &ForwardedEvent) {
        let calls = &mut self.replicas[replica].calls;
        let Some(place) = calls.iter().position(|waiting| waiting.exchange == Some(number)) else { return };
        match event {
            ForwardedEvent::Message(_) | ForwardedEvent::Part(_) => {}
            ForwardedEvent::Answered(_) => {
                let call = calls.swap_remove(place).call;
                self.calls[call].ended = Some(false);
            }
            ForwardedEvent::NotRun(_) => {
                calls[place].exchange = None;
                self.checks.counts.refused += 1;
            }
            ForwardedEvent::PerhapsRun(_) if self.defect == PlantedDefect::SentAgain => calls[place].exchange = None,
            ForwardedEvent::PerhapsRun(_) => {
                let call = calls.swap_remove(place).call;
                self.calls[call].ended = Some(false);
                self.checks.counts.perhaps += 1;
            }
        }
    }

    pub(crate) fn frame(&mut self, replica: usize, from: &ReplicaId, exchange: ExchangeId, frame: FleetFrame) {
        let known = &mut self.replicas[replica];
        let local = known.clock(self.now);
        if exchange.caller == known.id {
            let steps = known.outgoing.frame(from, exchange.number, frame, local);
            return self.outgoing(replica, steps);
        }
        if let FleetFrame::Open(open) = frame {
            return self.opened(replica, exchange, open);
        }
        let steps = known.incoming.frame(&exchange, frame, local);
        self.incoming(replica, steps);
    }

    fn opened(&mut self, replica: usize, exchange: ExchangeId, open: OpenFrame) {
        let known = &mut self.replicas[replica];
        let local = known.clock(self.now);
        let mut facts = OpenFacts {
            epoch: known.ownership.serves(&open.server),
            beat_age: known.members.beat_age(&exchange.caller, open.beat, local),
            applied: known.fold.state().sequence(),
        };
        if self.defect == PlantedDefect::OldRuns {
            facts.beat_age = Some(Duration::ZERO);
        }
        let (verdict, steps) = known.incoming.opened(&exchange, &open, facts, local);
        self.incoming(replica, steps);
        let runs = match verdict {
            OpenVerdict::Run => true,
            OpenVerdict::Duplicate => self.defect == PlantedDefect::CopiesRun,
            OpenVerdict::Later(_) => {
                self.replicas[replica].later.push((exchange, open));
                return;
            }
            OpenVerdict::Refused => false,
        };
        if runs {
            let call = usize::from_le_bytes(open.bytes.as_slice().try_into().unwrap());
            let sent = self.calls[call].sent;
            self.checks.ran(call, sent, self.now);
            let delay = self.random.between(MILLI, 300 * MILLI);
            let messages = self.random.between(0, 4);
            self.arrive(replica, delay, Arrival::Ran { exchange, messages });
        }
    }

    /// The server answered, after some messages.
    pub(crate) fn ran(&mut self, replica: usize, exchange: &ExchangeId, messages: u64) {
        let local = self.replicas[replica].clock(self.now);
        for message in 0..messages {
            let known = &mut self.replicas[replica];
            if known.incoming.has_room(exchange) {
                let item = NumberedItem::Message { bytes: message.to_le_bytes().to_vec() };
                let steps = known.incoming.send(exchange, item, local);
                self.incoming(replica, steps);
            }
        }
        let item = NumberedItem::Answer { bytes: b"done".to_vec() };
        let steps = self.replicas[replica].incoming.send(exchange, item, local);
        self.incoming(replica, steps);
    }

    fn incoming(&mut self, replica: usize, steps: IncomingSteps) {
        let from = self.replicas[replica].id.clone();
        for (exchange, frame) in steps.send {
            self.send(replica, exchange.caller.clone(), Arrival::Frame { from: from.clone(), exchange, frame });
        }
    }
}
