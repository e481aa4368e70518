//! What is there: walking a declared path without ever leaving it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use super::glob::{FileGlob, is_pattern};
use crate::observations::Hash;
use crate::source::UnreadableReason;
use crate::{encoded, members};

/// More files than this are not listed.
const MOST_FILES: usize = 10_000;
/// Folders deeper than this are not entered.
const DEEPEST: usize = 32;
/// More links than this in one path are a circle, as they are to Linux.
const MOST_LINKS: usize = 40;

/// What `file` of a watch names: one file, a folder, or a pattern below a folder.
#[derive(Clone, Debug)]
pub(super) struct DeclaredPath {
    path: PathBuf,
    glob: Option<FileGlob>,
    /// A folder even while it is not there.
    folder: bool,
    uri: String,
}

/// What tells two states of a file apart without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    identity: (u64, u64),
    pub(super) size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    mode: u32,
}

/// One file of a watch, as it was at the last look.
#[derive(Clone, Debug)]
pub(super) struct ServedFile {
    /// Below the folder; empty for the one file that was declared itself.
    pub(super) name: PathBuf,
    /// `None`: it is not there.
    pub(super) stamp: Option<FileStamp>,
    pub(super) modified: Option<SystemTime>,
    /// When it was looked at.
    pub(super) at: SystemTime,
}

/// The state of a declared path.
#[derive(Clone, Debug, Default)]
pub(super) struct FileSurvey {
    /// The real folder that is walked; `None` for one file, or when there is no folder.
    pub(super) root: Option<PathBuf>,
    pub(super) files: BTreeMap<String, ServedFile>,
    pub(super) folders: BTreeSet<PathBuf>,
    /// What may lead to a file without being one: what happens to that file happens under another name. Those that lead
    /// nowhere at this time are among them.
    pub(super) links: BTreeSet<PathBuf>,
    /// There are more files than are served.
    pub(super) truncated: bool,
}

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            // Device and inode: a file that was replaced by another of the same size and time is another file.
            identity: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            mode: metadata.mode(),
        }
    }
}

impl FileSurvey {
    /// A digest of which files there are.
    pub(super) fn members(&self) -> Hash {
        members::digest(self.files.keys().map(String::as_str))
    }
}

impl ServedFile {
    /// Whether the same stamp later means the same content. Clocks of file systems are coarse: a file that had just been
    /// written may have been written again within the same tick.
    pub(super) fn is_settled(&self) -> bool {
        // Two seconds is the step of the coarsest clock in use, that of FAT.
        let seconds = self.at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let seconds = i64::try_from(seconds).unwrap_or(0);
        self.stamp.is_none_or(|stamp| stamp.changed.0 + 2 < seconds && stamp.modified.0 + 2 < seconds)
    }
}

impl DeclaredPath {
    pub(super) fn new(path: &Path, uri: &str) -> Self {
        let uri = uri.trim_end_matches('/').to_owned();
        let folder = path.as_os_str().as_bytes().ends_with(b"/");
        if is_pattern(path) {
            let (root, glob) = FileGlob::split(path);
            return Self { path: root, glob: Some(glob), folder: true, uri };
        }
        // Without `.` and doubled slashes, so that two spellings are one path.
        Self { path: path.components().collect(), glob: None, folder, uri }
    }

