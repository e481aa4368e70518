//! Asking for the rows: read-only, within limits of time, rows and bytes.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio_postgres::Client;

use super::NoRows;

/// How much longer than the query all of it may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a query may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLimits {
    /// How long the server may work on it.
    pub(super) time: Duration,
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

impl Default for RowLimits {
    fn default() -> Self {
        Self { time: Duration::from_secs(10), rows: 1_000, bytes: 4 << 20 }
    }
}

/// The rows as a JSON array, one row per line.
pub(super) async fn fetch(client: &mut Client, query: &str, limits: RowLimits) -> Result<Vec<u8>, NoRows> {
    let patience = limits.time + PATIENCE;
    tokio::time::timeout(patience, within(client, query, limits)).await.unwrap_or(Err(NoRows::Late(patience)))
}

async fn within(client: &mut Client, query: &str, limits: RowLimits) -> Result<Vec<u8>, NoRows> {
    // Dropping it unfinished rolls it back, and there is nothing to commit.
    let transaction = client.build_transaction().read_only(true).start().await.map_err(NoRows::Query)?;
    // For this transaction only: the connection is used again.
    let timeout = format!("SET LOCAL statement_timeout = {}", limits.time.as_millis());
    transaction.batch_execute(&timeout).await.map_err(NoRows::Query)?;
    let none: [&str; 0] = [];
    let rows = transaction.query_raw(&wrapped(query, limits.rows), none).await.map_err(NoRows::Query)?;
    let mut rows = pin!(rows);
    let mut out = b"[".to_vec();
    let mut count = 0;
    while let Some(row) = rows.try_next().await.map_err(NoRows::Query)? {
        let text: &str = row.try_get(0).map_err(NoRows::Query)?;
        count += 1;
        // One row more than allowed was asked for, to tell too many from exactly as many.
        if count > limits.rows {
            return Err(NoRows::TooMany(limits.rows));
        }
        out.extend_from_slice(if count == 1 { b"\n" } else { b",\n" });
        out.extend_from_slice(text.as_bytes());
        if out.len() > limits.bytes {
            return Err(NoRows::TooLong(limits.bytes));
        }
    }
    out.extend_from_slice(if count == 0 { b"]" } else { b"\n]" });
    Ok(out)
}

/// As a part of another query it can be nothing but a query. The line break ends a comment at its end.
fn wrapped(query: &str, rows: usize) -> String {
    let query = query.trim().trim_end_matches(';');
    format!("SELECT row_to_json(tidings)::text FROM (\n{query}\n) AS tidings LIMIT {}", rows + 1)
}
