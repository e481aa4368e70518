//! The spans of a change of a single resource: what said that it changed, and each notification to a client. Changes that are announced
//! together have one cause, the first; where a client is told of several announcements at once, the others are linked.

use std::collections::VecDeque;
use std::time::Instant;

use tidings_hub::subscriptions::{ResourceAddress, UpdateNotice};
use tidings_proto::{Era, TraceContext, TraceParent};

use crate::observe::change_spans::era_word;
use crate::observe::telemetry::{OpenSpan, SpanKind, SpanValue, TelemetrySink, bounded};

/// How many causes are remembered for notifications that are still owed.
const MOST_CAUSES: usize = 256;
/// The cause of a longer URI is not remembered: what is remembered is bounded in bytes by that.
const LONGEST_URI: usize = 4 << 10;
/// How many causes one notification is linked with.
const MOST_LINKS: usize = 16;
const UPDATED: &str = "notifications/resources/updated";

/// How a change of a resource was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateCause {
    /// Its server said so.
    Signal,
    /// A resource that is polled has another content.
    Poll,
    /// The same, found because a client read it.
    Read,
}

/// Causes that somebody may still be owed a notification of.
#[derive(Debug, Default)]
pub(crate) struct UpdateSpans(VecDeque<RememberedCause>);

#[derive(Debug)]
struct RememberedCause {
    at: Instant,
    followed: ResourceAddress,
    span: TraceParent,
}

impl UpdateSpans {
    /// Something began the gathering of changes of these followed resources. `uri`: what it was about, as the server calls it.
    pub(crate) fn caused(
        &mut self,
        sink: &dyn TelemetrySink,
        (cause, server): (UpdateCause, &str),
        uri: &str,
        followed: impl IntoIterator<Item = ResourceAddress>,
        at: Instant,
    ) {
        let open = OpenSpan::begin(sink, None);
        let span = open.context.parent;
        for followed in followed.into_iter().filter(|followed| followed.uri.len() <= LONGEST_URI) {
            if self.0.len() >= MOST_CAUSES {
                self.0.pop_front();
            }
            self.0.push_back(RememberedCause { at, followed, span });
        }
        let mut attributes =
            vec![("tidings.server", server.to_owned().into()), ("mcp.resource.uri", bounded(uri).into())];
        let (kind, name) = match cause {
            UpdateCause::Signal => {
                attributes.push(("mcp.method.name", UPDATED.into()));
                (SpanKind::Consumer, UPDATED)
            }
            UpdateCause::Poll | UpdateCause::Read => {
                attributes.push(("tidings.reason", if cause == UpdateCause::Poll { "poll" } else { "read" }.into()));
                (SpanKind::Internal, "content")
            }
        };
        sink.ended(open.end(kind, name, attributes));
    }

    /// The causes that a notification stands for, the newest first.
    fn of(&self, notice: &UpdateNotice) -> impl Iterator<Item = TraceParent> {
        let is_it = |cause: &&RememberedCause| {
            cause.at >= notice.since && cause.followed.place == notice.place && cause.followed.uri == notice.followed
        };
        self.0.iter().rev().filter(is_it).map(|cause| cause.span).take(1 + MOST_LINKS)
    }

    /// A client was handed a notification, with this URI. What no cause is known of (a content that differs after a gap, say) is a trace of
    /// its own.
    pub(crate) fn delivered(&self, sink: &dyn TelemetrySink, notice: &UpdateNotice, uri: &str, era: Era, client: u64) {
        let mut causes = self.of(notice);
        let newest = causes.next().map(|parent| TraceContext { parent, state: None });
        let open = OpenSpan::begin(sink, newest.as_ref());
        let attributes = vec![
            ("mcp.method.name", UPDATED.into()),
            ("mcp.resource.uri", bounded(uri).into()),
            ("tidings.client", SpanValue::Number(i64::try_from(client).unwrap_or(i64::MAX))),
            ("tidings.era", era_word(era).into()),
        ];
        let mut ended = open.end(SpanKind::Producer, UPDATED, attributes);
        ended.links = causes.collect();
        sink.ended(ended);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Duration;

    use tidings_hub::ServerId;
    use tidings_hub::subscriptions::PlaceId;
    use tidings_sync::Lock;

    use super::*;
    use crate::observe::telemetry::EndedSpan;

    #[derive(Default)]
    struct Ended(Lock<Vec<EndedSpan>>);

    impl TelemetrySink for Ended {
        fn samples(&self, _: Option<&TraceParent>, _: &[u8; 16]) -> bool {
            true
        }

        fn traces(&self) -> bool {
            true
        }

        fn ended(&self, span: EndedSpan) {
            self.0.lock().push(span);
        }
    }

    const PLACE: PlaceId = PlaceId::Shared(ServerId(1));

    fn address(uri: &str) -> ResourceAddress {
        ResourceAddress { place: PLACE, uri: uri.into() }
    }

    fn notice(uri: &str, followed: &str, since: Instant) -> UpdateNotice {
        UpdateNotice { place: PLACE, uri: uri.into(), followed: followed.into(), since }
    }

    // reach 8.7
    #[test]
    fn a_notification_is_of_the_newest_cause_since_its_first_and_linked_with_the_others() {
        let (sink, mut spans, start) = (Ended::default(), UpdateSpans::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        for (seconds, uri) in [(1, "a://x"), (2, "a://x"), (3, "a://y"), (4, "a://x")] {
            spans.caused(&sink, (UpdateCause::Signal, "one"), uri, [address(uri)], at(seconds));
        }
        spans.delivered(&sink, &notice("a://x/child", "a://x", at(2)), "one+a://x/child", Era::Modern, 7);
        let ended = sink.0.lock();
        let told = ended.last().unwrap();
        assert_eq!(told.parent, Some(ended[3].context.parent.span), "the newest");
        assert_eq!(told.context.parent.trace, ended[3].context.parent.trace);
        assert_eq!(told.links, [ended[1].context.parent], "neither told before nor about another one");
        assert!(told.attributes.contains(&("mcp.resource.uri", "one+a://x/child".to_owned().into())));
    }

    // reach 8.7
    #[test]
    fn what_is_remembered_is_bounded_and_without_a_cause_a_trace_begins() {
        let (sink, mut spans, start) = (Ended::default(), UpdateSpans::default(), Instant::now());
        spans.caused(&sink, (UpdateCause::Poll, "one"), "a://first", [address("a://first")], start);
        let long = format!("a://{}", "x".repeat(LONGEST_URI));
        spans.caused(&sink, (UpdateCause::Signal, "one"), &long, [address(&long)], start);
        assert_eq!(spans.0.len(), 1);
        for number in 0..MOST_CAUSES {
            let uri = format!("a://{number}");
            spans.caused(&sink, (UpdateCause::Signal, "one"), &uri, [address(&uri)], start);
        }
        assert_eq!(spans.0.len(), MOST_CAUSES);
        spans.delivered(&sink, &notice("a://first", "a://first", start), "a://first", Era::Legacy, 1);
        let told = sink.0.lock().pop().unwrap();
        assert_eq!((told.parent, told.links.len()), (None, 0));
        // Many announcements of one resource that somebody was slow to take.
        let uri = "a://often";
        (0..100).for_each(|_| spans.caused(&sink, (UpdateCause::Signal, "one"), uri, [address(uri)], start));
        spans.delivered(&sink, &notice(uri, uri, start), uri, Era::Legacy, 1);
        assert_eq!(sink.0.lock().pop().unwrap().links.len(), MOST_LINKS);
    }
}
