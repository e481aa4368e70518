//! What authors of script projects rely on: the shell helpers, the JSON tool, scaffolds, examples, the demo, and every
//! convention of the projects that are there already.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compat;
mod demo;
mod examples;
mod hostile;
mod pages;
mod rust_sdk;
mod scaffold;
mod sdk;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tidings_testkit::{Client, ClientBuilder, TempDir, tidings};

/// A project in a folder that goes away with its test.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        Self(TempDir::new())
    }

    fn root(&self) -> PathBuf {
        self.0.join("project")
    }

    /// Writes a file; one that begins with `#!` can be run.
    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        let (path, text) = (self.root().join(name), text.as_ref());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        let mode = if text.starts_with(b"#!") { 0o755 } else { 0o644 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    /// A tool that runs this script of bash, with the helpers at hand.
    fn tool(&self, name: &str, script: &str) -> &Self {
        let script = format!("#!/usr/bin/env bash\n. \"$MCP_SDK/tool-sdk.sh\"\n{script}\n");
        self.write(&format!("tools/{name}/tool.sh"), script)
    }

    /// Metadata of a tool.
    fn about(&self, name: &str, metadata: &str) -> &Self {
        self.write(&format!("tools/{name}/tool.meta.json"), metadata)
    }

    /// `tidings project` for one client.
    fn stdio(&self) -> ClientBuilder {
        serve(&self.root(), &self.0)
    }

    async fn client(&self) -> Client {
        self.stdio().connect().await
    }
}

/// `tidings project DIR` for one client, with everything allowed and its state in a folder of the test.
fn serve(project: &Path, state: &TempDir) -> ClientBuilder {
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let args = ["project".into(), text(project), "--data".into(), text(&state.join("data"))];
    Client::stdio(tidings().to_string_lossy(), args.into()).env("MCPBASH_TOOL_ALLOWLIST", "*")
}
