//! One request of a client, from its arrival to its answer.

mod answer;
mod crossed_task;
mod drive;
mod follow;
mod followed_task;
mod login;
mod park;
mod redirect;
mod running;
mod sending;
mod skills;
mod spans;
mod state;
mod tasks;
mod trouble;
mod unanswered;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidings_hub::calls::CallId;
use tidings_hub::scope::ServerAudience;
use tidings_proto::outcome::{self, ClientAnswer};
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Era, Method, ServerMessage, capabilities, code};
use tidings_upstream::{CallStream, LinkError};
use tidings_wire::{Frame, RawId};

use crate::call::RequestRouter;
use crate::call::park::ParkSeat;
use crate::call::routing::{LackingScopes, Routed, RoutedTool};
use crate::client::quota::{LimitSeat, OverQuota, Quota};
use crate::client::session::Caller;
use crate::links::in_flight::Waiter;
use crate::links::live_link::LiveLink;
use crate::notify::announce::Listening;
use crate::notify::notices::Notice;
use crate::observe::audit::{CallOutcome, CallTrace};
use crate::observe::request_span::RequestSpan;
use crate::plan::limit_desk::LimitDesk;
use crate::servers::server::Server;
use crate::subscriptions::Receipt;
use drive::{DrivenCall, Driving};
use followed_task::{FollowedTask, Following};
use login::NeededLogin;
use park::Parking;
use redirect::Detour;
use tasks::TaskPart;

/// Lets a client stay logged in, and opens nothing here.
const OFFLINE: &str = "offline_access";

/// Something to send to the client.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The server opened a stream that can be resumed, and has said nothing yet.
    Opened,
    /// A notification, or a question of the server.
    Message(Bytes),
    /// The server closed its stream for a while.
    Interrupted(Duration),
    /// The answer; the exchange is over.
    Answer(ClientAnswer),
    /// The same to a request whose token lacks scopes: where the transport has a status for that, it says which.
    Forbidden {
        /// The error.
        answer: ClientAnswer,
        /// All that the token has to have.
        scopes: String,
    },
    /// The client cancelled: there is no answer.
    Cancelled,
}

/// A request under way. Dropping it cancels it.
pub struct Exchange {
    router: Arc<RequestRouter>,
    caller: Caller,
    frame: Frame,
    method: Method,
    id: RawId,
    waiter: Arc<Waiter>,
    /// It is in the table of requests that are not sent yet.
    is_arriving: bool,
    stage: Stage,
    /// What the transport keeps until it has the answer.
    receipt: Option<Receipt>,
    /// Set once a server in the process has had another tool called in its place.
    detour: Option<Box<Detour>>,
    /// Set once its server has asked its client something, for the rounds after that.
    driven: Option<Box<DrivenCall>>,
    /// Set once the server of the call has asked its modern client something.
    parking: Option<Box<Parking>>,
    /// Set once its server has it no other way than as a task, of which the client knows nothing.
    followed: Option<Box<FollowedTask>>,
    records: CallRecords,
    allowance: CallAllowance,
}

/// What is told of a request to those who look on.
#[derive(Default)]
struct CallRecords {
    /// What is to be told of it when it is over, once.
    trace: Option<CallTrace>,
    /// Its spans, where somebody exports traces.
    span: Option<Box<RequestSpan>>,
}

/// What a request takes of what its principal may have at a time.
#[derive(Default)]
struct CallAllowance {
    /// What it counts as for its principal, where that is counted.
    counts_as: Option<Quota>,
    /// Its principal has as much as it may: it is refused when the transport asks for the answer.
    over_quota: Option<Box<OverQuota>>,
    /// Its place among those that may run at a time, where that is limited.
    limited: Option<Box<LimitSeat>>,
}

impl CallAllowance {
    /// Counts a request that has arrived.
    fn enter(caller: &Caller, method: Method) -> Self {
        match caller.principal().book().map(|book| book.enter_request(method)) {
            None => Self::default(),
            Some(Ok(counts_as)) => Self { counts_as, ..Self::default() },
            Some(Err(over)) => Self { over_quota: Some(Box::new(over)), ..Self::default() },
        }
    }
}

