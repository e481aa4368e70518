//! The task of one URL: follows the log, sends what the queue says, and keeps how far it came.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::Full;
use tidings_config::NotifySettings;
use tidings_store::{ChangeLog, ChangeQuery, LogError, LogTail, OutboundTable, QueryStart};
use tidings_sync::Lock;
use tidings_upstream::HttpClient;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::answer::DeliveryAnswer;
use crate::message::{MessageSender, OutboundMessage, is_wanted};
use crate::queue::{DeliveryQueue, KeptQueue, QueueStep};
use crate::signature::MessageSigner;
use crate::status::{DeliveryState, HookStatus};

/// How long one try may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a try that is under way at the end may still take.
const LAST_TRY: Duration = Duration::from_secs(2);
/// While there is much to send its place is kept this often. What was sent since the last time is sent again after a crash.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// A log that can not be read is tried again after this.
const LOG_PAUSE: Duration = Duration::from_secs(5);
/// The clock is looked at this often, however long a pause is: it may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// What the log gives at a time at most.
const LOG_BATCH: usize = 64;

/// One URL and all that is needed to tell it something.
pub(crate) struct HookDelivery {
    pub(crate) settings: NotifySettings,
    pub(crate) url: Uri,
    pub(crate) client: HttpClient,
    pub(crate) signer: MessageSigner,
    pub(crate) sender: MessageSender,
    pub(crate) log: ChangeLog,
    pub(crate) table: OutboundTable,
    /// Under which its place is kept.
    pub(crate) key: String,
    /// What tells this configuration of it from the next.
    pub(crate) fingerprint: String,
    pub(crate) status: Arc<Lock<HookStatus>>,
}

impl HookDelivery {
    /// Runs until `stop`, or until the log is closed.
    pub(crate) async fn run(self, stop: CancellationToken) {
        while let Err(error) = self.follow(&stop).await {
            if error == LogError::Closed {
                return;
            }
            tracing::warn!(hook = %self.settings.shown(), %error, "changes can not be told");
            if stop.run_until_cancelled(tokio::time::sleep(LOG_PAUSE)).await.is_none() {
                return;
            }
        }
    }

    async fn follow(&self, stop: &CancellationToken) -> Result<(), LogError> {
        let Some(begun) = stop.run_until_cancelled(self.begin()).await else { return Ok(()) };
        let (mut queue, mut tail) = begun?;
        let mut unkept = UnkeptPlace::default();
        loop {
            let step = queue.next(now());
            self.status.lock().follow(&queue, step);
            match step {
                QueueStep::Send(seq) => {
                    self.send(&mut queue, seq, stop).await?;
                    unkept.touch();
                    if unkept.is_old() || stop.is_cancelled() {
                        self.keep(&queue, &mut unkept).await;
                    }
                    if stop.is_cancelled() {
                        return Ok(());
                    }
                }
                // Kept before a wait, and not before each send: this is the moment when nothing else is to be done.
                QueueStep::Wait(_) | QueueStep::Idle => {
                    self.keep(&queue, &mut unkept).await;
                    let pause = match step {
                        QueueStep::Wait(until) => Duration::from_millis(until.saturating_sub(now())).min(LONGEST_SLEEP),
                        _ => LONGEST_SLEEP,
                    };
                    tokio::select! {
                        // What was not kept is kept above, so nothing is left to do.
                        () = stop.cancelled() => return Ok(()),
                        // A full batch has to fit: what is waiting stays bounded.
                        rows = tail.next(), if queue.room() >= LOG_BATCH => {
                            for row in rows? {
                                queue.took(row.seq, is_wanted(&row, &self.settings), now());
                            }
                            unkept.touch();
                        }
                        () = tokio::time::sleep(pause) => {}
                    }
                }
            }
        }
    }

    /// Goes on where it was, or begins now.
    async fn begin(&self) -> Result<(DeliveryQueue, LogTail), LogError> {
        let (table, key) = (self.table.clone(), self.key.clone());
        let read = tokio::task::spawn_blocking(move || table.read(&key)).await;
        let kept = read.map_err(|error| LogError::Unreadable(error.to_string()))?;
        let kept = kept.map_err(|error| LogError::Unreadable(error.to_string()))?;
        let kept: Option<KeptQueue> = kept.and_then(|json| serde_json::from_slice(&json).ok());
        let tail = self.log.follow(kept.as_ref().map(|kept| kept.cursor)).await?;
        let is_new = kept.is_none();
        let mut kept =
            kept.unwrap_or_else(|| KeptQueue { fingerprint: self.fingerprint.clone(), ..KeptQueue::default() });
        // A number that the log never gave is from another log: what it has now counts.
        kept.cursor = tail.cursor();
        let queue = DeliveryQueue::resume(kept, &self.fingerprint);
        if is_new {
            // At once: what changes from here on is told, also by the next process.
            self.keep(&queue, &mut UnkeptPlace::now()).await;
        }
        Ok((queue, tail))
    }

