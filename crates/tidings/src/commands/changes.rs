//! `tidings changes`: the change feed, from the running gateway or from its store.

pub(super) mod render;
mod source;

use std::io::ErrorKind;
use std::time::Duration;

use jiff::Zoned;
use tidings_store::{ChangeRecord, ChangeRow, LogPosition, QueryStart};

use super::terminal::TerminalPaint;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;
use render::ChangePage;
pub(super) use source::RecordLog;
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
    let printer = ChangePrinter { page: ChangePage::new(TerminalPaint::for_stdout()) };
    print_log(cli, RecordLog::Changes, &args, printer).await
}

/// Prints a log as it was asked for.
pub(super) async fn print_log(
    cli: &Cli,
    log: RecordLog,
    args: &ChangesArgs<'_>,
    mut printer: impl RowPrinter,
) -> Result<(), CommandFailure> {
    let from = match args.since.map(|text| LogPosition::parse(text, &Zoned::now())).transpose() {
        Err(error) => return Err(CommandFailure::Usage(format!("--since: {error}"))),
        Ok(None) => QueryStart::Newest,
        Ok(Some(LogPosition::After(seq))) => QueryStart::After(seq),
        Ok(Some(LogPosition::At(time))) => QueryStart::Time(u64::try_from(time.as_millisecond()).unwrap_or_default()),
    };
    let limit = args.limit.unwrap_or(if args.since.is_some() { usize::MAX } else { RECENT });
    let data = DataDir::find(cli.data.as_deref())?;
    let done = if args.follow {
        follow(&data, log, from, limit, args.json, &mut printer).await
    } else {
        show(&ChangeSource::find(&data), log, from, limit, args.json, &mut printer).await
    };
    match done {
        // Whoever reads has seen enough.
        Err(PrintStop::Full) => Ok(()),
        Err(PrintStop::Failed(failure)) => Err(failure),
        Ok(()) => Ok(()),
    }
}

/// Words rows for people.
pub(super) trait RowPrinter {
    /// One row, as one or more lines.
    fn text(&mut self, row: &ChangeRow) -> Result<String, CommandFailure>;

    /// What is said where there is none: of all, or since a time.
    fn nothing(&self, of_all: bool) -> &'static str;
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
    log: RecordLog,
    from: QueryStart,
    limit: usize,
    json: bool,
    printer: &mut impl RowPrinter,
) -> Result<(), PrintStop> {
    let rows = source.read(log, from, limit).await?.rows;
    if json {
        return print_document(log, &rows);
    }
    if rows.is_empty() {
        eprintln!("{}", printer.nothing(matches!(from, QueryStart::Newest)));
        if matches!(source, ChangeSource::Store(_)) {
            eprintln!("No gateway is running; it is recorded while one is: tidings serve");
        }
    }
    rows.iter().try_for_each(|row| print_row(row, json, printer))
}

/// Never ends by itself: a gateway that ends may come back.
async fn follow(
    data: &DataDir,
    log: RecordLog,
    from: QueryStart,
    limit: usize,
    json: bool,
    printer: &mut impl RowPrinter,
) -> Result<(), PrintStop> {
    let mut place: Option<u64> = None;
    let mut waiting = false;
    loop {
        let source = ChangeSource::find(data);
        let after = match place {
            Some(after) => after,
            None => {
                let found = source.read(log, from, limit).await?;
                found.rows.iter().try_for_each(|row| print_row(row, json, printer))?;
                // The number of the newest change at the time of reading, so that none is missed between this and the
                // stream.
                *place.insert(found.last)
            }
        };
        if let ChangeSource::Running(running) = &source {
            // The closure can only say that it wants no more; why is kept here.
            let mut stopped = None;
            let ended = source::stream(running, log, after, |row| {
                waiting = false;
                place = Some(row.seq);
                print_row(row, json, printer).map_err(|stop| stopped = Some(stop)).is_ok()
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

/// Prints changes in words, as [`ChangePage`] lays them out.
struct ChangePrinter {
    page: ChangePage,
}

impl RowPrinter for ChangePrinter {
    fn text(&mut self, row: &ChangeRow) -> Result<String, CommandFailure> {
        let record: ChangeRecord = serde_json::from_slice(&row.json).map_err(CommandFailure::failed)?;
        Ok(self.page.change(&record, &Zoned::now()))
    }

    fn nothing(&self, of_all: bool) -> &'static str {
        if of_all { "No change was recorded yet." } else { "Nothing changed since then." }
    }
}

fn print_row(row: &ChangeRow, json: bool, printer: &mut impl RowPrinter) -> Result<(), PrintStop> {
    if json {
        return print(&[&row.json[..], b"\n"].concat());
    }
    print(printer.text(row)?.as_bytes())
}

/// All of them as one document, one line each. The text is the log's own, so no number loses a digit.
fn print_document(log: RecordLog, rows: &[ChangeRow]) -> Result<(), PrintStop> {
    let lines: Vec<&[u8]> = rows.iter().map(|row| &row.json[..]).collect();
    let name = match log {
        RecordLog::Changes => "changes",
        RecordLog::Audit => "records",
    };
    let (head, end) = if lines.is_empty() { ("", "]}\n") } else { ("\n", "\n]}\n") };
    let head = format!("{{\"{name}\":[{head}");
    print(&[head.as_bytes(), &lines.join(&b",\n"[..]), end.as_bytes()].concat())
}

fn print(text: &[u8]) -> Result<(), PrintStop> {
    crate::standard::try_write_out(&String::from_utf8_lossy(text)).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => PrintStop::Full,
        _ => PrintStop::Failed(CommandFailure::failed(error)),
    })
}
