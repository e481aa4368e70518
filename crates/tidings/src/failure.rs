//! Why a command did not do what it should, in words for the person at the terminal.

use std::fmt;
use std::process::ExitCode;

/// Why a command failed; it decides the exit code.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// Wrong use: exit code 2.
    Usage(String),
    /// The configuration is not valid; says so by itself.
    Config(tidings_config::ConfigErrors),
    /// A request was answered with an error.
    Refused {
        /// The JSON-RPC code of the error.
        code: i64,
        /// The words of the server or the gateway.
        message: String,
        /// What it says besides, for programs.
        data: Option<serde_json::Value>,
    },
    /// Any other failure, with the words that are printed.
    Failed(String),
}

impl CommandFailure {
    pub(crate) fn failed(error: impl fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }

    /// What went wrong, without the name of the program before it.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Usage(text) | Self::Failed(text) => text.clone(),
            Self::Config(errors) => errors.to_string(),
            Self::Refused { code, message, data } => format!("{message} ({code}){}", said(data.as_ref())),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Config(_) | Self::Refused { .. } | Self::Failed(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(errors) => write!(f, "{errors}"),
            other => write!(f, "tidings: {}", other.words()),
        }
    }
}

/// What the data of an error adds for people: a script's exit code and the end of its standard error, else all of it.
fn said(data: Option<&serde_json::Value>) -> String {
    use serde_json::Value;
    let Some(data) = data else { return String::new() };
    let mut lines = Vec::new();
    if let Some(code) = data["exitCode"].as_i64() {
        lines.push(format!("exit code {code}"));
    }
    for key in ["stdout", "stderrTail"] {
        if let Some(text) = data[key].as_str().map(str::trim_end).filter(|text| !text.is_empty()) {
            lines.push(text.to_owned());
        }
    }
    match data {
        _ if !lines.is_empty() => format!("\n{}", lines.join("\n")),
        Value::String(text) => format!("\n{}", text.trim_end()),
        Value::Null => String::new(),
        other => format!("\n{other}"),
    }
}
