//! Which variables of the gateway a command sees: what programs need to run at all, and what its description asks for. Keys
//! of other servers, of clouds and of the shell that started the gateway are not among them.

use std::ffi::{OsStr, OsString};

/// What is passed on besides that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InheritEnv {
    /// Every variable of the gateway's own environment.
    All,
    /// These names; one that ends in `*` stands for all that begin so.
    Names(Vec<String>),
}

impl Default for InheritEnv {
    fn default() -> Self {
        Self::Names(Vec::new())
    }
}

/// What the official SDKs pass, the language, folders and time zone of the user, and what package runners need behind a
/// proxy or an authority of one's own.
const PASSED: [&str; 46] = [
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TMPDIR",
    "TMP",
    "TEMP",
    "TZ",
    "XDG_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "NIX_SSL_CERT_FILE",
    "DENO_CERT",
    "__CF_USER_TEXT_ENCODING",
    "APPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "USERNAME",
    "USERPROFILE",
    "PROGRAMFILES",
    "PROGRAMDATA",
    "COMSPEC",
    "WINDIR",
];

impl InheritEnv {
    /// Whether a variable is passed on.
    pub fn passes(&self, name: &str) -> bool {
        let fits = |pattern: &str| pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start));
        match self {
            Self::All => true,
            Self::Names(names) => PASSED.into_iter().any(fits) || names.iter().any(|pattern| fits(pattern)),
        }
    }

    /// The variables of this process that are passed on.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (OsString, OsString)> {
        std::env::vars_os().filter(|(name, value)| match name.to_str() {
            Some(name) => self.passes(name) && (*self == Self::All || !is_function(value)),
            // A name that is no text fits no pattern.
            None => *self == Self::All,
        })
    }

    /// The names of those that are not.
    pub fn withheld(&self) -> Vec<String> {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        names.filter(|name| !self.passes(name)).collect()
    }
}

/// Shells pass functions in variables, which other shells run.
fn is_function(value: &OsStr) -> bool {
    value.as_encoded_bytes().starts_with(b"()")
}

/// Those of `withheld` that a text names, as a server does that misses them.
pub(crate) fn named_in<'a>(text: &str, withheld: &'a [String]) -> Vec<&'a str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: std::collections::BTreeSet<&str> = text.split(|c: char| !is_part(c)).collect();
    // Short names are words of any language.
    let names = withheld
        .iter()
        .map(String::as_str)
        .filter(|name| name.len() > 3 && name.bytes().any(|b| b.is_ascii_uppercase()));
    let mut named: Vec<&str> = names.filter(|name| words.contains(name)).collect();
    named.sort_unstable();
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    // trust T2
    #[test]
    fn what_programs_need_passes_and_keys_do_not() {
        let none = InheritEnv::default();
        for name in ["PATH", "HOME", "LC_ALL", "XDG_RUNTIME_DIR", "HTTPS_PROXY", "NODE_EXTRA_CA_CERTS", "TZ"] {
            assert!(none.passes(name), "{name}");
        }
        for name in
            ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "LD_PRELOAD", "NODE_OPTIONS", "path", "PATHS"]
        {
            assert!(!none.passes(name), "{name}");
        }
        let some = InheritEnv::Names(vec!["GITHUB_TOKEN".into(), "AWS_*".into()]);
        assert!(some.passes("GITHUB_TOKEN") && some.passes("AWS_PROFILE") && !some.passes("GITHUB_TOKENS"));
        assert!(InheritEnv::All.passes("ANYTHING"));
    }

    // trust T2
    #[test]
    fn a_server_that_misses_a_variable_names_it() {
        let withheld = ["GITHUB_TOKEN".to_owned(), "EDITOR".to_owned(), "X".to_owned(), "PAGER".to_owned()];
        assert_eq!(named_in("Error: GITHUB_TOKEN is not set ($PAGER)", &withheld), ["GITHUB_TOKEN", "PAGER"]);
        assert!(named_in("GITHUB_TOKENS MY_GITHUB_TOKEN X editor", &withheld).is_empty());
    }
}
