//! First files for those who write a tool, a prompt, a resource or a completion.

use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// What `tidings scaffold` begins: the files it writes differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaffoldSubject {
    /// A program that clients call.
    Tool,
    /// A text with gaps.
    Prompt,
    /// A resource with a script that provides it.
    Resource,
    /// Suggestions for the arguments of a prompt or a resource.
    Completion,
    /// A page for clients that show them: of the tool of that name if there is one, else of its own.
    Page,
}

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
pub enum ScaffoldFault {
    /// Clients and shells would stumble over it.
    #[error("\"{0}\" is not a name; use 1 to 64 of the characters A-Z a-z 0-9 _ -")]
    Name(String),
    /// Nothing is overwritten.
    #[error("{} is there already; choose another name, or remove it first", .0.display())]
    Exists(PathBuf),
    /// The registration can not be added to.
    #[error("{}: {problem}; mend it, or add the completion yourself", path.display())]
    Register {
        /// `register.json`.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file or folder could not be made.
    #[error("{}: {error}", path.display())]
    Io {
        /// What was to be made.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// A file that is to be made: its path inside the project, its text, and whether it can be run.
type Piece = (String, &'static str, bool);

fn pieces(kind: ScaffoldSubject, name: &str, root: &Path) -> Vec<Piece> {
    match kind {
        ScaffoldSubject::Tool => vec![
            (format!("tools/{name}/tool.sh"), include_str!("scaffold/templates/tool.sh"), true),
            (format!("tools/{name}/tool.meta.json"), include_str!("scaffold/templates/tool.meta.json"), false),
            (format!("tools/{name}/smoke.sh"), include_str!("scaffold/templates/smoke.sh"), true),
        ],
        ScaffoldSubject::Prompt => vec![
            (format!("prompts/{name}/{name}.txt"), include_str!("scaffold/templates/prompt.txt"), false),
            (format!("prompts/{name}/{name}.meta.json"), include_str!("scaffold/templates/prompt.meta.json"), false),
        ],
        ScaffoldSubject::Resource => vec![
            (format!("resources/{name}/{name}.txt"), include_str!("scaffold/templates/resource.txt"), false),
            (
                format!("resources/{name}/{name}.meta.json"),
                include_str!("scaffold/templates/resource.meta.json"),
                false,
            ),
        ],
        ScaffoldSubject::Completion => {
            vec![(format!("completions/{name}.sh"), include_str!("scaffold/templates/completion.sh"), true)]
        }
        ScaffoldSubject::Page => {
            let of_tool = root.join("tools").join(name).is_dir();
            let folder = if of_tool { format!("tools/{name}/ui") } else { format!("ui/{name}") };
            vec![
                (format!("{folder}/index.html"), include_str!("scaffold/templates/ui.html"), false),
                (format!("{folder}/ui.meta.json"), include_str!("scaffold/templates/ui.meta.json"), false),
            ]
        }
    }
}

/// Makes the first files of something in the project at `root` and returns their paths inside it, the one to edit
/// first. Nothing is overwritten: what is there stays, and nothing is made.
pub fn scaffold(kind: ScaffoldSubject, name: &str, root: &Path) -> Result<Vec<PathBuf>, ScaffoldFault> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
        return Err(ScaffoldFault::Name(name.to_owned()));
    }
    let pieces = pieces(kind, name, root);
    // Everything is checked before anything is written, and a dangling link counts as there.
    if let Some(there) = pieces.iter().map(|(path, ..)| root.join(path)).find(|path| path.symlink_metadata().is_ok()) {
        return Err(ScaffoldFault::Exists(there));
    }
    let register = root.join("server.d/register.json");
    // Before the files: a registration that can not be read must leave nothing behind.
    let registered = if kind == ScaffoldSubject::Completion { Some(with_completion(&register, name)?) } else { None };
    let mut made = Vec::new();
    for (path, text, executable) in pieces {
        write_new(&root.join(&path), &text.replace("@NAME@", name), executable)?;
        made.push(PathBuf::from(path));
    }
    if let Some(text) = registered {
        replace(&register, &text)?;
        made.push("server.d/register.json".into());
    }
    Ok(made)
}

/// Makes a file that is not there yet, with its folders.
pub(crate) fn write_new(path: &Path, text: &str, executable: bool) -> Result<(), ScaffoldFault> {
    let fail = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => ScaffoldFault::Exists(path.to_owned()),
        _ => ScaffoldFault::Io { path: path.to_owned(), error },
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(fail)?;
    }
    let mode = if executable { 0o755 } else { 0o644 };
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(fail)
}

/// The text of `register.json` with one more completion.
fn with_completion(path: &Path, name: &str) -> Result<String, ScaffoldFault> {
    let wrong = |problem: String| ScaffoldFault::Register { path: path.to_owned(), problem };
    let mut register = match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice::<Map<String, Value>>(&bytes).map_err(|error| wrong(error.to_string()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Map::from_iter([("version".into(), json!(1))]),
        Err(error) => return Err(ScaffoldFault::Io { path: path.to_owned(), error }),
    };
    let list = register.entry("completions").or_insert(Value::Null);
    if list.is_null() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return Err(wrong("`completions` is not a list".into())) };
    if list.iter().any(|completion| completion["name"] == name) {
        return Err(wrong(format!("it has a completion \"{name}\" already")));
    }
    list.push(json!({ "name": name, "path": format!("completions/{name}.sh"), "timeoutSecs": 5 }));
    Ok(format!("{:#}\n", Value::Object(register)))
}

/// Puts the whole text in place at once: the project may be running.
fn replace(path: &Path, text: &str) -> Result<(), ScaffoldFault> {
    let fail = |error| ScaffoldFault::Io { path: path.to_owned(), error };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(fail)?;
    }
    let part = path.with_extension("json.part");
    std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, path)).map_err(fail)
}

