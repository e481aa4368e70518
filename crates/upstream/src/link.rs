//! What every link can do, whatever its transport, and where it delivers what belongs to no call.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tidings_proto::{LocalName, Method, ServerMessage, TraceContext};

use crate::LinkError;
use crate::call::CallStream;

/// A request, ready to be sent.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    /// Its id, as it stands in the bytes.
    pub id: u64,
    /// The method, which decides how the answer is read.
    pub method: Method,
    /// The message as it goes out, with the id of the call.
    pub bytes: Bytes,
    /// The name or URI it is about, for the `Mcp-Name` header.
    pub name: Option<LocalName>,
    /// `Mcp-Param-*` headers, names and decoded values.
    pub params: Vec<(String, String)>,
    /// The span that it belongs to, for the headers of HTTP; in the bytes it stands already.
    pub trace: Option<Box<TraceContext>>,
}

/// A connection to a server.
pub trait Link: Send + Sync + 'static {
    /// Sends a request. Dropping the stream forgets the call: later answers are discarded.
    fn call(&self, request: OutgoingRequest) -> CallStream;

    /// As [`Link::call`], for somebody: where the other end is another replica, it is told who asks. `asker` is called only there.
    fn call_for(&self, request: OutgoingRequest, asker: &dyn Fn() -> Bytes) -> CallStream {
        let _ = asker;
        self.call(request)
    }

    /// Tells the server that a call is no longer wanted. The stream must be dropped as well.
    fn cancel(&self, id: u64, reason: Option<&str>);

    /// Sends a notification, or an answer to a server's request.
    fn send(&self, message: Bytes);

    /// As [`Link::send`], and waits until it has arrived, where what is sent next could overtake it.
    fn deliver(&self, message: Bytes) -> BoxFuture<'static, ()> {
        self.send(message);
        Box::pin(std::future::ready(()))
    }

    /// Whether the answers of all calls, and everything else, come on one stream: then a message that names no call may be about
    /// any.
    fn shares_one_stream(&self) -> bool {
        false
    }

    /// Whether the server was found to have no way to speak by itself on this link, whatever it declares.
    fn is_push_unsupported(&self) -> bool {
        false
    }

    /// The end of what the server said beside the protocol, such as on its standard error.
    fn last_words(&self) -> Option<String> {
        None
    }

    /// Ends the connection in good order. It is given up at once; the future waits until everything of it is gone.
    fn close(&self) -> BoxFuture<'static, ()>;

    /// As [`Link::close`], without asking a process to end first: it is killed.
    fn kill(&self) -> BoxFuture<'static, ()> {
        self.close()
    }
}

/// Where a link delivers what belongs to no stream of its own. Called in the order of arrival, from the one task that
/// reads the link; it must not block.
pub trait MessageSink: Send + Sync + 'static {
    /// The call a message belongs to, if only the gateway can know ([`Link::shares_one_stream`]).
    fn owner(&self, message: &ServerMessage) -> Option<u64>;

    /// A notification or request that belongs to no call.
    fn unowned(&self, message: ServerMessage);

    /// An answer came to a call that nobody waits for any more: the server has done with it.
    fn answered_late(&self, _id: u64) {}

    /// The stream on which the server speaks by itself is open from now on. What it said before may be lost.
    fn push_opened(&self);

    /// The server has no way to speak by itself on this link, whatever it declares ([`Link::is_push_unsupported`]).
    fn push_unsupported(&self);

    /// The server does something that is wrong and that ends nothing, such as printing what is no message. For its status.
    fn remark(&self, _text: String) {}

    /// A request or a stream failed, which may be its own fault or the end of the link: whoever owns the link decides. Told before
    /// the call that met it hears of it.
    fn troubled(&self, error: &LinkError) {
        let _ = error;
    }

    /// The link is gone.
    fn closed(&self, error: LinkError);
}

/// A link that others may hold.
pub type SharedLink = Arc<dyn Link>;
