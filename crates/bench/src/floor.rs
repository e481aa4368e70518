//! The floor: a reverse proxy that reads nothing, the least that any hop over HTTP can cost.

use std::net::SocketAddr;

use http::uri::{Authority, Scheme, Uri};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, combinators::BoxBody};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::accept::{PartListener, accept};
use crate::error::BenchError;

/// Options of the `floor` part.
#[derive(clap::Args)]
pub(crate) struct FloorOptions {
    #[command(flatten)]
    listen: PartListener,
    /// The server to pass everything to.
    #[arg(long)]
    to: SocketAddr,
}

type Pool = Client<HttpConnector, Incoming>;

/// Serves until the process is ended.
pub(crate) async fn run(options: &FloorOptions) -> Result<(), BenchError> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    // Connections to the server are used again, as those of the gateway are.
    let pool: Pool = Client::builder(TokioExecutor::new()).build(connector);
    let to = Authority::try_from(options.to.to_string()).map_err(|_| BenchError::Unexpected {
        from: "--to",
        expected: "an address",
        got: options.to.to_string(),
    })?;
    accept(&options.listen, |io| {
        let (pool, to) = (pool.clone(), to.clone());
        async move {
            let service = service_fn(move |request| pass(pool.clone(), to.clone(), request));
            // A client that leaves is not worth a word.
            let _ = http1::Builder::new().serve_connection(io, service).await;
        }
    })
    .await
}

async fn pass(
    pool: Pool,
    to: Authority,
    mut request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, hyper::Error>>, http::Error> {
    let mut parts = request.uri().clone().into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(to);
    *request.uri_mut() = Uri::from_parts(parts)?;
    match pool.request(request).await {
        Ok(response) => Ok(response.map(BodyExt::boxed)),
        Err(_) => Response::builder()
            .status(StatusCode::BAD_GATEWAY)
            .body(Empty::new().map_err(|never| match never {}).boxed()),
    }
}
