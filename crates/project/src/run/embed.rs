//! Files that a tool wants in its result: one JSON document, or a line per file with tabs between path, type and URI.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::content::{contents, file_uri, read_inside};

/// How many files one result may have.
const MOST: usize = 100;

/// A file that a tool named.
#[derive(Debug, PartialEq, Eq)]
struct NamedFile {
    path: String,
    mime_type: Option<String>,
    uri: Option<String>,
}

/// The blocks for the files that are named, as far as they are inside the roots and fit into `limit` bytes together.
pub(crate) fn blocks(named: &[u8], cwd: &Path, roots: &[PathBuf], limit: usize) -> Vec<Value> {
    let mut left = limit;
    let mut blocks = Vec::new();
    for file in parse(named) {
        let path = cwd.join(&file.path);
        // A tool names files by itself, and may have been told to by what it read: only the roots are open to it.
        match read_inside(&path, roots, left) {
            Ok(bytes) => {
                // One limit for all files together.
                left -= bytes.len();
                let uri = file.uri.unwrap_or_else(|| file_uri(&path));
                blocks
                    .push(json!({ "type": "resource", "resource": contents(&uri, &bytes, file.mime_type.as_deref()) }));
            }
            // The tool did its work; a file that is missing does not make it a failure.
            Err(error) => tracing::warn!(path = %path.display(), %error, "a file is left out of a tool's result"),
        }
    }
    blocks
}

fn parse(named: &[u8]) -> Vec<NamedFile> {
    let text = String::from_utf8_lossy(named);
    let mut files: Vec<NamedFile> = match serde_json::from_str(&text) {
        Ok(Value::Array(items)) => items.iter().filter_map(from_json).collect(),
        Ok(item) => from_json(&item).into_iter().collect(),
        Err(_) => text.lines().filter_map(from_line).collect(),
    };
    files.truncate(MOST);
    files
}

fn from_json(item: &Value) -> Option<NamedFile> {
    let text = |name: &str| item[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let path = item.as_str().map(str::to_owned).or_else(|| text("path"))?;
    Some(NamedFile { path, mime_type: text("mimeType"), uri: text("uri") })
}

fn from_line(line: &str) -> Option<NamedFile> {
    let mut fields =
        line.split('\t').map(|field| Some(field.trim()).filter(|field| !field.is_empty()).map(str::to_owned));
    Some(NamedFile { path: fields.next()??, mime_type: fields.next().flatten(), uri: fields.next().flatten() })
}

#[cfg(test)]
mod tests {
    use tidings_testkit::TempDir;

    use super::*;

    #[test]
    fn json_and_lines_name_files_alike() {
        let both = [&b"[{\"path\":\"a.txt\",\"mimeType\":\"text/plain\",\"uri\":null}]"[..], b"a.txt\ttext/plain\n"];
        let [json, lines] = both.map(parse);
        assert_eq!(json, lines);
        assert_eq!(parse(b"\"a.txt\"")[0].path, "a.txt");
    }

    #[test]
    fn a_file_outside_the_roots_or_too_much_is_left_out() {
        let dir = TempDir::new();
        dir.write("a.txt", "hello");
        dir.write("b.txt", "world");
        let roots = [dir.path().to_owned()];
        let made = blocks(b"a.txt\n/etc/passwd\nb.txt\ttext/markdown\tx://b", dir.path(), &roots, 100);
        assert_eq!(made.len(), 2);
        assert_eq!(made[0]["resource"]["text"], "hello");
        assert_eq!(made[1]["resource"], json!({"uri": "x://b", "mimeType": "text/markdown", "text": "world"}));
        assert_eq!(blocks(b"a.txt\nb.txt", dir.path(), &roots, 7).len(), 1);
    }
}
