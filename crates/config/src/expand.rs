//! References in strings: `${env:NAME}`, `${env:NAME:-default}`, `${file:PATH}`, and in JSON files `${NAME}` too.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::ConfigFault;

/// What the configuration may ask of the world around it.
#[derive(Clone, Copy)]
pub struct ConfigSurroundings<'a> {
    /// Looks up an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a file as text.
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
}

impl std::fmt::Debug for ConfigSurroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigSurroundings").finish_non_exhaustive()
    }
}

/// Whose conventions a file follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReferenceDialect {
    /// Our own: `${NAME}` is left as it is, `$${` stands for `${`.
    Native,
    /// As `Native`, but every string is taken as it is written.
    Verbatim,
    /// The `mcpServers` files of clients and editors.
    Clients,
}

/// Replaces references in strings of one file.
pub(crate) struct ReferenceExpander<'a> {
    pub(crate) surroundings: ConfigSurroundings<'a>,
    pub(crate) dialect: ReferenceDialect,
    /// The folder of the file.
    pub(crate) base: PathBuf,
}

impl ReferenceExpander<'_> {
    /// The text with its references replaced. What they bring in is not looked at again.
    pub(crate) fn expand(&self, text: &str) -> Result<String, ConfigFault> {
        if self.dialect == ReferenceDialect::Verbatim {
            return Ok(text.to_owned());
        }
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, reference) = rest.split_at(start);
            // `$${` is how `${` itself is written.
            if self.dialect == ReferenceDialect::Native && before.ends_with('$') {
                expanded.push_str(before);
                expanded.push('{');
                rest = &reference[2..];
                continue;
            }
            expanded.push_str(before);
            let Some(end) = reference.find('}') else {
                // A `${` of another program may have no end in this string; one of ours without an end is a mistake.
                return if is_ours(&reference[2..]) {
                    Err(ConfigFault::UnclosedReference)
                } else {
                    Ok(expanded + reference)
                };
            };
            match self.look_up(&reference[2..end])? {
                Some(value) => expanded.push_str(&value),
                // Left as written, for a shell or the server to read.
                None => expanded.push_str(&reference[..=end]),
            }
            rest = &reference[end + 1..];
        }
        Ok(expanded + rest)
    }

    /// The value of a reference; `None` when it is not one that is replaced here.
    fn look_up(&self, reference: &str) -> Result<Option<String>, ConfigFault> {
        if let Some(variable) = reference.strip_prefix("env:") {
            return self.variable(variable, true).map(Some);
        }
        if let Some(path) = reference.strip_prefix("file:") {
            let path = self.path(path);
            let content = (self.surroundings.read)(&path);
            let content = content.map_err(|error| ConfigFault::UnreadableReference { path, kind: error.kind() })?;
            // Editors end a file with a line break; a token with one is refused by servers.
            return Ok(Some(content.trim_end_matches(['\r', '\n']).to_owned()));
        }
        if let Some(name) = reference.strip_prefix("keyring:") {
            return Err(ConfigFault::Keyring { name: name.to_owned() });
        }
        if self.dialect == ReferenceDialect::Native {
            // Not ours, so it stays: shells and servers have references of their own.
            return Ok(None);
        }
        if let Some(name) = reference.strip_prefix("input:") {
            return Err(ConfigFault::Prompted { name: name.to_owned() });
        }
        let name = reference.split(":-").next().unwrap_or_default();
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_name { self.variable(reference, false).map(Some) } else { Ok(None) }
    }

    fn variable(&self, reference: &str, spelled_env: bool) -> Result<String, ConfigFault> {
        let (name, default) = match reference.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        // As in a shell, `:-` also stands in for a variable that is set to nothing.
        match ((self.surroundings.env)(name), default) {
            (Some(value), None) => Ok(value),
            (Some(value), Some(_)) if !value.is_empty() => Ok(value),
            (_, Some(default)) => Ok(default.to_owned()),
            // `${env:NAME}` can only mean the environment; a bare `${NAME}` may be one of the editor's own.
            (None, None) if spelled_env => Err(ConfigFault::UnsetVariable { name: name.to_owned(), spelled_env }),
            (None, None) => self
                .editor_variable(name)
                .ok_or_else(|| ConfigFault::UnsetVariable { name: name.to_owned(), spelled_env }),
        }
    }

    /// Variables that editors define in their own files.
    fn editor_variable(&self, name: &str) -> Option<String> {
        match name {
            "userHome" => (self.surroundings.env)("HOME"),
            "workspaceFolder" => {
                // There the file lies one folder below the workspace.
                let in_settings = [".vscode", ".cursor"].iter().any(|folder| self.base.ends_with(folder));
                let folder = if in_settings { self.base.parent()? } else { &self.base };
                Some(folder.display().to_string())
            }
            _ => None,
        }
    }

    /// A path of the file: relative ones count from its folder, `~/` from the home of the user.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), (self.surroundings.env)("HOME")) {
            (Some(below), Some(home)) => Path::new(&home).join(below),
            // `join(".")` would leave a `/.` at the end, which is shown to people.
            _ if path == "." => self.base.clone(),
            _ => self.base.join(path.strip_prefix("./").unwrap_or(path)),
        }
    }
}

