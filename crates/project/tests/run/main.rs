//! Scripts as real processes: what they are given, what they give, and that nothing of them is left.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arguments;
mod endings;
mod hostile;
mod others;
mod speaking;

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidings_project::run::{ScriptCaller, ScriptKit, ScriptRunner};
use tidings_project::{GivenEnvironment, ProjectHome, ProjectTool, ToolTimeouts};
use tidings_testkit::TempDir;
use tidings_upstream::{CallEvent, CallStream, ProcessLauncher, marked_processes};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A project in a folder of its own.
struct World {
    dir: TempDir,
    temporary: TempDir,
    runner: Arc<ScriptRunner>,
    launcher: Arc<ProcessLauncher>,
}

impl World {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(variables: &[(&str, &str)]) -> Self {
        let (dir, temporary) = (TempDir::new(), TempDir::new());
        let own: [(OsString, OsString); 3] = [
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
            ("TMPDIR".into(), temporary.path().into()),
            ("MCPBASH_TOOL_ALLOWLIST".into(), "*".into()),
        ];
        let given = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let home = ProjectHome::open(dir.path(), GivenEnvironment::new(own.into_iter().chain(given))).unwrap();
        let launcher = ProcessLauncher::new(None);
        let runner = ScriptRunner::new(Arc::new(home), Arc::clone(&launcher), &ScriptKit::default());
        Self { dir, temporary, runner, launcher }
    }

    /// An executable file of the project.
    fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, body).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A tool in `sh`.
    fn tool(&self, body: &str) -> ProjectTool {
        let script = self.script("tools/it/tool.sh", &format!("#!/bin/sh\n{body}\n"));
        ProjectTool {
            name: "it".into(),
            script,
            definition: json!({ "name": "it", "inputSchema": { "type": "object" } }),
            metadata: json!({ "name": "it" }),
            timeouts: ToolTimeouts::default(),
        }
    }

    fn start(&self, tool: ProjectTool, params: Value) -> CallStream {
        self.runner.call_tool(17, Arc::new(tool), params, ScriptCaller::default())
    }

    /// Calls a tool in `sh` and gives the whole answer.
    async fn run(&self, body: &str) -> Value {
        answer(self.start(self.tool(body), json!({}))).await
    }

    /// The processes that scripts of this world started and that still live.
    fn processes(&self) -> Vec<marked_processes::MarkedProcess> {
        let stem = format!("{}.", self.launcher.mark());
        marked_processes::marked(|mark| mark.starts_with(&stem))
    }

    /// Nothing is left: no process, no file. One folder may be ready for the next call.
    async fn assert_clean(&self) {
        let clean = async {
            while !self.processes().is_empty() || self.files() > 1 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let late = tokio::time::timeout(PATIENCE, clean).await.is_err();
        assert!(!late, "left behind: {:?}, {} files", self.processes(), self.files());
    }

    /// Files and folders of calls.
    fn files(&self) -> usize {
        let folders = std::fs::read_dir(self.temporary.path()).unwrap().flatten();
        folders.filter_map(|own| std::fs::read_dir(own.path()).ok()).map(Iterator::count).sum()
    }
}

/// The answer, whole.
async fn answer(stream: CallStream) -> Value {
    let (_, answer) = heard(stream).await;
    answer
}

/// What was said before the answer, and the answer.
async fn heard(mut stream: CallStream) -> (Vec<Value>, Value) {
    let mut messages = Vec::new();
    loop {
        match next(&mut stream).await {
            CallEvent::Message(frame) => messages.push(parsed(frame.bytes())),
            CallEvent::Response(frame) => return (messages, parsed(frame.bytes())),
            other => panic!("{other:?}"),
        }
    }
}

async fn next(stream: &mut CallStream) -> CallEvent {
    tokio::time::timeout(PATIENCE, stream.next()).await.expect("something comes")
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}

/// Waits for a file that a script makes.
async fn appears(path: &std::path::Path) -> String {
    let found = async {
        loop {
            match std::fs::read_to_string(path) {
                Ok(text) if text.ends_with('\n') => return text.trim_end().to_owned(),
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("the script writes its file")
}
