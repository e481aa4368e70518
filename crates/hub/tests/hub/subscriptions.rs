//! The table of subscriptions: a rig that plays the engine, stories by requirement, and a model of the whole world.

mod clients;
mod learning;
mod listens;
mod model;
mod pace;
mod releases;
mod resets;
mod resumed;
mod scale;
mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidings_hub::ServerId;
use tidings_hub::ledger::FollowerId;
use tidings_hub::subscriptions::PlaceId;
use tidings_hub::subscriptions::{
    FollowRefusal, FollowTarget, RequestId, ResourceAddress, ResourcePhase, ServerTicket, SubscribeMethod,
    SubscriptionCommand, SubscriptionCommands, SubscriptionSettings, SubscriptionTable, TicketAnswer, Uri,
};
use tidings_wire::Digest;

const A: FollowerId = FollowerId(1);
const B: FollowerId = FollowerId(2);
const C: FollowerId = FollowerId(3);
const SERVER: PlaceId = PlaceId::Shared(ServerId(7));
const X: &str = "file:///x";
const Y: &str = "file:///y";

fn at(uri: &str) -> ResourceAddress {
    ResourceAddress { place: SERVER, uri: uri.into() }
}

fn target(uri: &str) -> FollowTarget {
    FollowTarget { address: at(uri), pace: None }
}

fn content(text: &str) -> Digest {
    Digest::of_bytes(text.as_bytes())
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Nothing is read in the background.
fn plain() -> SubscriptionSettings {
    SubscriptionSettings { baseline_reads: 0, ..SubscriptionSettings::default() }
}

/// The table with a clock, and everything it said and nobody has looked at yet.
struct Rig {
    table: SubscriptionTable,
    now: Instant,
    said: SubscriptionCommands,
    requests: u64,
}

impl Rig {
    fn with(settings: SubscriptionSettings) -> Self {
        Self { table: SubscriptionTable::new(settings), now: Instant::now(), said: Vec::new(), requests: 0 }
    }

    /// A rig whose server is connected.
    fn connected(upstream: SubscribeMethod) -> Self {
        let mut rig = Self::with(plain());
        rig.connect(upstream, false);
        rig
    }

    fn tell(&mut self, fact: impl FnOnce(&mut SubscriptionTable, Instant) -> SubscriptionCommands) {
        let said = fact(&mut self.table, self.now);
        self.said.extend(said);
    }

    fn connect(&mut self, upstream: SubscribeMethod, poll: bool) {
        self.tell(|table, now| table.connected(SERVER, upstream, poll, now));
    }

    fn lose(&mut self) {
        self.tell(|table, now| table.lost(SERVER, now));
    }

    fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    fn subscribe(&mut self, follower: FollowerId, uri: &str) -> RequestId {
        let request = self.request();
        self.tell(|table, now| table.subscribe(follower, request, &target(uri), now));
        request
    }

    fn listen(&mut self, follower: FollowerId, uris: &[&str]) -> RequestId {
        let request = self.request();
        let targets: Vec<FollowTarget> = uris.iter().map(|uri| target(uri)).collect();
        self.tell(|table, now| table.listen(follower, request, &targets, now));
        request
    }

    fn unsubscribe(&mut self, follower: FollowerId, uri: &str) {
        self.tell(|table, now| table.unsubscribe(follower, &at(uri), now));
    }

    fn acked(&mut self, request: RequestId) {
        self.tell(|table, now| table.acked(request, now));
    }

    fn gone(&mut self, follower: FollowerId) {
        self.tell(|table, now| table.gone(follower, now));
    }

    fn changed(&mut self, uri: &str) {
        self.tell(|table, now| table.changed(SERVER, &Arc::from(uri), now));
    }

    fn seen(&mut self, uri: &str, text: &str) {
        self.tell(|table, now| table.seen(&at(uri), content(text), now));
    }

    fn answer(&mut self, ticket: ServerTicket, answer: &TicketAnswer) {
        self.tell(|table, now| table.answered(ticket, answer, now));
    }

    /// Lets time pass, with everything that is due on the way.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.table.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.tell(SubscriptionTable::on_time);
        }
        self.now = end;
    }

    /// Everything that was said since the last look.
    fn said(&mut self) -> SubscriptionCommands {
        std::mem::take(&mut self.said)
    }

    /// The one thing that was said.
    fn only(&mut self) -> SubscriptionCommand {
        let said = self.said();
        assert_eq!(said.len(), 1, "{said:?}");
        said.into_iter().next().unwrap()
    }

    fn expect_subscribe(&mut self, uri: &str) -> ServerTicket {
        match self.only() {
            SubscriptionCommand::Subscribe { ticket, address } if address == at(uri) => ticket,
            other => panic!("{other:?}"),
        }
    }

    fn expect_unsubscribe(&mut self, uri: &str) -> ServerTicket {
        match self.only() {
            SubscriptionCommand::Unsubscribe { ticket, address } if address == at(uri) => ticket,
            other => panic!("{other:?}"),
        }
    }

    fn expect_read(&mut self, uri: &str) -> ServerTicket {
        match self.only() {
            SubscriptionCommand::Read { ticket, address, .. } if address == at(uri) => ticket,
            other => panic!("{other:?}"),
        }
    }

    fn expect_listen(&mut self, wanted: &[&str]) -> ServerTicket {
        match self.only() {
            SubscriptionCommand::Listen { ticket, place: SERVER, uris } if uris == texts(wanted) => ticket,
            other => panic!("{other:?}"),
        }
    }

    /// The server agrees to what it was just asked.
    fn agree(&mut self, uri: &str) {
        let ticket = self.expect_subscribe(uri);
        self.answer(ticket, &TicketAnswer::Done);
    }

    /// A follower whose subscription went all the way.
    fn follow(&mut self, follower: FollowerId, uri: &str) {
        let request = self.subscribe(follower, uri);
        if self.phase(uri) == Some(ResourcePhase::Subscribing) {
            self.agree(uri);
        }
        assert_eq!(self.only(), SubscriptionCommand::Reply(request));
        self.acked(request);
    }

    /// What a follower is told now.
    fn told(&mut self, follower: FollowerId) -> Vec<String> {
        let notices = self.table.take_dirty(follower, usize::MAX);
        notices.into_iter().map(|notice| notice.uri.to_string()).collect()
    }

    fn phase(&self, uri: &str) -> Option<ResourcePhase> {
        self.table.followed().find(|followed| *followed.address == at(uri)).map(|followed| followed.phase)
    }
}

fn texts(uris: &[&str]) -> Vec<Uri> {
    uris.iter().map(|uri| Uri::from(*uri)).collect()
}

fn no() -> FollowRefusal {
    FollowRefusal::ByServer(r#"{"code":-32002,"message":"no"}"#.into())
}
