//! Servers in containers: contained, kept from prying eyes, and never left behind. With a real podman; without one the tests
//! say so and how to get it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bounds;
mod ends;
mod failures;
mod pulls;
mod runtime;

use tidings_testkit::*;

/// A gateway with one server in a container.
struct World {
    server: Server,
    gateway: Gateway,
    podman: Podman,
}

impl World {
    /// `None` when containers can not be run here.
    async fn new(server: ServerBuilder, keys: &str) -> Option<Self> {
        let podman = Podman::ready()?;
        let server = server.stdio().await;
        let config = Gateway::builder().quick().toml(&podman.toml("box", &server, keys));
        let gateway = podman.gateway(config).serve().await;
        Some(Self { server, gateway, podman })
    }

    /// The name of the only container.
    fn container(&self) -> String {
        let names = self.podman.containers();
        assert_eq!(names.len(), 1, "{names:?}");
        names[0].clone()
    }

    async fn wait_containers(&self, count: usize) -> Vec<String> {
        wait_containers(&self.podman, count).await
    }

    /// What the gateway keeps about containers in its data directory.
    fn notes(&self) -> Vec<String> {
        let folder = std::fs::read_dir(self.gateway.data().join("containers")).into_iter().flatten().flatten();
        folder.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

async fn wait_containers(podman: &Podman, count: usize) -> Vec<String> {
    eventually(&format!("{count} containers"), || Some(podman.containers()).filter(|all| all.len() == count)).await
}

fn echo() -> ServerBuilder {
    Server::builder("box").echo("echo")
}
