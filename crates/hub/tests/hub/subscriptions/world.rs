//! A world around the table: servers with contents that change, clients that read, and an engine that carries out what
//! the table says. It keeps its own account of who may be told what, and panics on the first untruth.

mod rest;

use std::collections::{BTreeMap, BTreeSet};

use super::*;

pub(super) const URIS: [&str; 4] = ["t://h/a", "t://h/a/b", "t://h/c", "t://h/d"];
pub(super) const SERVERS: [PlaceId; 2] = [PlaceId::Shared(ServerId(0)), PlaceId::Shared(ServerId(1))];

pub(super) fn settings() -> SubscriptionSettings {
    // Servers may take longer than clients wait.
    SubscriptionSettings { in_flight: 3, reply_within: ms(20_000), ..SubscriptionSettings::default() }
}

/// Something a server was asked and has not answered.
#[derive(Clone, Debug)]
enum Asked {
    Subscribe(ResourceAddress),
    Unsubscribe(ResourceAddress),
    Read(ResourceAddress),
    Listen(PlaceId, Vec<Uri>),
}

#[derive(Clone, Debug)]
struct Flight {
    asked: Asked,
    at: Instant,
}

/// A request of a client.
struct Request {
    follower: FollowerId,
    targets: Vec<ResourceAddress>,
    is_listen: bool,
    at: Instant,
    answered: Option<Vec<ResourceAddress>>,
}

/// How a client stands with a resource it asked for.
#[derive(Clone, Debug, Default)]
struct Following {
    /// Its answer was handed to the transport.
    acked: bool,
    /// It was answered that it follows.
    promised: bool,
    /// A change was announced by the server since it was last told: when.
    owed: Option<Instant>,
    /// What it read last, since it is promised to be told; and whether it was told since.
    holds: Option<(u32, bool)>,
}

#[derive(Default)]
struct Server {
    up: Option<SubscribeMethod>,
    /// What a server of the old era believes to be subscribed: from the moment it is asked.
    subscribed: BTreeSet<Uri>,
    /// What it agreed to in time.
    agreed: BTreeSet<Uri>,
    open: BTreeMap<ServerTicket, BTreeSet<Uri>>,
}

