//! The inside of a server, shared by its transports: what it received, who is connected, and its life.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tidings_wire::{Frame, FrameLimits, ObjectEdit, Patch, RawId, notification, response};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::catalogue::{Handler, ScriptedCatalogue};
use super::conn::{ChannelOut, ClientConnection, Outlet, StandaloneOutlet};
use super::process::ScriptedProcess;
use crate::gate::Gate;
use crate::received::ReceivedMessage;
use crate::record::{AwaitedRecord, lock};
use crate::revision::META_SUBSCRIPTION;

/// What goes wrong, by method.
#[derive(Clone, Default)]
pub(crate) struct MethodTrouble {
    pub(crate) delay: Option<Duration>,
    pub(crate) hold: Option<Gate>,
    pub(crate) silent: bool,
    pub(crate) exit: Option<u8>,
}

/// What goes wrong for a while, by method.
#[derive(Clone, Default)]
pub(crate) struct PassingTrouble {
    /// How many more requests fail.
    pub(crate) failures: usize,
    /// How long an answer that is ready is held back.
    pub(crate) held_back: Option<Duration>,
}

pub(crate) type HttpHook = Arc<dyn Fn(&ReceivedMessage) -> Option<super::ScriptedAnswer> + Send + Sync>;

/// The fixed part of a script.
pub(crate) struct ServerScript {
    pub(crate) revisions: Vec<String>,
    pub(crate) modern: bool,
    pub(crate) capabilities: Value,
    pub(crate) instructions: Option<String>,
    pub(crate) page_size: usize,
    pub(crate) sessions: bool,
    pub(crate) unknown_session: u16,
    pub(crate) forgetful: bool,
    pub(crate) get_gate: Option<Gate>,
    pub(crate) ignore_eof: bool,
    /// HTTP+SSE in the place of Streamable HTTP.
    pub(crate) sse: bool,
    /// What stands before the session in its `endpoint` event.
    pub(crate) sse_endpoint: String,
    /// Where the posts of calls wait after they were taken and before they are answered.
    pub(crate) sse_posts: Option<Gate>,
    pub(crate) overrides: HashMap<String, Handler>,
    pub(crate) completion: Option<Handler>,
    pub(crate) trouble: HashMap<String, MethodTrouble>,
    pub(crate) http_hook: Option<HttpHook>,
}

/// A modern subscription that is open.
#[derive(Clone)]
pub(crate) struct OpenSubscription {
    pub(crate) id: RawId,
    pub(crate) filter: Value,
    pub(crate) outlet: Outlet,
    pub(crate) ended: CancellationToken,
}

#[derive(Clone, Default)]
pub(crate) struct ServerLife {
    pub(crate) token: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl ServerLife {
    /// Runs until done or until the server dies.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let token = self.token.clone();
        self.tasks.spawn(async move {
            token.run_until_cancelled(future).await;
        });
    }
}

pub(crate) struct ServerCore {
    pub(crate) name: String,
    pub(crate) script: ServerScript,
    pub(crate) received: AwaitedRecord<ReceivedMessage>,
    pub(crate) faults: AwaitedRecord<String>,
    pub(crate) frozen: watch::Sender<bool>,
    pub(crate) listens: watch::Sender<Vec<OpenSubscription>>,
    pub(crate) processes: watch::Sender<Vec<ScriptedProcess>>,
    pub(crate) moods: Mutex<HashMap<String, PassingTrouble>>,
    catalogue: Mutex<ScriptedCatalogue>,
    conns: Mutex<Vec<Arc<ClientConnection>>>,
    life: Mutex<ServerLife>,
    connection_numbers: AtomicUsize,
    initializes: AtomicUsize,
    request_ids: AtomicUsize,
}