enum Stage {
    Start,
    Calling(Box<Calling>),
    /// Was refused before it was run, and waits for the next link.
    Again(Box<Routed>),
    /// Between two rounds: its server asked its client something.
    Driving(Box<Driving>),
    /// Its server goes on with it as a task.
    Following(Box<Following>),
    /// A listen, and announcements that were taken and not passed on yet.
    Listening(Box<Listening>, VecDeque<Notice>),
    /// The retry of a call that waits for its client.
    Attending(Box<ParkSeat>),
    /// Its server needs a login first.
    LoggingIn(Box<NeededLogin>),
    Over,
}

struct Calling {
    routed: Routed,
    live: LiveLink,
    call: CallId,
    /// The server's own state, where a retry carries one.
    state: Option<Option<String>>,
    /// Messages that came beside the stream, not yet passed on.
    aside: VecDeque<ServerMessage>,
    deadline: Instant,
    silent_for: Duration,
    /// What the server sends for it; none until the request was sent.
    events: Option<CallStream>,
    repetition: Repetition,
    /// The server has said something about it: it has begun.
    begun: bool,
    /// The server answers on a stream of the call's own, which is open.
    accepted: bool,
    task: TaskPart,
    /// It met trouble that is being looked into.
    trouble: Option<Box<Trouble>>,
}

/// The one repetition that a header mismatch allows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repetition {
    Possible,
    /// After this listing of the server.
    UnderWay(u64),
    Used,
}

/// A call that failed, or was refused, and whose fate depends on whether the link did.
struct Trouble {
    error: LinkError,
    /// What the server said, if that may be the answer.
    answer: Option<Frame>,
    taken: TakenByServer,
}

/// What is known of whether a server took a call that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TakenByServer {
    /// It may have run it.
    Perhaps,
    /// It refused it before it ran, unless what it refused was the call itself.
    Refused,
    /// Nothing of the call was sent: the link was over already.
    Never,
}

impl Exchange {
    pub(crate) fn new(router: Arc<RequestRouter>, caller: Caller, frame: Frame, method: Method, id: RawId) -> Self {
        Self::of_found(router, caller, frame, method, id, None)
    }

    /// As [`Self::new`], for a tool that was looked up already.
    pub(crate) fn of_found(
        router: Arc<RequestRouter>,
        caller: Caller,
        frame: Frame,
        method: Method,
        id: RawId,
        found: Option<RoutedTool>,
    ) -> Self {
        // Nobody is asked for anything by the others, and a listen would keep the buffer of its request for as long as it lives.
        let declared = match &caller {
            Caller::Modern(caller) if method.may_require_input() => frame.slice(caller.capabilities),
            Caller::Modern(_) | Caller::Legacy(_) => Bytes::new(),
        };
        let waiter = Waiter::of(caller.principal(), declared);
        router.notifier.note_call(&caller, &frame, method);
        let trace = CallTrace::begin(method);
        let span = router.runtime.telemetry.as_ref().map(|sink| RequestSpan::begin(sink, &frame, method, &id));
        let allowance = CallAllowance::enter(&caller, method);
        let mut exchange = Self {
            router,
            caller,
            frame,
            method,
            id,
            waiter,
            is_arriving: false,
            stage: Stage::Start,
            receipt: None,
            detour: None,
            driven: None,
            parking: None,
            followed: None,
            records: CallRecords { trace, span },
            allowance,
        };
        if exchange.allowance.over_quota.is_some() || !exchange.begin_now(found) {
            // Before anything else can happen to it: a cancellation may be read while the request is being routed.
            exchange.arrive();
        }
        exchange
    }

