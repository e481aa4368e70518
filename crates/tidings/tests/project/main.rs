//! Script projects through the real binary: `tidings project` on stdio and `tidings serve` over HTTP, in both eras.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod announced;
mod listed;
mod run;
mod seed;
mod validated;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::json;
use tidings_testkit::{Client, ClientBuilder, Gateway, Pending, TempDir, is_modern, tidings};

const KINDS: [&str; 3] = ["tools", "prompts", "resources"];
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
    async fn followers(&self, gateway: &Gateway) -> Vec<Follower> {
        vec![
            Follower::begin(self.stdio().connect().await).await,
            Follower::begin(self.stdio().modern().connect().await).await,
            Follower::begin(gateway.client().connect().await).await,
            Follower::begin(gateway.client().modern().connect().await).await,
        ]
    }
}

fn method(kind: &str) -> String {
    format!("notifications/{kind}/list_changed")
}

/// How often a client was told of each kind.
fn told(client: &Client) -> BTreeMap<&'static str, usize> {
    KINDS.into_iter().map(|kind| (kind, client.count(&method(kind)))).filter(|(_, count)| *count > 0).collect()
}

/// A client that follows all lists, and what it should have been told so far.
struct Follower {
    client: Client,
    told: BTreeMap<&'static str, usize>,
    _stream: Option<Pending>,
}

impl Follower {
    async fn begin(client: Client) -> Self {
        if is_modern(&client.revision()) {
            let flags = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
            let mut listen = client.start("subscriptions/listen", json!({ "notifications": flags }));
            let acknowledged = listen.next_method("notifications/subscriptions/acknowledged").await;
            assert_eq!(acknowledged.params()["notifications"], flags);
            return Self { client, told: BTreeMap::new(), _stream: Some(listen) };
        }
        let mut follower = Self::quietly(client).await;
        follower.expect(&KINDS).await;
        follower
    }

    /// With its stream open, whatever comes.
    async fn quietly(client: Client) -> Self {
        let over_http = client.received().iter().all(|received| received.stream != "stdio");
        let stream = if over_http { Some(client.open_get().await) } else { None };
        Self { client, told: BTreeMap::new(), _stream: stream }
    }

    /// Waits for one more notice of each of these, and fails if there was any other.
    async fn expect(&mut self, kinds: &[&'static str]) {
        for kind in kinds {
            *self.told.entry(kind).or_default() += 1;
        }
        for kind in kinds {
            self.client.wait_for_method(&method(kind), self.told[kind]).await;
        }
        assert_eq!(told(&self.client), self.told, "{} {:?}", self.client.revision(), self.client.received());
    }
}
