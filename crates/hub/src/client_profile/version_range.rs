//! Which versions of a client are meant: `<1`, `>=2.1.144`, or several that must all hold.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A range of versions. That of nothing at all includes every version, also one that is not said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionRange(Vec<VersionBound>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct VersionBound {
    sign: &'static str,
    than: Vec<u64>,
}

/// A text that is no range of versions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no bound on a version such as \"<1\" or \">=2.1\"")]
pub struct VersionRangeFault(pub String);

/// The longer ones first: `<` begins `<=` too.
const SIGNS: [&str; 5] = ["<=", ">=", "<", ">", "="];

impl VersionRange {
    /// From this version on.
    pub(super) fn since(version: &str) -> Self {
        // Only for rows of the built-in table, whose versions are all numbers.
        Self(vec![VersionBound { sign: ">=", than: numbers(version).unwrap_or_default() }])
    }

    /// What both include.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// Whether it leaves nothing out.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it includes a version. One that is not said, or says no number, is in no range that leaves something out.
    pub fn includes(&self, version: Option<&str>) -> bool {
        if self.is_everything() {
            return true;
        }
        let Some(version) = version.and_then(numbers) else { return false };
        self.0.iter().all(|bound| bound.includes(&version))
    }
}

impl VersionBound {
    fn includes(&self, version: &[u64]) -> bool {
        let order = compare(version, &self.than);
        match self.sign {
            "<" => order == Ordering::Less,
            "<=" => order != Ordering::Greater,
            ">" => order == Ordering::Greater,
            ">=" => order != Ordering::Less,
            _ => order == Ordering::Equal,
        }
    }
}

/// `1` and `1.0` are equal.
fn compare(one: &[u64], other: &[u64]) -> Ordering {
    let length = one.len().max(other.len());
    let at = |numbers: &[u64], place: usize| numbers.get(place).copied().unwrap_or_default();
    let pairs = (0..length).map(|place| at(one, place).cmp(&at(other, place)));
    pairs.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The numbers that a version begins with: of `v1.2.3-beta.1` those are 1, 2 and 3.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let version = version.trim().trim_start_matches(['v', 'V']);
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    let parts = version[..end].split('.').map_while(|part| part.parse().ok());
    let numbers: Vec<u64> = parts.collect();
    (!numbers.is_empty()).then_some(numbers)
}

impl FromStr for VersionRange {
    type Err = VersionRangeFault;

    fn from_str(text: &str) -> Result<Self, VersionRangeFault> {
        let bound = |part: &str| {
            let part = part.trim();
            let fault = || VersionRangeFault(part.to_owned());
            let sign = SIGNS.into_iter().find(|sign| part.starts_with(sign)).ok_or_else(fault)?;
            let than = part[sign.len()..].trim();
            let is_plain = !than.is_empty() && than.chars().all(|c| c.is_ascii_digit() || c == '.');
            let than = numbers(than).filter(|_| is_plain).ok_or_else(fault)?;
            Ok(VersionBound { sign, than })
        };
        text.split(',').map(bound).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, VersionBound { sign, than }) in self.0.iter().enumerate() {
            let than: Vec<String> = than.iter().map(u64::to_string).collect();
            write!(f, "{}{sign}{}", if place == 0 { "" } else { ", " }, than.join("."))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // reach 2
    #[test]
    fn a_version_is_compared_by_its_numbers() {
        for (range, version, includes) in [
            ("<1", "0.61.0", true),
            ("<1", "1.0.0", false),
            (">=2.1.144", "2.1.325", true),
            (">=2.1.144", "2.1.99", false),
            (">=2.1.144", "2.1.144-beta", true),
            ("=1", "1.0", true),
            (">1, <2.5", "v2.4.9", true),
            (">1, <2.5", "2.5", false),
        ] {
            let range: VersionRange = range.parse().unwrap_or_default();
            assert_eq!(range.includes(Some(version)), includes, "{range} {version}");
        }
        let narrow: VersionRange = "<1".parse().unwrap_or_default();
        assert!(!narrow.includes(None) && !narrow.includes(Some("nightly")));
        assert!(VersionRange::default().includes(None));
    }

    #[test]
    fn what_is_no_range_is_refused_and_named() {
        for text in ["", "1", "~1", "<", "<x", "<1, y", "<1.x"] {
            assert!(text.parse::<VersionRange>().is_err(), "{text}");
        }
        assert_eq!("<1, y".parse::<VersionRange>(), Err(VersionRangeFault("y".to_owned())));
    }
}
