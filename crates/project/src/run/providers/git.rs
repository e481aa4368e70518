//! `git`: a file in a repository of a public host, `git+https://HOST/REPOSITORY#REF:PATH`.
//!
//! The file is taken from the objects that were fetched. Nothing is checked out, so nothing can lead out of it.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use tidings_proto::code;
use tidings_upstream::is_public;

use crate::environment::in_path;
use crate::run::outcome::ScriptFault;
use crate::run::resource::{ProvidedContent, ResourceReading};
use crate::run::{ScriptCall, ScriptRunner};

/// What git says when it was ended because it wrote more than it may (SIGXFSZ is 25, and EFBIG where that is ignored).
const BEYOND: [&str; 4] = ["signal 25", "File too large", "File size limit", "invalid index-pack output"];

/// The exit code of git itself in that case.
const KILLED: i32 = 128 + 25;

/// What is wanted from where.
#[derive(Debug, PartialEq, Eq)]
struct GitLocation<'a> {
    repository: &'a str,
    host: String,
    port: u16,
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
        let (host, port) = match authority.strip_prefix('[') {
            Some(v6) => v6.split_once(']').unwrap_or((v6, "")),
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            None | Some("") => 443,
            Some(port) => port.parse().map_err(|_| "not the number of a port")?,
        };
        let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
        // git would take it for an option.
        if reference.is_empty() || reference.starts_with('-') || !reference.bytes().all(good) {
            return Err("not the name of a branch, tag or commit");
        }
        if host.is_empty() {
            Err("no host")
        } else {
            Ok(Self { repository, host: host.to_ascii_lowercase(), port, reference, path })
        }
    }
}

impl GitLocation<'_> {
    /// The setting that makes git dial the addresses that were looked at: it must not ask again and get others (DNS rebinding).
    fn resolved(&self, addresses: &[IpAddr]) -> String {
        let addresses: Vec<String> = addresses
            .iter()
            .map(|address| match address {
                IpAddr::V4(v4) => v4.to_string(),
                IpAddr::V6(v6) => format!("[{v6}]"),
            })
            .collect();
        format!("http.curloptResolve={}:{}:{}", self.host, self.port, addresses.join(","))
    }

    /// Fetches what is wanted. All that comes goes into one file, whose size is bounded, and large files are not taken into memory.
    fn fetch<'b>(&'b self, resolved: &'b str) -> [&'b str; 17] {
        let Self { repository, reference, .. } = self;
        [
            "-c",
            "http.followRedirects=false",
            "-c",
            resolved,
            "-c",
            "fetch.unpackLimit=1",
            "-c",
            "core.bigFileThreshold=1m",
            "-c",
            "gc.auto=0",
            "fetch",
            "--quiet",
            "--depth=1",
            "--no-tags",
            // Before what comes from the URI: nothing in it can be taken for an option.
            "--",
            repository,
            reference,
        ]
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
        let looked_up =
            tokio::time::timeout(within, tokio::net::lookup_host((wanted.host.as_str(), wanted.port))).await;
        let unreachable = || ScriptFault::internal(format!("{}: the host can not be found", reading.uri));
        let addresses = looked_up.map_err(|_| unreachable())?.map_err(|_| unreachable())?;
        let addresses: Vec<IpAddr> = addresses.map(|address| address.ip()).collect();
        if addresses.iter().any(|address| !is_public(*address)) {
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
        // A server does not say before how much it will send: the system ends a git that writes more than it may.
        let run_bounded = |most: u64, arguments: &[&str]| {
            let blocks = (most * 2).to_string();
            let shell = ["/bin/sh", "-c", "ulimit -f \"$0\" && exec \"$@\"", &blocks].map(OsString::from);
            let git = [git.clone().into_os_string()].into_iter().chain(arguments.iter().map(OsString::from));
            self.run_command(shell.into_iter().chain(git).collect(), self.git_variables(), &repository, within, call)
        };
        // No work tree, so no attribute or hook of the repository can run anything.
        let init = run(&["init", "--quiet", "--bare", "."]).await?;
        if init.code != 0 {
            return Err(ScriptFault::internal(init.complaint("git init failed")));
        }
        let most = self.number("MCPBASH_GIT_MAX_KB", 51_200, 1 << 20);
        let too_large =
            || ScriptFault::internal(format!("{}: the repository exceeds {most} KB (MCPBASH_GIT_MAX_KB)", reading.uri));
        let resolved = wanted.resolved(&addresses);
        let fetched = run_bounded(most, &wanted.fetch(&resolved)).await?;
        if fetched.code != 0 {
            let complaint = fetched.complaint("git fetch failed");
            let was_stopped = fetched.code == KILLED || BEYOND.iter().any(|words| complaint.contains(words));
            return Err(if was_stopped { too_large() } else { ScriptFault::internal(complaint) });
        }
        // Each file was bounded while it was written; this is about all of them.
        if size_of(&repository) / 1024 > most {
            return Err(too_large());
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
            port: 443,
            reference: "v1.0",
            path: "docs/x.md",
        };
        assert_eq!(wanted, expected);
        assert_eq!(GitLocation::parse("git+https://h/r#a.txt").unwrap().reference, "HEAD");
    }

    // trust T11
    #[test]
    fn git_dials_the_addresses_that_were_looked_at() {
        let wanted = GitLocation::parse("git+https://Example.com:8443/r#a.txt").unwrap();
        let resolved = wanted.resolved(&["93.184.216.34".parse().unwrap(), "2606:4700::1".parse().unwrap()]);
        assert_eq!(resolved, "http.curloptResolve=example.com:8443:93.184.216.34,[2606:4700::1]");
        assert!(wanted.fetch(&resolved).contains(&resolved.as_str()));
        assert!(GitLocation::parse("git+https://h:99999/r#a").is_err());
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
