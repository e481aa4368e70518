//! What was asked for.

use std::fmt;
use std::time::{Duration, SystemTime};

pub(crate) const USAGE: &str = "\
Usage: soak [--minutes N | --seconds N] [--seed S] [--shared-only]

  --minutes N   how long; 10 by default
  --seconds N   how long
  --seed S      which random events; by default another one each time
  --shared-only without the servers to which every session has a connection of its own
  --isolated    with them; so it is by default

TIDINGS_BIN names the gateway; by default it is the one next to this program.";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SoakOptions {
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) isolated: bool,
}

/// Why the arguments say nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadArguments {
    Unknown(String),
    NoNumber(String),
}

impl fmt::Display for BadArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(option) => write!(f, "unknown option `{option}`"),
            Self::NoNumber(option) => write!(f, "`{option}` needs a number"),
        }
    }
}

impl SoakOptions {
    /// `None` when help was asked for.
    pub(crate) fn parse(arguments: &[String]) -> Result<Option<Self>, BadArguments> {
        let mut options = Self { time: Duration::from_secs(600), seed: seed_of_now(), isolated: true };
        let mut rest = arguments.iter();
        while let Some(option) = rest.next() {
            let mut number = || {
                let value = rest.next().and_then(|value| value.parse::<u64>().ok());
                value.ok_or_else(|| BadArguments::NoNumber(option.clone()))
            };
            match option.as_str() {
                "--minutes" => options.time = Duration::from_secs(number()?.saturating_mul(60)),
                "--seconds" => options.time = Duration::from_secs(number()?),
                "--seed" => options.seed = number()?,
                "--isolated" => options.isolated = true,
                "--shared-only" => options.isolated = false,
                "--help" | "-h" => return Ok(None),
                _ => return Err(BadArguments::Unknown(option.clone())),
            }
        }
        Ok(Some(options))
    }
}

/// As they are written on the command line.
impl fmt::Display for SoakOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = if self.isolated { "" } else { " --shared-only" };
        write!(f, "--seconds {} --seed {}{shared}", self.time.as_secs(), self.seed)
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

    fn parsed(line: &str) -> Result<Option<SoakOptions>, BadArguments> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        SoakOptions::parse(&words)
    }

    #[test]
    fn a_run_can_be_repeated_by_what_it_prints() {
        for isolated in [true, false] {
            let options = SoakOptions { time: Duration::from_secs(30), seed: 7, isolated };
            assert_eq!(parsed(&options.to_string()), Ok(Some(options)));
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(parsed("--hours 1"), Err(BadArguments::Unknown("--hours".to_owned())));
        assert_eq!(parsed("--seed x"), Err(BadArguments::NoNumber("--seed".to_owned())));
        assert_eq!(parsed("--seconds"), Err(BadArguments::NoNumber("--seconds".to_owned())));
        assert_eq!(parsed("--help"), Ok(None));
    }
}
