//! Servers that could be added: what a catalogue file says about each.

/// One server of a catalogue file. References such as `${env:NAME}` are kept as they are written: they are followed when
/// the server is added, not when it is read about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// What it is asked for by; unique in its file.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What it does, in a sentence.
    pub description: String,
    /// What it is for, in general.
    pub categories: Vec<String>,
    /// Words it should be found by.
    pub tags: Vec<String>,
    /// Whether it is made by those who make what it gives access to.
    pub official: bool,
    /// Whether it is recommended.
    pub featured: bool,
    /// Where its source is.
    pub repository: Option<String>,
    /// What one needs to know to use it.
    pub docs: Option<String>,
    /// How it is run.
    pub run: EntryCommand,
    /// Environment variables that it reads.
    pub variables: Vec<EntryVariable>,
    /// What its caller has to add to the arguments, if anything.
    pub arguments: Option<EntryArguments>,
}

/// How a server of a catalogue is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryCommand {
    /// A package of npm, run by `npx -y`.
    Npm {
        /// The package, perhaps with `@version`.
        package: String,
        /// Arguments that stand behind the package or image.
        args: Vec<String>,
    },
    /// A package of PyPI, run by `uvx`.
    Pypi {
        /// The package, perhaps with `==version`.
        package: String,
        /// Arguments that stand behind the package or image.
        args: Vec<String>,
    },
    /// A package of NuGet, run by `dnx`.
    Nuget {
        /// The package with `@version`.
        package: String,
        /// Arguments that stand behind the package or image.
        args: Vec<String>,
    },
    /// An MCP bundle: a file that is fetched, checked and unpacked, and says itself how it is run.
    Bundle {
        /// Where the file is.
        url: String,
    },
    /// A program that is on the machine already.
    Command {
        /// The program, looked for in `PATH`.
        command: String,
        /// Its arguments, each as one word.
        args: Vec<String>,
    },
    /// A container; the image is pulled at the first start.
    Container {
        /// The image, with its tag or digest.
        image: String,
        /// Arguments that stand behind the package or image.
        args: Vec<String>,
        /// Whether it needs the network.
        network: bool,
        /// Whether its root file system can stay as it is.
        read_only: bool,
        /// What it has to see of the machine, or keep.
        volumes: Vec<String>,
    },
    /// A URL that speaks Streamable HTTP.
    Url {
        /// The URL of the MCP endpoint.
        url: String,
        /// Headers to send with every request; values may refer to variables.
        headers: Vec<(String, String)>,
    },
}

impl EntryCommand {
    /// The key that it is written with.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Npm { .. } => "npm",
            Self::Pypi { .. } => "pypi",
            Self::Nuget { .. } => "nuget",
            Self::Bundle { .. } => "mcpb",
            Self::Command { .. } => "command",
            Self::Container { .. } => "container",
            Self::Url { .. } => "url",
        }
    }
}

/// An environment variable that a server reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryVariable {
    /// The name under which the server reads it.
    pub name: String,
    /// What a person needs to know to fill it in; may be empty.
    pub description: String,
    /// Whether the server does not work without it.
    pub required: bool,
    /// Whether its value must not be shown.
    pub secret: bool,
}

/// Arguments that only the one who adds the server can know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryArguments {
    /// What they are, such as "the folders it may use".
    pub description: String,
    /// Whether there has to be at least one.
    pub required: bool,
}
