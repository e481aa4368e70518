//! The server behind the proxies: an MCP echo server over Streamable HTTP.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;

use crate::accept::{PartListener, accept};
use crate::echo::{EchoEra, EchoReply, EchoServer, OfferedEras};
use crate::error::BenchError;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Options of the `upstream` part.
#[derive(clap::Args)]
pub(crate) struct UpstreamOptions {
    #[command(flatten)]
    listen: PartListener,
    /// The eras it answers.
    #[arg(long, value_enum, default_value = "both")]
    era: OfferedEras,
    /// The least size of its tool list.
    #[arg(long, default_value_t = 0)]
    list_bytes: usize,
    /// What a call without a text is answered with: a text of this size.
    #[arg(long, default_value_t = 0)]
    answer_bytes: usize,
}

struct BenchServer {
    echo: EchoServer,
    sessions: AtomicU64,
}

/// Serves until the process is ended.
pub(crate) async fn run(options: &UpstreamOptions) -> Result<(), BenchError> {
    let echo = EchoServer::new(options.era, options.list_bytes).saying(options.answer_bytes);
    let server = Arc::new(BenchServer { echo, sessions: AtomicU64::new(0) });
    accept(&options.listen, |io| {
        let server = Arc::clone(&server);
        async move {
            let service = service_fn(move |request| respond(Arc::clone(&server), request));
            // A client that leaves is not worth a word.
            let _ = http1::Builder::new().serve_connection(io, service).await;
        }
    })
    .await
}

async fn respond(server: Arc<BenchServer>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() == Method::DELETE {
        return Ok(empty(StatusCode::OK));
    }
    if request.method() != Method::POST {
        return Ok(empty(StatusCode::METHOD_NOT_ALLOWED));
    }
    let in_session = request.headers().contains_key(SESSION);
    let Ok(body) = request.into_body().collect().await else {
        return Ok(empty(StatusCode::BAD_REQUEST));
    };
    let Ok(reply) = server.echo.answer(&body.to_bytes()) else {
        return Ok(empty(StatusCode::BAD_REQUEST));
    };
    Ok(match reply {
        EchoReply::Nothing => empty(StatusCode::ACCEPTED),
        EchoReply::Opened(body) => {
            let number = server.sessions.fetch_add(1, Ordering::Relaxed);
            let mut response = json(StatusCode::OK, body);
            if let Ok(id) = HeaderValue::from_str(&format!("echo-{number:08x}")) {
                response.headers_mut().insert(SESSION, id);
            }
            response
        }
        // A gateway that forgets the session's header must not look fast.
        EchoReply::Result(EchoEra::Legacy, _) if !in_session => empty(StatusCode::BAD_REQUEST),
        EchoReply::Result(_, body) => json(StatusCode::OK, body),
        // In a session an error is an answer like any other. Outside of one, status 400 is what a client that probes for
        // the modern era takes as the sign of a legacy server.
        EchoReply::Error(EchoEra::Legacy, _, body) if in_session => json(StatusCode::OK, body),
        // The modern era answers an unknown method with 404.
        EchoReply::Error(EchoEra::Modern, -32601, body) => json(StatusCode::NOT_FOUND, body),
        EchoReply::Error(_, _, body) => json(StatusCode::BAD_REQUEST, body),
    })
}

fn json(status: StatusCode, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
