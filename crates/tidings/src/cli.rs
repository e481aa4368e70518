//! What users type.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::commands::token;

/// One MCP endpoint in front of all your MCP servers.
#[derive(Parser, Debug)]
#[command(version, about, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Where Tidings keeps its state [default: $TIDINGS_DATA, else the XDG data directory].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The configuration [default: $TIDINGS_CONFIG, ./tidings.toml, ./.mcp.json, the user's config directory].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Log more (repeat for still more).
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Serve over HTTP: MCP at /mcp, the API at /api/v1, health at /healthz and /readyz, metrics at /metrics, webhooks at /hooks.
    #[command(after_help = "Example:\n  tidings serve --config tidings.toml --listen 127.0.0.1:7337")]
    Serve {
        /// Where to listen [default: 127.0.0.1:7337].
        #[arg(long, value_name = "ADDR")]
        listen: Option<tidings_config::Listen>,
    },
    /// Serve one client on standard input and output.
    #[command(after_help = "Example:\n  claude mcp add tidings -- tidings stdio --config ~/tidings.toml")]
    Stdio {
        /// A folder of scripts to serve, too: tools/, resources/, prompts/, server.d/.
        #[arg(long, value_name = "DIR")]
        project: Option<PathBuf>,
    },
    /// Serve a folder of scripts, and nothing else, to one client on standard input and output.
    ///
    /// The folder holds tools/, resources/, prompts/, completions/, providers/ and server.d/, as those of mcp-bash do. Nothing
    /// may run unless it is allowed: by --allow, or by MCPBASH_TOOL_ALLOWLIST in the environment.
    #[command(
        after_help = "Examples:\n  tidings project ./my-scripts --allow '*'\n  MCPBASH_TOOL_ALLOWLIST='hello add' tidings project ./my-scripts"
    )]
    Project {
        /// The folder [default: $MCPBASH_PROJECT_ROOT].
        dir: Option<PathBuf>,
        /// A tool that may run; repeat it, or say '*' for all.
        #[arg(long, value_name = "TOOL")]
        allow: Vec<String>,
    },
    /// Begin a tool, a prompt, a resource or a completion in a folder of scripts. Nothing is overwritten.
    #[command(
        after_help = "Examples:\n  tidings scaffold tool hello\n  tidings scaffold prompt review --project ./my-scripts"
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
    #[command(after_help = "Example:\n  tidings validate ./my-scripts --json")]
    Validate {
        /// The folder [default: $MCPBASH_PROJECT_ROOT, else the current one].
        dir: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what a folder of scripts registers: how many of each kind, and the hash of what clients are shown.
    ///
    /// Nothing is cached: a running gateway sees a saved file at once, and `refresh` and `status` both look anew.
    #[command(after_help = "Example:\n  tidings registry status ./my-scripts --json")]
    Registry {
        /// What is wanted.
        #[arg(value_parser = ["status", "refresh"])]
        _what: String,
        /// The folder [default: $MCPBASH_PROJECT_ROOT, else the current one].
        #[arg(long = "project-root", value_name = "DIR", conflicts_with = "dir")]
        root: Option<PathBuf>,
        /// The same, without a name.
        dir: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print what a client needs to start a folder of scripts as a server.
    #[command(
        name = "config",
        after_help = "Examples:\n  tidings config ./my-scripts --client cursor\n  tidings config --json"
    )]
    ProjectConfig {
        /// The folder [default: $MCPBASH_PROJECT_ROOT, else the current one].
        #[arg(long = "project-root", value_name = "DIR", conflicts_with = "dir")]
        root: Option<PathBuf>,
        /// The same, without a name.
        dir: Option<PathBuf>,
        /// In the words of this client: claude-code, claude-desktop, cursor, vscode or windsurf.
        #[arg(long, value_name = "CLIENT")]
        client: Option<String>,
        /// Print JSON: name, command and arguments.
        #[arg(long)]
        json: bool,
    },
    /// Add a server: to the running gateway, which keeps it, else to the configuration.
    ///
    /// The command answers when the server's tools can be used and every client is owed the news, or says why it could not
    /// be started; then nothing has changed.
    #[command(
        group = clap::ArgGroup::new("what").required(true).args(["command", "url", "container", "project"]),
        after_help = "Examples:\n  tidings add memory -- npx -y @modelcontextprotocol/server-memory\n  \
                      tidings add search --url https://example.com/mcp --header 'Authorization=Bearer ${env:TOKEN}'\n  \
                      tidings add clock --container localhost/clock:1\n  \
                      tidings add scripts --project ./my-scripts"
    )]
    Add(AddServer),
    /// Remove a server: from the running gateway, else from the configuration.
    #[command(after_help = "Example:\n  tidings remove memory")]
    Remove {
        /// Its name.
        name: String,
    },
    /// Switch a server on again.
    #[command(after_help = "Example:\n  tidings enable memory")]
    Enable {
        /// Its name.
        name: String,
    },
    /// Switch a server off; it stays off until it is enabled.
    #[command(after_help = "Example:\n  tidings disable memory")]
    Disable {
        /// Its name.
        name: String,
    },
    /// End a server of the running gateway and start it again.
    #[command(after_help = "Example:\n  tidings restart memory")]
    Restart {
        /// Its name.
        name: String,
    },
    /// Show the running gateway as a whole.
    #[command(after_help = "Example:\n  tidings status --json")]
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run one tool of a folder of scripts, as a client would have it run.
    #[command(
        after_help = "Examples:\n  tidings run-tool hello --args '{\"name\": \"Ann\"}'\n  tidings run-tool hello --args @arguments.json --project ./my-scripts --json\n  tidings run-tool hello --dry-run --print-env"
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
    /// Show who is connected to the running gateway.
    #[command(after_help = "Example:\n  tidings sessions --json")]
    Sessions {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the servers and how they are.
    #[command(after_help = "Example:\n  tidings servers --json")]
    Servers {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the tools, or find those that fit QUERY, best first.
    ///
    /// A query says in a few words what the tool should do, or is a name. Word forms, small typos and everyday synonyms do
    /// not matter. It is the search behind `retrieve_tools`, over all tools, listed to clients or not.
    #[command(
        after_help = "Examples:\n  tidings tools\n  tidings tools send an email\n  tidings tools --json createIssue"
    )]
    Tools {
        /// What the tool should do, or its name.
        query: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the resources and resource templates.
    #[command(after_help = "Example:\n  tidings resources --json")]
    Resources {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the prompts.
    #[command(after_help = "Example:\n  tidings prompts --json")]
    Prompts {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Call a tool.
    #[command(after_help = "Example:\n  tidings call echo '{\"text\": \"hello\"}'")]
    Call {
        /// The tool's name.
        tool: String,
        /// Its arguments as a JSON object.
        #[arg(value_name = "JSON")]
        arguments: Option<String>,
        /// Print the whole result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Read a resource.
    #[command(after_help = "Example:\n  tidings read watch://notes/todo.md")]
    Read {
        /// The resource's URI.
        uri: String,
        /// Print the whole result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Follow a resource: print each update as it comes, with what changed in its text.
    #[command(after_help = "Example:\n  tidings watch notes+file:///todo.md")]
    Watch {
        /// The resource's URI.
        uri: String,
        /// Print JSON: one object per line, with the whole content.
        #[arg(long)]
        json: bool,
    },
    /// Show which resources are followed, how they stand with their servers, and who follows them.
    #[command(after_help = "Example:\n  tidings subscriptions --json")]
    Subscriptions {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what the servers added, removed and changed, when, and how it differs.
    #[command(
        after_help = "Examples:\n  tidings changes\n  tidings changes --follow\n  tidings changes --since 2h --json\n\n\
                            T is the number of a change, a time (2026-11-15T12:00:00Z, or local: 2026-11-15) or how long \
                            ago (90s, 2h, 7d)."
    )]
    Changes {
        /// Go on and show each change as it happens.
        #[arg(long, short)]
        follow: bool,
        /// Only what changed after or since T.
        #[arg(long, value_name = "T")]
        since: Option<String>,
        /// At most this many, the newest [default: 20, or all with --since].
        #[arg(long, short = 'n', value_name = "N")]
        limit: Option<usize>,
        /// Print JSON: one document, or with --follow one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Validate the configuration and say what is wrong, where, and what to do.
    #[command(after_help = "Example:\n  tidings check --config tidings.toml")]
    Check {
        /// For use with `tidings stdio`, where nobody can post to webhooks.
        #[arg(long)]
        stdio: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Read JSON and apply a filter: jq for machines that have none.
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  echo '{\"name\": \"Ada\"}' | tidings json -r '\"Hello, \\(.name)!\"'"
    )]
    Json {
        /// Options and filter, as for jq; `tidings json --help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Make a token for `[auth]`: print it once, with the line for the configuration, which holds only its hash.
    #[command(
        after_help = "Examples:\n  tidings token laptop\n  tidings token notes-only --servers notes,'team-*'\n  \
                            tidings token ops --admin --json\n\n\
                            Clients send it as `Authorization: Bearer TOKEN`."
    )]
    Token {
        /// Whose it is; shown in logs and lists.
        #[arg(value_parser = token::plain)]
        name: String,
        /// The servers it may use; `*` stands for any characters [default: all].
        #[arg(long, value_name = "PATTERNS", value_delimiter = ',', value_parser = token::plain)]
        servers: Vec<String>,
        /// Let it change the gateway: the API, and the tools that add and remove servers.
        #[arg(long)]
        admin: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Find out what is wrong, and what to do about it.
    ///
    /// Looks at the configuration, the data directory, the gateway or its port, each server and each watch. For a watched
    /// PostgreSQL query it says whether its tables tell of their changes, and prints the trigger that makes them. Exits
    /// with 1 when there is a problem.
    #[command(after_help = "Example:\n  tidings doctor --config tidings.toml")]
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of the configuration file.
    #[command(after_help = "Example:\n  tidings schema > tidings.schema.json")]
    Schema,
}

/// A server to add.
#[derive(clap::Args, Debug)]
pub(crate) struct AddServer {
    /// What it is to be called; also the prefix of its tools.
    pub(crate) name: String,
    /// A URL that speaks Streamable HTTP.
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// A container image whose command speaks MCP on its standard input and output.
    #[arg(long, value_name = "IMAGE")]
    pub(crate) container: Option<String>,
    /// A folder of scripts.
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// A variable of its environment; may be repeated. ${env:NAME} is resolved where the server is started.
    #[arg(long, value_name = "K=V", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,
    /// A header to send with each request; may be repeated.
    #[arg(long, value_name = "K=V", value_parser = pair)]
    pub(crate) header: Vec<(String, String)>,
    /// A command that speaks MCP on its standard input and output.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    if key.is_empty() {
        return Err("the name before `=` is empty".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
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
}