fn is_ours(reference: &str) -> bool {
    ["env:", "file:", "keyring:"].iter().any(|prefix| reference.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str, dialect: ReferenceDialect) -> Result<String, ConfigFault> {
        let env = |name: &str| match name {
            "SET" => Some("value".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${env:SET}".to_owned()),
            "HOME" => Some("/home/me".to_owned()),
            _ => None,
        };
        let read = |path: &Path| match path.to_str() {
            Some("/conf/key") => Ok("secret\n".to_owned()),
            Some("/home/me/key") => Ok("home".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        ReferenceExpander { surroundings: ConfigSurroundings { env: &env, read: &read }, dialect, base: "/conf".into() }
            .expand(text)
    }

    #[test]
    fn references_of_both_formats_are_replaced() {
        let table = [
            ("Bearer ${env:SET}!", "Bearer value!"),
            ("${env:SET}${env:SET}", "valuevalue"),
            ("${env:UNSET:-other}", "other"),
            ("${env:EMPTY:-other}", "other"),
            ("${env:EMPTY}", ""),
            ("${env:NESTED}", "${env:SET}"),
            ("${file:key} ${file:./key} ${file:~/key}", "secret secret home"),
            ("$5 {x} ${", "$5 {x} ${"),
        ];
        for (text, expected) in table {
            assert_eq!(expand(text, ReferenceDialect::Native).unwrap(), expected, "{text}");
            assert_eq!(expand(text, ReferenceDialect::Clients).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn plain_variables_belong_to_client_files_only() {
        let table = [
            ("${SET}", "value"),
            ("${UNSET:-x y}", "x y"),
            ("${UNSET:-}", ""),
            ("${userHome}/x", "/home/me/x"),
            ("${workspaceFolder}", "/conf"),
            ("${a b}", "${a b}"),
        ];
        for (text, expected) in table {
            assert_eq!(expand(text, ReferenceDialect::Clients).unwrap(), expected);
            assert_eq!(expand(text, ReferenceDialect::Native).unwrap(), text);
        }
        assert_eq!(expand("$${env:SET}", ReferenceDialect::Native).unwrap(), "${env:SET}");
    }

    #[test]
    fn what_can_not_be_found_is_a_fault() {
        let unset = |spelled_env| ConfigFault::UnsetVariable { name: "UNSET".into(), spelled_env };
        assert_eq!(expand("${env:UNSET}", ReferenceDialect::Native).unwrap_err(), unset(true));
        assert_eq!(expand("${UNSET}", ReferenceDialect::Clients).unwrap_err(), unset(false));
        assert_eq!(
            expand("${keyring:k}", ReferenceDialect::Native).unwrap_err(),
            ConfigFault::Keyring { name: "k".into() }
        );
        assert_eq!(
            expand("${input:k}", ReferenceDialect::Clients).unwrap_err(),
            ConfigFault::Prompted { name: "k".into() }
        );
        assert_eq!(expand("${env:SET", ReferenceDialect::Native).unwrap_err(), ConfigFault::UnclosedReference);
        let missing = ConfigFault::UnreadableReference { path: "/conf/none".into(), kind: io::ErrorKind::NotFound };
        assert_eq!(expand("${file:none}", ReferenceDialect::Native).unwrap_err(), missing);
    }
}
