//! What one request and its answer over NATS take, which is what a forwarded call is held against.

use std::time::Instant;

use async_nats::Client;
use futures_util::StreamExt as _;

use crate::error::BenchError;
use crate::report::median;

const WARM_UP: usize = 500;
const TRIPS: usize = 5_000;

/// Options of the `trip` part.
#[derive(clap::Args)]
pub(crate) struct TripOptions {
    /// The server of NATS.
    #[arg(long)]
    nats: String,
}

/// Prints the median in microseconds: two connections, one asks and the other one answers.
pub(crate) async fn run(options: &TripOptions) -> Result<(), BenchError> {
    let (asking, answering) = (connect(&options.nats).await?, connect(&options.nats).await?);
    let mut asked = answering.subscribe("bench.trip").await.map_err(refused)?;
    let responder = tokio::spawn(async move {
        while let Some(message) = asked.next().await {
            if let Some(back) = message.reply {
                // Whoever asks notices that no answer comes.
                let _ = answering.publish(back, message.payload).await;
            }
        }
    });
    // On a worker of the runtime, as what a gateway does, and not on the thread that waits for it.
    let trips = tokio::spawn(ask(asking)).await.map_err(|error| BenchError::io("asking")(error.into()))??;
    responder.abort();
    let middle = median(trips.into_iter()).ok_or_else(|| BenchError::unexpected("NATS", "answers", b""))?;
    println!("{middle}");
    Ok(())
}

async fn ask(asking: Client) -> Result<Vec<f64>, BenchError> {
    let mut trips = Vec::with_capacity(TRIPS);
    for trip in 0..WARM_UP + TRIPS {
        let sent = Instant::now();
        let answered = asking.request("bench.trip", "x".into()).await;
        // The first ones may come before the subscription of whoever answers.
        if trip >= WARM_UP {
            answered.map_err(refused)?;
            trips.push(sent.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(trips)
}

async fn connect(url: &str) -> Result<Client, BenchError> {
    async_nats::connect(url).await.map_err(refused)
}

fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::unexpected("NATS", "an answer", error.to_string().as_bytes())
}
