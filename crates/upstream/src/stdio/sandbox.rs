//! What a command may do to this machine, where it is started in a sandbox (Linux).
//!
//! The launcher writes the sandbox into the arguments of [`super::process::exec_helper`]; the helper takes the rights from itself and
//! then becomes the program, so nothing has to be done between fork and exec. Landlock decides about files, and keeps a command from
//! looking into other processes; seccomp refuses system calls that no server needs. Where the kernel has no Landlock, the command
//! does not start.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LinkError;
use crate::spec::StdioSpec;

/// Before the sandbox in the arguments of the helper.
pub(super) const OPTION: &str = "--sandbox";
/// The words of the helper where there is no Landlock.
const MISSING: &str = "a sandbox needs Landlock (Linux 6.2 or newer, with `landlock` among its security modules)";
/// Variables by which programs find a place for temporary files and caches: with a sandbox they are in its own folder.
const PLACES: [(&str, &str); 6] = [
    ("TMPDIR", ""),
    ("XDG_CACHE_HOME", "cache"),
    ("npm_config_cache", "cache/npm"),
    ("UV_CACHE_DIR", "cache/uv"),
    ("UV_TOOL_DIR", "cache/uv-tools"),
    ("PIP_CACHE_DIR", "cache/pip"),
];

/// The sandbox of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Whether the home folder is hidden, too, and system calls that no server needs are refused.
    pub strict: bool,
    /// The folder of its own, where it may keep what it likes.
    pub folder: PathBuf,
    /// Where else it may write.
    pub writable: Vec<PathBuf>,
    /// What it may read of what is hidden.
    pub readable: Vec<PathBuf>,
    /// What a strict one does not see: the home folder, and the data directory of the gateway.
    pub hidden: Vec<PathBuf>,
}

impl SandboxSpec {
    /// Makes its folder, which only its user may enter.
    pub(super) fn prepare(&self) -> std::io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)
    }

    /// Where programs are to put temporary files and caches, unless the description says it.
    pub(super) fn variables<'s>(
        &'s self,
        given: &'s [(String, String)],
    ) -> impl Iterator<Item = (&'static str, PathBuf)> + 's {
        let is_given = |name: &str| given.iter().any(|(given, _)| given == name);
        PLACES.iter().filter(move |(name, _)| !is_given(name)).map(|(name, place)| (*name, self.folder.join(place)))
    }
}

/// What to do about a command that failed because its sandbox denied it something.
pub(crate) fn remedy(spec: &StdioSpec, error: &LinkError) -> Option<String> {
    let sandbox = spec.sandbox.as_ref()?;
    let words = error.last_words()?;
    if words.contains(MISSING) {
        return Some("Leave out `sandbox`, or run it in a container: container = \"IMAGE\"".to_owned());
    }
    let denied = ["EACCES", "EROFS", "EPERM", "ermission denied", "not permitted", "ead-only"];
    let line = words.lines().rev().find(|line| denied.iter().any(|word| line.contains(word)))?;
    let path = path_in(line)?;
    // What can be read everywhere is missing only for writing.
    let is_hidden = sandbox.strict && sandbox.hidden.iter().any(|hidden| Path::new(path).starts_with(hidden));
    let keys =
        if is_hidden { format!("readable = [{path:?}] (or writable)") } else { format!("writable = [{path:?}]") };
    Some(format!("Its sandbox may have denied it {path}; to allow that: {keys}"))
}

/// The first absolute path in a line.
fn path_in(line: &str) -> Option<&str> {
    let ends = |letter: char| letter.is_whitespace() || "'\"`),;".contains(letter);
    line.split(|letter: char| letter.is_whitespace() || "'\"`(".contains(letter))
        .filter(|word| word.starts_with('/') && word.len() > 1)
        .map(|word| word.split(ends).next().unwrap_or(word).trim_end_matches([':', '.']))
        .next()
}

/// Takes from this process what the sandbox does not permit. To be called before it becomes the program.
#[cfg(not(target_os = "linux"))]
pub(super) fn enter(_sandbox: &SandboxSpec, _program: &Path, _args: &[std::ffi::OsString]) -> std::io::Result<()> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, MISSING))
}

