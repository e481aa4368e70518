//! A real image registry on loopback.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Podman, find, missing};
use crate::tempdir::TempDir;

/// How long it may take to start.
const DEADLINE: Duration = Duration::from_secs(30);

/// The registry. Killed when dropped.
pub struct ImageRegistry {
    child: Child,
    address: String,
    _directory: TempDir,
}

impl ImageRegistry {
    /// Starts one that `podman` trusts; `None`, said loudly, when there is none on this machine.
    pub fn start(podman: &Podman) -> Option<Self> {
        let Some(program) = find("docker-registry") else {
            missing("docker-registry is not there");
            return None;
        };
        let directory = TempDir::new();
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.unwrap_or_else(|e| panic!("no free port: {e}")).to_string();
        let store = directory.join("store");
        let text = format!(
            "version: 0.1\nlog: {{ level: error }}\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\n\
             http: {{ addr: '{address}' }}\n",
            store.display()
        );
        let config = directory.write("registry.yml", text);
        let mut command = Command::new(program);
        command.arg("serve").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|e| panic!("starting docker-registry: {e}"));
        let registry = Self { child, address, _directory: directory };
        let since = Instant::now();
        while TcpStream::connect(&registry.address).is_err() {
            assert!(since.elapsed() < DEADLINE, "docker-registry does not listen at {}", registry.address);
            std::thread::sleep(Duration::from_millis(20));
        }
        podman.trust(&[&registry.address]);
        Some(registry)
    }

    /// The name of an image that it has, or would have.
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Puts an image of the store into it, and gives its name there. The store forgets that it had it.
    pub fn publish(&self, podman: &Podman, image: &str, name: &str) -> String {
        let there = self.image(name);
        podman.run(&["push", "--quiet", image, &there]);
        // Otherwise a later pull would find it in the store and fetch nothing.
        podman.run(&["rmi", "--force", image]);
        there
    }
}

impl Drop for ImageRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
