//! Bytes as the content of a resource: text where they are text, else base64. Files only from where they may be read.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

/// What stands for itself in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The content of a resource.
pub(crate) fn contents(uri: &str, bytes: &[u8], mime_type: Option<&str>) -> Value {
    let declared = mime_type.filter(|kind| !kind.is_empty());
    // Zero bytes are valid UTF-8, but no text that a client could show.
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    match text.filter(|_| !declared.is_some_and(is_binary)) {
        Some(text) => json!({ "uri": uri, "mimeType": declared.unwrap_or("text/plain"), "text": text }),
        None => {
            let mime_type = declared.filter(|kind| !kind.starts_with("text/")).unwrap_or("application/octet-stream");
            json!({ "uri": uri, "mimeType": mime_type, "blob": STANDARD.encode(bytes) })
        }
    }
}

fn is_binary(mime_type: &str) -> bool {
    let kind = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.split_once('/') {
        Some(("image", "svg+xml")) => false,
        Some(("image" | "audio" | "video", _)) => true,
        Some(("application", what)) => {
            matches!(what, "octet-stream" | "x-executable" | "pdf" | "zip" | "gzip" | "x-gzip" | "x-bzip2" | "x-xz")
        }
        _ => false,
    }
}

/// The `file://` URI of a path, with what URIs do not allow percent-encoded.
pub(crate) fn file_uri(path: &Path) -> String {
    format!("file://{}", utf8_percent_encode(&path.to_string_lossy(), PATH))
}

/// Why a file is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnreadFile {
    /// Not there, or no file.
    #[error("Resource not found")]
    Missing,
    /// Not where files may be read.
    #[error("Resource outside allowed roots")]
    Outside,
    /// The file has more bytes than a resource may have.
    #[error("Resource content exceeds {0} bytes")]
    TooLong(usize),
}

/// Reads a file that is inside one of the roots once all symbolic links are followed.
pub(crate) fn read_inside(path: &Path, roots: &[PathBuf], limit: usize) -> Result<Vec<u8>, UnreadFile> {
    let inside =
        |path: &Path| roots.iter().filter_map(|root| root.canonicalize().ok()).any(|root| path.starts_with(root));
    let Ok(real) = path.canonicalize() else {
        // Whether something is there is nobody's business who may not read it.
        let normal = lexical(path);
        return Err(if inside(&normal) { UnreadFile::Missing } else { UnreadFile::Outside });
    };
    if !inside(&real) {
        return Err(UnreadFile::Outside);
    }
    let flags = rustix::fs::OFlags::RDONLY
        | rustix::fs::OFlags::NOFOLLOW
        | rustix::fs::OFlags::NONBLOCK
        | rustix::fs::OFlags::CLOEXEC;
    // Not followed: what was looked at a moment ago may have been exchanged. Not waited for: it may be a pipe.
    let file = rustix::fs::open(&real, flags, rustix::fs::Mode::empty()).map(std::fs::File::from);
    let file = file.map_err(|_| UnreadFile::Missing)?;
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err(UnreadFile::Missing);
    }
    // The folders above may have been exchanged as well: what was opened counts.
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd as _;
        let opened = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        if opened.is_ok_and(|opened| !inside(&opened)) {
            return Err(UnreadFile::Outside);
        }
    }
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|_| UnreadFile::Missing)?;
    if bytes.len() > limit { Err(UnreadFile::TooLong(limit)) } else { Ok(bytes) }
}

/// A path without `.` and `..`, as far as can be told without looking.
fn lexical(path: &Path) -> PathBuf {
    use std::path::Component;
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir => _ = path.pop(),
            Component::CurDir => {}
            other => path.push(other),
        }
        path
    })
}

#[cfg(test)]
mod tests {
    use tidings_testkit::TempDir;

    use super::*;

    #[test]
    fn bytes_are_text_where_they_can_be() {
        assert_eq!(contents("u:x", b"hi", None), json!({"uri": "u:x", "mimeType": "text/plain", "text": "hi"}));
        assert_eq!(contents("u:x", b"hi", Some("image/png"))["blob"], "aGk=");
        assert_eq!(
            contents("u:x", b"\xff", Some("text/plain")),
            json!({"uri": "u:x", "mimeType": "application/octet-stream", "blob": "/w=="})
        );
        assert_eq!(contents("u:x", b"a\0b", None)["blob"], "YQBi");
    }

    #[test]
    fn a_file_is_read_only_inside_the_roots_whatever_leads_out() {
        let (dir, outside) = (TempDir::new(), TempDir::new());
        std::fs::create_dir(dir.join("in")).unwrap();
        dir.write("in/ok.txt", "fine");
        let secret = outside.write("secret", "no");
        std::os::unix::fs::symlink(&secret, dir.join("in/link")).unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.join("in/folder")).unwrap();
        std::os::unix::fs::symlink(dir.join("in/loop"), dir.join("in/loop")).unwrap();
        std::fs::create_dir(dir.join("in-not")).unwrap();
        dir.write("in-not/x", "sibling");
        let roots = [dir.join("in")];
        let read = |name: &str| read_inside(&dir.join(name), &roots, 100);
        assert_eq!(read("in/ok.txt"), Ok(b"fine".to_vec()));
        for name in ["in/link", "in/folder/secret", "in/../in-not/x", "in-not/x", "in/../../nothing"] {
            assert_eq!(read(name), Err(UnreadFile::Outside), "{name}");
        }
        for name in ["in/absent", "in/loop", "in"] {
            assert_eq!(read(name), Err(UnreadFile::Missing), "{name}");
        }
        assert_eq!(read_inside(&dir.join("in/ok.txt"), &roots, 3), Err(UnreadFile::TooLong(3)));
    }
}