/// Takes from this process what the sandbox does not permit. To be called before it becomes the program.
#[cfg(target_os = "linux")]
pub(super) fn enter(sandbox: &SandboxSpec, program: &Path, args: &[std::ffi::OsString]) -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let none = |resource: Resource, most: u64| {
        let now = getrlimit(resource);
        let most = now.maximum.map_or(most, |maximum| maximum.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
    };
    // A core of a process that was given keys is a file with keys.
    none(Resource::Core, 0)?;
    none(Resource::Nofile, 65_536)?;
    confinement::files(sandbox, program, args)?;
    confinement::capabilities()?;
    if sandbox.strict {
        confinement::system_calls()?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
mod confinement {
    use std::ffi::OsString;
    use std::io;
    use std::path::{Path, PathBuf};

    use landlock::{
        ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
        RulesetError, Scope, path_beneath_rules,
    };
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

    use super::{MISSING, SandboxSpec};

    /// Devices that programs write to without harm.
    const DEVICES: [&str; 7] =
        ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/pts"];
    /// Where package runners keep what they have fetched, in the home folder.
    const CACHES: [&str; 10] =
        [".npm", ".nvm", ".volta", ".bun", ".deno", ".cargo/bin", ".rustup", ".pyenv", ".cache/uv", ".local/share/uv"];

    pub(super) fn files(sandbox: &SandboxSpec, program: &Path, args: &[OsString]) -> io::Result<()> {
        let readable = if sandbox.strict { outside_of(sandbox, program, args) } else { vec!["/".into()] };
        let writable = std::iter::once(&sandbox.folder).chain(&sandbox.writable);
        restrict(&readable, &writable.cloned().collect::<Vec<_>>())
            .map_err(|error| io::Error::new(io::ErrorKind::Unsupported, format!("{MISSING}: {error}")))
    }

    fn restrict(readable: &[PathBuf], writable: &[PathBuf]) -> Result<(), RulesetError> {
        // Before this one a file could be cut off where it can not be written.
        let abi = ABI::V3;
        let status = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi))?
            .set_compatibility(CompatLevel::BestEffort)
            // Signals to processes outside, the gateway among them.
            .scope(Scope::Signal)?
            .create()?
            .add_rules(path_beneath_rules(readable, AccessFs::from_read(abi)))?
            .add_rules(path_beneath_rules(DEVICES, AccessFs::from_read(abi) | AccessFs::WriteFile))?
            .add_rules(path_beneath_rules(writable, AccessFs::from_all(abi)))?
            .restrict_self()?;
        tracing::debug!(?status, "in a sandbox");
        Ok(())
    }

    /// Everything but what is hidden, and of that what the program needs.
    fn outside_of(sandbox: &SandboxSpec, program: &Path, args: &[OsString]) -> Vec<PathBuf> {
        let hidden: Vec<PathBuf> = sandbox.hidden.iter().map(|path| real(path)).collect();
        let mut readable = Vec::new();
        beside(Path::new("/"), &hidden, &mut readable);
        let mut needed: Vec<PathBuf> = sandbox.readable.clone();
        needed.extend(std::env::current_dir().ok().filter(|folder| !hidden.contains(folder)));
        // Its own installation: the program's folder and that around it, and the folder of the script that an interpreter is to run.
        let script = args.iter().map(Path::new).find(|arg| arg.is_absolute() && arg.is_file());
        for file in found(program).into_iter().chain(script.map(Path::to_path_buf)) {
            for file in [real(&file), file] {
                let folder = file.parent().map(Path::to_path_buf);
                let around = folder.as_deref().filter(|folder| folder.ends_with("bin")).and_then(Path::parent);
                needed.extend(around.map(Path::to_path_buf).filter(|around| !hidden.contains(around)));
                needed.extend(folder.filter(|folder| !hidden.contains(folder)));
                needed.push(file);
            }
        }
        needed.extend(sandbox.hidden.iter().flat_map(|home| CACHES.iter().map(move |cache| home.join(cache))));
        readable.extend(needed);
        readable
    }

    /// All entries of a folder, but for the way to what is hidden, which is walked down.
    fn beside(folder: &Path, hidden: &[PathBuf], out: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in entries.flatten().map(|entry| entry.path()) {
            if hidden.contains(&entry) {
                continue;
            }
            match hidden.iter().any(|hidden| hidden.starts_with(&entry)) {
                true => beside(&entry, hidden, out),
                // A link may lead to what is hidden.
                false if hidden.iter().any(|hidden| real(&entry).starts_with(hidden)) => {}
                false => out.push(entry),
            }
        }
    }

    fn found(program: &Path) -> Option<PathBuf> {
        if program.components().count() > 1 {
            return Some(program.to_path_buf());
        }
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
    }

    fn real(path: &Path) -> PathBuf {
        path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
    }

    /// What root may beyond other users is not for a command: it could read the memory of any process, whatever Landlock says.
    /// Since there are no new privileges, the program does not get them back.
    pub(super) fn capabilities() -> io::Result<()> {
        use rustix::thread::CapabilitySet;
        let files = CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        let kept = files | CapabilitySet::FOWNER | CapabilitySet::FSETID | CapabilitySet::NET_BIND_SERVICE;
        let mut sets = rustix::thread::capabilities(None)?;
        sets.effective &= kept;
        sets.permitted &= kept;
        sets.inheritable &= kept;
        Ok(rustix::thread::set_capabilities(None, sets)?)
    }

    /// Refuses what looks into other processes, changes the kernel or the machine, or makes new name spaces.
    pub(super) fn system_calls() -> io::Result<()> {
        let refused = [
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_kcmp,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_fsopen,
            libc::SYS_fsmount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_open_by_handle_at,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_delete_module,
            libc::SYS_kexec_load,
            libc::SYS_reboot,
            libc::SYS_swapon,
            libc::SYS_swapoff,
            libc::SYS_acct,
            libc::SYS_quotactl,
            libc::SYS_settimeofday,
            libc::SYS_clock_settime,
            libc::SYS_clock_adjtime,
            libc::SYS_sethostname,
            libc::SYS_setdomainname,
            libc::SYS_syslog,
        ];
        let invalid = |error: String| io::Error::new(io::ErrorKind::Unsupported, error);
        let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| invalid(error.to_string()))?;
        let rules = refused.into_iter().map(|call| (call, Vec::new())).collect();
        let refusal = SeccompAction::Errno(libc::EPERM.cast_unsigned());
        let filter =
            SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch).map_err(|e| invalid(e.to_string()))?;
        let program: BpfProgram =
            filter.try_into().map_err(|error: seccompiler::BackendError| invalid(error.to_string()))?;
        seccompiler::apply_filter(&program).map_err(|error| invalid(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_path_is_named_with_the_key_that_allows_it() {
        let spec = |strict| StdioSpec {
            program: "x".into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            inherit_env: Default::default(),
            sandbox: Some(Box::new(SandboxSpec {
                strict,
                folder: "/data/sandbox/x".into(),
                writable: Vec::new(),
                readable: Vec::new(),
                hidden: vec!["/home/me".into()],
            })),
        };
        let words = |words: &str| LinkError::Exited { status: None, last_words: Some(words.to_owned()) };
        let table = [
            (false, "Error: EACCES: permission denied, open '/home/me/notes.db'", "writable = [\"/home/me/notes.db\"]"),
            (true, "cat: /home/me/.ssh/id: Permission denied", "readable = [\"/home/me/.ssh/id\"]"),
            (true, "sh: 1: cannot create /var/x: Permission denied", "writable = [\"/var/x\"]"),
        ];
        for (strict, said, key) in table {
            let remedy = remedy(&spec(strict), &words(said)).unwrap_or_default();
            assert!(remedy.contains(key), "{remedy}");
        }
        assert_eq!(remedy(&spec(true), &words("no such table: /x")), None);
    }
}
