//! The command line of podman or docker, for everything but `run`.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::Command;

use crate::LinkError;
use crate::stdio::process::which;
use tidings_container_spec::{ContainerRuntime, ContainerSpec};

/// How long a command may take that looks something up or removes something.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// How much of what it prints is kept.
const KEPT: usize = 64 << 10;

/// A runtime that is there, with the arguments that stand before each of its commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuntimeTool {
    pub(super) runtime: ContainerRuntime,
    pub(super) args: Vec<String>,
}

/// How a command ended.
pub(super) struct CommandEnd {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Why a command has no end to speak of.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnfinishedCommand {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Late,
}

impl RuntimeTool {
    /// The runtime that is asked for, else the first that is there.
    pub(super) fn find(spec: &ContainerSpec) -> Result<Self, LinkError> {
        let choices =
            // Podman first: it needs no daemon and no rights beyond the user's.
            spec.runtime.map_or_else(|| vec![ContainerRuntime::Podman, ContainerRuntime::Docker], |one| vec![one]);
        let found = choices.iter().find(|runtime| which(runtime.program(), None).is_some());
        found.map(|runtime| Self { runtime: *runtime, args: spec.runtime_args.clone() }).ok_or_else(|| {
            let (program, reason) = match spec.runtime {
                Some(runtime) => {
                    (runtime.program(), "command not found; install it, or remove `runtime` to use what is there")
                }
                None => (
                    "a container",
                    "neither podman nor docker is on the PATH; install one, for example with: apt-get install podman",
                ),
            };
            LinkError::Spawn { program: program.into(), reason: reason.into() }
        })
    }

    pub(super) fn program(&self) -> &'static str {
        self.runtime.program()
    }

    /// The words that remove containers, whatever state they are in, and that do not mind if they are gone.
    pub(super) fn removal(&self, names: &[&str]) -> Vec<String> {
        let words: &[&str] = match self.runtime {
            // It was asked to end before; by force means at once.
            ContainerRuntime::Podman => &["rm", "--force", "--ignore", "--volumes", "--time=0"],
            ContainerRuntime::Docker => &["rm", "--force", "--volumes"],
        };
        let own = self.args.iter().cloned();
        own.chain(words.iter().chain(names).map(|word| (*word).to_owned())).collect()
    }

    /// A command with nothing on its input, killed when nobody waits for it any more.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.program());
        command.args(&self.args).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Runs podman or docker with these words, and gives what it printed and how it ended.
    pub(super) async fn run(&self, words: &[&str]) -> Result<CommandEnd, UnfinishedCommand> {
        finish(self.command(words)).await
    }

    /// Removes containers by force, in whatever state they are; those that are gone do no harm.
    pub(super) async fn remove(&self, names: &[&str]) -> Result<CommandEnd, UnfinishedCommand> {
        let mut command = Command::new(self.program());
        command.args(self.removal(names));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        finish(command).await
    }
}

async fn finish(mut command: Command) -> Result<CommandEnd, UnfinishedCommand> {
    let output = tokio::time::timeout(PATIENCE, command.output()).await.map_err(|_| UnfinishedCommand::Late)??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(KEPT)]).trim().to_owned();
    Ok(CommandEnd { status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr) })
}
