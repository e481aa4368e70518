//! Types of content by file name.

use std::path::Path;

// Sorted by extension: `of_path` searches it by halves.
const BY_EXTENSION: &[(&str, &str)] = &[
    ("avif", "image/avif"),
    ("c", "text/x-c"),
    ("cfg", "text/plain"),
    ("conf", "text/plain"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ini", "text/plain"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ndjson", "application/x-ndjson"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("py", "text/x-python"),
    ("rs", "text/x-rust"),
    ("sh", "text/x-shellscript"),
    ("sql", "application/sql"),
    ("svg", "image/svg+xml"),
    ("toml", "application/toml"),
    ("tsv", "text/tab-separated-values"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webp", "image/webp"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
];

/// The type that a file's name suggests.
pub(super) fn of_path(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let found = BY_EXTENSION.binary_search_by_key(&extension.as_str(), |(extension, _)| extension).ok()?;
    Some(BY_EXTENSION.get(found)?.1)
}

/// Whether content of this type is never text, even if its bytes happen to be.
pub(super) fn is_binary(mime_type: &str) -> bool {
    let binary = ["image/", "audio/", "video/", "application/octet-stream", "application/pdf", "application/zip"];
    binary.iter().any(|start| mime_type.starts_with(start)) && !mime_type.starts_with("image/svg")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_extension_in_any_case() {
        assert!(BY_EXTENSION.is_sorted_by_key(|(extension, _)| extension));
        let of = |path: &str| of_path(Path::new(path));
        assert_eq!(of("a/settings.json"), Some("application/json"));
        assert_eq!(of("PICTURE.PNG"), Some("image/png"));
        assert_eq!((of("Makefile"), of(".json"), of("a.unknown")), (None, None, None));
        assert!(is_binary("image/png") && !is_binary("image/svg+xml") && !is_binary("application/json"));
    }
}
