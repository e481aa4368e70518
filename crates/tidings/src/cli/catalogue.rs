//! What is typed to find servers that could be added.

use super::pair;

/// What to do with the catalogue.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum CatalogueCommand {
    /// Find servers by what they do, or by name; without words, list the first entries.
    #[command(after_help = "Example:\n  tidings catalogue find read a web page")]
    Find {
        /// What the server should do, or its name.
        words: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show how one runs and what it asks for.
    #[command(after_help = "Example:\n  tidings catalogue show io.github.acme/notes")]
    Show {
        /// The id of the entry, as `find` gives it.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show where entries come from, and when each was last read.
    #[command(after_help = "Example:\n  tidings catalogue sources --json")]
    Sources {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Ask a source, or all, what is new.
    #[command(after_help = "Example:\n  tidings catalogue refresh official")]
    Refresh {
        /// The name of the source [default: all].
        source: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add a server of the catalogue to the running gateway, which keeps it.
    ///
    /// What the entry asks for is given by `--set`. A secret is given as a reference, such as ${env:NAME}, so that it is kept nowhere;
    /// what is required and set where the gateway runs is taken from there.
    #[command(
        after_help = "Examples:\n  tidings catalogue add io.github.acme/notes\n  tidings catalogue add io.github.acme/notes --name \
                      notes --set FOLDER=/srv/notes --kind npm"
    )]
    Add(AddEntry),
}

/// An entry to add.
#[derive(clap::Args, Debug)]
pub(crate) struct AddEntry {
    /// The id of the entry, as `find` gives it.
    pub(crate) id: String,
    /// What the server is to be called [default: the last part of the id].
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Something that the entry asks for; may be repeated.
    #[arg(long, value_name = "K=V", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,
    /// Which of several ways to run it: npm, pypi, nuget, oci, mcpb, streamable-http or sse [default: the first].
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Arguments after those of the entry.
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
}
