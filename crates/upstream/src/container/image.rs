//! Getting an image, with a report of how far it is.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, BufReader};

use super::remedy;
use super::tool::RuntimeTool;
use crate::LinkError;
use crate::stdio::lines::BoundedLines;
use crate::stdio::process::ProcessLauncher;
use tidings_container_spec::ContainerRuntime;

/// How long a download may be silent. Runtimes print nothing while they fetch one large layer.
const SILENCE: Duration = Duration::from_secs(15 * 60);
const LINE: usize = 1 << 10;
/// How many lines are kept for the error.
const LAST_WORDS: usize = 4;

/// How far the download of an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullProgress {
    /// The server that needs it.
    pub server: String,
    /// The image that is being pulled.
    pub image: String,
    /// What the runtime says.
    pub line: String,
    /// How many layers have been seen so far; more may follow.
    pub layers: u32,
    /// How many of them are here.
    pub done: u32,
}

/// Whether the image is on this machine. A runtime that can not tell will say why when it is asked to get it.
pub(super) async fn is_here(tool: &RuntimeTool, image: &str) -> bool {
    let asked = tool.run(&["image", "inspect", "--format", "{{.Id}}", image]).await;
    // A runtime that fails here fails at the pull too, and says why there.
    asked.is_ok_and(|ended| ended.status.success())
}

/// Gets the image. `report` is told of each line that the runtime prints.
pub(super) async fn pull(
    launcher: &Arc<ProcessLauncher>,
    tool: &RuntimeTool,
    server: &str,
    image: &str,
    report: &(dyn Fn(PullProgress) + Send + Sync),
) -> Result<(), LinkError> {
    let fail = |reason: String| LinkError::Spawn { program: format!("{} pull {image}", tool.program()), reason };
    let mut command = tool.command(&["pull", image]);
    // A group of its own, so that the guard ends also what the runtime has started.
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| fail(error.to_string()))?;
    // Whoever gives up, or is killed, leaves no download behind.
    let _guard = launcher.guard(&child);
    let mut layers = LayerCount::new(tool.runtime);
    let mut words = std::collections::VecDeque::new();
    let mut heard = |line: String| {
        layers.hear(&line);
        if words.len() == LAST_WORDS {
            words.pop_front();
        }
        words.push_back(line.clone());
        let (layers, done) = layers.counts();
        report(PullProgress { server: server.to_owned(), image: image.to_owned(), line, layers, done });
    };
    let mut stdout = child.stdout.take().map(lines);
    let mut stderr = child.stderr.take().map(lines);
    while stdout.is_some() || stderr.is_some() {
        let line = tokio::select! {
            line = next(&mut stdout), if stdout.is_some() => line,
            line = next(&mut stderr), if stderr.is_some() => line,
            () = tokio::time::sleep(SILENCE) => {
                return Err(fail(format!("nothing came for {} min", SILENCE.as_secs() / 60)));
            }
        };
        if let Some(line) = line {
            heard(line);
        }
    }
    // Both pipes are closed, but the process may still unpack the last layer.
    let status = tokio::time::timeout(SILENCE, child.wait()).await.ok().and_then(Result::ok);
    if status.is_some_and(|status| status.success()) {
        return Ok(());
    }
    // What it tried before its last words says the same.
    // `error` or `Error`: runtimes print progress to the same pipe.
    let error = words.iter().rev().find(|line| line.contains("rror")).or(words.back()).cloned();
    Err(fail(remedy::with_remedy(error.as_deref().unwrap_or("it failed without a word"))))
}

fn lines<R: AsyncRead + Unpin>(reader: R) -> BoundedLines<BufReader<R>> {
    BoundedLines::new(BufReader::new(reader), LINE)
}

/// The next line; at the end the reader is taken away.
async fn next<R: AsyncRead + Unpin>(lines: &mut Option<BoundedLines<BufReader<R>>>) -> Option<String> {
    let line = match lines {
        Some(reader) => reader.next().await,
        None => None,
    };
    if line.is_none() {
        *lines = None;
    }
    line
}

/// Counts layers by what a runtime prints where there is no terminal.
struct LayerCount {
    runtime: ContainerRuntime,
    seen: HashSet<String>,
    done: HashSet<String>,
}

impl LayerCount {
    /// More than any image has.
    const MOST: usize = 1_000;

    fn new(runtime: ContainerRuntime) -> Self {
        Self { runtime, seen: HashSet::new(), done: HashSet::new() }
    }

    fn hear(&mut self, line: &str) {
        match self.runtime {
            ContainerRuntime::Podman => self.hear_podman(line),
            ContainerRuntime::Docker => self.hear_docker(line),
        }
    }

    /// It names each blob when it begins with it, and comes to the configuration after the last.
    fn hear_podman(&mut self, line: &str) {
        if line.starts_with("Copying config") {
            self.done.clone_from(&self.seen);
        } else if let Some(rest) = line.strip_prefix("Copying blob ") {
            let (blob, state) = rest.split_once(' ').unwrap_or((rest, ""));
            self.see(blob);
            if state.contains("done") || state.contains("skipped") {
                self.done.insert(blob.to_owned());
            }
        }
    }

    fn hear_docker(&mut self, line: &str) {
        // Docker prints `<layer>: <state>`.
        let Some((layer, state)) = line.split_once(": ") else { return };
        match state {
            "Pulling fs layer" | "Waiting" | "Downloading" => self.see(layer),
            "Pull complete" | "Already exists" => {
                self.see(layer);
                self.done.insert(layer.to_owned());
            }
            _ => {}
        }
    }

    fn see(&mut self, layer: &str) {
        // The names come from the output of a program, so the set must have a bound.
        if self.seen.len() < Self::MOST {
            self.seen.insert(layer.to_owned());
        }
    }

    fn counts(&self) -> (u32, u32) {
        let count = |set: &HashSet<String>| u32::try_from(set.len()).unwrap_or(u32::MAX);
        (count(&self.seen), count(&self.done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(runtime: ContainerRuntime, lines: &[&str]) -> Vec<(u32, u32)> {
        let mut layers = LayerCount::new(runtime);
        let hear = |line: &&str| {
            layers.hear(line);
            layers.counts()
        };
        lines.iter().map(hear).collect()
    }

    #[test]
    fn layers_are_counted_as_podman_prints_them() {
        let lines = [
            "Trying to pull docker.io/library/alpine:3...",
            "Getting image source signatures",
            "Copying blob sha256:aa",
            "Copying blob sha256:bb",
            "Copying blob sha256:aa done   |",
            "Copying config sha256:cc",
            "Writing manifest to image destination",
        ];
        assert_eq!(heard(ContainerRuntime::Podman, &lines), [(0, 0), (0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (2, 2)]);
    }

    #[test]
    fn layers_are_counted_as_docker_prints_them() {
        let lines = [
            "3: Pulling from library/alpine",
            "aa: Pulling fs layer",
            "bb: Already exists",
            "aa: Verifying Checksum",
            "aa: Download complete",
            "aa: Pull complete",
            "Digest: sha256:cc",
        ];
        assert_eq!(heard(ContainerRuntime::Docker, &lines), [(0, 0), (1, 0), (2, 1), (2, 1), (2, 1), (2, 2), (2, 2)]);
    }
}
