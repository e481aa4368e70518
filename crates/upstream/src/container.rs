//! A server in a container: a child process that is the command line of podman or docker, with what it started removed when
//! it ends.
//!
//! Three things hold. The container is gone when the link is closed: its input is closed, then it is asked to end, then it
//! is removed by force, each with a deadline. The container is gone when the gateway is killed: the watchdog removes it. And
//! what is left all the same (both were killed, the machine lost power) is removed when a gateway starts again
//! ([`ContainerStarter::sweep`]).

mod arguments;
mod image;
mod lease;
mod orphans;
mod remedy;
mod tool;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use tidings_container_spec::{ContainerSpec, VolumeSource};
use tidings_sync::Lock;
use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;

use crate::LinkError;
use crate::environment::InheritEnv;
use crate::link::MessageSink;
use crate::spec::StdioSpec;
use crate::stdio::process::ProcessLauncher;
use crate::stdio::{ProcessEpilogue, StdioLink};
use arguments::ContainerIdentity;
use lease::{ContainerLeases, EnvFile, LeaseHold};
use tool::RuntimeTool;

pub use image::PullProgress;

/// How many reports wait for who follows them; whoever is slower misses the oldest, and loses nothing but news.
const REPORTS: usize = 64;
/// How long the part of a container's name is that comes from its server.
const NAME: usize = 40;

/// Starts servers in containers, and sees to it that none outlives the gateway.
pub(crate) struct ContainerStarter {
    launcher: Arc<ProcessLauncher>,
    leases: Arc<ContainerLeases>,
    pulls: broadcast::Sender<PullProgress>,
    /// One download of an image at a time.
    images: Lock<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Removes what killed processes left.
    sweeping: Lock<Option<AbortOnDropHandle<()>>>,
}

impl ContainerStarter {
    /// `home` is a folder that outlives the process; made when it is needed.
    pub(crate) fn new(launcher: Arc<ProcessLauncher>, home: PathBuf) -> Self {
        Self {
            launcher,
            leases: ContainerLeases::new(home),
            pulls: broadcast::Sender::new(REPORTS),
            images: Lock::default(),
            sweeping: Lock::default(),
        }
    }

    pub(crate) fn pulls(&self) -> broadcast::Receiver<PullProgress> {
        self.pulls.subscribe()
    }

    /// Removes what other processes left with the same home that are not alive any more.
    pub(crate) async fn sweep(&self) {
        orphans::sweep(self.leases.home()).await;
    }

    /// The same in a task of its own, which ends with this.
    pub(crate) fn sweep_beside(&self) {
        let home = self.leases.home().to_owned();
        let sweeping = tokio::spawn(async move { orphans::sweep(&home).await });
        *self.sweeping.lock() = Some(AbortOnDropHandle::new(sweeping));
    }

    /// Gets the image if it is not there.
    pub(crate) async fn prepare(&self, server: &str, spec: &ContainerSpec) -> Result<(), LinkError> {
        self.ensure_image(&RuntimeTool::find(spec)?, server, &spec.image).await
    }

    /// Starts a container. Its image is got first if it is not there.
    pub(crate) async fn open(
        &self,
        server: &str,
        spec: &ContainerSpec,
        sink: Arc<dyn MessageSink>,
    ) -> Result<ContainerLink, LinkError> {
        let tool = RuntimeTool::find(spec)?;
        let program = format!("{} run {}", tool.program(), spec.image);
        let fail = |reason: String| LinkError::Spawn { program: program.clone(), reason };
        // Docker makes folders that are missing, owned by root: better refused than found later.
        check_mounts(spec).map_err(&fail)?;
        self.ensure_image(&tool, server, &spec.image).await?;
        let beside = |error: std::io::Error| fail(format!("{}: {error}", self.leases.home().display()));
        let hold = self.leases.hold().map_err(beside)?;
        let lease = hold.lease();
        // Before the container is started: if we die in between, whoever cleans up must know where to look.
        lease.note(&tool).map_err(beside)?;
        let number = lease.number();
        // In a file and not on the command line, which every user of the machine can read.
        let env_file = lease.env_file(number, &spec.env).map_err(beside)?;
        let name = container_name(server, lease.id(), number);
        let identity = ContainerIdentity { name: &name, run: lease.id(), server };
        let mut args = arguments::run(spec, &identity, env_file.as_ref().map(EnvFile::path));
        if tool.program().ends_with("podman") {
            // It would copy the proxies of the gateway, with their passwords, into every container. After `run`.
            args.insert(spec.runtime_args.len() + 1, "--http-proxy=false".to_owned());
        }
        // The runtime's own program, which finds its daemon by variables; the container sees none of them.
        let inherit_env = InheritEnv::All;
        let stdio =
            StdioSpec { program: tool.program().into(), args, env: Vec::new(), cwd: None, inherit_env, sandbox: None };
        let removal = std::iter::once(tool.program().to_owned()).chain(tool.removal(&[&name])).collect();
        let contained = Arc::new(ContainerEpilogue {
            program,
            tool,
            name,
            removal,
            memory: spec.memory,
            launcher: Arc::clone(&self.launcher),
            hold,
            runs: AtomicBool::new(false),
        });
        // Before it is: from here on it may exist, whatever happens to us.
        contained.hold.started();
        self.launcher.at_death(&contained.removal);
        let epilogue = Arc::clone(&contained) as Arc<dyn ProcessEpilogue>;
        let link = StdioLink::spawn(&self.launcher, server, &stdio, Some(epilogue), sink).await;
        match link {
            Ok(link) => Ok(ContainerLink { link, contained, _env_file: env_file }),
            Err(error) => {
                contained.forget();
                Err(error)
            }
        }
    }