impl ServerCore {
    pub(crate) fn new(name: String, script: ServerScript, catalogue: ScriptedCatalogue) -> Self {
        Self {
            name,
            script,
            received: AwaitedRecord::new(),
            faults: AwaitedRecord::new(),
            frozen: watch::Sender::new(false),
            listens: watch::Sender::new(Vec::new()),
            processes: watch::Sender::new(Vec::new()),
            moods: Mutex::default(),
            catalogue: Mutex::new(catalogue),
            conns: Mutex::default(),
            life: Mutex::default(),
            connection_numbers: AtomicUsize::new(1),
            initializes: AtomicUsize::new(0),
            request_ids: AtomicUsize::new(1),
        }
    }

    pub(crate) fn server_info(&self) -> Value {
        json!({"name": self.name, "version": "1.0.0"})
    }

    pub(crate) fn fault(&self, what: impl Into<String>) {
        self.faults.push(what.into());
    }

    pub(crate) fn catalogue(&self) -> ScriptedCatalogue {
        lock(&self.catalogue).clone()
    }

    pub(crate) fn edit(&self, change: impl FnOnce(&mut ScriptedCatalogue)) {
        change(&mut lock(&self.catalogue));
    }

    pub(crate) fn change_mood(&self, method: &str, change: impl FnOnce(&mut PassingTrouble)) {
        change(lock(&self.moods).entry(method.to_owned()).or_default());
    }

    pub(crate) fn forget_moods(&self) {
        lock(&self.moods).clear();
    }

    /// Whether this request is one of those that are to fail.
    pub(crate) fn takes_a_failure(&self, method: &str) -> bool {
        let mut moods = lock(&self.moods);
        let Some(mood) = moods.get_mut(method).filter(|mood| mood.failures > 0) else { return false };
        mood.failures -= 1;
        true
    }

    pub(crate) fn held_back(&self, method: &str) -> Option<Duration> {
        lock(&self.moods).get(method)?.held_back
    }

