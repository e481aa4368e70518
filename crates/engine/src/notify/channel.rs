//! Telling a session on the channel, beside its notices: what to say and when is decided in `hub/channel.rs`.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde_json::Value;
use tidings_hub::channel::{ChannelQueue, ItemNews};
use tidings_proto::notifications;
use tidings_wire::notification;

use crate::client::session::{Session, SessionChannel};
use crate::notify::ListNotifier;
use crate::notify::notices::{ListNotice, Notice, OwedNotice};
use crate::notify::summary;

impl ListNotifier {
    /// Gathers what a session is told, and gives the message that is due. Where one is due later its transport is woken then.
    pub(super) fn send_on_channel(
        &self,
        session: &Session,
        channel: &SessionChannel,
        notices: &mut VecDeque<Notice>,
    ) -> Option<OwedNotice> {
        let now = Instant::now();
        let (message, due) = {
            let mut queue = channel.queue.lock();
            for notice in notices.iter() {
                if let Notice::List(list) = notice {
                    gather(&mut queue, list);
                }
            }
            (queue.take(now), queue.due(now))
        };
        if !summary::asked(&session.client.capabilities) {
            // What changed was asked for the channel's sake: the client knows nothing of it.
            for notice in notices.iter_mut() {
                if let Notice::List(list) = notice {
                    list.summary = None;
                }
            }
        }
        if let Some(due) = due {
            self.wake_later(session, channel, due);
        }
        let message = notification(notifications::CHANNEL, Some(message?.params().as_bytes()));
        Some(OwedNotice { message, resource: None })
    }

    /// Has the transport of a session ask again at this moment. One task at a time, which ends with the session.
    fn wake_later(&self, session: &Session, channel: &SessionChannel, due: Instant) {
        let Some(session) = self.sessions.get(session.key) else { return };
        if channel.is_awaited.swap(true, Ordering::Relaxed) {
            return;
        }
        let stop = self.runtime.stop.clone();
        self.runtime.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep_until(due.into()) => {
                    if let Some(channel) = &session.channel {
                        // Before it is woken: it may find that it has to wait once more.
                        channel.is_awaited.store(false, Ordering::Relaxed);
                    }
                    session.sink.wake();
                }
                () = session.over.cancelled() => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

/// What a notice says of a list. That it stands for a change at all is known of every notice, how the list changed is not.
fn gather(queue: &mut ChannelQueue, list: &ListNotice) {
    let Some(commit) = list.change else { return };
    queue.committed(commit);
    let known: Option<Value> = list.summary.as_deref().and_then(|summary| serde_json::from_str(summary).ok());
    let Some(known) = known.filter(|known| known.get("truncated").is_none()) else {
        return queue.gather_unknown(list.topic);
    };
    let items = |key: &str| known[key].as_array().cloned().unwrap_or_default();
    for (key, news) in [("added", ItemNews::Added), ("removed", ItemNews::Removed)] {
        items(key).iter().filter_map(Value::as_str).for_each(|name| queue.gather(list.topic, name, news));
    }
    let changed = items("changed");
    let changed = changed.iter().filter_map(|item| item["name"].as_str());
    changed.for_each(|name| queue.gather(list.topic, name, ItemNews::Changed));
}
