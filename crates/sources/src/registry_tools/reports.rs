//! How the start of a server goes, from whoever starts it to whoever waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

/// Lines that wait for a caller; later ones are dropped.
const QUEUE: usize = 32;

/// A board for news of servers that are being started. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct StartReports {
    listeners: Arc<Mutex<HashMap<String, mpsc::Sender<String>>>>,
}

/// What is said of one server, as long as this is kept.
pub(super) struct Listening {
    reports: StartReports,
    server: String,
    said: mpsc::Receiver<String>,
}

impl StartReports {
    /// A board with nobody in front of it.
    pub fn new() -> Self {
        Self::default()
    }

    /// News of a server that is being started, such as a layer of its image that has arrived. Goes to whoever waits for
    /// that server, if anybody does.
    pub fn tell(&self, server: &str, news: String) {
        if let Some(listener) = self.listeners().get(server) {
            let _ = listener.try_send(news);
        }
    }

    pub(super) fn listen(&self, server: &str) -> Listening {
        let (listener, said) = mpsc::channel(QUEUE);
        self.listeners().insert(server.to_owned(), listener);
        Listening { reports: self.clone(), server: server.to_owned(), said }
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<String>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listening {
    /// The next news; waits for ever when there will be none.
    pub(super) async fn next(&mut self) -> String {
        match self.said.recv().await {
            Some(news) => news,
            // Somebody else listens to this server now.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.said.close();
        let mut listeners = self.reports.listeners();
        if listeners.get(&self.server).is_some_and(mpsc::Sender::is_closed) {
            listeners.remove(&self.server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn news_reach_who_waits_for_that_server_and_nothing_is_left() {
        let reports = StartReports::new();
        reports.tell("a", "to nobody".into());
        let mut listening = reports.listen("a");
        reports.tell("b", "other".into());
        reports.tell("a", "one".into());
        assert_eq!(listening.next().await, "one");
        let later = reports.listen("a");
        drop(listening);
        assert_eq!(reports.listeners().len(), 1, "the later one is still there");
        drop(later);
        assert!(reports.listeners().is_empty());
    }
}
