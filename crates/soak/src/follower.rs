//! A client that follows: it lists again at once on every notice, and keeps what it saw last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tidings_testkit::{Client, ClientBuilder, PendingExchange, ReceivedMessage, is_modern};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::kinds::{DefinitionView, SoakList, SoakTopic};
use crate::trace::SoakTrace;
use crate::truth::Lists;

/// What a follower is told to do, beside following.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FollowerOrder {
    /// Drop the stream and open it again after a while; `resume`: from the last event, where there is such a thing.
    Reopen { resume: bool, after: Duration },
    /// Read nothing for a while.
    Stall(Duration),
}

/// What a follower has seen.
pub(crate) struct SeenLists {
    pub(crate) lists: Lists,
    pub(crate) notices: [u64; 3],
    pub(crate) last_notice: [Option<Instant>; 3],
    /// Orders that were given and not carried out yet.
    pub(crate) orders: usize,
    /// Messages that have come and were not heeded yet.
    pub(crate) unread: usize,
    pub(crate) trace: SoakTrace,
}

/// The handle of a client's task.
pub(crate) struct FollowerHandle {
    pub(crate) name: String,
    /// What it calls itself.
    pub(crate) called: String,
    /// Whether it is a client of the gateway that is asked: one on stdio has a process of its own.
    pub(crate) is_counted: bool,
    pub(crate) view: DefinitionView,
    /// Its revision is told of nothing.
    pub(crate) silent: bool,
    /// A new session is told of everything once.
    pub(crate) initial: u64,
    orders: mpsc::UnboundedSender<FollowerOrder>,
    seen: Arc<Mutex<SeenLists>>,
    task: JoinHandle<()>,
}

impl FollowerHandle {
    /// Connects, opens its stream, lists everything, and follows from then on. `bell` rings when it has seen something.
    pub(crate) async fn begin(
        name: &str,
        client: ClientBuilder,
        on_stdio: bool,
        begun: Instant,
        bell: watch::Sender<u64>,
    ) -> Self {
        let called = name.replace(' ', "-");
        let client = client.name(&called).connect().await;
        let revision = client.revision();
        let messages = client.follow();
        let seen = Arc::new(Mutex::new(SeenLists {
            lists: Lists::default(),
            notices: [0; 3],
            last_notice: [None; 3],
            orders: 0,
            unread: 0,
            trace: SoakTrace::new(begun),
        }));
        let (orders, receiver) = mpsc::unbounded_channel();
        let mut following = FollowerTask {
            modern: is_modern(&revision),
            on_stdio,
            client,
            messages,
            stream: None,
            last_event: None,
            seen: Arc::clone(&seen),
            bell,
        };
        following.open(None).await;
        following.list(&SoakList::ALL).await;
        let initial = u64::from(!following.modern);
        let task = tokio::spawn(following.run(receiver));
        // The default of `notifications.suppress`.
        let silent = revision == tidings_testkit::V2025_03_26;
        Self {
            name: format!("{name} ({revision})"),
            called,
            is_counted: !on_stdio,
            view: DefinitionView::of(&revision),
            silent,
            initial,
            orders,
            seen,
            task,
        }
    }

    pub(crate) fn order(&self, order: FollowerOrder) {
        // Counted before it is sent, so that `calm_down` can not see the moment in between.
        self.seen().orders += 1;
        let _ = self.orders.send(order);
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, SeenLists> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its task can only end by a failure.
    pub(crate) fn has_failed(&self) -> bool {
        self.task.is_finished()
    }

    /// Goes, without a farewell.
    pub(crate) async fn end(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

struct FollowerTask {
    client: Client,
    modern: bool,
    on_stdio: bool,
    messages: mpsc::UnboundedReceiver<ReceivedMessage>,
    stream: Option<PendingExchange>,
    /// The last event of the GET stream that was handled.
    last_event: Option<String>,
    seen: Arc<Mutex<SeenLists>>,
    bell: watch::Sender<u64>,
}

impl FollowerTask {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<FollowerOrder>) {
        loop {
            tokio::select! {
                // Notices before orders: a stream that is to be dropped is first heard to its end.
                biased;
                message = self.messages.recv() => match message {
                    Some(message) => {
                        self.hear(&message).await;
                        self.lock().unread = self.messages.len();
                        self.bell.send_modify(|rings| *rings += 1);
                    }
                    None => return,
                },
                order = orders.recv() => match order {
                    Some(order) => self.carry_out(order).await,
                    None => return,
                },
            }
        }
    }

    async fn carry_out(&mut self, order: FollowerOrder) {
        match order {
            FollowerOrder::Stall(time) => {
                self.note(format!("reads nothing for {time:?}"));
                self.client.pause_reading();
                tokio::time::sleep(time).await;
                self.client.resume_reading();
            }
            FollowerOrder::Reopen { resume, after } => self.reopen(resume, after).await,
        }
        self.lock().orders -= 1;
        self.bell.send_modify(|rings| *rings += 1);
    }

    fn lock(&self) -> MutexGuard<'_, SeenLists> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, line: impl AsRef<str>) {
        self.lock().trace.note(line);
    }

    async fn hear(&mut self, message: &ReceivedMessage) {
        let Some(topic) = SoakTopic::of_notice(&message.method) else { return };
        if message.event_id.is_some() {
            if message.event_id == self.last_event {
                // It was read between the end of the old stream and the resumption.
                return;
            }
            self.last_event.clone_from(&message.event_id);
        }
        {
            let mut seen = self.lock();
            seen.notices[topic as usize] += 1;
            seen.last_notice[topic as usize] = Some(Instant::now());
            seen.trace.note(format!("told of {}", topic.name()));
        }
        let kinds: Vec<SoakList> = topic.kinds().collect();
        self.list(&kinds).await;
    }

    async fn list(&self, kinds: &[SoakList]) {
        for kind in kinds {
            let items = self.client.list(kind.name()).await;
            let list: BTreeMap<_, _> = items
                .into_iter()
                .map(|item| (item[kind.key()].as_str().unwrap_or_default().to_owned(), item))
                .collect();
            let mut seen = self.lock();
            seen.trace.note(format!("listed {}: {} items", kind.name(), list.len()));
            seen.lists[*kind as usize] = list;
        }
        // A run of hours would keep every message otherwise.
        self.client.record().clear();
        self.lock().unread = self.messages.len();
        self.bell.send_modify(|rings| *rings += 1);
    }

    async fn open(&mut self, resume: Option<String>) {
        if self.modern {
            let flags = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
            let mut listen = self.client.start("subscriptions/listen", json!({ "notifications": flags }));
            listen.next_method("notifications/subscriptions/acknowledged").await;
            self.stream = Some(listen);
        } else if !self.on_stdio {
            self.stream = Some(match resume {
                Some(last) => self.client.resume(&last).await,
                None => self.client.open_get().await,
            });
        }
    }

    async fn reopen(&mut self, resume: bool, after: Duration) {
        if self.on_stdio {
            return;
        }
        self.note(format!("drops its stream for {after:?}"));
        self.stream = None;
        tokio::time::sleep(after).await;
        // What was read before is handled before.
        while let Ok(message) = self.messages.try_recv() {
            self.hear(&message).await;
        }
        let resume = self.last_event.clone().filter(|_| resume && !self.modern);
        let resumes = resume.is_some();
        self.open(resume).await;
        self.note(if resumes { "resumed its stream" } else { "opened a new stream" });
        // On a new stream, what changed meanwhile is told to nobody: the specification has the client list again.
        if !resumes {
            self.list(&SoakList::ALL).await;
        }
    }
}