    async fn ensure_image(&self, tool: &RuntimeTool, server: &str, image: &str) -> Result<(), LinkError> {
        if image::is_here(tool, image).await {
            return Ok(());
        }
        let one = {
            let mut images = self.images.lock();
            // Entries stay; there are as many as images in the configuration.
            Arc::clone(images.entry(image.to_owned()).or_default())
        };
        // Servers of the same image wait for one pull instead of starting several.
        let _turn = one.lock().await;
        // Somebody else may have got it in the meantime.
        if image::is_here(tool, image).await {
            return Ok(());
        }
        let report = |progress: PullProgress| {
            let (line, layers, done) = (&progress.line, progress.layers, progress.done);
            tracing::info!(server, image, layers, done, "{line}");
            // Nobody may be listening.
            let _ = self.pulls.send(progress);
        };
        image::pull(&self.launcher, tool, server, image, &report).await
    }
}

/// Docker would make what is missing, as root.
fn check_mounts(spec: &ContainerSpec) -> Result<(), String> {
    for mount in &spec.volumes {
        if let VolumeSource::Path(path) = &mount.source
            && !path.exists()
        {
            return Err(format!("{} of `volumes` is not there; make it first", path.display()));
        }
    }
    Ok(())
}

/// Docker minds that a container is gone already, and so does podman under its name.
fn is_gone(words: &str) -> bool {
    words.to_ascii_lowercase().contains("no such container")
}

/// Begins so that people see whose it is, and is unlike all others.
fn container_name(server: &str, run: &str, number: u64) -> String {
    // What podman and docker allow in names.
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
    let server: String = server.chars().take(NAME).map(allowed).collect();
    format!("tidings-{server}-{}-{number}", &run[..run.len().min(8)])
}

/// A container being introduced.
pub(crate) struct ContainerLink {
    pub(crate) link: Arc<StdioLink>,
    contained: Arc<ContainerEpilogue>,
    /// Read when the container was started; gone as soon as the server has introduced itself, or failed to.
    _env_file: Option<EnvFile>,
}

impl ContainerLink {
    /// From now on an exit code is the server's own.
    pub(crate) fn settle(&self) {
        self.contained.runs.store(true, Ordering::Relaxed);
    }
}

/// What has to be done when the process is over.
struct ContainerEpilogue {
    program: String,
    tool: RuntimeTool,
    name: String,
    removal: Vec<String>,
    memory: Option<u64>,
    launcher: Arc<ProcessLauncher>,
    hold: LeaseHold,
    runs: AtomicBool,
}

impl ContainerEpilogue {
    fn forget(&self) {
        // First the watchdog and then the lease: until both know, one of them would still remove it.
        self.launcher.not_at_death(&self.removal);
        self.hold.removed();
    }

    /// The runtime's own exit codes: it failed, the command could not be run, the command was not found.
    fn is_own_failure(&self, code: Option<i32>) -> bool {
        // The codes by which podman and docker tell of their own failures. A server that was up may end with the
        // same.
        matches!(code, Some(125..=127)) && !self.runs.load(Ordering::Relaxed)
    }
}

impl ProcessEpilogue for ContainerEpilogue {
    fn explain(&self, error: LinkError, code: Option<i32>) -> LinkError {
        let LinkError::Exited { status, last_words } = error else { return error };
        let words = last_words.clone().unwrap_or_default();
        if self.is_own_failure(code) {
            let reason = remedy::of_runtime(&words).unwrap_or("the runtime refused").to_owned();
            let failed = LinkError::Spawn { program: self.program.clone(), reason };
            return failed.with_words(last_words);
        }
        // What a kill looks like from outside.
        let killed = (code == Some(137) && self.memory.is_some())
            .then_some("it was killed, perhaps because it used more than its `memory`");
        match remedy::of_server(&words).or(killed) {
            Some(remedy) if words.is_empty() => LinkError::Exited { status, last_words: Some(remedy.into()) },
            Some(remedy) => LinkError::Exited { status, last_words: Some(format!("{words}; {remedy}")) },
            None => LinkError::Exited { status, last_words },
        }
    }

    fn clean_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            match self.tool.remove(&[&self.name]).await {
                // `--rm` may have been faster.
                Ok(ended) if ended.status.success() || is_gone(&ended.stderr) => self.forget(),
                Ok(ended) => tracing::warn!(container = self.name, error = ended.stderr, "not removed yet"),
                Err(error) => tracing::warn!(container = self.name, %error, "not removed yet"),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tidings_container_spec::ContainerVolume;

    use super::*;

    #[test]
    fn names_hold_only_what_runtimes_allow() {
        assert_eq!(container_name("My clock/é", "0123456789abcdef", 3), "tidings-My-clock---01234567-3");
        assert!(container_name(&"x".repeat(500), "0123456789abcdef", 1).len() < 70);
    }

    #[test]
    fn a_missing_folder_is_named_before_anything_starts() {
        let mount = |source| ContainerVolume { source, target: "/x".into(), options: None };
        let spec = ContainerSpec {
            volumes: vec![mount(VolumeSource::Named("v".into())), mount(VolumeSource::Path("/no/such/folder".into()))],
            ..ContainerSpec::new("i")
        };
        assert!(check_mounts(&spec).is_err_and(|text| text.contains("/no/such/folder")));
    }
}
