//! The faults, and their words. Each says what to change; where it stands is in the error around it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::ConfigPlace;

/// What is wrong at one place of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigFault {
    /// The file can not be read.
    Unreadable {
        /// Why the system refused it.
        kind: io::ErrorKind,
    },
    /// The text is not of its format.
    Syntax {
        /// What the parser says.
        message: String,
    },
    /// A JSON file without servers.
    NoServers,
    /// A key that means nothing here.
    UnknownKey {
        /// The known key that looks most like it.
        suggestion: Option<&'static str>,
        /// The keys that are known here.
        known: Vec<&'static str>,
    },
    /// A value of another kind.
    WrongType {
        /// The type that the key takes, in words.
        expected: &'static str,
        /// The type that was written, in words.
        found: &'static str,
    },
    /// A word that is not among the choices.
    NotOneOf {
        /// The word as it was written.
        found: String,
        /// The words that are allowed here.
        choices: Vec<&'static str>,
    },
    /// A value that needs some content.
    Empty,
    /// A key that has to be there.
    MissingKey {
        /// The key that has to be there.
        key: &'static str,
    },
    /// Nothing says which kind of thing this is.
    NoKind {
        /// The keys, one of which has to be there.
        choices: &'static [&'static str],
    },
    /// Two keys say that this is of different kinds.
    TwoKinds {
        /// One of the two keys that exclude each other.
        first: &'static str,
        /// The other of the two.
        second: &'static str,
    },
    /// A key that does not go with the kind of the thing.
    DoesNotApply {
        /// The key that makes it this kind.
        kind: &'static str,
    },
    /// Not a span of time.
    BadDuration {
        /// The text as it was written.
        found: String,
    },
    /// Zero where something would end before it began.
    ZeroDuration,
    /// A number outside its range.
    OutOfRange {
        /// The smallest number allowed.
        min: i64,
        /// The largest number allowed.
        max: i64,
    },
    /// A maximum that is below what it limits.
    BelowOther {
        /// The key that it limits.
        other: &'static str,
    },
    /// Not a URL of the kind that is needed.
    BadUrl {
        /// What it begins with.
        schemes: &'static [&'static str],
    },
    /// Not a host and a port.
    BadListen,
    /// Not a SHA-256 in hexadecimal.
    BadDigest,
    /// Not a key of 32 bytes in hexadecimal.
    BadKey,
    /// Not the URL of a NATS server.
    BadNats,
    /// A secret of a cluster that is too short.
    ShortSecret,
    /// A name of a cluster that can not be part of a subject.
    BadClusterName,
    /// URLs of NATS servers that name different logins.
    UnlikeLogins,
    /// Credentials beside a login in a URL.
    TwoLogins,
    /// Not the text of a file with credentials of NATS.
    BadCredentials,
    /// Not a label of a replica.
    BadLabel,
    /// Not a secret as Standard Webhooks writes them.
    BadSecret,
    /// Not a bound on versions.
    BadVersionRange,
    /// More of something than there may be.
    TooMany {
        /// So many there may be.
        most: usize,
    },
    /// A name that only people of an identity provider, or with a certificate, have.
    BadTokenName,
    /// Neither a day nor a moment.
    BadMoment,
    /// Names nobody.
    BadWho,
    /// Names no items.
    BadItemPattern,
    /// No rate.
    BadRate,
    /// Asks prompts or resources for what only tools say.
    HintsOfTools,
    /// Not a scope as tokens have them.
    BadScope,
    /// A scope of a rule that lets nobody use anything.
    UselessScope,
    /// A registry with the name of a source that is always there.
    ReservedSource,
    /// Not the name of an environment variable.
    BadVariableName,
    /// Not the name of an HTTP header.
    BadHeaderName,
    /// A value with line breaks or other characters that HTTP headers can not hold.
    BadHeaderValue,
    /// Not the id of a catalogue entry.
    BadEntryId,
    /// Not a name that can be part of a URL path.
    BadHookName,
    /// Not an absolute URI.
    BadUri,
    /// Not a type of content.
    BadMimeType,
    /// Not a JSON pointer.
    BadPointer,
    /// Not the name of a container image.
    BadImage,
    /// Not one word, or one that would be read as an option.
    BadContainerWord,
    /// A variable that a container can not be given.
    BadContainerVariable,
    /// A value that a container can not be given.
    BadContainerValue,
    /// Not an amount of memory.
    BadMemory,
    /// Not a number of processors.
    BadCpus,
    /// A volume that is not written as `SOURCE:TARGET[:OPTIONS]`.
    BadVolume,
    /// An environment variable that is not set and has no default.
    UnsetVariable {
        /// The name that the reference in the string gives.
        name: String,
        /// Whether it was written as `${env:NAME}`.
        spelled_env: bool,
    },
    /// A file that can not be read for its content.
    UnreadableReference {
        /// The file that the reference leads to.
        path: PathBuf,
        /// Why the system refused it.
        kind: io::ErrorKind,
    },
    /// A secret from the keyring, which comes later.
    Keyring {
        /// The name that the reference in the string gives.
        name: String,
    },
    /// A value that an editor would ask its user for.
    Prompted {
        /// The name that the reference in the string gives.
        name: String,
    },
    /// `${` without its `}`.
    UnclosedReference,
    /// Two servers whose names can not be told apart in public.
    PrefixClash {
        /// Where they can not be told apart.
        kind: PrefixKind,
        /// The prefix that both get.
        prefix: String,
        /// The key path of the other server.
        other: String,
        /// Where the other server is.
        other_place: ConfigPlace,
    },
    /// The same webhook or token name a second time.
    Repeated {
        /// Where the name was used first.
        first: ConfigPlace,
    },
}

