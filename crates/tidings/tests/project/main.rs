//! Script projects through the real binary: `tidings project` on stdio and `tidings serve` over HTTP, in both eras.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod announced;
mod listed;
mod run;
mod seed;
mod validated;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::json;
use tidings_testkit::{Client, ClientBuilder, Gateway, KINDS, ListFollower, TempDir, tidings, told};

const QUICK: &str = "[notifications]\nlist_quiet = \"20ms\"\nlist_max_wait = \"200ms\"\n";

/// A project in a folder that goes away with its test.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        let project = Self(TempDir::new());
        for folder in ["tools", "resources", "prompts", "server.d"] {
            std::fs::create_dir_all(project.path(folder)).unwrap();
        }
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join("project").join(name)
    }

    /// Writes beside and renames, as editors do.
    fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let beside = self.0.join("being-written");
        std::fs::write(&beside, text).unwrap();
        let mode = if name.ends_with(".sh") { 0o755 } else { 0o644 };
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(mode)).unwrap();
        std::fs::rename(beside, path).unwrap();
        self
    }

    /// A tool of this name.
    fn tool(&self, name: &str) -> &Self {
        let metadata =
            json!({ "name": name, "description": format!("Does {name}"), "inputSchema": {"type": "object"} });
        self.write(&format!("tools/{name}/tool.meta.json"), &metadata.to_string());
        self.write(&format!("tools/{name}/tool.sh"), "#!/usr/bin/env bash\necho done\n")
    }

    fn remove(&self, name: &str) {
        std::fs::remove_dir_all(self.path(name)).unwrap();
    }

    fn dir(&self) -> String {
        self.path("").to_string_lossy().trim_end_matches('/').to_owned()
    }

    /// A client of `tidings project`, to be described further.
    fn stdio(&self) -> ClientBuilder {
        let config = self.0.write("quick.toml", QUICK);
        let mut args = vec!["project".to_owned(), self.dir()];
        args.extend(["--config".to_owned(), config.to_string_lossy().into_owned()]);
        args.extend(["--data".to_owned(), self.0.join("data").to_string_lossy().into_owned()]);
        Client::stdio(tidings().to_string_lossy(), args).env("MCPBASH_TOOL_ALLOWLIST", "*")
    }

    /// `tidings serve` with the project as its one server.
    async fn serve(&self) -> Gateway {
        self.serve_with("MCPBASH_TOOL_ALLOWLIST = \"*\"").await
    }

    /// The same, with these variables.
    async fn serve_with(&self, env: &str) -> Gateway {
        let server = format!("[servers.scripts]\nproject = {:?}\nenv = {{ {env} }}", self.dir());
        Gateway::builder().quick().toml(&server).serve().await
    }

    /// Clients of both eras, on stdio and over HTTP, all settled.
    async fn followers(&self, gateway: &Gateway) -> Vec<ListFollower> {
        vec![
            ListFollower::begin(self.stdio().connect().await).await,
            ListFollower::begin(self.stdio().modern().connect().await).await,
            ListFollower::begin(gateway.client().connect().await).await,
            ListFollower::begin(gateway.client().modern().connect().await).await,
        ]
    }
}