    /// Where it begins: the file, the folder, or what a pattern has before its first wildcard.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_pattern(&self) -> bool {
        self.glob.is_some()
    }

    /// Whether it can be a single file.
    pub(super) fn may_be_a_file(&self) -> bool {
        !self.folder
    }

    pub(super) fn uri_of(&self, name: &Path) -> String {
        if name.as_os_str().is_empty() {
            return self.uri.clone();
        }
        format!("{}/{}", self.uri, encoded(name.as_os_str().as_bytes()))
    }

    /// The path below the folder that a URI names; empty for the declared file itself. There is one URI for each path.
    pub(super) fn name_of(&self, uri: &str) -> Option<PathBuf> {
        let rest = uri.strip_prefix(&self.uri)?;
        if rest.is_empty() {
            return self.may_be_a_file().then(PathBuf::new);
        }
        let bytes: Vec<u8> = percent_encoding::percent_decode_str(rest.strip_prefix('/')?).collect();
        let name = PathBuf::from(std::ffi::OsStr::from_bytes(&bytes));
        let is_plain = name.components().all(|part| matches!(part, Component::Normal(_))) && !bytes.contains(&0);
        let is_ours = is_plain && !bytes.is_empty() && self.serves(&name);
        // Encoded again and compared: one path has one URI, so that two spellings can not be followed apart.
        (is_ours && self.uri_of(&name) == uri).then_some(name)
    }

    /// Whether a path below the folder is meant.
    pub(super) fn serves(&self, name: &Path) -> bool {
        match &self.glob {
            Some(glob) => glob.matches(name),
            // Hidden files often hold secrets, so a folder alone does not serve them.
            None => !name.components().any(|part| part.as_os_str().as_bytes().starts_with(b".")),
        }
    }

    fn enters(&self, folder: &Path) -> bool {
        match &self.glob {
            Some(glob) => glob.may_be_inside(folder),
            None => !folder.components().any(|part| part.as_os_str().as_bytes().starts_with(b".")),
        }
    }

    /// Looks at everything. `enter` is called with each folder before it is read.
    pub(super) fn survey(&self, enter: &mut dyn FnMut(&Path)) -> FileSurvey {
        let mut survey = FileSurvey::default();
        match fs::canonicalize(&self.path) {
            Ok(real) if real.is_dir() => {
                self.walk(&real, Path::new(""), 0, &mut survey, enter);
                survey.root = Some(real);
            }
            _ if self.folder => {}
            _ => {
                survey.files.insert(self.uri.clone(), self.the_file());
            }
        }
        survey
    }

    /// The declared file itself. Where its links lead is as declared as the file.
    fn the_file(&self) -> ServedFile {
        let at = SystemTime::now();
        let metadata = fs::metadata(&self.path).ok().filter(Metadata::is_file);
        ServedFile {
            name: PathBuf::new(),
            stamp: metadata.as_ref().map(FileStamp::of),
            modified: metadata.and_then(|metadata| metadata.modified().ok()),
            at,
        }
    }

    fn walk(&self, root: &Path, below: &Path, depth: usize, survey: &mut FileSurvey, enter: &mut dyn FnMut(&Path)) {
        let folder = root.join(below);
        // Watched before it is read: what comes in between is seen by one of the two.
        enter(&folder);
        survey.folders.insert(folder.clone());
        // It went away, or may not be read; the folder above tells when that changes.
        let Ok(entries) = fs::read_dir(&folder) else { return };
        for entry in entries.flatten() {
            let name = below.join(entry.file_name());
            match entry.file_type() {
                // The type of the entry itself: a link to a folder is not entered, since it could lead in a circle or outside.
                Ok(kind) if kind.is_dir() && depth < DEEPEST && self.enters(&name) => {
                    self.walk(root, &name, depth + 1, survey, enter);
                }
                Ok(kind) if !kind.is_dir() && self.serves(&name) => {
                    if kind.is_symlink() {
                        survey.links.insert(name.clone());
                    }
                    let Some(found) = self.examine(root, &name) else { continue };
                    if survey.files.len() == MOST_FILES {
                        survey.truncated = true;
                        return;
                    }
                    survey.files.insert(self.uri_of(&name), found);
                }
                _ => {}
            }
        }
    }

    /// One path below the folder; `None` when there is nothing to serve.
    pub(super) fn examine(&self, root: &Path, name: &Path) -> Option<ServedFile> {
        if !self.serves(name) {
            return None;
        }
        let at = SystemTime::now();
        let path = root.join(name);
        // A link out of the folder is not served: it could lead to any file of the machine.
        if is_link(&path) && !fs::canonicalize(&path).ok()?.starts_with(root) {
            return None;
        }
        let metadata = fs::metadata(&path).ok().filter(Metadata::is_file)?;
        let modified = metadata.modified().ok();
        Some(ServedFile { name: name.to_owned(), stamp: Some(FileStamp::of(&metadata)), modified, at })
    }

    /// The content of a file, of at most this length.
    pub(super) fn read(&self, name: &Path, limit: u64) -> Result<Vec<u8>, UnreadableReason> {
        let file = if name.as_os_str().is_empty() {
            open(&self.path)?
        } else {
            let root = fs::canonicalize(&self.path).map_err(unreadable)?;
            open_below(&root, name)?
        };
        let metadata = file.metadata().map_err(unreadable)?;
        // Asked of what was opened, not of the path, which may lead elsewhere by now.
        if !metadata.is_file() {
            return Err(UnreadableReason::NotFound);
        }
        let mut bytes = Vec::new();
        // One byte more, to tell a file of the limit from a longer one. The length in the metadata may be out of date.
        file.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        let size = metadata.len().max(bytes.len() as u64);
        if bytes.len() as u64 > limit { Err(UnreadableReason::TooLong { size, limit }) } else { Ok(bytes) }
    }

    /// Folders whose entries decide what the declared path leads to, and the entries that do. The folders that are
    /// walked are not among them.
    pub(super) fn footing(&self) -> OuterFolders {
        let mut footing = OuterFolders::default();
        let mut ahead: Vec<PathBuf> = parts(&self.path);
        let mut here = PathBuf::from("/");
        let mut links = 0;
        while let Some(part) = ahead.pop() {
            if part == Path::new("..") {
                // `here` has no links in it, so its parent is what the system means by `..`.
                here.pop();
                continue;
            }
            let next = here.join(&part);
            let metadata = fs::symlink_metadata(&next);
            let is_link = metadata.as_ref().is_ok_and(Metadata::is_symlink);
            // Links, what is missing, and the last part: each of them can make the path lead elsewhere.
            if is_link || metadata.is_err() || ahead.is_empty() {
                footing.folders.insert(here.clone());
                footing.entries.insert(next.clone());
            }
            match fs::read_link(&next) {
                Ok(target) if is_link && links < MOST_LINKS => {
                    links += 1;
                    if target.is_absolute() {
                        here = PathBuf::from("/");
                    }
                    ahead.extend(parts(&target));
                }
                _ if metadata.is_err() => break,
                _ => here = next,
            }
        }
        footing
    }
}

