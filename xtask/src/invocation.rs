//! A command as data: shown to people in a form they can repeat, and given to `Children` to run.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const USUAL_DEADLINE: Duration = Duration::from_secs(600);

/// A command that has not been started.
#[derive(Debug, Clone)]
pub(crate) struct Invocation {
    program: OsString,
    arguments: Vec<OsString>,
    directory: Option<PathBuf>,
    environment: Vec<(OsString, OsString)>,
    deadline: Duration,
}

impl Invocation {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            directory: None,
            environment: Vec::new(),
            deadline: USUAL_DEADLINE,
        }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    pub(crate) fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_owned());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    pub(crate) fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// What is run, in one word: the script that the program is given, or the program.
    pub(crate) fn name(&self) -> String {
        let what = self.arguments.first().unwrap_or(&self.program);
        Path::new(what).file_stem().unwrap_or(what).to_string_lossy().into_owned()
    }

    pub(crate) fn time_allowed(&self) -> Duration {
        self.deadline
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.environment.iter().cloned());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here = std::env::current_dir().ok();
        if let Some(directory) = self.directory.as_ref().filter(|d| Some(*d) != here.as_ref()) {
            write!(f, "cd {} && ", quoted(&directory.to_string_lossy()))?;
        }
        for (name, value) in &self.environment {
            write!(f, "{}={} ", name.to_string_lossy(), quoted(&value.to_string_lossy()))?;
        }
        write!(f, "{}", quoted(&self.program.to_string_lossy()))?;
        for argument in &self.arguments {
            write!(f, " {}", quoted(&argument.to_string_lossy()))?;
        }
        Ok(())
    }
}

/// A word as a POSIX shell reads it back.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_a_shell_would_take_it() {
        let shown = Invocation::new("run").arg("a b").arg("it's").env("K", "v w").to_string();
        assert_eq!(shown, r"K='v w' run 'a b' 'it'\''s'");
    }
}