/// The two things that servers get prefixes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixKind {
    /// `prefix__` of tools and prompts.
    Name,
    /// `prefix+` of resource URIs.
    Uri,
}

impl ConfigFault {
    /// Whether something that is referred to is not there: it may be there at another time, or on another machine.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::UnsetVariable { .. } | Self::UnreadableReference { .. })
    }
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { kind: io::ErrorKind::NotFound } => {
                write!(f, "there is no such file; `tidings init` makes one")
            }
            Self::Unreadable { kind } => write!(f, "can not be read: {kind}"),
            Self::Syntax { message } => f.write_str(message),
            Self::NoServers => write!(f, "expected an object with `mcpServers` (or `servers`)"),
            Self::UnknownKey { suggestion: Some(key), .. } => write!(f, "unknown key; did you mean \"{key}\"?"),
            Self::UnknownKey { suggestion: None, known } => {
                write!(f, "unknown key; expected one of {}", known.join(", "))
            }
            Self::WrongType { expected: expected @ "a string", found: found @ ("an integer" | "a boolean") } => {
                write!(f, "expected {expected}, found {found}; write it in quotes")
            }
            Self::WrongType { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::NotOneOf { found, choices } => {
                write!(f, "expected {}, found \"{found}\"", quoted(choices))?;
                match closest(found, choices) {
                    Some(choice) => write!(f, "; did you mean \"{choice}\"?"),
                    None => Ok(()),
                }
            }
            Self::Empty => write!(f, "must not be empty; give it a value or remove it"),
            Self::MissingKey { key } => write!(f, "the key `{key}` is missing"),
            Self::NoKind { choices } => write!(f, "needs one of the keys {}", choices.join(", ")),
            Self::TwoKinds { first, second } => write!(f, "has both `{first}` and `{second}`; keep one of them"),
            Self::DoesNotApply { kind } => write!(f, "this key does not go with `{kind}`; remove it"),
            Self::BadDuration { found } => {
                write!(f, "expected a duration such as \"250ms\", \"5s\", \"5m\", \"1h\" or \"0\", found \"{found}\"")
            }
            Self::ZeroDuration => write!(f, "must be longer than 0"),
            Self::OutOfRange { min, max } => write!(f, "expected a number from {min} to {max}"),
            Self::BelowOther { other } => write!(f, "must not be less than `{other}`; raise it or lower `{other}`"),
            Self::BadUrl { schemes } => write!(f, "expected a URL that begins with {}", schemes.join(" or ")),
            Self::BadListen => write!(f, "expected a host and a port such as \"127.0.0.1:7337\""),
            Self::BadDigest => {
                write!(f, "expected 64 hexadecimal digits, as `printf %s TOKEN | sha256sum` prints them")
            }
            Self::BadKey => write!(f, "expected 64 hexadecimal digits, as `openssl rand -hex 32` prints them"),
            Self::BadNats => write!(f, "expected URLs that begin with nats:// or tls://"),
            Self::ShortSecret => write!(f, "expected 32 characters or more, as `openssl rand -hex 32` prints them"),
            Self::BadClusterName => write!(f, "expected letters, digits, - and _"),
            Self::BadLabel => write!(f, "expected labels of 1 to 64 letters, digits, -, _, ., = and /"),
            Self::UnlikeLogins => write!(f, "the URLs have different logins; one is used for all, so write it alike"),
            Self::TwoLogins => write!(f, "`nats` has a login in its URL; keep one of them"),
            Self::BadCredentials => write!(
                f,
                "expected the text of a .creds file as `nsc` writes them; to read it from a file, write \"${{file:PATH}}\""
            ),
            Self::BadSecret => write!(
                f,
                "expected \"whsec_\" and 24 to 64 bytes in base64, as `echo whsec_$(openssl rand -base64 32)` prints them"
            ),
            Self::BadVersionRange => write!(f, "expected bounds on a version such as \"<1\" or \">=2.1, <3\""),
            Self::TooMany { most } => write!(f, "there may be at most {most}; remove some"),
            Self::BadTokenName => {
                write!(f, "can not hold \"://\" or begin with \"cert:\": so people with other credentials are named")
            }
            Self::BadMoment => {
                write!(f, "expected a day or a moment such as \"2027-01-01\" or \"2027-01-01T12:00:00Z\"")
            }
            Self::BadWho => {
                let forms = "\"*\", \"group:NAME\", \"scope:NAME\", \"token:NAME\" or \"claim:NAME=VALUE\"";
                write!(f, "expected people as rules name them: {forms}")
            }
            Self::BadItemPattern => {
                write!(
                    f,
                    "expected items as rules name them: \"SERVER/NAME\" (\"crm/get_*\", \"crm/*\"), or \"*\" for everything"
                )
            }
            Self::BadRate => write!(f, "expected how many in which time: \"10/s\", \"600/min\" or \"100/h\""),
            Self::ReservedSource => {
                f.write_str("\"built-in\", \"file\" and \"all\" are names of the catalogue itself; choose another")
            }
            Self::HintsOfTools => {
                write!(
                    f,
                    "only tools say whether they read only, destroy, can be repeated or reach out: write [\"tools\"]"
                )
            }
            Self::BadScope => write!(f, "expected one scope, without spaces, quotes and backslashes: \"crm.write\""),
            Self::UselessScope => {
                write!(
                    f,
                    "a scope is what tokens need to use what the rule permits: it goes with `allow`, and with \"use\" in `to`"
                )
            }
            Self::BadVariableName => {
                write!(f, "not a name for an environment variable: it is empty or has \"=\" in it")
            }
            Self::BadHeaderName => write!(f, "not a name for an HTTP header: use letters, digits and \"-\""),
            Self::BadHeaderValue => write!(f, "an HTTP header can not hold line breaks or other control characters"),
            Self::BadEntryId => {
                write!(f, "use letters, digits and \"-_./@:\" only, and do not end with \"/\"")
            }
            Self::BadHookName => {
                write!(f, "use letters, digits, \"-\", \"_\" and \".\" only: it is the NAME of POST /hooks/NAME")
            }
            Self::BadUri => write!(f, "expected an absolute URI such as \"orders://latest\""),
            Self::BadMimeType => write!(f, "expected a type such as \"application/json\""),
            Self::BadPointer => write!(f, "expected a JSON pointer such as \"/repository/name\""),
            Self::BadImage => write!(f, "expected the name of an image such as \"docker.io/library/alpine:3\""),
            Self::BadContainerWord => write!(f, "expected one word that does not begin with \"-\""),
            Self::BadContainerVariable => {
                write!(f, "not a name for a container's variable: it has white space, a \"#\" or a \"*\" in it")
            }
            Self::BadContainerValue => {
                write!(f, "a container's variable can not hold line breaks; give it a file by `volumes` instead")
            }
            Self::BadMemory => {
                write!(f, "expected at least \"6m\", such as \"512m\" or \"2g\", or \"unlimited\"")
            }
            Self::BadCpus => {
                write!(f, "expected a number of processors such as 2 or \"0.5\", or \"unlimited\"")
            }
            Self::BadVolume => write!(
                f,
                "expected SOURCE:TARGET or SOURCE:TARGET:OPTIONS, such as \"./data:/data:ro\" or \"notes:/data\""
            ),
            Self::UnsetVariable { name, spelled_env } => {
                let prefix = if *spelled_env { "env:" } else { "" };
                write!(f, "the environment variable {name} is not set; set it, or write ${{{prefix}{name}:-default}}")
            }
            Self::UnreadableReference { path, kind } => {
                write!(f, "the file {} can not be read: {kind}", path.display())
            }
            Self::Keyring { name } => {
                write!(f, "the keyring is not supported yet; use ${{env:{name}}} or ${{file:PATH}} for now")
            }
            Self::Prompted { name } => {
                write!(
                    f,
                    "an editor asks its user for \"{name}\", Tidings can not; use ${{env:NAME}} or ${{file:PATH}}"
                )
            }
            Self::UnclosedReference => {
                write!(f, "\"${{\" without its \"}}\"; for the characters themselves write \"$${{\"")
            }
            Self::PrefixClash { kind, prefix, other, other_place } => {
                let shown = match kind {
                    PrefixKind::Name => format!("{prefix}__ in names"),
                    PrefixKind::Uri => format!("{prefix}+ in resource URIs"),
                };
                write!(f, "gets the same prefix as {other} at {other_place} ({shown}); set `prefix` on one of them")
            }
            Self::Repeated { first } => write!(f, "is used already at {first}; choose another"),
        }
    }
}

/// The choice that looks most like a word, if any looks like it.
pub(crate) fn closest(word: &str, choices: &[&'static str]) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let likeness = |choice: &&'static str| (strsim::jaro_winkler(&word, choice) * 1000.0) as u32;
    // Below this likeness a suggestion is more often wrong than right.
    choices.iter().copied().max_by_key(likeness).filter(|choice| likeness(choice) >= 850)
}

fn quoted(choices: &[&str]) -> String {
    let words: Vec<_> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}
