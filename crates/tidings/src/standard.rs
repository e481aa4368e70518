//! Standard input and output.
//!
//! What every process has is read and written by blocking calls on threads of their own, which costs a change of threads
//! each way. A pipe can be opened anew by its name in `/proc`: then it is ours alone, so that it may be made not to block
//! without a surprise for others that share it, and the runtime waits for it as for any connection.
//!
//! `println!` and its like panic when nobody reads what they write. In this program their names mean those of this file,
//! which do not: a closed standard output ends a command quietly, and what standard error does not take is lost. Whatever
//! goes through them may hold text of others, so what deceives a reader is spelled out here, in one place.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::SetOnce;

use crate::failure::CommandFailure;
use crate::plain_text;

/// To standard output. Ends the command, quietly, when nobody reads it.
macro_rules! print {
    ($($text:tt)*) => { $crate::standard::write_out(format_args!($($text)*)) };
}

/// A line to standard output. Ends the command, quietly, when nobody reads it.
macro_rules! println {
    () => { $crate::standard::write_out(format_args!("\n")) };
    ($($text:tt)*) => { $crate::standard::write_out(format_args!("{}\n", format_args!($($text)*))) };
}

/// To standard error, in order with the log. Never fails.
macro_rules! eprint {
    ($($text:tt)*) => { $crate::logging::say(format_args!($($text)*)) };
}

/// A line to standard error, in order with the log. Never fails.
macro_rules! eprintln {
    () => { $crate::logging::say(format_args!("\n")) };
    ($($text:tt)*) => { $crate::logging::say(format_args!("{}\n", format_args!($($text)*))) };
}

/// Why standard output takes nothing more.
static REFUSED: SetOnce<io::Error> = SetOnce::const_new();

/// Writes what was asked for; [`refused`] tells when that is over.
pub(crate) fn write_out(text: fmt::Arguments<'_>) {
    if let Err(error) = try_write_out(&text.to_string()) {
        // The first reason counts.
        let _ = REFUSED.set(error);
    }
}

/// The same, for those who have something else to do when nobody reads.
pub(crate) fn try_write_out(text: &str) -> io::Result<()> {
    write_bytes(plain_text::with_styles(text).as_bytes())
}

/// Content that was asked for: as it is, to the last byte, unless a person would see it.
pub(crate) fn write_content(text: &str) {
    let written = if io::stdout().is_terminal() { try_write_out(text) } else { write_bytes(text.as_bytes()) };
    if let Err(error) = written {
        let _ = REFUSED.set(error);
    }
}

fn write_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // Flushed at once, because a command may go on for long after what it printed.
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Waits until standard output takes nothing more. A reader that has seen enough is no failure.
pub(crate) async fn refused() -> Result<(), CommandFailure> {
    verdict(REFUSED.wait().await)
}

/// The same, for a command that is done.
pub(crate) fn refused_so_far() -> Result<(), CommandFailure> {
    REFUSED.get().map_or(Ok(()), verdict)
}

fn verdict(error: &io::Error) -> Result<(), CommandFailure> {
    match error.kind() {
        // As with `| head`: who reads has what was wanted.
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(CommandFailure::Failed(format!("standard output: {error}"))),
    }
}

/// Where a client's messages come from.
pub(crate) fn input() -> Box<dyn AsyncRead + Send + Unpin> {
    #[cfg(target_os = "linux")]
    // Fails for what is no pipe, such as a terminal, a file or a socket.
    if let Ok(pipe) = tokio::net::unix::pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
        return Box::new(pipe);
    }
    Box::new(tokio::io::stdin())
}

/// Where they are answered.
pub(crate) fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    #[cfg(target_os = "linux")]
    if let Ok(pipe) = tokio::net::unix::pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
        return Box::new(pipe);
    }
    Box::new(tokio::io::stdout())
}
