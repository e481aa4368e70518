//! Who runs which server: what ownership decides is carried out, and shown to whoever waits for it.

use std::collections::BTreeMap;
use std::time::Instant;

use tidings_hub::fleet::FleetServerName;
use tidings_hub::fleet::entry::FleetEntry;
use tidings_hub::fleet::fold::FleetServer;
use tidings_hub::fleet::ownership::OwnershipCommand;

use super::FleetDriver;
use crate::fleet::desk::FleetSeat;

impl FleetDriver {
    pub(super) fn own(&mut self, commands: Vec<OwnershipCommand>) {
        for command in commands {
            match command {
                OwnershipCommand::Claim { server, epoch } => {
                    let replica = Some(self.local.me.clone());
                    self.append(FleetEntry::Own { server, epoch, replica });
                }
                OwnershipCommand::Release { server, epoch } => {
                    self.append(FleetEntry::Own { server, epoch, replica: None });
                }
                OwnershipCommand::Start { server, .. } if !self.effects.can_run(&server) => {
                    tracing::warn!(%server, "can not be run by this replica; it is left to another");
                    let now = Instant::now();
                    let given_up = self.ownership.start_failed(&server, self.fold.state(), &self.members, now);
                    self.own(given_up);
                    // Nothing of it was begun, so nothing has to end first.
                    let released = self.ownership.ended(&server, now);
                    self.own(released);
                }
                OwnershipCommand::Start { server, epoch } => {
                    tracing::info!(%server, epoch = epoch.0, "is run by this replica");
                    self.running.insert(server, epoch);
                }
                OwnershipCommand::ListAll { server, epoch } => {
                    self.running.insert(server.clone(), epoch);
                    self.effects.list_all(&server);
                }
                OwnershipCommand::Retire(server) | OwnershipCommand::End(server) => {
                    if self.running.remove(&server).is_some() {
                        tracing::info!(%server, "is not run by this replica any more");
                    }
                    self.forget_offer(&server);
                    if let FleetServerName::Watch(_) = server {
                        // Whoever looks at it here sees the seat, and lets go. There may be two for that moment.
                        let released = self.ownership.ended(&server, Instant::now());
                        self.own(released);
                    }
                }
            }
        }
        self.set_seats();
    }

    pub(super) fn set_seats(&self) {
        let seat = |(name, server): (&FleetServerName, &FleetServer)| {
            let seat = match (self.running.get(name), &server.owner) {
                (Some(epoch), _) => FleetSeat::Here(*epoch),
                (None, Some(owner)) if *owner != self.local.me => FleetSeat::Elsewhere(owner.clone(), server.epoch),
                (None, Some(_)) => FleetSeat::Ending,
                (None, None) => FleetSeat::Nobody,
            };
            (name.clone(), seat)
        };
        let seats: BTreeMap<FleetServerName, FleetSeat> = self.fold.state().servers().iter().map(seat).collect();
        self.desk.seats.send_if_modified(|known| {
            let differs = *known != seats;
            if differs {
                *known = seats;
            }
            differs
        });
    }

    /// Why servers are run by nobody.
    pub(super) fn set_unplaced(&self, now: Instant) {
        let why = |(name, server): (&FleetServerName, &FleetServer)| {
            let is_owned = server.owner.as_ref().is_some_and(|owner| !self.members.is_gone(owner, now));
            let why = if self.ownership.is_held_back(name) {
                "waits until no other replica can be running it (on_isolation = \"stop\")".to_owned()
            } else if !is_owned && self.ownership.is_unplaceable(server, &self.members) {
                let labels = server.planned.placement.join("\", \"");
                format!("no replica has all of its `placement` (\"{labels}\") in `labels` of [cluster]")
            } else {
                return None;
            };
            Some((name.clone(), why))
        };
        *self.desk.unplaced.lock() = self.fold.state().servers().iter().filter_map(why).collect();
    }
}
