//! Which environment variables a caller may set for a server that it did not describe itself.
//!
//! Variables such as `PATH` or `LD_PRELOAD` decide which program runs. Credentials and addresses do not.

use std::fmt;

/// How the names of variables begin that may be set, in any case.
pub(super) const PREFIXES: [&str; 15] = [
    "API_KEY",
    "API_TOKEN",
    "AUTH_",
    "DATABASE_",
    "DB_",
    "GITHUB_",
    "OPENAI_",
    "ANTHROPIC_",
    "AWS_",
    "AZURE_",
    "GCP_",
    "SLACK_",
    "DISCORD_",
    "NOTION_",
    "MCP_",
];

/// A variable that may not be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotAllowed {
    variable: String,
    declared: Vec<String>,
}

impl fmt::Display for NotAllowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} can not be set here; allowed are names that begin with {}", self.variable, PREFIXES.join(", "))?;
        if !self.declared.is_empty() {
            write!(f, ", and {}", self.declared.join(", "))?;
        }
        Ok(())
    }
}

/// Whether all may be set: those that the entry declares, and those with a harmless name.
pub(super) fn check(environment: &[(String, String)], declared: &[String]) -> Result<(), NotAllowed> {
    let allowed = |name: &str| {
        let upper = name.to_ascii_uppercase();
        // Names of variables are case-sensitive, so a declared name has to match exactly; the prefixes only tell what a
        // name is about.
        declared.iter().any(|own| own == name) || PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
    };
    match environment.iter().find(|(name, _)| !allowed(name)) {
        // It is repeated to the caller, and may be of any length.
        Some((name, _)) => Err(NotAllowed { variable: name.chars().take(64).collect(), declared: declared.to_vec() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(name: &str, declared: &[&str]) -> Result<(), String> {
        let declared: Vec<String> = declared.iter().map(|name| (*name).to_owned()).collect();
        check(&[(name.to_owned(), String::new())], &declared).map_err(|problem| problem.to_string())
    }

    // S4.5
    #[test]
    fn only_declared_variables_and_credentials_may_be_set() {
        for allowed in ["GITHUB_TOKEN", "api_key", "API_TOKEN_2", "MCP_X", "DATABASE_URL"] {
            assert_eq!(check_one(allowed, &[]), Ok(()));
        }
        for refused in ["PATH", "LD_PRELOAD", "NODE_OPTIONS", "MY_GITHUB_", "", "PYTHONPATH"] {
            assert!(check_one(refused, &[]).is_err(), "{refused}");
        }
        assert_eq!(check_one("MEMORY_FILE_PATH", &["MEMORY_FILE_PATH"]), Ok(()));
        let problem = check_one("PATH", &["MEMORY_FILE_PATH"]).unwrap_err();
        assert!(problem.contains("API_KEY, ") && problem.ends_with("and MEMORY_FILE_PATH"), "{problem}");
    }
}
