//! What was asked for. Parsing only; no task knows how it was spelled.

use std::fmt;
use std::path::PathBuf;

use crate::conformance::{Link, Selection};
use crate::package::PackedBuild;
use crate::suite::REVISIONS;

/// Shown for `help` and after a mistake.
pub(crate) const USAGE: &str = "\
Usage: cargo xtask TASK

  test [--quick]        format, clippy, tests, a short soak, chaos, conformance, real peers; --quick: what needs only Rust
  conformance [--upstream http|stdio|client|stories] [--revision V] [--scenario S] [--gateway BINARY]
                        the official suite through the gateway, compared with a direct run;
                        `client` is the suite's mock server upstream and the PyPI client downstream;
                        `stories` are the PyPI SDK's own clients and servers, by name with --scenario
  real-peers [--gateway BINARY]
                        everyday, changing and slow servers behind the gateway, used by PyPI and npm clients;
                        a walk through docs/live-resources.md; and clients that people use, connected and left
  browser [--measure] [--gateway BINARY]
                        the page in Chromium: read, by keyboard, without scripts, with hostile text, live;
                        --measure: how soon it shows 10,000 changes, and what 100,000 events leave behind; in release, on a
                        machine at rest (BINARY has tidings-bench beside it)
  clients [--gateway BINARY]
                        only the last of the real peers: `tidings connect` with Claude Code, Codex, Gemini CLI and OpenCode,
                        and which of 1,500 tools their models are shown
  other-era [--gateway BINARY]
                        the official suite and the PyPI SDK's stories with servers that speak only the era
                        that their client does not: how many pass
  package [--quick | --twice]
                        build the packages into target/packages from a static release build and try each one, also in
                        fresh machines that have only apt, npm, pip or podman; --quick: with the debug build, without
                        those; --twice: build the program twice, and compare
  site                  the documentation as a site, into target/site, with every link followed
  soak [--minutes N | --seconds N] [--seed S] [--shared-only]
                        servers that change without end and clients that follow; 10 minutes by default
  soak --parks [--minutes N | --seconds N] [--seed S]
                        calls that wait for their clients, under random answers, replays, tampering and restarts:
                        none runs twice and none is left; 10 minutes by default
  soak --cluster [--minutes N | --seconds N] [--clients N]
                        three replicas on NATS behind a balancer, one of which is killed every 20 s: no call runs
                        twice and no list goes back; 10 minutes and 3,000 clients by default
  chaos [--minutes N | --seconds N] [--seed S]
                        resets, cuts, stalls, kills and floods between the gateway and servers of others;
                        10 minutes by default
  relevance [--gateway BINARY] [--misses]
                        questions over the tools of 30 published servers: how many find their tool, with words
                        alone and with a static embedding model; --misses: which of the tune half do not
  house                 measures of the code: sizes, cycles between modules, names, comments
  peers                 only install what the two above need, into target/peers
  bench [ARGS…]         the load harness against the gateway as it is released (built twice the first time: once to be trained);
                        --gateway BINARY: against that one
  deny                  licences, bans and sources of the dependencies

Example: cargo xtask conformance --upstream stdio --revision 2025-11-25 --scenario tools-list";

/// One task with its options.
#[derive(Debug, PartialEq)]
pub(crate) enum Task {
    Help,
    Test { quick: bool },
    Conformance { selection: Selection, gateway: Option<PathBuf> },
    RealPeers { gateway: Option<PathBuf> },
    Browser { gateway: Option<PathBuf> },
    MeasureBrowser { gateway: Option<PathBuf> },
    Clients { gateway: Option<PathBuf> },
    OtherEra { gateway: Option<PathBuf> },
    Package { build: PackedBuild },
    Site,
    Relevance { gateway: Option<PathBuf>, misses: bool },
    Peers,
    Bench { arguments: Vec<String> },
    Soak { arguments: Vec<String> },
    SoakParks { seconds: u64, seed: Option<u64> },
    SoakCluster { seconds: u64, clients: u64 },
    Chaos { arguments: Vec<String> },
    House,
    Deny,
}

