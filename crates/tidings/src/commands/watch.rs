//! `tidings watch URI`: each update of a resource as it comes, with what changed in its text.

use std::io::ErrorKind;
use std::time::Duration;

use jiff::Zoned;
use serde_json::{Value, json};
use tidings_proto::{Method, notifications};

use super::terminal::{BOLD, CAME, DIM, TerminalPaint, WENT, harmless};
use super::unreadable;
use crate::backend::Backend;
use crate::cli::Cli;
use crate::failure::CommandFailure;
use tidings_diff::DiffLine;

/// How often a gateway that ended is looked for.
const LOOK: Duration = Duration::from_millis(500);
/// Lines around each change.
const AROUND: usize = 2;
/// Lines of one update.
const MOST: usize = 200;

pub(super) async fn run(cli: &Cli, uri: &str, as_json: bool) -> Result<(), CommandFailure> {
    let mut watch = WatchRun { uri, as_json, paint: TerminalPaint::for_stdout(), known: None };
    let mut backend = Backend::open(cli)?;
    loop {
        let ended = tokio::select! {
            ended = watch.follow(&backend) => ended,
            _ = tokio::signal::ctrl_c() => Ok(WatchEnd::Reader),
        };
        // A gateway of our own does not come back by itself.
        let is_own = matches!(backend, Backend::Own(..));
        if is_own || !matches!(ended, Ok(WatchEnd::Gateway)) {
            backend.close().await;
            return ended.map(drop);
        }
        eprintln!("The gateway ended; waiting for it.");
        backend = loop {
            tokio::time::sleep(LOOK).await;
            if let Some(running) = crate::data::DataDir::find(cli.data.as_deref())?.running() {
                break Backend::Running(running);
            }
        };
    }
}

/// Why it is over.
enum WatchEnd {
    /// The gateway is gone.
    Gateway,
    /// Whoever reads has seen enough.
    Reader,
}

struct WatchRun<'a> {
    uri: &'a str,
    as_json: bool,
    paint: TerminalPaint,
    /// What was last read.
    known: Option<Value>,
}

impl WatchRun<'_> {
    async fn follow(&mut self, backend: &Backend) -> Result<WatchEnd, CommandFailure> {
        // Before the first read, so that a change in between is told.
        let mut listen = backend.listen(self.uri).await?;
        let Some(first) = listen.next().await? else { return Ok(WatchEnd::Gateway) };
        let honoured = &first["params"]["notifications"]["resourceSubscriptions"];
        if honoured.as_array().is_none_or(Vec::is_empty) {
            // Reading says what is wrong, if it is not only that.
            if let Err(failure) = self.read(backend).await {
                return Err(unreadable::explain(backend, self.uri, failure).await);
            }
            return Err(CommandFailure::Failed(format!(
                "{} can not be followed: its server does not tell of changes. With `poll_interval` in the server's \
                 configuration it is read from time to time instead.",
                self.uri
            )));
        }
        // Only now: what changes from here on is told.
        let read = self.read(backend).await;
        let now = content(&read);
        match self.known.replace(now.clone()) {
            None => {
                eprintln!("Following {}", self.uri);
                // It may come yet: a file that is not there, a database that is down.
                if let Err(failure) = read {
                    eprintln!("{}", unreadable::explain(backend, self.uri, failure).await);
                }
            }
            // After a restart of the gateway: what changed meanwhile is shown as one update.
            Some(before) if before != now => {
                if let Some(end) = self.print(self.uri, &before, &now)? {
                    return Ok(end);
                }
            }
            Some(_) => {}
        }
        while let Some(message) = listen.next().await? {
            if message["method"] != notifications::UPDATED {
                continue;
            }
            let told = message["params"]["uri"].as_str().unwrap_or(self.uri).to_owned();
            let now = content(&self.read(backend).await);
            let before = self.known.replace(now.clone()).unwrap_or_default();
            if let Some(end) = self.print(&told, &before, &now)? {
                return Ok(end);
            }
        }
        Ok(WatchEnd::Gateway)
    }

    async fn read(&self, backend: &Backend) -> Result<Value, CommandFailure> {
        let mut result = backend.request(Method::ResourcesRead, json!({ "uri": self.uri })).await?;
        Ok(result["contents"].take())
    }

    fn print(&self, uri: &str, before: &Value, now: &Value) -> Result<Option<WatchEnd>, CommandFailure> {
        let time = Zoned::now();
        let text = match self.as_json {
            true => format!("{}\n", json!({ "time": time.timestamp().to_string(), "uri": uri, "contents": now })),
            false => {
                let head = format!("{} {}", time.strftime("%H:%M:%S"), self.paint.styled(BOLD, &harmless(uri)));
                format!("{head}\n{}", self.difference(before, now))
            }
        };
        match crate::standard::try_write_out(&text) {
            Ok(()) => Ok(None),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Some(WatchEnd::Reader)),
            Err(error) => Err(CommandFailure::failed(error)),
        }
    }

    fn difference(&self, before: &Value, now: &Value) -> String {
        if let Some(error) = now["error"].as_str() {
            return format!("  {}\n", self.paint.styled(WENT, &harmless(error)));
        }
        if before == now {
            return format!("  {}\n", self.paint.styled(DIM, "the same content"));
        }
        let (old, new) = (text_of(before), text_of(now));
        let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
        let lines = tidings_diff::lines(&old, &new, AROUND);
        let mut out = String::new();
        for line in lines.iter().take(MOST) {
            let shown = match line {
                DiffLine::Same(text) => format!("    {}", harmless(text)),
                DiffLine::Gone(text) => self.paint.styled(WENT, &format!("  - {}", harmless(text))),
                DiffLine::Come(text) => self.paint.styled(CAME, &format!("  + {}", harmless(text))),
                DiffLine::Skipped => self.paint.styled(DIM, "    …"),
            };
            out.push_str(&shown);
            out.push('\n');
        }
        if lines.len() > MOST {
            out.push_str(&self.paint.styled(DIM, &format!("    … and {} lines more\n", lines.len() - MOST)));
        }
        out
    }
}

/// The content, or why there is none.
fn content(read: &Result<Value, CommandFailure>) -> Value {
    match read {
        Ok(contents) => contents.clone(),
        Err(CommandFailure::Refused { message, .. }) => json!({ "error": message }),
        Err(other) => json!({ "error": other.to_string() }),
    }
}

/// The content as text; of what is no text, only its size.
fn text_of(contents: &Value) -> String {
    let parts = contents.as_array().into_iter().flatten().map(|part| match part["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("[{} bytes in base64]", part["blob"].as_str().map_or(0, str::len)),
    });
    parts.collect::<Vec<_>>().join("\n")
}
