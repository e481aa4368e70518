//! One legacy connection (a session, or a process), and where a server's messages go.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::answer::ScriptedAnswer;
use super::event_stream::EventStream;
use crate::received::ReceivedMessage;
use crate::record::lock;

/// What goes out on one channel: a process, or the response of one POST.
#[derive(Debug)]
pub(crate) enum ChannelOut {
    /// A message that is not the last.
    Message(Bytes),
    /// The response to the request: a POST ends with it.
    Last(Bytes),
    /// HTTP: answer with a stream now, whatever comes.
    OpenStream,
    /// HTTP: close the stream, so that the client has to come back.
    CloseStream(Option<u64>),
    /// HTTP: an answer that is no message.
    Special(ScriptedAnswer),
    /// stdio: print on stderr.
    Stderr(Bytes),
    /// stdio: print on stdout as it is.
    Stdout(Bytes),
    /// stdio: the process ends with this code.
    Exit(u8),
}

pub(crate) type Outlet = mpsc::UnboundedSender<ChannelOut>;

/// Where messages go that belong to no call.
pub(crate) enum StandaloneOutlet {
    Stdio(Outlet),
    Http(Arc<EventStream>),
    /// HTTP+SSE: the stream that carries everything.
    Sse(Outlet),
}

/// One client's connection to the scripted server: a process, or a session over HTTP.
pub(crate) struct ClientConnection {
    pub(crate) number: usize,
    pub(crate) session: Option<String>,
    pub(crate) standalone: StandaloneOutlet,
    pub(crate) state: Mutex<PeerState>,
}

/// What is known about the other side of a connection.
#[derive(Default)]
pub(crate) struct PeerState {
    /// The negotiated revision; none before `initialize`.
    pub(crate) revision: Option<String>,
    /// The params of `initialize`.
    pub(crate) client: Value,
    pub(crate) initialized: bool,
    pub(crate) log_level: Option<String>,
    pub(crate) subscriptions: BTreeSet<String>,
    pub(crate) seen_ids: HashSet<String>,
    /// Requests of the server that wait for a response.
    pub(crate) pending: HashMap<String, oneshot::Sender<ReceivedMessage>>,
    /// Running calls by id, to cancel.
    pub(crate) calls: HashMap<String, CancellationToken>,
    /// HTTP: the streams that can be resumed.
    pub(crate) streams: Vec<Arc<EventStream>>,
}

impl ClientConnection {
    pub(crate) fn new(number: usize, session: Option<String>, standalone: StandaloneOutlet) -> Arc<Self> {
        Arc::new(Self { number, session, standalone, state: Mutex::default() })
    }

    /// Sends outside of any call; `forgetful`: only if somebody listens right now.
    pub(crate) fn push(&self, message: &Bytes, forgetful: bool) {
        match &self.standalone {
            StandaloneOutlet::Stdio(outlet) | StandaloneOutlet::Sse(outlet) => {
                let _ = outlet.send(ChannelOut::Message(message.clone()));
            }
            // Most real servers drop what they say while nobody has the GET stream open.
            StandaloneOutlet::Http(stream) if forgetful && !stream.is_attached() => {}
            StandaloneOutlet::Http(stream) => stream.push(message),
        }
    }

    pub(crate) fn revision(&self) -> Option<String> {
        lock(&self.state).revision.clone()
    }

    /// Hands a response to whoever waits for it. False when nobody does.
    pub(crate) fn resolve(&self, response: &ReceivedMessage) -> bool {
        let id = response.id.as_ref().map(|id| id.as_str().to_owned()).unwrap_or_default();
        let waiter = lock(&self.state).pending.remove(&id);
        waiter.is_some_and(|waiter| waiter.send(response.clone()).is_ok())
    }

    /// The calls that run.
    pub(crate) fn running(&self) -> Vec<CancellationToken> {
        lock(&self.state).calls.values().cloned().collect()
    }

    /// Cancels a running call, if there is one with that raw id.
    pub(crate) fn cancel(&self, raw_id: &str) {
        if let Some(token) = lock(&self.state).calls.get(raw_id) {
            token.cancel();
        }
    }
}