    pub(crate) fn next_connection(&self) -> usize {
        self.connection_numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn next_request_id(&self) -> RawId {
        let number = self.request_ids.fetch_add(1, Ordering::Relaxed);
        // A string, and never equal to that of another server: tests see whose question was passed on.
        RawId::from_raw(format!("\"{}-{number}\"", self.name).as_bytes()).expect("a string is an id")
    }

    pub(crate) fn count_initialize(&self) {
        self.initializes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn initializes(&self) -> usize {
        self.initializes.load(Ordering::Relaxed)
    }

    pub(crate) fn life(&self) -> ServerLife {
        lock(&self.life).clone()
    }

    pub(crate) fn add_connection(&self, conn: Arc<ClientConnection>) {
        lock(&self.conns).push(conn);
    }

    pub(crate) fn remove_connection(&self, number: usize) {
        lock(&self.conns).retain(|conn| conn.number != number);
    }

    pub(crate) fn connections(&self) -> Vec<Arc<ClientConnection>> {
        lock(&self.conns).clone()
    }

    pub(crate) fn forget_connections(&self) {
        lock(&self.conns).clear();
    }

    pub(crate) async fn wait_thawed(&self) {
        let _ = self.frozen.subscribe().wait_for(|frozen| !frozen).await;
    }

    pub(crate) fn end_life(&self) {
        self.life().token.cancel();
    }

    pub(crate) async fn kill(&self) {
        let life = self.life();
        life.token.cancel();
        life.tasks.close();
        // All tasks, so that nothing of the old life answers in the new one.
        crate::within(&format!("the death of server {}", self.name), life.tasks.wait()).await;
        self.forget_connections();
        self.listens.send_replace(Vec::new());
        self.processes.send_modify(|all| all.iter_mut().for_each(|process| process.alive = false));
    }

    pub(crate) fn renew(&self) {
        *lock(&self.life) = ServerLife::default();
    }

    pub(crate) fn notify(&self, method: &str, params: &Value) -> usize {
        let message = notification(method, Some(params.to_string().as_bytes()));
        let uri = params["uri"].as_str().unwrap_or_default();
        let about_resource = method == "notifications/resources/updated";
        let legacy =
            self.notify_legacy(&message, |conn| !about_resource || lock(&conn.state).subscriptions.contains(uri));
        let mut modern = 0;
        for listen in self.listens.borrow().iter().filter(|listen| listen.wants(method, uri)) {
            let _ = listen.outlet.send(ChannelOut::Message(tag(&message, &listen.id)));
            modern += 1;
        }
        legacy + modern
    }

    pub(crate) fn notify_raw(&self, message: &Bytes) -> usize {
        let listens = self.listens.borrow();
        for listen in listens.iter() {
            let _ = listen.outlet.send(ChannelOut::Message(message.clone()));
        }
        self.notify_legacy(message, |_| true) + listens.len()
    }

    pub(crate) fn notify_legacy(&self, message: &Bytes, fits: impl Fn(&ClientConnection) -> bool) -> usize {
        let conns = self.connections();
        // Nothing may be sent before `initialize` was answered.
        let chosen = conns.iter().filter(|conn| conn.revision().is_some() && fits(conn));
        chosen.map(|conn| conn.push(message, self.script.forgetful)).count()
    }

    pub(crate) fn end_listens(&self) {
        for listen in self.listens.send_replace(Vec::new()) {
            let result =
                format!("{{\"resultType\":\"complete\",\"_meta\":{{\"{META_SUBSCRIPTION}\":{}}}}}", listen.id.as_str());
            let _ = listen.outlet.send(ChannelOut::Last(response(&listen.id, result.as_bytes())));
            listen.ended.cancel();
        }
    }

    pub(crate) fn close_get_streams(&self) {
        for conn in self.connections() {
            match &conn.standalone {
                StandaloneOutlet::Http(stream) => stream.detach(None),
                StandaloneOutlet::Sse(outlet) => drop(outlet.send(ChannelOut::CloseStream(None))),
                StandaloneOutlet::Stdio(_) => {}
            }
        }
    }

    pub(crate) fn print_stderr(&self, line: &str) {
        self.to_processes(|| ChannelOut::Stderr(format!("{line}\n").into()));
    }

    pub(crate) fn print_stdout(&self, bytes: &Bytes) {
        self.to_processes(|| ChannelOut::Stdout(bytes.clone()));
    }

    pub(crate) fn exit_processes(&self, code: u8) {
        self.to_processes(|| ChannelOut::Exit(code));
    }

    fn to_processes(&self, out: impl Fn() -> ChannelOut) {
        for conn in self.connections() {
            if let StandaloneOutlet::Stdio(outlet) = &conn.standalone {
                let _ = outlet.send(out());
            }
        }
    }
}

impl OpenSubscription {
    fn wants(&self, method: &str, uri: &str) -> bool {
        let flag = match method {
            "notifications/tools/list_changed" => "toolsListChanged",
            "notifications/prompts/list_changed" => "promptsListChanged",
            "notifications/resources/list_changed" => "resourcesListChanged",
            "notifications/resources/updated" => {
                let uris = self.filter["resourceSubscriptions"].as_array();
                return uris.is_some_and(|uris| uris.iter().any(|u| u == uri));
            }
            _ => return false,
        };
        self.filter[flag] == true
    }
}

/// The notification with the subscription's id in its `_meta`, with the id's own JSON type.
pub(crate) fn tag(message: &Bytes, id: &RawId) -> Bytes {
    let frame = Frame::parse(message.clone(), &FrameLimits::default()).expect("a composed notification is valid");
    let params = frame.params().expect("a tagged notification has params");
    let meta = format!("{{\"{META_SUBSCRIPTION}\":{}}}", id.as_str());
    let mut edit = ObjectEdit::new(message, params);
    edit.set("_meta", meta);
    let mut patch = Patch::new();
    edit.finish(&mut patch);
    patch.apply(message)
}
