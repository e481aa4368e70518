//! Where audit records go besides the store: a file, and the system's log. One line of JSON each, after it is in the store.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use jiff::Zoned;

/// Facility 13 (log audit), severity 6 (informational).
const PRIORITY: u8 = 13 * 8 + 6;

/// Which sinks there are.
#[derive(Clone, Debug, Default)]
pub struct SinkSettings {
    /// A file that lines are appended to.
    pub file: Option<PathBuf>,
    /// The socket of the system's log.
    pub syslog: Option<PathBuf>,
}

impl SinkSettings {
    /// Whether there is one.
    pub(crate) fn are_some(&self) -> bool {
        self.file.is_some() || self.syslog.is_some()
    }
}

pub(crate) struct AuditSinks {
    pub(crate) settings: SinkSettings,
    socket: Option<UnixDatagram>,
    /// What failed last, so that it is said once.
    failing: [bool; 2],
}

impl AuditSinks {
    pub(crate) fn new(settings: SinkSettings) -> Self {
        Self { settings, socket: None, failing: [false; 2] }
    }

    /// Writes lines. A sink that fails is reported once, and tried again with the next lines: the store has them all.
    pub(crate) fn write(&mut self, lines: &[u8]) {
        if let Some(file) = &self.settings.file {
            // Opened each time, so that a file that was rotated away is made anew.
            let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(file);
            let written = opened.and_then(|mut opened| opened.write_all(lines));
            self.report(0, written);
        }
        if self.settings.syslog.is_some() {
            let sent = self.send(lines);
            if sent.is_err() {
                self.socket = None;
            }
            self.report(1, sent);
        }
    }

    fn send(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.socket.is_none() {
            let socket = UnixDatagram::unbound()?;
            // The log must not make the audit log wait: what it does not take at once is missing there.
            socket.set_nonblocking(true)?;
            socket.connect(self.settings.syslog.clone().unwrap_or_default())?;
            self.socket = Some(socket);
        }
        let Some(socket) = &self.socket else { return Ok(()) };
        let time = Zoned::now().strftime("%b %e %H:%M:%S").to_string();
        let head = format!("<{PRIORITY}>{time} tidings[{}]: ", std::process::id());
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            // The first line that is not taken ends it, and those after it are missing there, too.
            socket.send(&[head.as_bytes(), line].concat())?;
        }
        Ok(())
    }

    fn report(&mut self, which: usize, written: io::Result<()>) {
        let name = ["file", "syslog"][which];
        match written {
            Ok(()) if std::mem::take(&mut self.failing[which]) => {
                tracing::info!(sink = name, "audit records arrive again")
            }
            Ok(()) => {}
            Err(error) if !std::mem::replace(&mut self.failing[which], true) => {
                tracing::warn!(sink = name, %error, "audit records do not arrive there; they are in the store");
            }
            Err(_) => {}
        }
    }
}
