//! A server in a container, and what it may reach and use there.

use std::fmt;
use std::path::PathBuf;

use super::server::RedactedNames;

/// The keys that go with `container`. What is not asked for is not given: no network, no volumes, a root file system that can
/// not be written to, and limits.
#[derive(Clone, PartialEq, Eq)]
pub struct ContainerConfig {
    /// The image, with its tag or digest; pulled when the machine does not have it.
    pub image: String,
    /// What runs it; found when absent.
    pub runtime: Option<ContainerRuntime>,
    /// Variables to set in it.
    pub env: Vec<(String, String)>,
    /// Arguments after the image.
    pub args: Vec<String>,
    /// Which network the container is in.
    pub network: ContainerNetwork,
    /// How many bytes of memory it may use; `None` is no limit.
    pub memory: Option<u64>,
    /// How many thousandths of a processor it may use; `None` is no limit.
    pub milli_cpus: Option<u32>,
    /// How many processes it may have; `None` is no limit.
    pub pids: Option<u32>,
    /// Whether its root file system can not be written to.
    pub read_only: bool,
    /// What it sees of the machine.
    pub volumes: Vec<ContainerVolume>,
    /// Who runs its command, when not as the image says.
    pub user: Option<String>,
    /// Arguments of podman or docker before `run`.
    pub runtime_args: Vec<String>,
    /// Arguments of `run`, after our own.
    pub run_args: Vec<String>,
}

impl ContainerConfig {
    /// An image with every other setting at its default.
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

impl fmt::Debug for ContainerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container")
            .field("image", &self.image)
            .field("runtime", &self.runtime)
            .field("env", &RedactedNames(&self.env))
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

/// The program that runs containers. Absent in the file: the first that is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerRuntime {
    /// `podman`, which needs no daemon.
    Podman,
    /// `docker`, or whatever answers to that name.
    Docker,
}

/// What a container reaches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ContainerNetwork {
    /// No network at all but its own loopback.
    #[default]
    None,
    /// What the runtime gives to containers.
    Default,
    /// A network of this name.
    Named(String),
}

/// A part of the machine that a container sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerVolume {
    /// A path of this machine, or a volume that the runtime keeps.
    pub source: VolumeSource,
    /// Where the container sees it; absolute.
    pub target: String,
    /// Options such as `ro`, separated by commas.
    pub options: Option<String>,
}

/// What a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeSource {
    /// A file or folder of this machine.
    Path(PathBuf),
    /// A volume that the runtime keeps.
    Named(String),
}
