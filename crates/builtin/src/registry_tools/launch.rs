//! Running a command that no catalogue knows.

use serde_json::{Value, json};

use super::arguments::{ArgumentFault, ToolArguments};
use super::consent::literal;
use super::{RegistryToolSet, ToolProblem, ToolReply, change};
use crate::local::LocalRequest;

impl RegistryToolSet {
    pub(super) async fn launch(
        &self,
        request: &LocalRequest,
        arguments: &ToolArguments<'_>,
    ) -> Result<ToolReply, ToolProblem> {
        let command = arguments.text("command", "the program to run, such as \"npx\"")?;
        let prefix =
            change::prefix(arguments)?.ok_or(ArgumentFault::expected("prefix", "a word to name its tools by"))?;
        let (args, env) = (change::literals(&arguments.texts("args")?), change::literal_pairs(arguments.pairs("env")?));
        let env: serde_json::Map<String, Value> = env.into_iter().map(|(name, value)| (name, value.into())).collect();
        let server =
            json!({ "command": literal(command), "args": args, "env": env, "entry": format!("stdio-{prefix}") });
        self.put_new(request, prefix, server, command).await
    }
}
