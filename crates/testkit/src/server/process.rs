//! What a scripted server on stdio knows of the processes that were started to reach it.

use serde_json::Value;

/// A process that was started to reach a server.
#[derive(Clone, Debug)]
pub struct ScriptedProcess {
    /// The number of its connection.
    pub connection: usize,
    /// Its process id.
    pub pid: u32,
    /// Its arguments behind the socket's path.
    pub args: Vec<String>,
    /// Its working directory.
    pub cwd: String,
    /// Its environment.
    pub env: Value,
    /// Whether it is still there.
    pub alive: bool,
}

impl ScriptedProcess {
    /// Reads the first line that the relay sends: what it was started with.
    pub(super) fn from_hello(connection: usize, hello: &str) -> Self {
        let hello: Value = serde_json::from_str(hello).unwrap_or_default();
        let args = hello["args"].as_array().cloned().unwrap_or_default();
        Self {
            connection,
            pid: hello["pid"].as_u64().and_then(|pid| pid.try_into().ok()).unwrap_or_default(),
            args: args.iter().map(|arg| arg.as_str().unwrap_or_default().to_owned()).collect(),
            cwd: hello["cwd"].as_str().unwrap_or_default().to_owned(),
            env: hello["env"].clone(),
            alive: true,
        }
    }
}
