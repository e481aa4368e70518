//! What users type: commands, options and their help. Parsing only; a command's work is in the file of its name in `commands`.

mod catalogue;
mod clients;
mod groups;
#[cfg(test)]
mod named;
mod scripts;
mod search;
mod servers;

use std::path::PathBuf;

pub(crate) use catalogue::CatalogueCommand;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
pub(crate) use clients::{ConnectArgs, ImportArgs, ManArgs};
pub(crate) use scripts::{ScaffoldKind, ScriptCommand};
pub(crate) use search::SearchCommand;
pub(crate) use servers::{AddServer, LoginArgs};

/// One MCP endpoint in front of all your MCP servers.
#[derive(Parser, Debug)]
#[command(version, about, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
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

/// Reads the command line. A mistake in it, `--help` and `--version` end the process here.
pub(crate) fn parse() -> Cli {
    let matches = groups::with_grouped_help(Cli::command()).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Text that can stand in a list of the configuration.
fn plain_text(text: &str) -> Result<String, String> {
    match text {
        _ if text.trim().is_empty() => Err("it is empty".to_owned()),
        _ if text.chars().any(char::is_control) => Err("it has control characters".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// Completions of the whole command line, for a shell.
pub(crate) fn completions(shell: clap_complete::Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tidings", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// A man page of `tidings`, then one of each command, by name.
pub(crate) fn man_pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = Cli::command();
    // Fills in what clap derives, such as usage lines of subcommands.
    command.build();
    let page = |name: &str, command: &clap::Command| {
        let mut text = Vec::new();
        let man = clap_mangen::Man::new(command.clone()).title(name);
        man.render(&mut text).map(|()| (name.to_owned(), text))
    };
    let mut pages = vec![page("tidings", &command)?];
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        pages.push(page(&format!("tidings-{}", inner.get_name()), inner)?);
    }
    Ok(pages)
}

#[derive(Subcommand, Debug)]
pub(crate) enum CliCommand {
    /// Serve over HTTP: to MCP clients, to the page in the browser, and the API.
    ///
    /// MCP is at /mcp, for clients of the oldest revision at /sse; the API at /api/v1, health at /healthz and /readyz, metrics at
    /// /metrics, webhooks at /hooks. The link of the page is printed at the start; `tidings open` makes another.
    #[command(after_help = "Example:\n  tidings serve --config tidings.toml --listen 127.0.0.1:7337")]
    Serve {
        /// Where to listen [default: 127.0.0.1:7337].
        #[arg(long, value_name = "ADDR")]
        listen: Option<tidings_config::ListenAddress>,
    },
    /// Serve one client on standard input and output.
    #[command(
        after_help = "Examples:\n  claude mcp add tidings -- tidings stdio --config ~/tidings.toml\n  claude mcp add tidings -- tidings stdio --attach"
    )]
    Stdio {
        /// A folder of scripts to serve, too: tools/, resources/, prompts/, server.d/.
        #[arg(long, value_name = "DIR")]
        project: Option<PathBuf>,
        /// Join the gateway that `tidings serve` runs for this data directory, instead of starting every server again.
        #[arg(long, conflicts_with = "project")]
        attach: bool,
        /// Tell Claude Code of changed lists on its channel, too: a message of names and numbers, at most one in 30 seconds. It reads them
        /// only if it was started with --dangerously-load-development-channels server:NAME.
        #[arg(long)]
        channel: bool,
    },
    /// Serve a folder of scripts, and nothing else: to one client on standard input and output. Or work on such a folder.
    ///
    /// The folder holds tools/, resources/, prompts/, completions/, providers/ and server.d/, as those of mcp-bash do. Nothing
    /// may run unless it is allowed: by --allow, or by MCPBASH_TOOL_ALLOWLIST in the environment. A folder that is called
    /// like one of the commands is written with its path: ./validate.
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Examples:\n  tidings project ./my-scripts --allow '*'\n  tidings project scaffold tool hello\n  \
                      MCPBASH_TOOL_ALLOWLIST='hello add' tidings project ./my-scripts"
    )]
    Project {
        /// What to do with a folder, other than to serve it.
        #[command(subcommand)]
        command: Option<ScriptCommand>,
        /// The folder [default: $MCPBASH_PROJECT_ROOT].
        dir: Option<PathBuf>,
        /// A tool that may run; repeat it, or say '*' for all.
        #[arg(long, value_name = "TOOL")]
        allow: Vec<String>,
    },
    /// The commands of `project`, without that word.
    #[command(flatten)]
    Scripts(ScriptCommand),
    /// Make a first configuration from what is on this machine. Nothing is overwritten.
    ///
    /// Looks for servers in the files of the MCP clients on this machine (`tidings connect` lists them) and of the current
    /// folder, asks which of them to take over, and writes a tidings.toml with comments. Without a terminal, or with --yes,
    /// all of them are taken.
    #[command(after_help = "Examples:\n  tidings init\n  tidings init --yes --output ~/.config/tidings/tidings.toml")]
    Init {
        /// The file to write.
        #[arg(long, short, value_name = "FILE", default_value = "tidings.toml")]
        output: PathBuf,
        /// Take over every server that is found, and ask nothing.
        #[arg(long, short)]
        yes: bool,
    },
    /// Point a client at the gateway, and take that back.
    ///
    /// Shows the entry, asks, and writes it into the client's own file, in which every other byte stays. Without CLIENT it
    /// lists the clients that are known and what stands in their files. --undo brings the file back byte for byte, or,
    /// when somebody wrote to it since, takes only the entry out.
    #[command(
        after_help = "Examples:\n  tidings connect\n  tidings connect claude-code\n  tidings connect codex --dry-run\n  \
                      tidings connect cursor --project --yes\n  tidings connect cursor --undo"
    )]
    Connect(ConnectArgs),
    /// Take over the servers of a client or of a file.
    ///
    /// They come into the configuration. Variables are spelled as Tidings reads them: ${env:NAME}. Entries that start
    /// Tidings and those that are switched off are skipped; one whose name is taken is left out. Without CLIENT everything
    /// that is found is listed.
    #[command(
        after_help = "Examples:\n  tidings import\n  tidings import claude-code --dry-run\n  tidings import cursor --take\n  \
                      tidings import ./servers.json --config tidings.toml\n  tidings import docker ./docker-mcp.yaml --dry-run"
    )]
    Import(ImportArgs),
    /// Add a server: to the running gateway, which keeps it, else to the configuration.
    ///
    /// The command returns when the server's tools can be used, and clients are told of them. If the server can not be
    /// started, the command says why, and nothing has changed.
    #[command(
        group = clap::ArgGroup::new("what").required(true).args(["command", "loose", "url", "container", "project"]),
        after_help = "Examples:\n  tidings add memory -- npx -y @modelcontextprotocol/server-memory\n  \
                      tidings add search --url https://example.com/mcp --header 'Authorization=Bearer ${env:TOKEN}'\n  \
                      tidings add clock --container localhost/clock:1\n  \
                      tidings add scripts --project ./my-scripts"
    )]
    Add(AddServer),
    /// Remove a server: from the running gateway, else from the configuration.
    #[command(after_help = "Example:\n  tidings remove memory")]
    Remove {
        /// The server, by its name in `tidings servers`.
        name: String,
    },
    /// Switch a server on again.
    #[command(after_help = "Example:\n  tidings enable memory")]
    Enable {
        /// The server, by its name in `tidings servers`.
        name: String,
    },
    /// Switch a server off; it stays off until it is enabled.
    #[command(after_help = "Example:\n  tidings disable memory")]
    Disable {
        /// The server, by its name in `tidings servers`.
        name: String,
    },
    /// End a server of the running gateway and start it again.
    #[command(after_help = "Example:\n  tidings restart memory")]
    Restart {
        /// The server, by its name in `tidings servers`.
        name: String,
    },
    /// Change a server to a newer release; shows what differs first.
    ///
    /// For servers that were added from a registry. The new release is started beside the one that runs, and what it lists is compared
    /// with what clients see now. If you agree, it takes the place of the old one in one moment; if not, nothing has changed.
    #[command(after_help = "Examples:\n  tidings upgrade notes\n  tidings upgrade notes --yes --json")]
    Upgrade {
        /// The server, by its name in `tidings servers`.
        name: String,
        /// Swap without asking.
        #[arg(long, short)]
        yes: bool,
        /// Print JSON: the difference and what was done.
        #[arg(long)]
        json: bool,
    },
    /// Find servers that could be added, and add one.
    #[command(
        after_help = "Examples:\n  tidings catalogue find read a web page\n  tidings catalogue add io.github.acme/notes --set \
                      'TOKEN=${env:NOTES_TOKEN}'\n  tidings catalogue refresh"
    )]
    Catalogue {
        /// What to do.
        #[command(subcommand)]
        command: CatalogueCommand,
    },
    /// Log in to a server of the running gateway, for all its clients.
    ///
    /// The browser shows the login of the server's provider and comes back to the gateway, which keeps what it is given, sealed, and
    /// renews it. `tidings servers` shows which servers need a login. With [auth] the gateway first asks who sits at the browser: if `jwt` has a
    /// `client_id`, that person logs in at the identity provider; else they type in their Tidings token.
    #[command(after_help = "Examples:\n  tidings login crm\n  tidings login crm --device\n  tidings login crm --paste")]
    Login(LoginArgs),
    /// Forget the login to a server, and end it at its provider.
    #[command(after_help = "Example:\n  tidings logout crm")]
    Logout {
        /// The server, by its name in `tidings servers`.
        server: String,
    },
    /// Show the running gateway as a whole.
    #[command(after_help = "Example:\n  tidings status --json")]
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the page of the running gateway in the browser: what changed, how servers are, what waits for approval.
    ///
    /// The link works once, within ten minutes; the browser is let in for seven days then.
    #[command(after_help = "Examples:\n  tidings open\n  tidings open --print\n  tidings open --read-only --print")]
    Open {
        /// Print the link, and open nothing.
        #[arg(long)]
        print: bool,
        /// Whoever uses the link may only look.
        #[arg(long)]
        read_only: bool,
        /// Lead to the address and not to the page's own name, for browsers that do not resolve names below localhost.
        #[arg(long)]
        plain_host: bool,
    },
    /// Show what each client was told, and whether it listed again.
    ///
    /// Clients that were told, and called three times or let ten minutes pass without a list since, are deaf; those that are owed a notice which
    /// no transport takes are unreached.
    #[command(after_help = "Examples:\n  tidings clients\n  tidings clients --json")]
    Clients {
        /// Print JSON.
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
    /// Show the servers and how they are, one line each; or all that is known about one.
    #[command(after_help = "Examples:\n  tidings servers\n  tidings servers memory\n  tidings servers --json")]
    Servers {
        /// One server.
        name: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the tools, find those that fit, or show all about one.
    ///
    /// A query says in a few words what the tool should do, or is a name. Word forms, small typos and everyday synonyms do
    /// not matter. It is the search behind `retrieve_tools`, over all tools, listed to clients or not. The exact name of a
    /// tool shows its arguments, their schema, and how to call it.
    #[command(
        after_help = "Examples:\n  tidings tools\n  tidings tools send an email\n  tidings tools memory__read_graph\n  tidings tools --json createIssue\n  tidings tools --as gemini"
    )]
    Tools {
        /// What the tool should do, or its name.
        query: Vec<String>,
        /// As this client is shown them, by what it calls itself or as `tidings connect` does: NAME or NAME@VERSION.
        #[arg(long = "as", value_name = "CLIENT", conflicts_with = "query")]
        seen_as: Option<String>,
        /// At most this many.
        #[arg(long, short = 'n', value_name = "N", value_parser = at_least_one)]
        limit: Option<usize>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show how tools are searched, or forget what was learnt. To search them, use `tidings tools WORDS`.
    #[command(after_help = "Examples:\n  tidings search model\n  tidings search forget")]
    Search {
        /// What to do.
        #[command(subcommand)]
        command: SearchCommand,
    },
    /// List the resources and resource templates.
    #[command(after_help = "Examples:\n  tidings resources --limit 10\n  tidings resources --json")]
    Resources {
        /// At most this many.
        #[arg(long, short = 'n', value_name = "N", value_parser = at_least_one)]
        limit: Option<usize>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the prompts.
    #[command(after_help = "Examples:\n  tidings prompts --limit 10\n  tidings prompts --json")]
    Prompts {
        /// At most this many.
        #[arg(long, short = 'n', value_name = "N", value_parser = at_least_one)]
        limit: Option<usize>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Get a prompt, filled in with arguments.
    #[command(after_help = "Example:\n  tidings prompt haiku subject=rain")]
    Prompt {
        /// The prompt's name.
        name: String,
        /// Its arguments: name=value, each by itself.
        #[arg(value_name = "NAME=VALUE", value_parser = pair)]
        arguments: Vec<(String, String)>,
        /// Print the whole result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Call a tool.
    ///
    /// Arguments are a JSON object, @FILE, - for standard input, or pairs. A pair name=value is read as the tool's schema says,
    /// as text or as a number; name:=JSON is JSON in any case; a name that comes twice makes a list. On a terminal the
    /// progress of the call is shown while it runs.
    #[command(
        after_help = "Examples:\n  tidings call echo '{\"text\": \"hello\"}'\n  tidings call echo text=hello\n  \
                      tidings call echo @arguments.json\n  echo '{\"text\": \"hello\"}' | tidings call echo -"
    )]
    Call {
        /// The tool's name.
        tool: String,
        /// Its arguments: a JSON object, @FILE, -, or pairs name=value.
        #[arg(value_name = "ARGUMENTS")]
        arguments: Vec<String>,
        /// Save images, audio and other binary content into this folder.
        #[arg(long, value_name = "DIR")]
        save: Option<PathBuf>,
        /// Print the whole result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Read a resource. Without a terminal binary content is written as it is.
    #[command(
        after_help = "Examples:\n  tidings read watch://notes/todo.md\n  tidings read logo+file:///logo.png > logo.png"
    )]
    Read {
        /// The resource's URI.
        uri: String,
        /// Save binary content into this folder.
        #[arg(long, value_name = "DIR")]
        save: Option<PathBuf>,
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
    /// Show which resources are followed: how they stand with their servers, and who follows them.
    #[command(after_help = "Example:\n  tidings subscriptions --json")]
    Subscriptions {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what the servers added, removed and changed: when, and how it differs.
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
    /// Show who did what: calls, refused logins, and decisions about servers and tools.
    #[command(
        after_help = "Examples:\n  tidings audit\n  tidings audit --follow\n  tidings audit --since 2h --json\n\n\
                            T is the number of a record, a time (2026-11-15T12:00:00Z, or local: 2026-11-15) or how long \
                            ago (90s, 2h, 7d)."
    )]
    Audit {
        /// Go on and show each record as it is written.
        #[arg(long, short)]
        follow: bool,
        /// Only what was recorded after or since T.
        #[arg(long, value_name = "T")]
        since: Option<String>,
        /// At most this many, the newest [default: 20, or all with --since].
        #[arg(long, short = 'n', value_name = "N")]
        limit: Option<usize>,
        /// Print JSON: one document, or with --follow one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Prove that nobody altered the change log or the audit log.
    ///
    /// Looks for records that were taken out, altered or moved, and exits with 1 if it finds one.
    #[command(after_help = "Examples:\n  tidings verify\n  tidings verify --checkpoint\n  \
                            tidings verify --against checkpoints.jsonl\n\n\
                            Whoever can read the data directory has its key, too: a checkpoint that is kept elsewhere proves more.")]
    Verify {
        /// Compare with the checkpoints in FILE, which were kept elsewhere: one to a line, as --checkpoint and the sinks write them.
        #[arg(long, value_name = "FILE")]
        against: Option<PathBuf>,
        /// The public key that has to have signed, as hexadecimal digits.
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
        /// Sign how far both logs have come, and print that as a line of JSON.
        #[arg(long, conflicts_with_all = ["against", "key", "json"])]
        checkpoint: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Validate the configuration: say what is wrong, where, and what to do.
    #[command(after_help = "Examples:\n  tidings check --config tidings.toml\n  tidings check --locked")]
    Check {
        /// Check it for `tidings stdio`, where nobody can post to webhooks.
        #[arg(long)]
        stdio: bool,
        /// Start the servers and compare what they offer with tidings.lock; exit with 1 and the differences where it is not the same.
        #[arg(long, conflicts_with = "stdio")]
        locked: bool,
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
        #[arg(value_parser = plain_text)]
        name: String,
        /// The servers it may use; `*` stands for any characters [default: all].
        #[arg(long, value_name = "PATTERNS", value_delimiter = ',', value_parser = plain_text)]
        servers: Vec<String>,
        /// Let it change the gateway: the API, and the tools that add and remove servers.
        #[arg(long)]
        admin: bool,
        /// The groups that its bearer is in, for rules of [policy].
        #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = plain_text)]
        groups: Vec<String>,
        /// The day (UTC) from which on it opens nothing, such as 2027-01-01; or a moment.
        #[arg(long, value_name = "DAY")]
        expires: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say which rule decides whether somebody may have an item.
    ///
    /// Have is to see it in lists, to use it, and to be told of its changes; the rules are those of `[policy]`.
    #[command(after_help = "Examples:\n  tidings explain --as token:laptop crm/get_customer\n  \
                            tidings explain --as group:support 'crm/db://customers/7'\n  \
                            tidings explain --with new-rules.toml\n\n\
                            Asks the running gateway. docs/policy.md says how to write rules.")]
    Explain {
        /// Who: token:NAME (with its servers and groups), group:NAME, scope:NAME, claim:NAME=VALUE or *; several make one person.
        #[arg(
            long = "as",
            value_name = "WHO",
            value_delimiter = ',',
            required_unless_present = "with",
            value_parser = plain_text
        )]
        who: Vec<String>,
        /// More groups they are in.
        #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = plain_text)]
        groups: Vec<String>,
        /// Say who would gain or lose what under the [policy] of this file, instead of who may do what now.
        #[arg(long, value_name = "FILE")]
        with: Option<PathBuf>,
        /// What: SERVER/NAME, as the server spells the name or URI [with --with: everything by default].
        #[arg(required_unless_present = "with")]
        item: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Let the configuration of a folder act: show what it says, and ask.
    ///
    /// A tidings.toml or .mcp.json of the current folder does nothing before its exact content is trusted; a changed file has to
    /// be trusted again. A file that --config or $TIDINGS_CONFIG names needs no trust, and the user's own neither.
    #[command(after_help = "Examples:\n  tidings trust\n  tidings trust ./project --yes")]
    Trust {
        /// The folder, or one file of it [default: the current folder].
        dir: Option<PathBuf>,
        /// Ask nothing: for scripts that know what is in the file.
        #[arg(long, short)]
        yes: bool,
    },
    /// Find out what is wrong, and what to do about it.
    ///
    /// Looks at the configuration, the data directory, the gateway or its port, each server, each watch, and the NATS of a
    /// cluster. For a watched PostgreSQL query it says whether its tables tell of their changes, and prints the trigger that makes them. Exits
    /// with 1 when there is a problem.
    #[command(after_help = "Example:\n  tidings doctor --config tidings.toml")]
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write what the servers offer now into tidings.lock; it is meant for version control.
    ///
    /// The file stands beside the configuration: one line per tool and prompt, with the hash of its definition. For servers that
    /// were added at run time it stands in the data directory. What waits for approval is not approved by this.
    #[command(after_help = "Example:\n  tidings lock")]
    Lock,
    /// Show the tools and prompts that wait for approval: what is suspect about them, and how they differ.
    ///
    /// Which of them wait says `approve` of their server in the configuration: none ("auto"), those that are new or different
    /// after its first sight ("changed"), or all ("manual").
    #[command(after_help = "Examples:\n  tidings approvals\n  tidings approvals --json")]
    Approvals {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Approve tools and prompts that wait: then clients see them.
    ///
    /// It is kept in tidings.lock, and everybody whose lists it changes is told. What was rejected before, or is suspect, is
    /// approved only by its own name.
    #[command(
        after_help = "Examples:\n  tidings approve github/search\n  tidings approve github\n  tidings approve --all"
    )]
    Approve {
        /// A server, or one item of it.
        #[arg(value_name = "SERVER[/NAME]", conflicts_with = "all")]
        what: Option<String>,
        /// Everything that waits.
        #[arg(long)]
        all: bool,
    },
    /// Reject tools and prompts that wait: they stay away, and nobody is told.
    #[command(after_help = "Examples:\n  tidings reject github/search\n  tidings reject github")]
    Reject {
        /// A server, or one item of it.
        #[arg(value_name = "SERVER[/NAME]", conflicts_with = "all")]
        what: Option<String>,
        /// Everything that waits.
        #[arg(long)]
        all: bool,
    },
    /// Print completions for a shell.
    #[command(
        after_help = "Examples:\n  tidings completions bash > ~/.local/share/bash-completion/completions/tidings\n  \
                            tidings completions fish > ~/.config/fish/completions/tidings.fish"
    )]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the man page, or write one per command into a folder.
    #[command(after_help = "Examples:\n  tidings man > tidings.1\n  tidings man ~/.local/share/man/man1")]
    Man(ManArgs),
    /// Show the log of the gateway, also of one that has ended.
    #[command(after_help = "Examples:\n  tidings logs\n  tidings logs --follow\n  tidings logs -n 1000")]
    Logs {
        /// Go on and show each line as it is written.
        #[arg(long, short)]
        follow: bool,
        /// At most this many lines, the newest.
        #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Print the JSON Schema of the configuration file.
    #[command(after_help = "Example:\n  tidings schema > tidings.schema.json")]
    Schema,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    if key.is_empty() {
        return Err("the name before `=` is empty".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "a number from 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_text_is_a_name() {
        assert_eq!(plain_text("my laptop"), Ok("my laptop".to_owned()));
        assert!(plain_text(" ").is_err() && plain_text("a\nb").is_err());
    }
}
