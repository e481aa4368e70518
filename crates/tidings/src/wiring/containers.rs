//! Servers in containers: from the configuration's words to those of the link.

use std::sync::Arc;

use tidings_config::{ContainerConfig, ContainerNetwork, ContainerRuntime, ContainerVolume, VolumeSource};
use tidings_upstream::{
    ContainerSpec, LinkConnector, LinkError, Mount, MountSource, Network, ProcessLauncher, Runtime,
};

use crate::data::DataDir;

/// A connector that remembers in the data directory what it would leave behind.
pub(super) fn connector(launcher: Arc<ProcessLauncher>, data: Option<&DataDir>) -> Result<LinkConnector, LinkError> {
    match data {
        // Who starts containers may do it from another folder the next time.
        Some(data) => {
            let home = data.path().join("containers");
            LinkConnector::with_home(launcher, std::path::absolute(&home).unwrap_or(home))
        }
        None => LinkConnector::new(launcher),
    }
}

/// Removes, beside everything else, what killed gateways left. It has deadlines of its own.
pub(super) fn sweep(connector: &LinkConnector) {
    connector.sweep_beside();
}

pub(super) fn spec(config: &ContainerConfig) -> ContainerSpec {
    ContainerSpec {
        image: config.image.clone(),
        runtime: config.runtime.map(|runtime| match runtime {
            ContainerRuntime::Podman => Runtime::Podman,
            ContainerRuntime::Docker => Runtime::Docker,
        }),
        env: config.env.clone(),
        args: config.args.clone(),
        network: match &config.network {
            ContainerNetwork::None => Network::None,
            ContainerNetwork::Default => Network::Default,
            ContainerNetwork::Named(name) => Network::Named(name.clone()),
        },
        memory: config.memory,
        milli_cpus: config.milli_cpus,
        pids: config.pids,
        read_only: config.read_only,
        mounts: config.volumes.iter().map(mount).collect(),
        user: config.user.clone(),
        runtime_args: config.runtime_args.clone(),
        run_args: config.run_args.clone(),
    }
}

fn mount(volume: &ContainerVolume) -> Mount {
    let source = match &volume.source {
        VolumeSource::Path(path) => MountSource::Path(path.clone()),
        VolumeSource::Named(name) => MountSource::Named(name.clone()),
    };
    Mount { source, target: volume.target.clone(), options: volume.options.clone() }
}