/// What to watch beside the folders that are walked.
#[derive(Clone, Debug, Default)]
pub(super) struct OuterFolders {
    pub(super) folders: BTreeSet<PathBuf>,
    pub(super) entries: BTreeSet<PathBuf>,
}

/// The parts of a path, the last first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    let mut parts: Vec<PathBuf> = parts.map(|part| PathBuf::from(part.as_os_str())).collect();
    parts.reverse();
    parts
}

pub(super) fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

fn open(path: &Path) -> Result<File, UnreadableReason> {
    // Without waiting: a pipe in the place of a file would never open.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(unreadable)
}

/// Opens a file that is really inside the folder, also when its links are changed at the same time: what was opened must be
/// what a second look finds inside.
fn open_below(root: &Path, name: &Path) -> Result<File, UnreadableReason> {
    let inside = || {
        let real = fs::canonicalize(root.join(name)).map_err(unreadable)?;
        if real.starts_with(root) { Ok(real) } else { Err(UnreadableReason::Outside) }
    };
    let file = open(&inside()?)?;
    let opened = file.metadata().map_err(unreadable)?;
    let again = fs::metadata(inside()?).map_err(unreadable)?;
    if (opened.dev(), opened.ino()) == (again.dev(), again.ino()) { Ok(file) } else { Err(UnreadableReason::NotFound) }
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn unreadable(error: std::io::Error) -> UnreadableReason {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => UnreadableReason::NotFound,
        kind => UnreadableReason::Io(kind),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tidings_testkit::TempDir;

    use super::*;

    fn uris(declared: &DeclaredPath) -> Vec<String> {
        declared.survey(&mut |_| {}).files.into_keys().collect()
    }

    // S1.6
    #[test]
    fn a_folder_is_one_resource_per_file_and_hidden_ones_are_left_out() {
        let dir = TempDir::new();
        fs::create_dir_all(dir.join("docs/deep er")).unwrap();
        fs::create_dir_all(dir.join("docs/.git")).unwrap();
        for name in ["docs/a.md", "docs/deep er/b#.md", "docs/.env", "docs/.git/config", "outside.txt"] {
            dir.write(name, "x");
        }
        let declared = DeclaredPath::new(&dir.join("docs"), "watch://docs");
        assert_eq!(uris(&declared), ["watch://docs/a.md", "watch://docs/deep%20er/b%23.md"]);
        let name = declared.name_of("watch://docs/deep%20er/b%23.md").unwrap();
        assert_eq!(declared.read(&name, 10).unwrap(), b"x");
        let glob = DeclaredPath::new(&dir.join("docs/**/*.md"), "watch://docs");
        assert_eq!(uris(&glob), uris(&declared));
        assert_eq!(glob.name_of("watch://docs"), None);
        assert_eq!(glob.name_of("watch://docs/a.txt"), None);
    }

    #[test]
    fn each_path_has_one_uri_and_none_leads_out() {
        let dir = TempDir::new();
        let declared = DeclaredPath::new(dir.path(), "watch://d");
        for uri in [
            "watch://d/../x",
            "watch://d/%2e%2e/x",
            "watch://d//etc/passwd",
            "watch://d/a%2Fb",
            "watch://d/%61",
            "watch://dx",
        ] {
            assert_eq!(declared.name_of(uri), None, "{uri}");
        }
        assert_eq!(declared.name_of("watch://d/a/b"), Some("a/b".into()));
    }

    #[test]
    fn links_are_followed_inside_the_folder_and_never_out_of_it() {
        let dir = TempDir::new();
        fs::create_dir_all(dir.join("root/sub")).unwrap();
        dir.write("secret", "secret");
        dir.write("root/a", "a");
        symlink("../root/a", dir.join("root/inside")).unwrap();
        symlink(dir.join("secret"), dir.join("root/outside")).unwrap();
        symlink(dir.path(), dir.join("root/sub/up")).unwrap();
        symlink("nowhere", dir.join("root/dangling")).unwrap();
        let declared = DeclaredPath::new(&dir.join("root"), "watch://r");
        assert_eq!(uris(&declared), ["watch://r/a", "watch://r/inside"]);
        assert_eq!(declared.read(Path::new("inside"), 10).unwrap(), b"a");
        assert_eq!(declared.read(Path::new("outside"), 10), Err(UnreadableReason::Outside));
        assert_eq!(declared.read(Path::new("sub/up/secret"), 10), Err(UnreadableReason::Outside));
        assert_eq!(declared.read(Path::new("dangling"), 10), Err(UnreadableReason::NotFound));
        assert_eq!(declared.read(Path::new("sub"), 10), Err(UnreadableReason::NotFound));
    }

    #[test]
    fn a_file_may_be_a_link_and_every_step_of_it_is_a_footing() {
        let dir = TempDir::new();
        let real = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(dir.join("v1")).unwrap();
        dir.write("v1/settings.json", "{}");
        symlink("v1", dir.join("current")).unwrap();
        symlink("current/settings.json", dir.join("settings.json")).unwrap();
        let declared = DeclaredPath::new(&real.join("settings.json"), "watch://s");
        assert_eq!(declared.read(Path::new(""), 10).unwrap(), b"{}");
        let footing = declared.footing();
        assert_eq!(footing.folders, BTreeSet::from([real.clone(), real.join("v1")]));
        let entries = ["settings.json", "current", "v1/settings.json"].map(|name| real.join(name));
        assert_eq!(footing.entries, BTreeSet::from(entries));
    }

    #[test]
    fn a_file_that_was_just_written_may_change_without_a_new_stamp() {
        let dir = TempDir::new();
        let declared = DeclaredPath::new(&dir.write("a", "1"), "watch://a");
        let found = declared.survey(&mut |_| {}).files.remove("watch://a").unwrap();
        assert!(!found.is_settled());
        assert!(ServedFile { at: found.at + std::time::Duration::from_secs(10), ..found }.is_settled());
    }

    #[test]
    fn what_is_too_long_is_refused_with_its_length() {
        let dir = TempDir::new();
        let declared = DeclaredPath::new(&dir.write("a", "12345"), "watch://a");
        assert_eq!(declared.read(Path::new(""), 4), Err(UnreadableReason::TooLong { size: 5, limit: 4 }));
        assert_eq!(declared.read(Path::new(""), 5).unwrap(), b"12345");
    }
}