    /// Begins the call at once where everything that it needs is there, which is nearly always. So it is written into the table
    /// once, as one that is in flight, and not before as one that has arrived. Sent it is when the transport asks for the first
    /// reply. Whatever stands in the way is found again, and waited for or refused, at that moment.
    fn begin_now(&mut self, found: Option<RoutedTool>) -> bool {
        if !matches!(self.method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead) {
            return false;
        }
        // Its answers are for a call that runs already.
        if self.may_be_retry_of_park() {
            return false;
        }
        let routed = found.map(RoutedTool::into_routed);
        let routed = routed.or_else(|| self.router.route_now(&self.caller, &self.frame, self.method));
        let Some(routed) = routed.filter(|routed| self.check_scopes(routed).is_ok()) else { return false };
        let Some(live) = self.router.pool.link_now(&self.caller, &routed.server) else { return false };
        if self.needs_list(&routed, &live) {
            return false;
        }
        self.begin(routed, live, Repetition::Possible).is_ok()
    }

    /// From now on the request can be cancelled, by its id if its client may do that.
    fn arrive(&mut self) {
        if self.caller.names_its_calls() {
            self.router.links.in_flight.arrive(self.caller.key(), &self.id, &self.waiter);
            self.is_arriving = true;
        }
    }

    /// Whether [`Self::next_of_begun`] has something to wait for.
    pub fn has_begun(&self) -> bool {
        !matches!(self.stage, Stage::Start)
    }

    /// The next thing to send. After an answer or a cancellation there is nothing more. Not to be dropped before it has begun: it
    /// would begin again.
    pub async fn next(&mut self) -> Reply {
        loop {
            if !self.has_begun() {
                let begun = Box::pin(self.start()).await;
                if let Some(reply) = self.settle(begun) {
                    return reply;
                }
            }
            if let Some(reply) = self.next_of_begun().await {
                return reply;
            }
        }
    }

    /// As [`Self::next`], for an exchange that has begun. May be dropped at any time: it goes on where it was. Its future is small,
    /// which counts where thousands of streams wait. `None` when it has to begin again, because it was passed on to another tool.
    pub async fn next_of_begun(&mut self) -> Option<Reply> {
        loop {
            let step = match &self.stage {
                // Not boxed: the common case of thousands of waiting streams is one small future.
                Stage::Calling(_) => self.advance().await,
                Stage::Again(_) => Box::pin(self.send_again()).await,
                Stage::Driving(_) => Box::pin(self.drive()).await,
                Stage::Following(_) => Box::pin(self.advance_task()).await,
                Stage::Listening(..) => self.listen().await,
                Stage::Attending(_) => self.attend().await,
                Stage::LoggingIn(_) => Box::pin(self.ask_for_login()).await,
                Stage::Start => return None,
                Stage::Over => return Some(Reply::Cancelled),
            };
            if let Some(reply) = self.settle(step) {
                return Some(reply);
            }
        }
    }

    /// What must be kept until the transport has the answer, which then has been given already.
    pub fn take_receipt(&mut self) -> Option<Receipt> {
        self.receipt.take()
    }

    fn settle(&mut self, step: Result<Option<Reply>, RequestRefusal>) -> Option<Reply> {
        if let (Err(refusal @ RequestRefusal::NeedsLogin { server, .. }), false) = (&step, self.asks_for_many()) {
            let (server, refusal) = (server.clone(), refusal.clone());
            self.stage = Stage::LoggingIn(Box::new(NeededLogin { server, refusal, is_all: false }));
            return None;
        }
        let reply = step.unwrap_or_else(|refusal| {
            let answer = self.pass_over_refusal(&refusal).unwrap_or_else(|| self.refuse(&refusal));
            Some(match refusal {
                RequestRefusal::InsufficientScope { scopes } => Reply::Forbidden { answer, scopes },
                _ => Reply::Answer(answer),
            })
        })?;
        let reply = self.with_hint(reply);
        let outcome = match &reply {
            Reply::Forbidden { .. } => CallOutcome::Refused(code::INSUFFICIENT_SCOPE),
            Reply::Answer(ClientAnswer { error: Some(code), .. }) => CallOutcome::Refused(*code),
            Reply::Answer(answer) => CallOutcome::Answered(answer.payload.len()),
            Reply::Cancelled => CallOutcome::Cancelled,
            // A listen is answered by its acknowledgement; what comes after that are changes.
            Reply::Message(_) if self.method == Method::Listen => {
                self.end_span(CallOutcome::Answered(0), None);
                return Some(reply);
            }
            Reply::Opened | Reply::Message(_) | Reply::Interrupted(_) => return Some(reply),
        };
        self.stage = Stage::Over;
        // Before the client has the answer: its next call finds the place free.
        self.allowance.limited = None;
        self.end_span(outcome, Some(&reply));
        self.end_trace(outcome);
        Some(reply)
    }

