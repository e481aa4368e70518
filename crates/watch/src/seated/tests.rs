//! With a source in this process alone; with other replicas in `crates/tidings/tests/cluster/seated_watches.rs`.

use std::sync::atomic::{AtomicUsize, Ordering};

use tidings_testkit::eventually;
use tokio::sync::watch;

use super::*;
use crate::observations::hash;
use crate::probe::ProbeLink;

const URI: &str = "slate://one";

/// A source whose content the test writes.
struct Slate {
    content: watch::Sender<Option<&'static str>>,
    watching: Arc<AtomicUsize>,
}

/// Counts while it is there.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn of(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WatchedSource for Arc<Slate> {
    fn owns(&self, uri: &str) -> bool {
        uri == URI
    }

    fn list(&self) -> BoxFuture<'_, Vec<SourceEntry>> {
        let entry =
            SourceEntry { uri: URI.to_owned(), name: "one".to_owned(), size: Some(7), ..SourceEntry::default() };
        Box::pin(std::future::ready(vec![entry]))
    }

    fn read<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<SourceContent, UnreadableReason>> {
        let content = *self.content.borrow();
        let content = content.map(|text| SourceContent { mime_type: None, bytes: text.into() });
        Box::pin(std::future::ready(content.ok_or(UnreadableReason::NotFound)))
    }

    fn watch(&self, signals: SourceSignals) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let _watching = Counted::of(&self.watching);
            let mut content = self.content.subscribe();
            loop {
                let seen = content.borrow_and_update().map(|text| hash(text.as_bytes()));
                match signals.is_ready() {
                    true => signals.observed(URI, seen),
                    false => signals.baseline(URI, seen),
                }
                signals.ready();
                if content.changed().await.is_err() {
                    std::future::pending().await
                }
            }
        })
    }
}

fn seated() -> (Arc<Slate>, Arc<SeatedWatches>, ProbeLink) {
    let slate = Arc::new(Slate { content: watch::Sender::new(Some("1")), watching: Arc::default() });
    let watches = Arc::new(SeatedWatches::default());
    let probe = ProbeLink::of_all(vec![watches.seat("one", Arc::new(Arc::clone(&slate)))]);
    (slate, watches, probe)
}

// cluster: watches
#[tokio::test]
async fn a_seated_source_is_listed_read_and_told_as_any_other() {
    let (slate, watches, probe) = seated();
    watches.attach(None);
    assert_eq!(probe.uris().await, [URI]);
    assert_eq!(probe.text(URI).await.as_deref(), Ok("1"));
    let mut listen = probe.listen(&[URI], false).await;
    slate.content.send_replace(Some("2"));
    assert_eq!(listen.next().await, URI);
    assert_eq!(probe.text(URI).await.as_deref(), Ok("2"));
    slate.content.send_replace(Some("2"));
    listen.nothing().await;
    slate.content.send_replace(None);
    assert_eq!(listen.next().await, URI);
    assert_eq!(probe.text(URI).await, Err("resource not found".to_owned()));
}

// cluster: watches
#[tokio::test]
async fn a_source_is_looked_at_once_for_all_and_only_while_somebody_follows() {
    let (slate, watches, probe) = seated();
    watches.attach(None);
    let watching = || slate.watching.load(Ordering::Relaxed);
    let _list = probe.listen(&[], true).await;
    assert_eq!(watching(), 0, "a list alone needs no look");
    let first = probe.listen(&[URI], false).await;
    let second = probe.listen(&[URI], true).await;
    assert_eq!(watching(), 1);
    drop((first, second));
    eventually("nobody looks", || (watching() == 0).then_some(())).await;
    let mut again = probe.listen(&[URI], false).await;
    assert_eq!(watching(), 1);
    slate.content.send_replace(Some("2"));
    assert_eq!(again.next().await, URI);
}

// cluster: watches
#[tokio::test]
async fn who_follows_before_it_is_known_who_looks_is_told_of_the_first_look() {
    let (_slate, watches, probe) = seated();
    let mut listen = probe.listen(&[URI], false).await;
    watches.attach(None);
    assert_eq!(listen.next().await, URI);
    listen.nothing().await;
}
