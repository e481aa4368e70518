//! `file`: a file, a folder or a glob.

use super::WatchKind;
use crate::plan::watch::WatchSource;
use crate::read::TableSection;

pub(super) const KIND: WatchKind = WatchKind { key: "file", keys: &[], read };

fn read(section: &mut TableSection<'_, '_>) -> Option<WatchSource> {
    let path = section.text("file").map(|path| section.reading.expander.path(&path));
    Some(WatchSource::File { path: path? })
}