    /// The result of a tool says once that its client's list is old, where that is wanted.
    fn with_hint(&self, reply: Reply) -> Reply {
        let announcements = &self.router.runtime.settings.announcements;
        let is_wanted = || announcements.hints_to(self.caller.profile().map(AsRef::as_ref));
        match reply {
            Reply::Answer(answer) if self.method == Method::ToolsCall && answer.error.is_none() && is_wanted() => {
                let hinted = self.router.notifier.hinted(&self.caller, &self.frame, &answer.payload);
                let payload = hinted.map_or(answer.payload, Into::into);
                Reply::Answer(ClientAnswer { payload, error: None })
            }
            reply => reply,
        }
    }

    fn end_trace(&mut self, outcome: CallOutcome) {
        let Some(trace) = self.records.trace.take() else { return };
        let ended = trace.over(outcome);
        let Some(trail) = &self.router.runtime.audit else { return };
        let client = match &self.caller {
            Caller::Legacy(session) => session.client.info.as_deref(),
            Caller::Modern(_) => None,
        };
        trace.end(&**trail, &self.caller.principal().name, client, (&self.frame, self.method), (outcome, ended));
    }

    /// One more use of what a request names, unless a limit is over. What is built in is not limited, nor what tasks are asked.
    fn use_limited(&self, desk: &LimitDesk, routed: &Routed) -> Result<Option<Box<LimitSeat>>, RequestRefusal> {
        let principal = self.caller.principal();
        let names_item =
            matches!(self.method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead | Method::Complete);
        let is_limited = names_item && routed.server.ruled().audience == ServerAudience::ByName;
        let Some(book) = principal.book().filter(|_| is_limited && self.allowance.limited.is_none()) else {
            return Ok(None);
        };
        let item = (routed.server.plan.name.as_str(), routed.target.local.as_str());
        book.use_item(desk, principal.scope.facts(), item).map_err(|over| RequestRefusal::OverLimit {
            reason: over.to_string(),
            retry_after_ms: u64::try_from(over.retry_after.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Whether the token of the request has the scopes that rules ask for.
    fn check_scopes(&self, routed: &Routed) -> Result<(), RequestRefusal> {
        let Some(LackingScopes(lacking)) = routed.lacking.as_deref() else { return Ok(()) };
        let held = self.caller.token_scopes();
        if lacking.is_subset(held) {
            return Ok(());
        }
        // All of them: a client that asks for these alone must not lose what it has. Whether it may stay logged in is between it and
        // its provider.
        let all: BTreeSet<&str> = held.union(lacking).map(String::as_str).filter(|scope| *scope != OFFLINE).collect();
        Err(RequestRefusal::InsufficientScope { scopes: Vec::from_iter(all).join(" ") })
    }

    fn refuse(&self, refusal: &RequestRefusal) -> ClientAnswer {
        let era = self.caller.era();
        // The model can read this, and wait.
        if let (RequestRefusal::OverLimit { .. }, Method::ToolsCall) = (refusal, self.method) {
            return outcome::failed_tool(&self.id, &refusal.to_string(), era);
        }
        ClientAnswer { payload: refusal.respond(&self.id, era).into(), error: Some(refusal.code(era)) }
    }

    async fn start(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        if let Some(over) = self.allowance.over_quota.take() {
            return Err(RequestRefusal::OverQuota(over.to_string()));
        }
        // A handle of its own, because the methods below borrow `self` mutably.
        let router = Arc::clone(&self.router);
        let answer = match (self.method, &self.caller) {
            (Method::Ping, Caller::Legacy(_)) => ClientAnswer::result(&self.id, b"{}"),
            (Method::SetLevel, Caller::Legacy(session)) => router.set_level(session, &self.frame, &self.id)?,
            (Method::List(kind), caller) => router.list(caller, &self.frame, kind, &self.id).await?,
            (Method::Discover, Caller::Modern(caller)) => {
                let declared = self.caller.capabilities(&self.frame);
                router.discover(caller, &declared, &self.frame, &self.id).await?
            }
            (Method::Listen, Caller::Modern(_)) => return Ok(Some(self.acknowledge().await?)),
            (Method::ResourcesSubscribe, Caller::Legacy(session)) => {
                let session = Arc::clone(session);
                return Ok(Some(self.subscribe(&session).await?));
            }
            (Method::ResourcesUnsubscribe, Caller::Legacy(session)) => {
                let session = Arc::clone(session);
                self.unsubscribe(&session).await?
            }
            (Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead | Method::Complete | Method::Other, _) => {
                return self.call().await;
            }
            (Method::Task(which), _) => return self.task_request(which).await,
            (Method::Skills(asked), _) => return self.ask_for_skills(asked).await,
            _ => return Err(RequestRefusal::UnknownMethod(self.frame.method().into_owned())),
        };
        Ok(Some(Reply::Answer(answer)))
    }

    /// Routes the request and sends it.
    async fn call(&mut self) -> Result<Option<Reply>, RequestRefusal> {
        if let Some(seat) = self.seat_of_retry() {
            self.stage = Stage::Attending(Box::new(seat));
            return Ok(None);
        }
        let routed = self.router.route(&self.caller, &self.frame, self.method).await?;
        // Before its server is started for it.
        self.check_scopes(&routed)?;
        let live = match self.link_to(&routed.server).await {
            Err(RequestRefusal::NeedsLogin { .. }) if self.comes_back_with_answers() => {
                // Whoever agreed to visit the page is on it: that takes a person a while.
                self.router.pool.logged_in(&self.caller, &routed.server).await;
                self.link_to(&routed.server).await?
            }
            live => live?,
        };
        // The server would refuse it; an empty completion is what clients expect where there is none.
        if self.method == Method::Complete && !capabilities::declares(&live.hello.capabilities, "completions") {
            return Ok(Some(Reply::Answer(self.no_completions())));
        }
        if self.needs_list(&routed, &live) {
            self.router.wait_spoken(routed.server.id).await;
        }
        self.begin(routed, live, Repetition::Possible)
    }

    /// The link that carries the request.
    async fn link_to(&mut self, server: &Arc<Server>) -> Result<LiveLink, RequestRefusal> {
        let pool = &self.router.pool;
        match self.method {
            Method::Skills(_) => pool.declaring_link(&self.caller, &self.frame, server).await,
            _ => pool.link_for(&self.caller, &self.frame, server).await,
        }
    }

    fn begin(
        &mut self,
        routed: Routed,
        live: LiveLink,
        repetition: Repetition,
    ) -> Result<Option<Reply>, RequestRefusal> {
        if let Some(trace) = &mut self.records.trace {
            trace.server = Some(Arc::clone(&routed.server.shared_name));
            trace.would_deny = routed.tried.as_ref().map(|tried| tried.name().into());
            trace.meter = routed.server.meters.calls.of(self.method, routed.target.local.as_str(), routed.is_listed);
        }
        if let Some(tried) = &routed.tried {
            tried.note();
        }
        if let Some(desk) = &self.router.runtime.limits {
            self.allowance.limited = self.use_limited(desk, &routed)?;
        }
        if self.driven.is_some() && live.hello.revision.era() != Era::Modern {
            // It would take the request for a new call: state and answers have no place in the old era.
            let reason = "came back without the revision in which it asked".to_owned();
            return Err(RequestRefusal::ServerDown { server: routed.server.plan.name.clone(), reason });
        }
        let calling = self.admit(routed, live, repetition)?;
        self.is_arriving = false;
        self.stage = Stage::Calling(Box::new(calling));
        Ok(None)
    }
}
