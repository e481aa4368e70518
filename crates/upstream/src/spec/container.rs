//! What is to be run in a container, and what it may reach and use there.

use std::path::PathBuf;

/// An image and the bounds around it.
#[derive(Clone, PartialEq, Eq)]
pub struct ContainerSpec {
    /// The image, with its tag or digest.
    pub image: String,
    /// What runs it; found when absent.
    pub runtime: Option<Runtime>,
    /// Set in the container. Handed over in a file that only we can read, never on a command line.
    pub env: Vec<(String, String)>,
    /// Arguments after the image.
    pub args: Vec<String>,
    /// Which network the container is in.
    pub network: Network,
    /// Bytes of memory; `None` is no limit.
    pub memory: Option<u64>,
    /// Thousandths of a processor; `None` is no limit.
    pub milli_cpus: Option<u32>,
    /// Processes; `None` is no limit.
    pub pids: Option<u32>,
    /// Whether the root file system can not be written to; `/tmp` always can.
    pub read_only: bool,
    /// What it sees of this machine.
    pub mounts: Vec<Mount>,
    /// Who runs its command, when not as the image says.
    pub user: Option<String>,
    /// Arguments of the runtime before its command.
    pub runtime_args: Vec<String>,
    /// Arguments of `run`, after all others, so that they win.
    pub run_args: Vec<String>,
}

impl ContainerSpec {
    /// An image in the tightest bounds: no network, no mounts, nothing that can be written to but `/tmp`, 1 GiB of memory,
    /// one processor, 256 processes.
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            image: image.into(),
            runtime: None,
            env: Vec::new(),
            args: Vec::new(),
            network: Network::None,
            memory: Some(1 << 30),
            milli_cpus: Some(1000),
            pids: Some(256),
            read_only: true,
            mounts: Vec::new(),
            user: None,
            runtime_args: Vec::new(),
            run_args: Vec::new(),
        }
    }
}

impl std::fmt::Debug for ContainerSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ContainerSpec")
            .field("image", &self.image)
            .field("runtime", &self.runtime)
            .field("env", &names)
            .field("args", &self.args)
            .finish_non_exhaustive()
    }
}

/// The program that runs containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// `podman`, which needs no daemon.
    Podman,
    /// `docker`, or whatever answers to that name.
    Docker,
}

impl Runtime {
    /// The name of the program, looked for in `PATH`.
    pub fn program(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

/// What a container reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// No network at all but its own loopback.
    #[default]
    None,
    /// What the runtime gives to containers.
    Default,
    /// A network of this name.
    Named(String),
}

/// A part of this machine that a container sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// A path of this machine, or a volume that the runtime keeps.
    pub source: MountSource,
    /// Where the container sees it.
    pub target: String,
    /// Options such as `ro`, separated by commas.
    pub options: Option<String>,
}

/// What a mount is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// A file or folder; it has to be there.
    Path(PathBuf),
    /// A volume that the runtime keeps.
    Named(String),
}
