//! Scripts of a project that run, through the real binary: `tidings project` and `tidings serve`, in both eras.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod endings;
mod run_tool;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use tidings_testkit::{Client, ClientBuilder, Gateway, TempDir, eventually, tidings};
use tidings_upstream::marked_processes;

/// A project in a folder that goes away with its test.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        let project = Self(TempDir::new());
        std::fs::create_dir(project.path("")).unwrap();
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join("project").join(name)
    }

    fn dir(&self) -> String {
        self.path("").to_string_lossy().trim_end_matches('/').to_owned()
    }

    fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// A tool in `sh`, with more members of its metadata.
    fn tool(&self, name: &str, more: Value, body: &str) -> &Self {
        let mut metadata = json!({ "name": name, "description": "A tool", "inputSchema": { "type": "object" } });
        let Value::Object(more) = more else { panic!("not an object: {more}") };
        metadata.as_object_mut().unwrap().extend(more);
        self.write(&format!("tools/{name}/tool.meta.json"), &metadata.to_string());
        self.write(&format!("tools/{name}/tool.sh"), &format!("#!/bin/sh\n{body}\n"))
    }

    /// A client of `tidings project`.
    fn stdio(&self) -> ClientBuilder {
        let data = self.0.join("data").to_string_lossy().into_owned();
        let args = ["project", &self.dir(), "--allow", "*", "--data", &data].map(str::to_owned);
        Client::stdio(tidings().to_string_lossy(), args.to_vec())
    }

    /// `tidings serve` with the project as its one server.
    async fn serve(&self) -> Gateway {
        let server =
            format!("[servers.scripts]\nproject = {:?}\nenv = {{ MCPBASH_TOOL_ALLOWLIST = \"*\" }}", self.dir());
        Gateway::builder().quick().toml(&server).serve().await
    }

    /// Clients of both eras, on stdio and over HTTP.
    async fn clients(&self, gateway: &Gateway) -> Vec<(&'static str, Client)> {
        vec![
            ("legacy stdio", self.stdio().connect().await),
            ("modern stdio", self.stdio().modern().connect().await),
            ("legacy HTTP", gateway.client().connect().await),
            ("modern HTTP", gateway.client().modern().connect().await),
        ]
    }
}

/// The processes that scripts of a gateway started and that still live.
fn scripts_of(gateway: u32) -> Vec<marked_processes::MarkedProcess> {
    let stem = format!("{gateway}-");
    marked_processes::marked(|mark| mark.starts_with(&stem))
}

async fn wait_no_scripts(gateway: u32) {
    eventually("the end of all scripts", || scripts_of(gateway).is_empty().then_some(())).await;
}

async fn wait_scripts(gateway: u32, count: usize) {
    eventually("scripts that run", || (scripts_of(gateway).len() >= count).then_some(())).await;
}
