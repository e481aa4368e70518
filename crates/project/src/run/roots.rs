//! The folders that a tool may work in: the client's, else what the project says, else the project itself.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::content::file_uri;
use crate::ProjectHome;

/// How large `config/roots.json` may be.
const LONGEST: u64 = 1 << 20;

/// A folder that the client lets servers work in (`roots/list`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientRoot {
    pub(crate) path: PathBuf,
    name: String,
}

impl ClientRoot {
    fn new(path: &Path, name: Option<&str>) -> Option<Self> {
        let path = path.canonicalize().ok().filter(|path| path.is_dir())?;
        let name = match name.filter(|name| !name.is_empty()) {
            Some(name) => name.to_owned(),
            None => path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        };
        Some(Self { path, name })
    }
}

/// What the project says when no client does.
pub(crate) fn of_project(home: &ProjectHome) -> Vec<ClientRoot> {
    let named = home.environment.get("MCPBASH_ROOTS").filter(|text| !text.trim().is_empty());
    let mut roots = Vec::new();
    if let Some(named) = named {
        for part in named.split(':').filter(|part| !part.is_empty()) {
            match ClientRoot::new(&home.root.join(part), None) {
                Some(root) => push(&mut roots, root),
                None => tracing::warn!("MCPBASH_ROOTS: {part} is not a folder that can be read"),
            }
        }
        return roots;
    }
    for entry in from_file(&home.root.join("config/roots.json")) {
        let path = entry["path"].as_str().unwrap_or_default();
        match ClientRoot::new(&home.root.join(path), entry["name"].as_str()).filter(|_| !path.is_empty()) {
            Some(root) => push(&mut roots, root),
            None => tracing::warn!("config/roots.json: {path} is not a folder that can be read"),
        }
    }
    if roots.is_empty() {
        roots.extend(ClientRoot::new(&home.root, None));
    }
    roots
}

/// What a client answered; `None` when that is no list.
pub(crate) fn of_client(answer: &Value) -> Option<Vec<ClientRoot>> {
    let mut roots = Vec::new();
    for entry in answer["roots"].as_array()? {
        let Some(path) = entry["uri"].as_str().and_then(local_path) else { continue };
        if let Some(root) = ClientRoot::new(&path, entry["name"].as_str()) {
            push(&mut roots, root);
        }
    }
    Some(roots)
}

/// The three variables that tell a tool.
pub(crate) fn variables(roots: &[ClientRoot]) -> [(&'static str, String); 3] {
    let described: Vec<Value> = roots
        .iter()
        .map(|root| json!({ "uri": file_uri(&root.path), "name": root.name, "path": root.path.to_string_lossy() }))
        .collect();
    let paths: Vec<_> = roots.iter().map(|root| root.path.to_string_lossy()).collect();
    [
        ("MCP_ROOTS_JSON", Value::from(described).to_string()),
        ("MCP_ROOTS_PATHS", paths.join("\n")),
        ("MCP_ROOTS_COUNT", roots.len().to_string()),
    ]
}

/// The path of a file URI on this machine.
pub(crate) fn local_path(uri: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    // Schemes of URIs are case-insensitive.
    let scheme = uri.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("file://"))?;
    let rest = &uri[scheme.len()..];
    // RFC 8089: a host of `localhost` means this machine.
    let path = rest.strip_prefix("localhost").filter(|path| path.starts_with('/')).unwrap_or(rest);
    let decoded: Vec<u8> = percent_encoding::percent_decode_str(path).collect();
    let good = decoded.first() == Some(&b'/') && !decoded.contains(&0);
    good.then(|| PathBuf::from(std::ffi::OsString::from_vec(decoded)))
}

fn push(roots: &mut Vec<ClientRoot>, root: ClientRoot) {
    if !roots.iter().any(|known| known.path == root.path) {
        roots.push(root);
    }
}

fn from_file(path: &Path) -> Vec<Value> {
    use std::io::Read as _;
    let Ok(file) = std::fs::File::open(path) else { return Vec::new() };
    let mut text = Vec::new();
    let read = file.take(LONGEST).read_to_end(&mut text).map(|_| serde_json::from_slice::<Value>(&text));
    match read {
        Ok(Ok(mut value)) => match value["roots"].take() {
            Value::Array(entries) => entries,
            _ => Vec::new(),
        },
        Ok(Err(error)) => {
            tracing::warn!("{}:{}: {error}", path.display(), error.line());
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use tidings_testkit::TempDir;

    use super::*;
    use crate::GivenEnvironment;

    fn home(dir: &TempDir, variables: &[(&str, &str)]) -> ProjectHome {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        ProjectHome::open(dir.path(), GivenEnvironment::new(variables)).unwrap()
    }

    #[test]
    fn the_variable_comes_before_the_file_and_the_file_before_the_project() {
        let dir = TempDir::new();
        std::fs::create_dir(dir.join("data")).unwrap();
        std::fs::create_dir(dir.join("config")).unwrap();
        let root = dir.path().canonicalize().unwrap();
        let paths = |home: &ProjectHome| of_project(home).into_iter().map(|root| root.path).collect::<Vec<_>>();
        assert_eq!(paths(&home(&dir, &[])), std::slice::from_ref(&root));
        dir.write("config/roots.json", r#"{"roots": [{"path": "./data", "name": "Data"}, {"path": "absent"}]}"#);
        assert_eq!(paths(&home(&dir, &[])), [root.join("data")]);
        assert_eq!(paths(&home(&dir, &[("MCPBASH_ROOTS", "config:data")])), [root.join("config"), root.join("data")]);
    }

    #[test]
    fn only_folders_of_this_machine_count_among_a_clients_roots() {
        let dir = TempDir::new();
        let path = dir.path().canonicalize().unwrap();
        std::fs::create_dir(path.join("a b")).unwrap();
        let answer = json!({"roots": [
            {"uri": format!("file://{}/a%20b", path.display()), "name": "A"},
            {"uri": "https://example.com/x"},
            {"uri": "file://elsewhere/tmp"},
            {"uri": "file:///does/not/exist"},
        ]});
        let roots = of_client(&answer).unwrap();
        assert_eq!(roots, [ClientRoot { path: path.join("a b"), name: "A".into() }]);
        let [json, paths, count] = variables(&roots);
        assert_eq!((paths.1.as_str(), count.1.as_str()), (path.join("a b").to_str().unwrap(), "1"));
        assert!(json.1.contains("a%20b"));
        assert_eq!(of_client(&json!({"nonsense": 1})), None);
    }
}
