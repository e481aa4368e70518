//! What can go wrong between us and a server.

/// The words of [`LinkError::Spawn`] for a program that is nowhere.
pub(crate) const NOT_FOUND: &str = "command not found";
/// The words of [`LinkError::Protocol`] for HTML in the place of a message.
pub(crate) const WEB_PAGE: &str = "it answered with a web page (HTML)";
/// What stands in [`LinkError::Status`] before the address that a server redirects to.
pub(crate) const REDIRECTS: &str = "it redirects to ";

/// Why a link, or a call on it, failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The command could not be started.
    #[error("could not be started: {program}: {reason}")]
    Spawn {
        /// The program, as it was to be started.
        program: String,
        /// What the system says, or our own words for a program that is nowhere.
        reason: String,
    },
    /// The server's process ended; what it last wrote to standard error may say why.
    #[error("exited{}{}", fmt_status(.status), fmt_words(.last_words))]
    Exited {
        /// Its exit status, if known.
        status: Option<String>,
        /// The end of its standard error.
        last_words: Option<String>,
    },
    /// No connection: nothing of the request was sent.
    #[error("can not be reached: {0}")]
    Unreachable(String),
    /// The connection broke before anything of the answer came. The server may have read the request.
    #[error("closed the connection before it answered: {0}")]
    Broken(String),
    /// An HTTP status that is no answer.
    #[error("answered with HTTP status {status}{}", fmt_words(.body))]
    Status {
        /// The HTTP status, as the server or somebody on the way sent it.
        status: u16,
        /// The beginning of the body.
        body: Option<String>,
    },
    /// Credentials are missing or wrong.
    #[error("wants authentication (HTTP status {0}); set `headers` for it in the configuration")]
    Unauthorized(u16),
    /// A person has to log in, as the words say. It did not read what it refused.
    #[error("needs a login{0}")]
    NeedsLogin(String),
    /// A person has to allow more for this request; others are carried out.
    #[error("needs a login{0}")]
    NeedsMore(String),
    /// The token of the server can not be renewed for now.
    #[error("can not be logged in to: {0}")]
    LoginUnavailable(String),
    /// The server refuses a session that was good, with this status. It did not run what it refused.
    #[error("ended the session (HTTP status {0})")]
    SessionRefused(u16),
    /// The server answers as only servers of the other era do. It did not run what it refused.
    #[error("speaks another era of the protocol than before: {0}")]
    WrongEra(String),
    /// The stream of a call ended before its answer.
    #[error("closed the connection before it answered")]
    Lost,
    /// The server asked something in the middle of a call, and the answer could not be delivered: the call waits for nothing else.
    #[error("asked something and could not be told the answer: {0}")]
    AnswerLost(String),
    /// It did not speak the protocol.
    #[error("broke the protocol: {0}")]
    Protocol(String),
    /// It was not even tried, or is not wanted.
    #[error("can not be used: {0}")]
    Unusable(String),
    /// The handshake was refused.
    #[error("refused the handshake: {0}")]
    Refused(String),
    /// The handshake took too long.
    #[error("did not finish the handshake within {0} s")]
    HandshakeTimeout(u64),
    /// It did not answer a request of our own in time.
    #[error("did not answer within {0} s")]
    Silent(u64),
    /// It does not read what we write.
    #[error("does not read its input")]
    Stalled,
    /// The gateway itself closed the link.
    #[error("was stopped")]
    Stopped,
    /// Something failed while the process still ran, and what it had written to standard error by then.
    #[error("{error}; its last words: {last_words}")]
    WithWords {
        /// The failure that this is about.
        error: Box<LinkError>,
        /// The end of its standard error.
        last_words: String,
    },
    /// Something failed, and what whoever described the server can do about it.
    #[error("{error}. {remedy}")]
    Explained {
        /// The failure that this is about.
        error: Box<LinkError>,
        /// What the user can do about it.
        remedy: String,
    },
}

impl LinkError {
    /// Whether nothing helps but a person who logs in.
    pub fn needs_login(&self) -> bool {
        matches!(self.cause(), Self::NeedsLogin(_))
    }

    /// The error itself, without the words around it.
    pub fn cause(&self) -> &Self {
        match self {
            Self::WithWords { error, .. } | Self::Explained { error, .. } => error.cause(),
            other => other,
        }
    }

    /// The end of what the server wrote to standard error, if it is known.
    pub fn last_words(&self) -> Option<&str> {
        match self {
            Self::WithWords { last_words, .. } => Some(last_words),
            Self::Exited { last_words, .. } => last_words.as_deref(),
            Self::Explained { error, .. } => error.last_words(),
            _ => None,
        }
    }

    /// What the caller of a tool is told: neither the server's standard error nor a body that somebody sent, nor what the
    /// operator should do about it. These may hold keys, and words for a model.
    pub fn for_clients(&self) -> String {
        let more = "`tidings servers` says more";
        match self {
            Self::WithWords { error, .. } | Self::Explained { error, .. } => match &**error {
                Self::WithWords { .. } | Self::Explained { .. } => error.for_clients(),
                Self::Exited { .. } | Self::Status { body: Some(_), .. } => error.for_clients(),
                other => format!("{other}; {more}"),
            },
            Self::Exited { status, last_words: Some(_) } => format!("exited{}; {more}", fmt_status(status)),
            Self::Status { status, body: Some(_) } => format!("answered with HTTP status {status}; {more}"),
            other => other.to_string(),
        }
    }

    /// The same with the server's last words, unless it has some or there are none.
    #[must_use]
    pub fn with_words(self, words: Option<String>) -> Self {
        match words.filter(|words| !words.is_empty()) {
            Some(last_words) if self.last_words().is_none() => Self::WithWords { error: Box::new(self), last_words },
            _ => self,
        }
    }
}

fn fmt_status(status: &Option<String>) -> String {
    status.as_ref().map(|s| format!(" ({s})")).unwrap_or_default()
}

fn fmt_words(words: &Option<String>) -> String {
    words.as_ref().filter(|w| !w.is_empty()).map(|w| format!(": {w}")).unwrap_or_default()
}
