//! The floor of a broadcast: a bare hyper server that writes the same bytes to every open stream.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Either, Empty};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::accept::{PartListener, accept};
use crate::error::BenchError;

/// Where what is posted goes to every stream.
pub(crate) const PUBLISH: &str = "/publish";

/// Options of the `fan` part.
#[derive(clap::Args)]
pub(crate) struct FanOptions {
    #[command(flatten)]
    listen: PartListener,
}

/// The open streams. What waits in one is bounded by the harness, which publishes only when all was read.
type Streams = Arc<Mutex<Vec<UnboundedSender<Bytes>>>>;

/// Serves until the process is ended.
pub(crate) async fn run(options: &FanOptions) -> Result<(), BenchError> {
    let streams = Streams::default();
    accept(&options.listen, |io| {
        let streams = Arc::clone(&streams);
        async move {
            let service = service_fn(move |request| respond(Arc::clone(&streams), request));
            // A client that leaves is not worth a word.
            let _ = http1::Builder::new().serve_connection(io, service).await;
        }
    })
    .await
}

/// Publishes, or opens a stream that begins with what was posted.
async fn respond(
    streams: Streams,
    request: Request<Incoming>,
) -> Result<Response<Either<EventBody, Empty<Bytes>>>, Infallible> {
    let publish = request.uri().path() == PUBLISH;
    let posted = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut all = streams.lock().unwrap_or_else(PoisonError::into_inner);
    if publish {
        all.retain(|stream| stream.send(posted.clone()).is_ok());
        return Ok(Response::new(Either::Right(Empty::new())));
    }
    let (writer, events) = unbounded_channel();
    // The reader is in the response that follows.
    let _ = writer.send(posted);
    all.push(writer);
    let mut response = Response::new(Either::Left(EventBody(events)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

/// A body of chunks as they come.
struct EventBody(UnboundedReceiver<Bytes>);

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}
