//! What the system allows this process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Every client, every server and every watch is a descriptor, and the usual 1,024 are few: take all that are allowed.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    if limit.current == limit.maximum {
        return;
    }
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => tracing::debug!(from = limit.current, to = limit.maximum, "more files may be open"),
        Err(error) => tracing::debug!(%error, limit = limit.current, "the limit of open files stays"),
    }
}

/// How many of the files that may be open clients may take: the servers, the store and the watches need some, too.
pub(crate) fn most_connections() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / 10 * 9).unwrap_or(usize::MAX)
}
