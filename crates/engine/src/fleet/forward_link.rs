//! The link to a server that another replica owns: for this replica the owner is a modern server.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use serde_json::json;
use tidings_hub::fleet::FleetServerName;
use tidings_upstream::{
    CallEvent, CallStream, ConnectedLink, Link, LinkError, MessageSink, OutgoingRequest, OwnIntroduction, SharedLink,
    call_channel, introduce_modern,
};

use super::carried::{self, vouch_for_gateway};
use super::desk::{FleetDesk, ForwardEnd, ForwardOutlet, ForwardTarget};

/// What fits into one frame of the bus with all that is around it: NATS carries a mebibyte unless it is told otherwise.
const LONGEST: usize = 960 << 10;

struct ForwardLink {
    desk: Arc<FleetDesk>,
    server: FleetServerName,
    sink: Arc<dyn MessageSink>,
}

/// Makes the link, and asks the owner what the server is.
pub(crate) async fn connect(
    desk: &Arc<FleetDesk>,
    server: &str,
    sink: Arc<dyn MessageSink>,
    version: &str,
) -> Result<ConnectedLink, LinkError> {
    let link: SharedLink = Arc::new(ForwardLink { desk: Arc::clone(desk), server: server.into(), sink });
    let introduction = OwnIntroduction {
        client_info: json!({ "name": "tidings", "version": version }),
        only_client: None,
        // The owner has the same file, and would take this replica for itself.
        gateways: Vec::new(),
        deadline: None,
        is_legacy: false,
    };
    let mut hello = introduce_modern(&*link, &introduction).await?;
    // The owner is a gateway, and its servers lead through this one as well: that is no loop.
    hello.gateways.clear();
    Ok(ConnectedLink { link, hello })
}

/// A link to what another replica looks at for all. Nobody asks what it is: it speaks as every server in the process does.
pub(super) fn to_watch(desk: &Arc<FleetDesk>, server: FleetServerName, sink: Arc<dyn MessageSink>) -> SharedLink {
    Arc::new(ForwardLink { desk: Arc::clone(desk), server, sink })
}

impl ForwardLink {
    fn forward(&self, request: &OutgoingRequest, asker: &Bytes) -> CallStream {
        let bytes = carried::wrap(asker, &request.bytes);
        if bytes.len() > LONGEST {
            let text =
                format!("a request of {} bytes is too long to be passed to the replica that runs it", bytes.len());
            return CallStream::failed(LinkError::Unusable(text));
        }
        let (queue, stream) = call_channel();
        let key = self.desk.new_key();
        let target = ForwardTarget::Owner(self.server.clone());
        let outlet = ForwardOutlet::Call { queue, gathered: Vec::new() };
        self.desk.open(key, target, bytes, outlet);
        self.watched(stream).keeping(ForwardEnd { desk: Arc::clone(&self.desk), key })
    }

    /// The link is over with the first request that finds no owner: what did not run waits for the next one.
    fn watched(&self, events: CallStream) -> CallStream {
        let sink = Arc::clone(&self.sink);
        CallStream::new(stream::unfold(Some(events), move |events| {
            let sink = Arc::clone(&sink);
            async move {
                let mut events = events?;
                let event = events.next().await;
                if let CallEvent::Unsent(error @ LinkError::Unreachable(_)) = &event {
                    sink.closed(error.clone());
                }
                let is_over = matches!(event, CallEvent::Unsent(_) | CallEvent::Failed(_) | CallEvent::Response(_));
                Some((event, (!is_over).then_some(events)))
            }
        }))
    }
}

impl Link for ForwardLink {
    fn call(&self, request: OutgoingRequest) -> CallStream {
        self.forward(&request, &vouch_for_gateway())
    }

    fn call_for(&self, request: OutgoingRequest, asker: &dyn Fn() -> Bytes) -> CallStream {
        self.forward(&request, &asker())
    }

    fn cancel(&self, _id: u64, _reason: Option<&str>) {
        // The stream is dropped as well, and takes the request back.
    }

    fn send(&self, _message: Bytes) {
        // Modern servers take no notifications and no answers.
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}
