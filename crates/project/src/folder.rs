//! Reading a project's files: bounded, and never outside of it.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use crate::problem::{ProjectFault, ProjectProblem};

/// How deep folders may be nested.
const DEEPEST: usize = 16;
/// How many files and folders one kind may have.
const MOST: usize = 20_000;

/// A file that was found.
#[derive(Clone, Debug)]
pub(crate) struct FoundFile {
    /// The absolute path, by which it is opened.
    pub(crate) path: PathBuf,
    /// Relative to the folder of its kind.
    pub(crate) relative: PathBuf,
    pub(crate) executable: bool,
}

impl FoundFile {
    pub(crate) fn file_name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The name without its last extension.
    pub(crate) fn stem(&self) -> String {
        let name = self.file_name();
        name.rsplit_once('.').map_or(name.clone(), |(stem, _)| stem.to_owned())
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.relative.components().count() == 1
    }
}

/// Everything below a folder, in the order of names.
#[derive(Debug, Default)]
pub(crate) struct FolderWalk {
    pub(crate) files: Vec<FoundFile>,
    pub(crate) folders: BTreeSet<PathBuf>,
    paths: BTreeSet<PathBuf>,
    /// Paths without their last extension.
    stems: BTreeSet<PathBuf>,
}

impl FolderWalk {
    /// Whether this file was found.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.paths.contains(path)
    }

    /// Whether a file other than metadata is called so, with or without an extension.
    pub(crate) fn has_named(&self, path: &Path) -> bool {
        self.paths.contains(path) || self.stems.contains(path)
    }

    /// Hidden files are none of it, and links are not followed. A folder that is not there is empty.
    pub(crate) fn of(folder: &Path, root: &Path, problems: &mut Vec<ProjectProblem>) -> Self {
        let mut walk = Self::default();
        if std::fs::symlink_metadata(folder).is_ok_and(|about| about.is_symlink()) {
            problems.push(problem(root, folder, ProjectFault::Link));
            return walk;
        }
        walk.enter(folder, folder, root, 0, problems);
        walk.paths = walk.files.iter().map(|found| found.path.clone()).collect();
        let plain = walk.files.iter().filter(|found| !found.file_name().ends_with(".meta.json"));
        walk.stems = plain.map(|found| found.path.with_file_name(found.stem())).collect();
        walk
    }

    fn enter(&mut self, base: &Path, folder: &Path, root: &Path, depth: usize, problems: &mut Vec<ProjectProblem>) {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => return problems.push(problem(root, folder, ProjectFault::Unreadable(error.to_string()))),
        };
        self.folders.insert(folder.to_owned());
        // Bounded before sorting: a folder may hold millions of files that are no part of the project.
        let mut entries: Vec<_> = entries.filter_map(Result::ok).take(MOST + 1).collect();
        // Of two entries with one name the first in this order wins, so it must not depend on the file system.
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if self.files.len() + self.folders.len() >= MOST {
                let fault = ProjectFault::TooMany(format!("more than {MOST} files and folders"));
                return problems.push(problem(root, base, fault));
            }
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if name.as_encoded_bytes().iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
                problems.push(problem(root, &path, ProjectFault::LineBreak));
            } else if kind.is_symlink() {
                problems.push(problem(root, &path, ProjectFault::Link));
            } else if kind.is_dir() && depth == DEEPEST {
                problems.push(problem(
                    root,
                    &path,
                    ProjectFault::TooMany(format!("folders nested deeper than {DEEPEST}")),
                ));
            } else if kind.is_dir() {
                self.enter(base, &path, root, depth + 1, problems);
            } else if kind.is_file() {
                let executable = entry.metadata().is_ok_and(|about| about.permissions().mode() & 0o111 != 0);
                let relative = path.strip_prefix(base).unwrap_or(&path).to_owned();
                self.files.push(FoundFile { path, relative, executable });
            }
        }
    }
}

/// A problem with a file, named as its author knows it.
pub(crate) fn problem(root: &Path, path: &Path, fault: ProjectFault) -> ProjectProblem {
    ProjectProblem { file: relative(root, path), line: None, fault }
}

/// The path below the project, or the whole of it.
pub(crate) fn relative(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(root).ok().filter(|rest| !rest.as_os_str().is_empty()).unwrap_or(path).to_owned()
}

/// A whole file. What is no plain file is not opened: a pipe would never end.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<u8>, ProjectFault> {
    let unreadable = |error: std::io::Error| ProjectFault::Unreadable(error.to_string());
    let about = std::fs::symlink_metadata(path).map_err(unreadable)?;
    if !about.is_file() {
        return Err(ProjectFault::Unreadable("it is not a plain file".into()));
    }
    if about.len() > limit as u64 {
        return Err(ProjectFault::TooLarge { size: about.len(), limit });
    }
    let bytes = head(path, limit + 1)?;
    // It may have grown meanwhile.
    if bytes.len() > limit { Err(ProjectFault::TooLarge { size: bytes.len() as u64, limit }) } else { Ok(bytes) }
}

/// A whole file as text.
pub(crate) fn read_text(path: &Path, limit: usize) -> Result<String, ProjectFault> {
    String::from_utf8(read(path, limit)?).map_err(|_| ProjectFault::NotText)
}

/// The beginning of a file.
pub(crate) fn head(path: &Path, limit: usize) -> Result<Vec<u8>, ProjectFault> {
    let unreadable = |error: std::io::Error| ProjectFault::Unreadable(error.to_string());
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// The file that a path of the project's author means: inside the project after all links are followed.
pub(crate) fn inside(root: &Path, base: &Path, path: &str) -> Result<PathBuf, ProjectFault> {
    let wanted = Path::new(path);
    // Told as outside even where the file is missing: whether something is there is not the project's business.
    let climbs = wanted.components().any(|part| matches!(part, Component::ParentDir));
    if wanted.is_absolute() && !wanted.starts_with(root) {
        return Err(ProjectFault::Outside(path.to_owned()));
    }
    // Links are followed before it is decided, so that none leads out of the project.
    let Ok(real) = base.join(wanted).canonicalize() else {
        return Err(if climbs {
            ProjectFault::Outside(path.to_owned())
        } else {
            ProjectFault::NoFile(path.to_owned())
        });
    };
    if !real.starts_with(root) {
        return Err(ProjectFault::Outside(path.to_owned()));
    }
    if real.is_file() { Ok(real) } else { Err(ProjectFault::NoFile(path.to_owned())) }
}