pub(super) struct World {
    pub(super) table: SubscriptionTable,
    pub(super) now: Instant,
    contents: BTreeMap<ResourceAddress, u32>,
    servers: BTreeMap<PlaceId, Server>,
    flights: BTreeMap<ServerTicket, Flight>,
    polled: BTreeSet<ResourceAddress>,
    requests: BTreeMap<RequestId, Request>,
    following: BTreeMap<(FollowerId, ResourceAddress), Following>,
    next: u64,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            table: SubscriptionTable::new(settings()),
            now: Instant::now(),
            contents: BTreeMap::new(),
            servers: SERVERS.iter().map(|id| (*id, Server::default())).collect(),
            flights: BTreeMap::new(),
            polled: BTreeSet::new(),
            requests: BTreeMap::new(),
            following: BTreeMap::new(),
            next: 0,
        }
    }

    fn obey(&mut self, commands: SubscriptionCommands) {
        for command in commands {
            match command {
                SubscriptionCommand::Subscribe { ticket, address } => {
                    let server = self.servers.get_mut(&address.place).unwrap();
                    assert_eq!(server.up, Some(SubscribeMethod::PerUri));
                    assert!(!server.agreed.contains(&address.uri), "subscribed twice: {address:?}");
                    server.subscribed.insert(address.uri.clone());
                    self.depart(ticket, Asked::Subscribe(address));
                }
                SubscriptionCommand::Unsubscribe { ticket, address } => {
                    let server = self.servers.get_mut(&address.place).unwrap();
                    server.subscribed.remove(&address.uri);
                    server.agreed.remove(&address.uri);
                    let promised = self.following.iter().any(|((_, at), one)| *at == address && one.promised);
                    assert!(!promised, "released under a follower: {address:?}");
                    self.depart(ticket, Asked::Unsubscribe(address));
                }
                SubscriptionCommand::Read { ticket, address, .. } => self.depart(ticket, Asked::Read(address)),
                SubscriptionCommand::Listen { ticket, place: server, uris } => {
                    let opening = |flight: &Flight| matches!(flight.asked, Asked::Listen(to, _) if to == server);
                    assert!(!self.flights.values().any(opening), "two listens are being opened");
                    assert_eq!(self.servers[&server].up, Some(SubscribeMethod::Union));
                    self.depart(ticket, Asked::Listen(server, uris));
                }
                SubscriptionCommand::Close { ticket, place: server } => {
                    let opening = self.flights.remove(&ticket).is_some();
                    let open = self.servers.get_mut(&server).unwrap().open.remove(&ticket).is_some();
                    assert!(opening != open, "closed what is not there");
                }
                SubscriptionCommand::Poll(address) => assert!(self.polled.insert(address), "polled twice"),
                SubscriptionCommand::StopPolling(address) => assert!(self.polled.remove(&address), "was not polled"),
                SubscriptionCommand::Reply(request) => {
                    let honoured = self.requests[&request].targets.clone();
                    self.answered(request, &honoured);
                }
                SubscriptionCommand::Refuse { request, .. } => {
                    self.answered(request, &[]);
                    self.requests.remove(&request);
                }
                SubscriptionCommand::Acknowledge { request, honoured, left_out } => {
                    let targets: BTreeSet<&ResourceAddress> = self.requests[&request].targets.iter().collect();
                    let said: Vec<&ResourceAddress> =
                        honoured.iter().chain(left_out.iter().map(|(address, _)| address)).collect();
                    assert_eq!(said.len(), targets.len(), "each is honoured or left out");
                    assert_eq!(said.into_iter().collect::<BTreeSet<_>>(), targets);
                    self.answered(request, &honoured);
                }
                SubscriptionCommand::Wake(_) => {}
            }
        }
        let open = self.requests.values().filter(|request| request.answered.is_none());
        let most: usize = open.map(|request| request.targets.len()).sum();
        let waiting: usize = self.table.followed().map(|one| one.waiting).sum();
        assert!(waiting <= most, "somebody waits who is not there");
        for (id, server) in &self.servers {
            assert!(server.open.len() <= 1, "{id:?} has two listens");
        }
        for request in self.requests.values().filter(|request| request.answered.is_none()) {
            let patience = if request.is_listen { settings().acknowledge_within } else { settings().reply_within };
            assert!(self.now < request.at + patience, "a client waits too long");
        }
    }

    fn depart(&mut self, ticket: ServerTicket, asked: Asked) {
        let busy = |other: &Asked| match (&asked, other) {
            (Asked::Subscribe(one) | Asked::Unsubscribe(one), Asked::Subscribe(two) | Asked::Unsubscribe(two)) => {
                one == two
            }
            _ => false,
        };
        let in_time = |flight: &Flight| self.now < flight.at + settings().answer_within;
        assert!(
            !self.flights.values().any(|flight| in_time(flight) && busy(&flight.asked)),
            "not serialized: {asked:?}"
        );
        let of = |asked: &Asked| match asked {
            Asked::Subscribe(at) | Asked::Unsubscribe(at) | Asked::Read(at) => Some(at.place),
            Asked::Listen(..) => None,
        };
        let server = of(&asked);
        self.flights.insert(ticket, Flight { asked, at: self.now });
        if server.is_some() {
            let flights = self.flights.values().filter(|f| self.now < f.at + settings().answer_within);
            assert!(flights.filter(|flight| of(&flight.asked) == server).count() <= settings().in_flight);
        }
    }

    /// A client is answered: only what the server agreed to, or what it follows already, is promised.
    fn answered(&mut self, id: RequestId, honoured: &[ResourceAddress]) {
        let request = self.requests.get_mut(&id).unwrap();
        assert!(request.answered.is_none(), "answered twice");
        let follower = request.follower;
        let targets = request.targets.clone();
        request.answered = Some(honoured.to_owned());
        for address in honoured {
            let following = &self.following[&(follower, address.clone())];
            assert!(following.promised || self.is_heard(address), "the server did not agree: {address:?}");
        }
        for address in targets {
            let key = (follower, address.clone());
            if honoured.contains(&address) {
                self.following.get_mut(&key).unwrap().promised = true;
            } else if !self.following.get(&key).is_none_or(|one| one.promised) && !self.waits(follower, &address) {
                self.following.remove(&key);
            }
        }
    }

    fn waits(&self, follower: FollowerId, address: &ResourceAddress) -> bool {
        let open = |request: &&Request| request.follower == follower && request.answered.is_none();
        self.requests.values().filter(open).any(|request| request.targets.contains(address))
    }

    fn is_heard(&self, address: &ResourceAddress) -> bool {
        let server = &self.servers[&address.place];
        let listened = server.open.values().any(|uris| uris.contains(&address.uri));
        // A baseline that was read just now is as good: the poll begins with the answer.
        server.agreed.contains(&address.uri) || listened || self.polled.contains(address) || self.may_poll(address)
    }

    fn may_poll(&self, address: &ResourceAddress) -> bool {
        self.table.followed().any(|one| one.address == address && one.phase == ResourcePhase::Polled)
    }

    pub(super) fn connect(&mut self, server: PlaceId, upstream: SubscribeMethod, poll: bool) {
        self.drop_link(server);
        self.servers.get_mut(&server).unwrap().up = Some(upstream);
        let said = self.table.connected(server, upstream, poll, self.now);
        self.obey(said);
    }

    /// Whether a server is connected and can be followed.
    pub(super) fn is_able(&self, server: PlaceId) -> bool {
        matches!(self.servers[&server].up, Some(SubscribeMethod::PerUri | SubscribeMethod::Union))
    }

    pub(super) fn lose(&mut self, server: PlaceId) {
        self.drop_link(server);
        let said = self.table.lost(server, self.now);
        self.obey(said);
    }

    pub(super) fn remove(&mut self, server: PlaceId) {
        self.drop_link(server);
        let said = self.table.removed(server, self.now);
        self.obey(said);
    }

    fn drop_link(&mut self, server: PlaceId) {
        self.servers.insert(server, Server::default());
        self.flights.retain(|_, flight| match &flight.asked {
            Asked::Subscribe(at) | Asked::Unsubscribe(at) | Asked::Read(at) => at.place != server,
            Asked::Listen(to, _) => *to != server,
        });
    }

    pub(super) fn ask(&mut self, follower: FollowerId, targets: Vec<ResourceAddress>, is_listen: bool) {
        self.next += 1;
        let id = RequestId(self.next);
        for address in &targets {
            self.following.entry((follower, address.clone())).or_default();
        }
        let wanted: Vec<FollowTarget> =
            targets.iter().map(|address| FollowTarget { address: address.clone(), pace: None }).collect();
        self.requests.insert(id, Request { follower, targets, is_listen, at: self.now, answered: None });
        let said = if is_listen {
            self.table.listen(follower, id, &wanted, self.now)
        } else {
            self.table.subscribe(follower, id, &wanted[0], self.now)
        };
        self.obey(said);
    }

    /// The transport takes an answer.
    pub(super) fn ack(&mut self, pick: usize) {
        let answered = self.requests.iter().filter(|(_, request)| request.answered.is_some()).map(|(id, _)| *id);
        let all: Vec<RequestId> = answered.collect();
        let Some(id) = pick.checked_rem(all.len()).map(|at| all[at]) else { return };
        let request = self.requests.remove(&id).unwrap();
        for address in request.answered.unwrap() {
            // It may have unsubscribed meanwhile.
            if let Some(following) = self.following.get_mut(&(request.follower, address)) {
                following.acked = true;
            }
        }
        let said = self.table.acked(id, self.now);
        self.obey(said);
    }

    pub(super) fn cancel(&mut self, pick: usize) {
        let open = self.requests.iter().filter(|(_, request)| request.answered.is_none() && !request.is_listen);
        let all: Vec<RequestId> = open.map(|(id, _)| *id).collect();
        let Some(id) = pick.checked_rem(all.len()).map(|at| all[at]) else { return };
        let request = self.requests.remove(&id).unwrap();
        let key = (request.follower, request.targets[0].clone());
        if !self.following[&key].promised && !self.waits(key.0, &key.1) {
            self.following.remove(&key);
        }
        let said = self.table.cancel(id, self.now);
        self.obey(said);
    }

    pub(super) fn unsubscribe(&mut self, follower: FollowerId, address: &ResourceAddress) {
        let said = self.table.unsubscribe(follower, address, self.now);
        self.following.remove(&(follower, address.clone()));
        self.obey(said);
        // An answer that is still on its way speaks of what was, not of what comes.
        for request in self.requests.values_mut().filter(|request| request.follower == follower) {
            if let Some(honoured) = &mut request.answered {
                honoured.retain(|at| at != address);
            }
        }
    }

    pub(super) fn gone(&mut self, follower: FollowerId) {
        self.requests.retain(|_, request| request.follower != follower);
        self.following.retain(|(who, _), _| *who != follower);
        let said = self.table.gone(follower, self.now);
        self.obey(said);
    }

    /// A server answers the one or the other question. What comes too late is for the table to ignore.
    pub(super) fn answer(&mut self, pick: usize, agree: bool) {
        let tickets: Vec<ServerTicket> = self.flights.keys().copied().collect();
        let Some(ticket) = pick.checked_rem(tickets.len()).map(|at| tickets[at]) else { return };
        let flight = self.flights.remove(&ticket).unwrap();
        let in_time = self.now < flight.at + settings().answer_within;
        let answer = if agree { TicketAnswer::Done } else { TicketAnswer::Failed(no()) };
        let said = match flight.asked {
            Asked::Subscribe(address) => {
                let server = self.servers.get_mut(&address.place).unwrap();
                if in_time && agree {
                    server.agreed.insert(address.uri);
                } else if in_time {
                    server.subscribed.remove(&address.uri);
                }
                self.table.answered(ticket, &answer, self.now)
            }
            Asked::Unsubscribe(_) => self.table.answered(ticket, &answer, self.now),
            Asked::Read(address) => {
                let content = self.content(&address);
                let answer = if agree { TicketAnswer::Content(content) } else { answer };
                self.table.answered(ticket, &answer, self.now)
            }
            Asked::Listen(server, uris) if agree => {
                // Now and then it leaves one out.
                let honoured: Vec<Uri> = uris.into_iter().skip(usize::from(pick % 5 == 4)).collect();
                self.servers.get_mut(&server).unwrap().open.insert(ticket, honoured.iter().cloned().collect());
                self.table.listening(ticket, honoured, self.now)
            }
            Asked::Listen(..) => self.table.listen_ended(ticket, &no(), self.now),
        };
        self.obey(said);
    }

    pub(super) fn end_listen(&mut self, server: PlaceId) {
        let Some((ticket, _)) = self.servers.get_mut(&server).unwrap().open.pop_first() else { return };
        let said = self.table.listen_ended(ticket, &no(), self.now);
        self.obey(said);
    }

    fn content(&self, address: &ResourceAddress) -> Digest {
        content(&self.contents.get(address).copied().unwrap_or_default().to_string())
    }

    /// A content changes; its server says so if anybody asked it to, be it agreed or not.
    pub(super) fn write(&mut self, address: &ResourceAddress, text: u32) {
        if self.contents.insert(address.clone(), text).unwrap_or_default() != text {
            self.update(address);
        }
    }

    pub(super) fn update(&mut self, address: &ResourceAddress) {
        self.announce(address, &address.uri);
    }

    /// A child of a resource changes, for which nobody asked.
    pub(super) fn update_child(&mut self, address: &ResourceAddress) {
        self.announce(address, &Uri::from(format!("{}/child", address.uri)));
    }

    fn announce(&mut self, address: &ResourceAddress, uri: &Uri) {
        let server = &self.servers[&address.place];
        let asked = server.subscribed.contains(&address.uri);
        if !asked && !server.open.values().any(|uris| uris.contains(&address.uri)) {
            return;
        }
        for ((_, at), following) in &mut self.following {
            if at == address {
                following.owed.get_or_insert(self.now);
            }
        }
        let said = self.table.changed(address.place, uri, self.now);
        self.obey(said);
    }

    /// A session that asked for something, and what.
    pub(super) fn pick(&self, pick: usize, sessions: u64) -> Option<(FollowerId, ResourceAddress)> {
        let all = || self.following.keys().filter(|(follower, _)| follower.0 < sessions);
        all().nth(pick.checked_rem(all().count())?).cloned()
    }

    /// A client reads through the gateway.
    pub(super) fn read(&mut self, follower: FollowerId, address: &ResourceAddress) {
        if self.servers[&address.place].up.is_none() {
            return;
        }
        let text = self.contents.get(address).copied().unwrap_or_default();
        if let Some(following) = self.following.get_mut(&(follower, address.clone()))
            && following.promised
        {
            following.holds = Some((text, false));
        }
        let said = self.table.seen(address, self.content(address), self.now);
        self.obey(said);
    }

    pub(super) fn poll(&mut self) {
        for address in self.polled.clone() {
            let said = self.table.seen(&address, self.content(&address), self.now);
            self.obey(said);
        }
    }

    /// A transport takes: only what it may be told, and everything that is due.
    pub(super) fn take(&mut self, follower: FollowerId) {
        let mut told = BTreeSet::new();
        for notice in self.table.take_dirty(follower, usize::MAX) {
            let address = ResourceAddress { place: notice.place, uri: notice.uri };
            let following = self.following.get_mut(&(follower, address.clone()));
            let following = following.unwrap_or_else(|| panic!("{follower:?} does not follow {address:?}"));
            assert!(following.acked, "{follower:?} is told before it was answered");
            following.owed = None;
            if let Some((_, told)) = &mut following.holds {
                *told = true;
            }
            assert!(told.insert(address), "told twice at once");
        }
        for ((who, address), following) in &self.following {
            if *who == follower && following.acked {
                let late = following.owed.is_some_and(|since| since + settings().pace.max_wait <= self.now);
                assert!(!late, "{follower:?} was not told of {address:?}");
            }
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.table.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            let said = self.table.on_time(self.now);
            self.obey(said);
        }
        self.now = end;
    }
}
