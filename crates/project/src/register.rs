//! Registration by the project's author, in the place of what lies in the folders.

mod hook;
mod ownership;

use std::path::Path;

use serde_json::{Map, Value};

pub(crate) use hook::{RegisterHook, hook_of};
pub(crate) use ownership::check as check_ownership;

use crate::document::JsonDocument;
use crate::folder::{problem, read, relative};
use crate::home::ProjectHome;
use crate::problem::{ProjectFault, ProjectProblem};

/// The lists that can be registered.
pub(crate) const KINDS: [&str; 5] = ["tools", "resources", "resourceTemplates", "prompts", "completions"];

/// A registration that is well formed; its entries are looked at later.
#[derive(Clone, Debug)]
pub(crate) struct ProjectRegistration {
    pub(crate) document: JsonDocument,
}

impl ProjectRegistration {
    /// The entries of a kind; `None` where the folders decide.
    pub(crate) fn list(&self, kind: &str) -> Option<&[Value]> {
        self.document.members.get(kind)?.as_array().map(Vec::as_slice)
    }

    /// Checks the form of a registration.
    fn checked(document: JsonDocument, strict: bool) -> Result<Self, ProjectProblem> {
        let facts = document.facts();
        let version = document.members.get("version");
        // A program that registers need not name a version; a file that is kept must.
        if version.map_or(strict, |version| version.as_u64() != Some(1)) {
            return Err(facts.problem(Some("version"), ProjectFault::Version));
        }
        for (key, value) in &document.members {
            let fault = match key.as_str() {
                "version" => continue,
                "_meta" if value.is_object() || value.is_null() => continue,
                "_meta" => ProjectFault::Field { field: key.clone(), wanted: "an object" },
                kind if KINDS.contains(&kind) && (value.is_array() || value.is_null()) => continue,
                kind if KINDS.contains(&kind) => ProjectFault::Field { field: key.clone(), wanted: "an array" },
                // What a program prints in addition is for itself.
                _ if !strict => continue,
                _ => ProjectFault::UnknownKey(key.clone()),
            };
            return Err(facts.problem(Some(key), fault));
        }
        Ok(Self { document })
    }

    /// What a program registered.
    fn made(file: &Path, members: Map<String, Value>) -> Result<Self, ProjectProblem> {
        Self::checked(JsonDocument::made(file.to_owned(), members), false)
    }
}

/// What `register.json` says; `None` when it is not there.
pub(crate) fn declared(home: &ProjectHome) -> Result<Option<ProjectRegistration>, ProjectProblem> {
    let path = home.folders.server.join("register.json");
    if !is_there(&path) {
        return Ok(None);
    }
    let fail = |fault| problem(&home.root, &path, fault);
    let bytes = read(&path, home.settings.register_limit).map_err(fail)?;
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(fail(ProjectFault::ByteOrderMark));
    }
    let text = String::from_utf8(bytes).map_err(|_| fail(ProjectFault::NotText))?;
    let document = JsonDocument::parse(relative(&home.root, &path), 1, text)?;
    ProjectRegistration::checked(document, true).map(Some)
}

fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}
