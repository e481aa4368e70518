//! What clients and servers do: they follow at one replica, list at any, call at any, and change.

use crate::bus::{MILLI, SECOND};
use crate::replica::{Arrival, LogPoint, ProcessState, Reading};
use crate::world::{SimulatedCall, SimulatedWorld, WorldEvent, WorldWeather};

impl SimulatedWorld {
    /// The balancer knows of processes that are gone, and of nothing else.
    fn any_replica(&mut self) -> Option<usize> {
        let first = self.random.below(self.replicas.len());
        let places = (0..self.replicas.len()).map(|step| (first + step) % self.replicas.len());
        places.into_iter().find(|replica| self.replicas[*replica].state != ProcessState::Dead)
    }

    pub(crate) fn connect(&mut self, client: usize) {
        let Some(replica) = self.any_replica() else {
            self.after(SECOND, WorldEvent::Connect(client));
            return;
        };
        let known = &mut self.clients[client];
        known.connection += 1;
        known.connected = false;
        known.noticed = LogPoint::default();
        known.home = Some(self.replicas[replica].id.clone());
        let (connection, request) = (known.connection, known.request);
        self.read(replica, Reading::Listen { client, connection });
        self.after(5 * SECOND, WorldEvent::Impatient { client, request, connection });
    }

    pub(crate) fn connected(&mut self, client: usize, connection: u64) {
        if self.clients[client].connection == connection {
            self.clients[client].connected = true;
            self.list(client);
        }
    }

    fn list(&mut self, client: usize) {
        let Some(replica) = self.any_replica() else {
            // Asked again when it loses patience.
            let known = &mut self.clients[client];
            known.request += 1;
            known.listing = true;
            let (request, connection) = (known.request, known.connection);
            self.after(SECOND, WorldEvent::Impatient { client, request, connection });
            return;
        };
        let known = &mut self.clients[client];
        known.request += 1;
        known.listing = true;
        known.again = false;
        let (request, connection, told) = (known.request, known.connection, known.told);
        self.read(replica, Reading::List { client, request, told });
        self.after(4 * SECOND, WorldEvent::Impatient { client, request, connection });
    }

    pub(crate) fn impatient(&mut self, client: usize, request: u64, connection: u64) {
        let known = &self.clients[client];
        if known.connection != connection {
            return;
        }
        if !known.connected {
            self.connect(client);
        } else if known.listing && known.request == request {
            self.list(client);
        }
    }

    pub(crate) fn noticed(&mut self, client: usize, connection: u64, point: LogPoint) {
        let known = &mut self.clients[client];
        if known.connection != connection || !known.connected {
            return;
        }
        self.checks.counts.notices += 1;
        if point <= known.noticed {
            let noticed = known.noticed;
            self.checks.fail(format!("client {client} was told of {point:?} after {noticed:?}"));
            return;
        }
        known.noticed = point;
        self.times.told(point, self.now);
        let known = &mut self.clients[client];
        known.told = known.told.max(point);
        if known.listing {
            known.again = true;
        } else {
            self.list(client);
        }
    }

    pub(crate) fn answered(&mut self, client: usize, request: u64, point: LogPoint) {
        let known = &mut self.clients[client];
        if known.request != request || !known.listing {
            return;
        }
        known.listing = false;
        known.last_list = point;
        if known.again {
            self.list(client);
        }
    }

    /// A server lists something else from now on, and says so.
    pub(crate) fn change(&mut self) {
        if self.quiet {
            return;
        }
        let next = match self.weather {
            WorldWeather::Faults => self.random.between(20 * MILLI, 600 * MILLI),
            // Everybody has listed by then.
            WorldWeather::Calm => SECOND,
        };
        self.after(next, WorldEvent::Change);
        let place = self.random.below(self.truth.len() + self.added.len());
        let Some((name, content)) = self.truth.iter_mut().chain(&mut self.added).nth(place) else { return };
        *content += 1;
        let name = name.clone();
        for replica in 0..self.replicas.len() {
            if self.replicas[replica].processes.contains_key(&name) {
                self.signalled(replica, &name);
            }
        }
    }

    pub(crate) fn new_call(&mut self) {
        if self.quiet {
            return;
        }
        let next = self.random.between(5 * MILLI, 200 * MILLI);
        self.after(next, WorldEvent::NewCall);
        let place = self.random.below(self.truth.len() + self.added.len());
        let server = self.truth.keys().chain(self.added.keys()).nth(place).cloned();
        let (Some(server), Some(replica)) = (server, self.any_replica()) else { return };
        let call = self.calls.len();
        self.calls.push(SimulatedCall { server, sent: self.now, ended: None });
        let delay = self.delay();
        self.arrive(replica, delay, Arrival::Call { call });
    }
}
