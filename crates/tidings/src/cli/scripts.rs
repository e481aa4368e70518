//! Commands of those who write scripts. Each is there twice: as `tidings project COMMAND`, and as `tidings COMMAND`, which
//! is what authors of mcp-bash projects are used to.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub(crate) enum ScriptCommand {
    /// Begin a tool, a prompt, a resource, a completion or a page in a folder of scripts. Nothing is overwritten.
    #[command(
        after_help = "Examples:\n  tidings project scaffold tool hello\n  tidings project scaffold prompt review --project ./my-scripts"
    )]
    Scaffold {
        /// What to begin.
        #[arg(value_enum)]
        kind: ScaffoldKind,
        /// Its name: letters, digits, _ and -.
        name: String,
        /// The folder [default: $MCPBASH_PROJECT_ROOT, else the current one].
        #[arg(long, value_name = "DIR")]
        project: Option<PathBuf>,
    },
    /// Say what is wrong with a folder of scripts, where, and what to do. Nothing of it is run.
    #[command(after_help = "Example:\n  tidings project validate ./my-scripts --json")]
    Validate {
        /// The folder [default: $MCPBASH_PROJECT_ROOT, else the current one].
        dir: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run one tool of a folder of scripts, as a client would have it run.
    #[command(
        after_help = "Examples:\n  tidings project run-tool hello --args '{\"name\": \"Ann\"}'\n  tidings project run-tool hello --args @arguments.json --project ./my-scripts --json\n  tidings project run-tool hello --dry-run --print-env"
    )]
    RunTool {
        /// The tool's name.
        name: String,
        /// Its arguments: a JSON object, or @FILE.
        #[arg(long, value_name = "JSON")]
        args: Option<String>,
        /// The folder [default: $MCPBASH_PROJECT_ROOT, else the current one].
        #[arg(long, value_name = "DIR")]
        project: Option<PathBuf>,
        /// Say what would be run, and do not.
        #[arg(long)]
        dry_run: bool,
        /// Print the environment it would have, and do not run it.
        #[arg(long)]
        print_env: bool,
        /// How many seconds it may run [default: as the tool or the project say, else 30].
        #[arg(long, value_name = "S")]
        timeout: Option<f64>,
        /// Print the whole result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what a folder of scripts registers: how many of each kind, and the hash of what clients are shown.
    ///
    /// Nothing is cached: a running gateway sees a saved file at once, and `refresh` and `status` both look anew.
    #[command(after_help = "Example:\n  tidings project registry status ./my-scripts --json")]
    Registry {
        /// Either word; both read the folder again.
        #[arg(value_parser = ["status", "refresh"])]
        _what: String,
        /// The folder [default: $MCPBASH_PROJECT_ROOT, else the current one].
        #[arg(long = "project-root", value_name = "DIR", conflicts_with = "dir")]
        root: Option<PathBuf>,
        /// The folder, as an argument in place of --project-root.
        dir: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print what a client needs to start a folder of scripts as a server.
    #[command(
        name = "config",
        after_help = "Examples:\n  tidings project config ./my-scripts --client cursor\n  tidings project config --json"
    )]
    ProjectConfig {
        /// The folder [default: $MCPBASH_PROJECT_ROOT, else the current one].
        #[arg(long = "project-root", value_name = "DIR", conflicts_with = "dir")]
        root: Option<PathBuf>,
        /// The folder, as an argument in place of --project-root.
        dir: Option<PathBuf>,
        /// Print it as the file of this client has it: claude-code, claude-desktop, cursor, vscode or windsurf.
        #[arg(long, value_name = "CLIENT")]
        client: Option<String>,
        /// Print JSON: name, command and arguments.
        #[arg(long)]
        json: bool,
    },
}

/// What can be begun.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum ScaffoldKind {
    /// A program that clients call.
    Tool,
    /// A text with gaps that clients fill in.
    Prompt,
    /// Something to read.
    Resource,
    /// Suggestions for the arguments of a prompt or a resource.
    Completion,
    /// A page for clients that show them: of the tool of that name if there is one.
    Ui,
}