/// Why the arguments make no task.
#[derive(Debug, PartialEq)]
pub(crate) enum Wrong {
    NoTask,
    UnknownTask(String),
    UnknownOption(String),
    NoValue(String),
    BadValue { option: String, value: String, known: String },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTask => write!(f, "no task given"),
            Self::UnknownTask(task) => write!(f, "unknown task `{task}`"),
            Self::UnknownOption(option) => write!(f, "unknown option `{option}`"),
            Self::NoValue(option) => write!(f, "`{option}` needs a value"),
            Self::BadValue { option, value, known } => {
                write!(f, "`{option} {value}`: expected one of {known}")
            }
        }
    }
}

pub(crate) fn parse(arguments: &[String]) -> Result<Task, Wrong> {
    let (task, rest) = arguments.split_first().ok_or(Wrong::NoTask)?;
    match task.as_str() {
        "help" | "--help" | "-h" => Ok(Task::Help),
        "test" => flags(rest, &["--quick"]).map(|given| Task::Test { quick: !given.is_empty() }),
        "conformance" => conformance(rest),
        "real-peers" => named_gateway(rest).map(|gateway| Task::RealPeers { gateway }),
        "browser" => match rest.split_first() {
            Some((first, rest)) if first == "--measure" => {
                named_gateway(rest).map(|gateway| Task::MeasureBrowser { gateway })
            }
            _ => named_gateway(rest).map(|gateway| Task::Browser { gateway }),
        },
        "clients" => named_gateway(rest).map(|gateway| Task::Clients { gateway }),
        "other-era" => named_gateway(rest).map(|gateway| Task::OtherEra { gateway }),
        "package" => package(rest),
        "site" => flags(rest, &[]).map(|_| Task::Site),
        "relevance" => relevance(rest),
        "peers" => flags(rest, &[]).map(|_| Task::Peers),
        "bench" => Ok(Task::Bench { arguments: rest.to_vec() }),
        "soak" => match rest.split_first() {
            Some((first, rest)) if first == "--parks" => soak_parks(rest),
            Some((first, rest)) if first == "--cluster" => soak_cluster(rest),
            _ => Ok(Task::Soak { arguments: rest.to_vec() }),
        },
        "chaos" => Ok(Task::Chaos { arguments: rest.to_vec() }),
        "house" => flags(rest, &[]).map(|_| Task::House),
        "deny" => flags(rest, &[]).map(|_| Task::Deny),
        other => Err(Wrong::UnknownTask(other.to_owned())),
    }
}

fn flags<'a>(given: &'a [String], known: &[&str]) -> Result<&'a [String], Wrong> {
    match given.iter().find(|flag| !known.contains(&flag.as_str())) {
        Some(unknown) => Err(Wrong::UnknownOption(unknown.clone())),
        None => Ok(given),
    }
}

fn conformance(given: &[String]) -> Result<Task, Wrong> {
    let mut selection = Selection::default();
    let mut gateway = None;
    for (option, value) in pairs(given)? {
        match option {
            "--upstream" => selection.link = Some(link(value)?),
            "--revision" => selection.revision = Some(revision(value)?),
            "--scenario" => selection.scenario = Some(value.to_owned()),
            "--gateway" => gateway = Some(PathBuf::from(value)),
            other => return Err(Wrong::UnknownOption(other.to_owned())),
        }
    }
    Ok(Task::Conformance { selection, gateway })
}

fn named_gateway(given: &[String]) -> Result<Option<PathBuf>, Wrong> {
    let mut gateway = None;
    for (option, value) in pairs(given)? {
        match option {
            "--gateway" => gateway = Some(PathBuf::from(value)),
            other => return Err(Wrong::UnknownOption(other.to_owned())),
        }
    }
    Ok(gateway)
}

fn package(given: &[String]) -> Result<Task, Wrong> {
    let build = match given {
        [] => PackedBuild::Static,
        [only] if only == "--quick" => PackedBuild::Debug,
        [only] if only == "--twice" => PackedBuild::StaticTwice,
        [.., last] => return Err(Wrong::UnknownOption(last.clone())),
    };
    Ok(Task::Package { build })
}

fn soak_parks(given: &[String]) -> Result<Task, Wrong> {
    let (mut seconds, mut seed) = (10 * 60, None);
    for (option, value) in pairs(given)? {
        let number = value.parse().map_err(|_| Wrong::BadValue {
            option: option.to_owned(),
            value: value.to_owned(),
            known: "the whole numbers".to_owned(),
        });
        match option {
            "--minutes" => seconds = number? * 60,
            "--seconds" => seconds = number?,
            "--seed" => seed = Some(number?),
            other => return Err(Wrong::UnknownOption(other.to_owned())),
        }
    }
    Ok(Task::SoakParks { seconds, seed })
}

