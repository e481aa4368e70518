//! A JSON tool that takes the options of `jq` and understands its language, for scripts on machines that have neither
//! `jq` nor `gojq`.
//!
//! The language is [`jaq`](https://docs.rs/jaq-core)'s. What is ours: the options and exit codes that scripts rely on,
//! strict reading (a text that is not JSON is refused), and writing that is always JSON.

mod input;
mod options;
mod output;
mod program;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use jaq_core::unwrap_valr;
use jaq_json::Val;

use input::InputValues;
use options::{FilterAction, JsonOptions};
use output::ResultPrinter;

pub use options::HELP;

/// What the tool reads and writes.
pub struct JsonStreams<'a> {
    /// Read when no file is named.
    pub input: &'a mut dyn io::Read,
    /// Where results are written.
    pub output: &'a mut dyn Write,
    /// Where messages about faults are written.
    pub errors: &'a mut dyn Write,
}

/// The tool as a process: with the process's own streams.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    // `debug`, `stderr` and `halt_error` of the language speak through `log`.
    if log::set_logger(&ToStandardError).is_ok() {
        log::set_max_level(log::LevelFilter::Debug);
    }
    let mut output = io::BufWriter::new(io::stdout().lock());
    let streams = JsonStreams { input: &mut io::stdin().lock(), output: &mut output, errors: &mut io::stderr() };
    ExitCode::from(run(arguments, streams))
}

struct ToStandardError;

impl log::Log for ToStandardError {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let mut errors = io::stderr().lock();
        // Not `eprintln!`, which panics when nobody reads it.
        let _ = match record.level() {
            log::Level::Debug => writeln!(errors, "[\"DEBUG:\",{}]", record.args()),
            _ => write!(errors, "{}", record.args()),
        };
    }

    fn flush(&self) {}
}

/// What went wrong, and with which exit code scripts are told.
#[derive(Debug, thiserror::Error)]
enum JsonFailure {
    #[error("{0}\nSee `tidings json --help`.")]
    Usage(String),
    #[error("{place}: {problem}")]
    Input { place: String, problem: String },
    #[error("{0}")]
    Program(String),
    #[error("can not write: {0}")]
    Output(#[from] io::Error),
}

impl JsonFailure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Input { .. } | Self::Output(_) => 2,
            Self::Program(_) => 3,
        }
    }
}

/// The exit code of a filter that failed on a value.
const FILTER_FAILED: u8 = 5;

/// Runs the tool with the arguments after its name and returns the exit code: 0 done, 2 wrong use or input, 3 not a
/// program, 5 the program failed; with `-e` also 1 (the last result was false or null) and 4 (there was none).
pub fn run(arguments: impl Iterator<Item = OsString>, streams: JsonStreams<'_>) -> u8 {
    let JsonStreams { input, output, errors } = streams;
    match attempt(arguments, input, output, errors) {
        Ok(code) => code,
        // Whoever read the results has seen enough.
        Err(JsonFailure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(failure) => {
            let _ = writeln!(errors, "tidings json: {failure}");
            failure.exit_code()
        }
    }
}

fn attempt(
    arguments: impl Iterator<Item = OsString>,
    input: &mut dyn io::Read,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> Result<u8, JsonFailure> {
    let options = match options::parse(arguments)? {
        FilterAction::Help => {
            output.write_all(HELP.as_bytes())?;
            return Ok(0);
        }
        FilterAction::Version => {
            // In the form of jq's own answer, with the version whose language is followed.
            writeln!(output, "jq-1.7-tidings-{}", env!("CARGO_PKG_VERSION"))?;
            return Ok(0);
        }
        FilterAction::Run(options) => *options,
    };
    let filter = program::compile(&options.program, &options.variables)?;
    let inputs = InputValues::new(&options, input)?;
    evaluate(&options, &filter, inputs, output, errors)
}

/// Runs the program on every input.
fn evaluate(
    options: &JsonOptions,
    filter: &program::Filter,
    inputs: InputValues,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> Result<u8, JsonFailure> {
    let printer = ResultPrinter::new(options);
    let mut last: Option<Val> = None;
    let mut failed = false;
    let mut unreadable = None;
    let halted = program::each_result(filter, options, inputs, |result| {
        match result {
            Ok(result) => match unwrap_outcome(result) {
                JsonOutcome::Value(value) => {
                    printer.print(&value, output)?;
                    last = Some(value);
                }
                JsonOutcome::Error(message) => {
                    failed = true;
                    let _ = writeln!(errors, "tidings json: error: {message}");
                }
                JsonOutcome::Halt(code) => return Ok(Some(code)),
            },
            Err(problem) => unreadable = Some(problem),
        }
        Ok(None)
    })?;
    // Before anything is said on standard error, and so that a closed pipe is noticed.
    output.flush()?;
    if let Some(code) = halted {
        return Ok(code);
    }
    if let Some(problem) = unreadable {
        return Err(JsonFailure::Input { place: "input".into(), problem });
    }
    if failed {
        return Ok(FILTER_FAILED);
    }
    Ok(match (options.exit_by_result, last) {
        (false, _) => 0,
        (true, None) => 4,
        (true, Some(Val::Null | Val::Bool(false))) => 1,
        (true, Some(_)) => 0,
    })
}

enum JsonOutcome {
    Value(Val),
    Error(String),
    Halt(u8),
}

fn unwrap_outcome(result: jaq_json::ValX<'_>) -> JsonOutcome {
    match result {
        Ok(value) => JsonOutcome::Value(value),
        Err(exception) => match exception.get_halt() {
            Ok(code) => JsonOutcome::Halt(u8::try_from(code).unwrap_or(FILTER_FAILED)),
            Err(exception) => match unwrap_valr(Err(exception)) {
                Ok(value) => JsonOutcome::Value(value),
                Err(error) => JsonOutcome::Error(error.to_string()),
            },
        },
    }
}
