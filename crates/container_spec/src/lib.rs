//! What is to be run in a container, and what it may reach and use there: the configuration says it, a link runs it.

use std::fmt;
use std::path::PathBuf;

/// An image and the bounds around it.
#[derive(Clone, PartialEq, Eq)]
pub struct ContainerSpec {
    /// The image, with its tag or digest; pulled when the machine does not have it.
    pub image: String,
    /// What runs it; found when absent.
    pub runtime: Option<ContainerRuntime>,
    /// Set in the container. Handed over in a file that only we can read, never on a command line.
    pub env: Vec<(String, String)>,
    /// Arguments after the image.
    pub args: Vec<String>,
    /// What the container can reach; by default nothing.
    pub network: ContainerNetwork,
    /// Bytes of memory; `None` is no limit.
    pub memory: Option<u64>,
    /// Thousandths of a processor; `None` is no limit.
    pub milli_cpus: Option<u32>,
    /// Processes; `None` is no limit.
    pub pids: Option<u32>,
    /// Whether the root file system can not be written to; `/tmp` always can.
    pub read_only: bool,
    /// What it sees of this machine.
    pub volumes: Vec<ContainerVolume>,
    /// Who runs its command, when not as the image says.
    pub user: Option<String>,
    /// Arguments of the runtime before its command.
    pub runtime_args: Vec<String>,
    /// Arguments of `run`, after all others, so that they win.
    pub run_args: Vec<String>,
}

impl ContainerSpec {
    /// An image in the tightest bounds: no network, no volumes, nothing that can be written to but `/tmp`, 1 GiB of memory,
    /// one processor, 256 processes.
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            image: image.into(),
            runtime: None,
            env: Vec::new(),
            args: Vec::new(),
            network: ContainerNetwork::None,
            memory: Some(1 << 30),
            milli_cpus: Some(1000),
            pids: Some(256),
            read_only: true,
            volumes: Vec::new(),
            user: None,
            runtime_args: Vec::new(),
            run_args: Vec::new(),
        }
    }
}

impl fmt::Debug for ContainerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values of variables are secrets.
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ContainerSpec")
            .field("image", &self.image)
            .field("runtime", &self.runtime)
            .field("env", &names)
            .field("args", &self.args)
            .field("network", &self.network)
            .field("memory", &self.memory)
            .field("milli_cpus", &self.milli_cpus)
            .field("pids", &self.pids)
            .field("read_only", &self.read_only)
            .field("volumes", &self.volumes)
            .field("user", &self.user)
            .field("runtime_args", &self.runtime_args)
            .field("run_args", &self.run_args)
            .finish()
    }
}

/// The program that runs containers. Where none is named: the first that is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerRuntime {
    /// `podman`, which needs no daemon.
    Podman,
    /// `docker`, or whatever answers to that name.
    Docker,
}

impl ContainerRuntime {
    /// The program to run, as it is looked for in `PATH`.
    pub fn program(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

/// What a container reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContainerNetwork {
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
pub struct ContainerVolume {
    /// A path of this machine, or a volume that the runtime keeps.
    pub source: VolumeSource,
    /// Where the container sees it.
    pub target: String,
    /// Options such as `ro`, separated by commas.
    pub options: Option<String>,
}

/// What a mount is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    /// A file or folder; it has to be there.
    Path(PathBuf),
    /// A volume that the runtime keeps.
    Named(String),
}
