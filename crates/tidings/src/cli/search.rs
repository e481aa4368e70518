//! What is typed about the search itself; to search is `tidings tools WORDS`.

/// What `tidings search` does.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum SearchCommand {
    /// Show which embedding model or endpoint tools are searched with, or how to get one.
    #[command(after_help = "Example:\n  tidings search model --json")]
    Model {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Forget which tools were used after which questions, for all callers.
    #[command(after_help = "Example:\n  tidings search forget")]
    Forget {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}
