//! What is typed to add a server, and to log in to one.

use std::path::PathBuf;

use super::pair;

/// A login to begin.
#[derive(clap::Args, Debug)]
pub(crate) struct LoginArgs {
    /// The server, by its name in `tidings servers`.
    pub(crate) server: String,
    /// Log in on another device, by typing in a code; where the provider offers that.
    #[arg(long, conflicts_with = "paste")]
    pub(crate) device: bool,
    /// The browser is on another machine: print the address of the login, and read the one that the browser comes back to.
    #[arg(long)]
    pub(crate) paste: bool,
    /// Print the address, and open nothing.
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Print JSON, one object for each step, and open nothing.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A server to add.
#[derive(clap::Args, Debug)]
pub(crate) struct AddServer {
    /// What it is to be called; also the prefix of its tools.
    pub(crate) name: String,
    /// A URL that speaks Streamable HTTP or HTTP+SSE.
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
    /// Allow the host name in --url to resolve to an address of a private network.
    #[arg(long, requires = "url")]
    pub(crate) private: bool,
    /// A command without `--` before it: refused, with the line that was meant.
    #[arg(hide = true, allow_hyphen_values = true)]
    pub(crate) loose: Vec<String>,
    /// A command that speaks MCP on its standard input and output.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}
