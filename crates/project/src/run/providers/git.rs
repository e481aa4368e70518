//! `git`: a file in a repository of a public host, `git+https://HOST/REPOSITORY#REF:PATH`.
//!
//! The file is taken from the objects that were fetched. Nothing is checked out, so nothing can lead out of it.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tidings_proto::code;
use tidings_upstream::is_public;

use crate::environment::in_path;
use crate::run::outcome::ScriptFault;
use crate::run::resource::{ProvidedContent, ResourceReading};
use crate::run::{ScriptCall, ScriptRunner};

/// What is wanted from where.
#[derive(Debug, PartialEq, Eq)]
struct GitLocation<'a> {
    repository: &'a str,
    host: String,
    reference: &'a str,
    path: &'a str,
}

impl<'a> GitLocation<'a> {
    fn parse(uri: &'a str) -> Result<Self, &'static str> {
        let address = uri.strip_prefix("git+").filter(|rest| rest.starts_with("https://"));
        let address = address.ok_or("the git provider reads git+https:// addresses")?;
        let (repository, fragment) = address.split_once('#').ok_or("no #REF:PATH at its end")?;
        let (reference, path) = fragment.split_once(':').unwrap_or(("HEAD", fragment));
        let path = path.trim_start_matches('/');
        if path.is_empty() {
            return Err("no path after #");
        }
        let authority = repository.trim_start_matches("https://").split(['/', '?']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err("a user name or password in an address is not sent");
        }
        let host = match authority.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
        // git would take it for an option.
        if reference.is_empty() || reference.starts_with('-') || !reference.bytes().all(good) {
            return Err("not the name of a branch, tag or commit");
        }
        if host.is_empty() {
            Err("no host")
        } else {
            Ok(Self { repository, host: host.to_ascii_lowercase(), reference, path })
        }
    }
}

impl ScriptRunner {
    pub(in crate::run) async fn read_git(
        &self,
        reading: &ResourceReading,
        call: &mut ScriptCall<'_>,
    ) -> Result<ProvidedContent, ScriptFault> {
        let invalid = |why: String| ScriptFault::new(code::INVALID_PARAMS, format!("{}: {why}", reading.uri));
        if self.home.environment.get("MCPBASH_ENABLE_GIT_PROVIDER").is_none_or(|text| text.trim() != "true") {
            return Err(invalid("the git provider is off; set MCPBASH_ENABLE_GIT_PROVIDER=true".into()));
        }
        let wanted = GitLocation::parse(&reading.uri).map_err(|why| invalid(why.into()))?;
        self.permits_host("GIT", &wanted.host)?;
        let git = in_path(&self.home.environment, "git").ok_or_else(|| invalid("git is not installed".into()))?;
        let within = Duration::from_secs(self.number("MCPBASH_GIT_TIMEOUT", 30, 60));
        let looked_up = tokio::time::timeout(within, tokio::net::lookup_host((wanted.host.as_str(), 443))).await;
        let unreachable = || ScriptFault::internal(format!("{}: the host can not be found", reading.uri));
        let addresses = looked_up.map_err(|_| unreachable())?.map_err(|_| unreachable())?;
        // git resolves the name again and could get another answer; redirects are off, and the host has to be
        // permitted by name.
        if addresses.into_iter().any(|address| !is_public(address.ip())) {
            return Err(invalid("leads to a private address".into()));
        }
        let folder = self.folders.make().map_err(|error| ScriptFault::internal(error.to_string()))?;
        let repository = folder.path().to_owned();
        call.spent.push(folder);
        let run = |arguments: &[&str]| {
            let command =
                [git.clone().into_os_string()].into_iter().chain(arguments.iter().map(OsString::from)).collect();
            self.run_command(command, self.git_variables(), &repository, within, call)
        };
        // No work tree, so no attribute or hook of the repository can run anything.
        let init = run(&["init", "--quiet", "--bare", "."]).await?;
        if init.code != 0 {
            return Err(ScriptFault::internal(init.complaint("git init failed")));
        }
        // `--` before what comes from the URI: nothing in it can be taken for an option.
        let fetch = ["-c", "http.followRedirects=false", "fetch", "--quiet", "--depth=1", "--no-tags", "--"];
        let fetched = run(&[&fetch[..], &[wanted.repository, wanted.reference]].concat()).await?;
        if fetched.code != 0 {
            return Err(ScriptFault::internal(fetched.complaint("git fetch failed")));
        }
        // Checked after the fetch, because a server does not say before how much it will send; the time limit bounds it
        // meanwhile.
        let most = self.number("MCPBASH_GIT_MAX_KB", 51_200, 1 << 20);
        if size_of(&repository) / 1024 > most {
            return Err(ScriptFault::internal(format!(
                "{}: the repository exceeds {most} KB (MCPBASH_GIT_MAX_KB)",
                reading.uri
            )));
        }
        let shown = run(&["cat-file", "blob", &format!("FETCH_HEAD:{}", wanted.path)]).await?;
        match shown.code {
            0 => Ok(ProvidedContent { bytes: shown.stdout.to_vec(), mime_type: None }),
            _ => Err(ScriptFault::new(code::RESOURCE_NOT_FOUND, "Resource not found")),
        }
    }

    fn git_variables(&self) -> crate::environment::Variables {
        let mut variables = self.provider_variables.clone();
        for (name, value) in [
            ("GIT_TERMINAL_PROMPT", "0"),
            // A submodule or a redirect could name another one, such as `file` or `ext`.
            ("GIT_ALLOW_PROTOCOL", "https"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            // The user's own configuration may hold credentials and commands.
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ] {
            variables.insert(name.into(), value.into());
        }
        variables
    }
}

/// The bytes of all files in a folder; links are not followed.
fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_of(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_repository_reference_and_path() {
        let wanted = GitLocation::parse("git+https://Example.com:443/a/b.git#v1.0:/docs/x.md").unwrap();
        let expected = GitLocation {
            repository: "https://Example.com:443/a/b.git",
            host: "example.com".into(),
            reference: "v1.0",
            path: "docs/x.md",
        };
        assert_eq!(wanted, expected);
        assert_eq!(GitLocation::parse("git+https://h/r#a.txt").unwrap().reference, "HEAD");
    }

    #[test]
    fn addresses_that_could_do_harm_are_refused() {
        for bad in [
            "git+ssh://h/r#a",
            "git+file:///etc#passwd",
            "git+https://user:pass@h/r#a",
            "git+https://h/r",
            "git+https://h/r#HEAD:",
            "git+https://h/r#--upload-pack=x:a",
            "git+https://h/r#a b:c",
            "git+https:///r#a",
        ] {
            assert!(GitLocation::parse(bad).is_err(), "{bad}");
        }
    }
}