fn soak_cluster(given: &[String]) -> Result<Task, Wrong> {
    let (mut seconds, mut clients) = (10 * 60, 3000);
    for (option, value) in pairs(given)? {
        let number = value.parse::<u64>().map_err(|_| Wrong::BadValue {
            option: option.to_owned(),
            value: value.to_owned(),
            known: "the whole numbers".to_owned(),
        });
        match option {
            "--minutes" => seconds = number? * 60,
            "--seconds" => seconds = number?,
            "--clients" => clients = number?,
            other => return Err(Wrong::UnknownOption(other.to_owned())),
        }
    }
    Ok(Task::SoakCluster { seconds, clients })
}

fn relevance(given: &[String]) -> Result<Task, Wrong> {
    let (flags, rest): (Vec<String>, Vec<String>) = given.iter().cloned().partition(|option| option == "--misses");
    Ok(Task::Relevance { gateway: named_gateway(&rest)?, misses: !flags.is_empty() })
}

fn pairs(given: &[String]) -> Result<Vec<(&str, &str)>, Wrong> {
    given
        .chunks(2)
        .map(|chunk| match chunk {
            [option, value] => Ok((option.as_str(), value.as_str())),
            _ => Err(Wrong::NoValue(chunk.concat())),
        })
        .collect()
}

fn link(value: &str) -> Result<Link, Wrong> {
    Link::ALL.into_iter().find(|link| link.name() == value).ok_or_else(|| Wrong::BadValue {
        option: "--upstream".to_owned(),
        value: value.to_owned(),
        known: Link::ALL.map(Link::name).join(", "),
    })
}

fn revision(value: &str) -> Result<&'static str, Wrong> {
    REVISIONS.into_iter().find(|known| *known == value).ok_or_else(|| Wrong::BadValue {
        option: "--revision".to_owned(),
        value: value.to_owned(),
        known: REVISIONS.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(line: &str) -> Result<Task, Wrong> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn options_select_a_part_of_the_conformance_run() {
        let expected = Selection {
            link: Some(Link::Stdio),
            revision: Some("2025-11-25"),
            scenario: Some("tools-list".to_owned()),
        };
        let line = "conformance --upstream stdio --revision 2025-11-25 --scenario tools-list";
        assert_eq!(task(line), Ok(Task::Conformance { selection: expected, gateway: None }));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(task(""), Err(Wrong::NoTask));
        assert_eq!(task("fly"), Err(Wrong::UnknownTask("fly".to_owned())));
        assert_eq!(task("test --fast"), Err(Wrong::UnknownOption("--fast".to_owned())));
        assert_eq!(task("conformance --scenario"), Err(Wrong::NoValue("--scenario".to_owned())));
        assert!(matches!(task("conformance --revision 1999"), Err(Wrong::BadValue { .. })));
    }

    #[test]
    fn one_option_says_which_program_is_packed() {
        assert_eq!(task("package"), Ok(Task::Package { build: PackedBuild::Static }));
        assert_eq!(task("package --quick"), Ok(Task::Package { build: PackedBuild::Debug }));
        assert_eq!(task("package --twice"), Ok(Task::Package { build: PackedBuild::StaticTwice }));
        assert_eq!(task("package --quick --twice"), Err(Wrong::UnknownOption("--twice".to_owned())));
    }

    #[test]
    fn bench_and_soak_pass_their_arguments_on() {
        let arguments = vec!["--clients".to_owned(), "16".to_owned()];
        assert_eq!(task("bench --clients 16"), Ok(Task::Bench { arguments }));
        let arguments = vec!["--seed".to_owned(), "7".to_owned()];
        assert_eq!(task("soak --seed 7"), Ok(Task::Soak { arguments }));
        assert_eq!(task("soak --parks"), Ok(Task::SoakParks { seconds: 600, seed: None }));
        let parks = Task::SoakParks { seconds: 120, seed: Some(7) };
        assert_eq!(task("soak --parks --minutes 2 --seed 7"), Ok(parks));
        assert!(matches!(task("soak --parks --seed x"), Err(Wrong::BadValue { .. })));
        let cluster = Task::SoakCluster { seconds: 60, clients: 30 };
        assert_eq!(task("soak --cluster --minutes 1 --clients 30"), Ok(cluster));
    }
}
