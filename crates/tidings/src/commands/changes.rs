//! `tidings changes`: the change feed, from the running gateway or from its store.

pub(super) mod diff;
pub(super) mod render;
mod source;
mod structure;

use std::io::ErrorKind;
use std::time::Duration;

use jiff::Zoned;
use tidings_store::{ChangeRecord, ChangeRow, LogPosition, QueryStart};

use super::terminal::TerminalPaint;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;
use render::ChangePage;
use source::{ChangeSource, FeedEnd};

/// How many are shown when nobody says how many.
const RECENT: usize = 20;
/// How often a gateway is looked for while there is none.
const LOOK: Duration = Duration::from_millis(500);

/// What was typed after `tidings changes`.
pub(super) struct ChangesArgs<'a> {
    pub(super) follow: bool,
    pub(super) since: Option<&'a str>,
    pub(super) limit: Option<usize>,
    pub(super) json: bool,
}

pub(super) async fn run(cli: &Cli, args: ChangesArgs<'_>) -> Result<(), CommandFailure> {
    let from = match args.since.map(|text| LogPosition::parse(text, &Zoned::now())).transpose() {
        Err(error) => return Err(CommandFailure::Usage(format!("--since: {error}"))),
        Ok(None) => QueryStart::Newest,
        Ok(Some(LogPosition::After(seq))) => QueryStart::After(seq),
        Ok(Some(LogPosition::At(time))) => QueryStart::Time(u64::try_from(time.as_millisecond()).unwrap_or_default()),
    };
    let limit = args.limit.unwrap_or(if args.since.is_some() { usize::MAX } else { RECENT });
    let data = DataDir::find(cli.data.as_deref())?;
    let mut printer = ChangePrinter { json: args.json, page: ChangePage::new(TerminalPaint::for_stdout()) };
    let done = if args.follow {
        follow(&data, from, limit, &mut printer).await
    } else {
        show(&ChangeSource::find(&data), from, limit, &mut printer).await
    };
    match done {
        // Whoever reads has seen enough.
        Err(PrintStop::Full) => Ok(()),
        Err(PrintStop::Failed(failure)) => Err(failure),
        Ok(()) => Ok(()),
    }
}

/// Why printing stops before the last change: a closed pipe is no failure.
enum PrintStop {
    /// Standard output is closed.
    Full,
    Failed(CommandFailure),
}

impl std::convert::From<CommandFailure> for PrintStop {
    fn from(failure: CommandFailure) -> Self {
        Self::Failed(failure)
    }
}

async fn show(
    source: &ChangeSource<'_>,
    from: QueryStart,
    limit: usize,
    printer: &mut ChangePrinter,
) -> Result<(), PrintStop> {
    let rows = source.read(from, limit).await?.rows;
    if printer.json {
        return printer.document(&rows);
    }
    if rows.is_empty() {
        eprintln!(
            "{}",
            if matches!(from, QueryStart::Newest) {
                "No change was recorded yet."
            } else {
                "Nothing changed since then."
            }
        );
        if matches!(source, ChangeSource::Store(_)) {
            eprintln!("No gateway is running; changes are recorded while one is: tidings serve");
        }
    }
    rows.iter().try_for_each(|row| printer.row(row))
}

/// Never ends by itself: a gateway that ends may come back.
async fn follow(data: &DataDir, from: QueryStart, limit: usize, printer: &mut ChangePrinter) -> Result<(), PrintStop> {
    let mut place: Option<u64> = None;
    let mut waiting = false;
    loop {
        let source = ChangeSource::find(data);
        let after = match place {
            Some(after) => after,
            None => {
                let found = source.read(from, limit).await?;
                found.rows.iter().try_for_each(|row| printer.row(row))?;
                // The number of the newest change at the time of reading, so that none is missed between this and the
                // stream.
                *place.insert(found.last)
            }
        };
        if let ChangeSource::Running(running) = &source {
            // The closure can only say that it wants no more; why is kept here.
            let mut stopped = None;
            let ended = source::stream(running, after, |row| {
                waiting = false;
                place = Some(row.seq);
                printer.row(row).map_err(|stop| stopped = Some(stop)).is_ok()
            })
            .await?;
            if let Some(stop) = stopped {
                return Err(stop);
            }
            if matches!(ended, FeedEnd::Reader) {
                return Ok(());
            }
        }
        // Said once per absence, not at every look.
        if !std::mem::replace(&mut waiting, true) {
            eprintln!("No gateway is running; waiting for one.");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Prints rows in one of the two ways.
struct ChangePrinter {
    json: bool,
    page: ChangePage,
}

impl ChangePrinter {
    fn row(&mut self, row: &ChangeRow) -> Result<(), PrintStop> {
        if self.json {
            return print(&[&row.json[..], b"\n"].concat());
        }
        let record: ChangeRecord = serde_json::from_slice(&row.json).map_err(CommandFailure::failed)?;
        print(self.page.change(&record, &Zoned::now()).as_bytes())
    }

    /// All of them as one document, one line each. The text is the log's own, so no number loses a digit.
    fn document(&self, rows: &[ChangeRow]) -> Result<(), PrintStop> {
        let lines: Vec<&[u8]> = rows.iter().map(|row| &row.json[..]).collect();
        let (head, end): (&[u8], &[u8]) =
            if lines.is_empty() { (b"{\"changes\":[", b"]}\n") } else { (b"{\"changes\":[\n", b"\n]}\n") };
        print(&[head, &lines.join(&b",\n"[..]), end].concat())
    }
}

fn print(text: &[u8]) -> Result<(), PrintStop> {
    crate::standard::try_write_out(&String::from_utf8_lossy(text)).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => PrintStop::Full,
        _ => PrintStop::Failed(CommandFailure::failed(error)),
    })
}