#[cfg(test)]
mod tests {
    use tidings_testkit::TempDir;

    use super::*;
    use crate::{GivenEnvironment, ProjectHome, ProjectSurvey};

    fn write(project: &TempDir, path: &str, text: &str) -> PathBuf {
        let path = project.path().join(path);
        write_new(&path, text, false).unwrap();
        path
    }

    fn survey(root: &Path) -> ProjectSurvey {
        let home = ProjectHome::open(root, GivenEnvironment::default()).unwrap();
        ProjectSurvey::of(&home)
    }

    #[test]
    fn everything_that_is_made_is_valid_and_found() {
        let project = TempDir::new();
        for kind in
            [ScaffoldSubject::Tool, ScaffoldSubject::Prompt, ScaffoldSubject::Resource, ScaffoldSubject::Completion]
        {
            let made = scaffold(kind, "first-one", project.path()).unwrap();
            assert!(made.iter().all(|path| project.path().join(path).is_file()), "{made:?}");
        }
        scaffold(ScaffoldSubject::Completion, "second", project.path()).unwrap();
        let survey = survey(project.path());
        assert_eq!(survey.problems, []);
        let found = survey.contents.unwrap();
        assert!(found.tool("first-one").is_some() && found.prompt("first-one").is_some());
        assert_eq!(found.resources.len(), 1);
        let completions: Vec<&str> = found.completions.iter().map(|completion| completion.name.as_str()).collect();
        assert_eq!(completions, ["first-one", "second"]);
    }

    // edges E
    #[test]
    fn a_page_is_begun_for_the_tool_of_its_name_or_for_itself() {
        let project = TempDir::new();
        scaffold(ScaffoldSubject::Tool, "weather", project.path()).unwrap();
        let made = scaffold(ScaffoldSubject::Page, "weather", project.path()).unwrap();
        assert_eq!(made[0], Path::new("tools/weather/ui/index.html"));
        let made = scaffold(ScaffoldSubject::Page, "board", project.path()).unwrap();
        assert_eq!(made[0], Path::new("ui/board/index.html"));
        let survey = survey(project.path());
        assert_eq!(survey.problems, []);
        let names: Vec<String> = survey.contents.unwrap().resources.iter().map(|page| page.name.clone()).collect();
        assert_eq!(names, ["board", "weather"]);
    }

    #[test]
    fn nothing_is_overwritten() {
        let project = TempDir::new();
        let path = write(&project, "tools/mine/tool.meta.json", "{}");
        assert!(
            matches!(scaffold(ScaffoldSubject::Tool, "mine", project.path()), Err(ScaffoldFault::Exists(there)) if there == path)
        );
        assert!(!project.path().join("tools/mine/tool.sh").exists(), "and nothing is half made");
        let register = write(&project, "server.d/register.json", "{ \"version\": 1, \"completions\": [");
        assert!(matches!(
            scaffold(ScaffoldSubject::Completion, "c", project.path()),
            Err(ScaffoldFault::Register { .. })
        ));
        assert_eq!(std::fs::read_to_string(register).unwrap(), "{ \"version\": 1, \"completions\": [");
        assert!(!project.path().join("completions/c.sh").exists());
    }

    #[test]
    fn a_registration_keeps_what_it_has() {
        let project = TempDir::new();
        let register = write(&project, "server.d/register.json", r#"{"version":1,"tools":null,"resources":[]}"#);
        scaffold(ScaffoldSubject::Completion, "c", project.path()).unwrap();
        let text: Value = serde_json::from_str(&std::fs::read_to_string(register).unwrap()).unwrap();
        assert_eq!((&text["version"], &text["tools"], &text["resources"]), (&json!(1), &Value::Null, &json!([])));
        assert_eq!(text["completions"][0]["path"], "completions/c.sh");
        assert!(matches!(scaffold(ScaffoldSubject::Completion, "c", project.path()), Err(ScaffoldFault::Exists(_))));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let project = TempDir::new();
        for name in ["", "../x", "a/b", "a b", "a;b", &"x".repeat(65)] {
            assert!(
                matches!(scaffold(ScaffoldSubject::Tool, name, project.path()), Err(ScaffoldFault::Name(_))),
                "{name}"
            );
        }
        assert_eq!(std::fs::read_dir(project.path()).unwrap().count(), 0);
    }
}
