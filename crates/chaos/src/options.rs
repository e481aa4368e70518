//! What was asked for on the command line.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

pub(crate) const USAGE: &str = "\
Usage: chaos [--minutes N | --seconds N] [--seed S] [--peers DIR]

  --minutes N   how long; 10 by default
  --seconds N   how long
  --seed S      which faults; by default another one each time
  --peers DIR   the folder with the programs of others (`cargo xtask chaos` gives it); without it only scripted servers run

TIDINGS_BIN names the gateway; by default it is the one next to this program.";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChaosOptions {
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) peers: Option<PathBuf>,
}

/// Why the arguments can not be understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WrongOption {
    Unknown(String),
    NoValue(String),
}

impl fmt::Display for WrongOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(option) => write!(f, "unknown option `{option}`"),
            Self::NoValue(option) => write!(f, "`{option}` needs a value that fits"),
        }
    }
}

impl ChaosOptions {
    /// `None` when help was asked for.
    pub(crate) fn parse(arguments: &[String]) -> Result<Option<Self>, WrongOption> {
        let mut options = Self { time: Duration::from_secs(600), seed: seed_of_now(), peers: None };
        let mut rest = arguments.iter();
        while let Some(option) = rest.next() {
            let missing = || WrongOption::NoValue(option.clone());
            let mut number = || rest.next().and_then(|value| value.parse::<u64>().ok()).ok_or_else(missing);
            match option.as_str() {
                "--minutes" => options.time = Duration::from_secs(number()?.saturating_mul(60)),
                "--seconds" => options.time = Duration::from_secs(number()?),
                "--seed" => options.seed = number()?,
                "--peers" => options.peers = Some(rest.next().map(PathBuf::from).ok_or_else(missing)?),
                "--help" | "-h" => return Ok(None),
                _ => return Err(WrongOption::Unknown(option.clone())),
            }
        }
        Ok(Some(options))
    }
}

/// As they are written on the command line; `cargo xtask chaos` adds the peers by itself.
impl fmt::Display for ChaosOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--seconds {} --seed {}", self.time.as_secs(), self.seed)
    }
}

fn seed_of_now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Short, since people type it.
    (now.as_secs() ^ u64::from(now.subsec_nanos())) % 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<ChaosOptions>, WrongOption> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        ChaosOptions::parse(&words)
    }

    #[test]
    fn a_run_can_be_repeated_by_what_it_prints() {
        let options = ChaosOptions { time: Duration::from_secs(30), seed: 7, peers: None };
        assert_eq!(parsed(&options.to_string()), Ok(Some(options)));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(parsed("--hours 1"), Err(WrongOption::Unknown("--hours".to_owned())));
        assert_eq!(parsed("--seed x"), Err(WrongOption::NoValue("--seed".to_owned())));
        assert_eq!(parsed("--peers"), Err(WrongOption::NoValue("--peers".to_owned())));
    }
}
