//! The programs that run packages, which have to be on this machine.

use std::ffi::OsStr;
use std::fmt;

use tidings_config::EntryCommand;

/// A program that is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotHere {
    program: &'static str,
    comes_with: &'static str,
}

impl fmt::Display for NotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "it is run by {}, which is not on the PATH of the gateway; it comes with {}",
            self.program, self.comes_with
        )
    }
}

/// Whether what runs the package is in one of the folders of `path`.
pub(super) fn check(run: &EntryCommand, path: Option<&OsStr>) -> Result<(), NotHere> {
    let needed = match run {
        EntryCommand::Npm { .. } => NotHere { program: "npx", comes_with: "Node.js (https://nodejs.org)" },
        EntryCommand::Pypi { .. } => NotHere { program: "uvx", comes_with: "uv (https://docs.astral.sh/uv)" },
        EntryCommand::Nuget { .. } => NotHere { program: "dnx", comes_with: ".NET 10 (https://dotnet.microsoft.com)" },
        // A missing command or container runtime is reported by the start itself.
        EntryCommand::Command { .. }
        | EntryCommand::Bundle { .. }
        | EntryCommand::Container { .. }
        | EntryCommand::Url { .. } => return Ok(()),
    };
    let is_here = path.is_some_and(|path| std::env::split_paths(path).any(|dir| dir.join(needed.program).is_file()));
    if is_here { Ok(()) } else { Err(needed) }
}

#[cfg(test)]
mod tests {
    use tidings_testkit::TempDir;

    use super::*;

    #[test]
    fn a_missing_runner_is_named_with_where_it_comes_from() {
        let folder = TempDir::new();
        folder.write("npx", "");
        let path = folder.path().as_os_str();
        let (package, args) = (|| "p".to_owned(), Vec::new);
        assert_eq!(check(&EntryCommand::Npm { package: package(), args: args() }, Some(path)), Ok(()));
        let missing =
            check(&EntryCommand::Pypi { package: package(), args: args() }, Some(path)).unwrap_err().to_string();
        assert!(
            missing.starts_with("it is run by uvx, which is not") && missing.contains("docs.astral.sh"),
            "{missing}"
        );
        assert!(check(&EntryCommand::Npm { package: package(), args: args() }, None).is_err());
        assert_eq!(check(&EntryCommand::Command { command: package(), args: args() }, None), Ok(()));
    }
}
