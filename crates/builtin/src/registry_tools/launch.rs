//! Running a command that no catalogue knows.

use serde_json::{Value, json};

use super::arguments::{Arguments, Fault};
use super::{Problem, ToolReply, Tools, change};
use crate::local::Request;

impl Tools {
    pub(super) async fn launch(&self, request: &Request, arguments: &Arguments<'_>) -> Result<ToolReply, Problem> {
        let command = arguments.text("command", "the program to run, such as \"npx\"")?;
        let prefix = change::prefix(arguments)?.ok_or(Fault::expected("prefix", "a word to name its tools by"))?;
        let (args, env) = (arguments.texts("args")?, arguments.pairs("env")?);
        let env: serde_json::Map<String, Value> = env.into_iter().map(|(name, value)| (name, value.into())).collect();
        let server = json!({ "command": command, "args": args, "env": env, "entry": format!("stdio-{prefix}") });
        self.put_new(request, prefix, server, command).await
    }
}
