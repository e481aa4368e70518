//! `file`: a file, a folder or a glob.

use std::path::PathBuf;

use schemars::JsonSchema;

use super::{PLACEMENT, WatchKind, WatchSource};
use crate::read::TableSection;

pub(super) const KIND: WatchKind =
    WatchKind { key: "file", required: &[], optional: &[PLACEMENT], read, schema: FileKeys::json_schema };

/// A file, a folder or a glob; one resource per file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWatch {
    /// A file, a folder, or a pattern with `*`.
    pub path: PathBuf,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its shape is used")]
struct FileKeys {
    /// A file, a folder or a glob; one resource per file.
    file: Option<String>,
    /// In a cluster: labels of which a replica must have all to look at it for all of them.
    #[schemars(extend("default" = []))]
    placement: Option<Vec<String>>,
}

fn read(section: &mut TableSection<'_, '_>) -> Option<WatchSource> {
    let path = section.text("file").map(|path| section.reading.expander.path(&path));
    Some(WatchSource::File(FileWatch { path: path? }))
}