    async fn send(&self, queue: &mut DeliveryQueue, seq: u64, stop: &CancellationToken) -> Result<(), LogError> {
        // One row is read again for each try: the queue holds numbers only, however long a receiver is away.
        let query = ChangeQuery { from: QueryStart::After(seq.saturating_sub(1)), limit: 1, max_bytes: usize::MAX };
        let row = self.log.read(query).await?.rows.into_iter().find(|row| row.seq == seq);
        let Some(row) = row else {
            // The log forgets what is old, and a receiver may be away for longer.
            queue.missing(seq);
            return Ok(());
        };
        let Some(message) = OutboundMessage::of(&row, &self.settings, &self.sender) else {
            // The configuration may have changed since it was taken in.
            queue.unwanted(seq);
            return Ok(());
        };
        let ending = async {
            stop.cancelled().await;
            // Longer than `stop`: a try that is nearly done would else be made a second time by the next process.
            tokio::time::sleep(LAST_TRY).await;
        };
        let posted = tokio::select! {
            posted = self.post(&message) => posted,
            // Sent again by the next process: it is not known whether it arrived.
            () = ending => return Ok(()),
        };
        let (answer, error) = match posted {
            Ok(answer) => answer,
            Err(error) => (DeliveryAnswer::UNREACHED, Some(error)),
        };
        queue.answered(seq, answer, now());
        self.report(answer, error);
        Ok(())
    }

    /// One try: what it means, and what is wrong.
    async fn post(&self, message: &OutboundMessage) -> Result<(DeliveryAnswer, Option<String>), String> {
        let request = self.request(message).ok_or("the message can not be put into a request")?;
        let sent = tokio::time::timeout(PATIENCE, self.client.send(request)).await;
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("no answer within {} s", PATIENCE.as_secs())),
        };
        // The body is not read: nothing in it is needed, and it may be endless.
        let answer = DeliveryAnswer::of(response.status(), response.headers(), SystemTime::now());
        let error =
            (answer != DeliveryAnswer::Taken).then(|| format!("answered with HTTP status {}", response.status()));
        Ok((answer, error))
    }

    fn request(&self, message: &OutboundMessage) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::new(Full::new(message.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(message.content_type));
        let agent = concat!("tidings/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        // Signed anew with each try: receivers refuse old times.
        let seconds = now() / 1_000;
        if let Some(signature) = self.signer.sign(&message.id, seconds, &message.body) {
            headers.insert("webhook-id", message.id.parse().ok()?);
            headers.insert("webhook-timestamp", seconds.into());
            headers.insert("webhook-signature", signature.parse().ok()?);
        }
        Some(request)
    }

    /// Says once that it does not work, and once that it works again.
    fn report(&self, answer: DeliveryAnswer, error: Option<String>) {
        let hook = self.settings.shown();
        let mut status = self.status.lock();
        let was = status.state;
        match (&error, answer) {
            // With more to send it may fail again at the next: that would be said twice for one fault.
            (None, _) if was == DeliveryState::Retrying && status.pending <= 1 => {
                tracing::info!(%hook, "takes changes again");
            }
            (None, _) => {}
            (Some(error), DeliveryAnswer::Gone) => {
                tracing::warn!(%hook, %error, "wants no more changes; nothing is sent there until its [[notify]] is changed");
            }
            (Some(error), _) if was == DeliveryState::Fine => {
                tracing::warn!(%hook, %error, "does not take changes; they are tried again for three days");
            }
            (Some(_), _) => {}
        }
        status.error = error.or_else(|| status.error.take());
    }

    /// Keeps its place, if it is another one. What can not be kept is kept the next time; until then a crash sends things twice.
    async fn keep(&self, queue: &DeliveryQueue, unkept: &mut UnkeptPlace) {
        if unkept.0.is_none() {
            return;
        }
        let Ok(json) = serde_json::to_vec(queue.kept()) else { return };
        let (table, key) = (self.table.clone(), self.key.clone());
        match tokio::task::spawn_blocking(move || table.keep(&key, &json)).await {
            Ok(Ok(())) => unkept.0 = None,
            Ok(Err(error)) => {
                tracing::warn!(hook = %self.settings.shown(), %error, "how far it was told is not kept");
            }
            Err(_) => {}
        }
    }
}

/// Since when there is something to be kept.
#[derive(Default)]
struct UnkeptPlace(Option<Instant>);

impl UnkeptPlace {
    fn now() -> Self {
        Self(Some(Instant::now()))
    }

    fn touch(&mut self) {
        self.0.get_or_insert_with(Instant::now);
    }

    fn is_old(&self) -> bool {
        self.0.is_some_and(|since| since.elapsed() >= KEEP_EVERY)
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
