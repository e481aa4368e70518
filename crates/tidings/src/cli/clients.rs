//! What is typed to work on the files of clients.

use std::path::PathBuf;

/// A client to connect.
#[derive(clap::Args, Debug)]
pub(crate) struct ConnectArgs {
    /// The client; without it those that are known are listed, with what stands in their files.
    pub(crate) client: Option<String>,
    /// Write the file of the current folder, for clients that have one, instead of the user's.
    #[arg(long, requires = "client")]
    pub(crate) project: bool,
    /// Let the client start `tidings stdio` instead of giving it a URL.
    #[arg(long, requires = "client")]
    pub(crate) stdio: bool,
    /// What the client calls Tidings.
    #[arg(long = "as", value_name = "NAME", default_value = "tidings")]
    pub(crate) name: String,
    /// The gateway [default: the running one, else where the configuration says it will listen].
    #[arg(long, value_name = "URL", requires = "client", conflicts_with = "stdio")]
    pub(crate) url: Option<String>,
    /// The variable that holds the client's token [default: TIDINGS_TOKEN where the configuration has tokens].
    #[arg(long, value_name = "VARIABLE", requires = "client")]
    pub(crate) token_env: Option<String>,
    /// Show what would be written, and write nothing.
    #[arg(long, requires = "client")]
    pub(crate) dry_run: bool,
    /// Write without asking.
    #[arg(long, short, requires = "client")]
    pub(crate) yes: bool,
    /// Overwrite an entry of that name that `tidings connect` did not write.
    #[arg(long, requires = "client")]
    pub(crate) replace: bool,
    /// Undo the last change that was written to that file.
    #[arg(long, requires = "client", conflicts_with_all = ["stdio", "url", "token_env", "replace"])]
    pub(crate) undo: bool,
    /// Print JSON: the list of clients.
    #[arg(long, conflicts_with = "client")]
    pub(crate) json: bool,
}

/// Servers to take over.
#[derive(clap::Args, Debug)]
pub(crate) struct ImportArgs {
    /// A client, or a file with `mcpServers` or the like; without it everything that is found is listed.
    #[arg(value_name = "CLIENT|FILE")]
    pub(crate) from: Option<String>,
    /// After `docker`: a Docker MCP catalogue, such as ~/.docker/mcp/catalogs/docker-mcp.yaml.
    #[arg(requires = "from")]
    pub(crate) file: Option<PathBuf>,
    /// Also those of the client's file in this folder. It may have come with a clone: look at it first, with `--dry-run`.
    #[arg(long, requires = "from")]
    pub(crate) project: bool,
    /// Show what would be taken over, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also remove the servers from the client's file; `tidings connect CLIENT --undo` brings them back.
    #[arg(long, requires = "from")]
    pub(crate) take: bool,
    /// Write the client's file without asking.
    #[arg(long, short, requires = "take")]
    pub(crate) yes: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where man pages go.
#[derive(clap::Args, Debug)]
pub(crate) struct ManArgs {
    /// A folder, for one page per command; without it the page of `tidings` is printed.
    pub(crate) dir: Option<PathBuf>,
}
