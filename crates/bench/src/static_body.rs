//! A fixed body from the HTTP stack that the gateway uses: what a long list can cost at best.

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::post;
use bytes::Bytes;
use http::header;
use hyper::server::conn::http1;
use hyper_util::service::TowerToHyperService;

use crate::accept::{PartListener, accept};
use crate::error::BenchError;

/// The read and write buffer of a connection, as the gateway's listener has it.
const CONNECTION_BUFFER: usize = 16 * 1024;

/// Options of the `static` part.
#[derive(clap::Args)]
pub(crate) struct StaticOptions {
    #[command(flatten)]
    listen: PartListener,
    /// The size of the body.
    #[arg(long, default_value_t = 100_000)]
    bytes: usize,
}

/// Serves until the process is ended.
pub(crate) async fn run(options: &StaticOptions) -> Result<(), BenchError> {
    let router = Router::new().route("/mcp", post(fixed)).with_state(body(options.bytes));
    accept(&options.listen, |io| {
        let service = TowerToHyperService::new(router.clone());
        async move {
            // A client that leaves is not worth a word.
            let _ = http1::Builder::new().max_buf_size(CONNECTION_BUFFER).serve_connection(io, service).await;
        }
    })
    .await
}

async fn fixed(State(body): State<Bytes>, _request: Bytes) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], body)
}

/// An answer to the request with id 1, of exactly this size where that is possible.
fn body(bytes: usize) -> Bytes {
    let (head, tail) = (r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[""#, r#""]}}"#);
    let filler = "x".repeat(bytes.saturating_sub(head.len() + tail.len()));
    Bytes::from(format!("{head}{filler}{tail}"))
}
