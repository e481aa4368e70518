//! Where a script's metadata is: in a file beside it, or in its first lines.

use std::path::Path;

use crate::document::JsonDocument;
use crate::folder::{FolderWalk, FoundFile, head, problem, read_text, relative};
use crate::problem::ProjectProblem;

/// The longest metadata file.
pub(crate) const LONGEST: usize = 1 << 20;
/// In how many lines of a script metadata is looked for, and in how many bytes.
const LINES: usize = 10;
const BYTES: usize = 64 << 10;

/// What follows a name of metadata.
pub(crate) const SUFFIX: &str = ".meta.json";

/// The metadata file of a script: `<file>.meta.json` before `<stem>.meta.json`.
pub(crate) fn beside(
    found: &FoundFile,
    walk: &FolderWalk,
    root: &Path,
) -> Result<Option<JsonDocument>, ProjectProblem> {
    let (name, stem) = (found.file_name(), found.stem());
    let candidates = [format!("{name}{SUFFIX}"), format!("{stem}{SUFFIX}")];
    let path = candidates.iter().map(|name| found.path.with_file_name(name)).find(|path| walk.has(path));
    path.map(|path| document(&path, root)).transpose()
}

/// Reads a metadata file; a problem names it by its path inside the project.
pub(crate) fn document(path: &Path, root: &Path) -> Result<JsonDocument, ProjectProblem> {
    let text = read_text(path, LONGEST).map_err(|fault| problem(root, path, fault))?;
    JsonDocument::parse(relative(root, path), 1, text)
}

/// What the first lines of a script say.
#[derive(Debug, Default)]
pub(crate) struct ScriptHeader {
    pub(crate) shebang: bool,
    /// What follows `@describe`.
    pub(crate) description: Option<String>,
    /// What follows `mcp:`, with its line.
    metadata: Option<(usize, String)>,
}

impl ScriptHeader {
    pub(crate) fn read(path: &Path, root: &Path) -> Result<Self, ProjectProblem> {
        let bytes = head(path, BYTES).map_err(|fault| problem(root, path, fault))?;
        let mut header = Self { shebang: bytes.starts_with(b"#!"), ..Self::default() };
        // Only in the first lines: the same words further down are part of the program.
        for (at, line) in bytes.split(|byte| *byte == b'\n').take(LINES).enumerate() {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            if let Some((_, rest)) = line.split_once("@describe ") {
                // The first one counts.
                header.description.get_or_insert_with(|| rest.trim().to_owned());
            }
            if let Some((_, rest)) = line.split_once("mcp:")
                && rest.trim_start().starts_with('{')
            {
                header.metadata.get_or_insert_with(|| (at + 1, rest.trim().to_owned()));
            }
        }
        Ok(header)
    }

    /// The object after `mcp:`.
    pub(crate) fn document(&self, path: &Path, root: &Path) -> Result<Option<JsonDocument>, ProjectProblem> {
        let file = relative(root, path);
        self.metadata.clone().map(|(line, text)| JsonDocument::parse(file, line, text)).transpose()
    }
}
