//! What is known of somebody who was let in, and the patterns that rules name people by.
//!
//! Only what a rule can ask for is kept: two people of whom the same is known see the same. Who somebody is and which words their
//! provider has for it is decided where they are let in.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// What rules can ask about somebody.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PersonFacts {
    /// The name of the static token that let them in.
    pub token: Option<String>,
    /// The groups they are in.
    pub groups: BTreeSet<String>,
    /// The scopes that their token was given.
    pub scopes: BTreeSet<String>,
    /// Claims of their token that a rule names, each with a value it has.
    pub claims: BTreeSet<(String, String)>,
}

/// Whom a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhoPattern {
    /// Everybody.
    Everybody,
    /// Whoever has the static token of this name.
    Token(String),
    /// Members of a group.
    Group(String),
    /// Whose token was given a scope.
    Scope(String),
    /// Whose token has a claim of this value.
    Claim {
        /// The claim.
        name: String,
        /// What it has to be, or hold.
        value: String,
    },
}

/// A text is no pattern of people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected \"*\", \"group:NAME\", \"scope:NAME\", \"token:NAME\" or \"claim:NAME=VALUE\"")]
pub struct UnknownWho;

impl WhoPattern {
    /// Whether it is about this person.
    pub fn fits(&self, person: &PersonFacts) -> bool {
        match self {
            Self::Everybody => true,
            Self::Token(name) => person.token.as_ref() == Some(name),
            Self::Group(name) => person.groups.contains(name),
            Self::Scope(name) => person.scopes.contains(name),
            Self::Claim { name, value } => person.claims.contains(&(name.clone(), value.clone())),
        }
    }
}

impl FromStr for WhoPattern {
    type Err = UnknownWho;

    fn from_str(text: &str) -> Result<Self, UnknownWho> {
        if text == "*" {
            return Ok(Self::Everybody);
        }
        let (kind, rest) = text.split_once(':').filter(|(_, rest)| !rest.is_empty()).ok_or(UnknownWho)?;
        match kind {
            "token" => Ok(Self::Token(rest.to_owned())),
            "group" => Ok(Self::Group(rest.to_owned())),
            "scope" => Ok(Self::Scope(rest.to_owned())),
            "claim" => {
                let (name, value) = rest.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or(UnknownWho)?;
                Ok(Self::Claim { name: name.to_owned(), value: value.to_owned() })
            }
            _ => Err(UnknownWho),
        }
    }
}

impl fmt::Display for WhoPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everybody => f.write_str("*"),
            Self::Token(name) => write!(f, "token:{name}"),
            Self::Group(name) => write!(f, "group:{name}"),
            Self::Scope(name) => write!(f, "scope:{name}"),
            Self::Claim { name, value } => write!(f, "claim:{name}={value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person() -> PersonFacts {
        PersonFacts {
            token: Some("laptop".to_owned()),
            groups: ["support".to_owned()].into(),
            scopes: ["crm".to_owned()].into(),
            claims: [("dept".to_owned(), "x=y".to_owned())].into(),
        }
    }

    // identity 3
    #[test]
    fn a_pattern_fits_those_it_names_and_nobody_else() {
        let fits = |text: &str| text.parse::<WhoPattern>().expect("a pattern").fits(&person());
        for text in ["*", "token:laptop", "group:support", "scope:crm", "claim:dept=x=y"] {
            assert!(fits(text), "{text}");
            assert_eq!(text.parse::<WhoPattern>().expect("a pattern").to_string(), text);
        }
        for text in ["token:Laptop", "group:crm", "scope:support", "claim:dept=x", "claim:other=x=y", "group:*"] {
            assert!(!fits(text), "{text}");
        }
        for text in ["", "laptop", "user:ada", "group:", "claim:dept", "claim:=x"] {
            assert_eq!(text.parse::<WhoPattern>(), Err(UnknownWho), "{text:?}");
        }
    }
}
