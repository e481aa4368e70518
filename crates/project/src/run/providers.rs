//! The providers that need no script: files, fixed text, the web, and files in git repositories.

mod git;
mod web;

use std::path::PathBuf;

use tidings_proto::code;

use super::ScriptRunner;
use super::content::{UnreadFile, read_inside};
use super::outcome::ScriptFault;
use super::resource::{ProvidedContent, ResourceReading};
use super::roots::local_path;
use crate::ui;

pub(super) use web::WebProvider;

/// The longest page, unless `MCPBASH_MAX_UI_RESOURCE_BYTES` says otherwise.
const LONGEST_PAGE: u64 = 1 << 20;

impl ScriptRunner {
    /// A file inside the folders of `MCP_RESOURCES_ROOTS`, or the project's `resources/`.
    pub(super) fn read_file(&self, reading: &ResourceReading) -> Result<ProvidedContent, ScriptFault> {
        let invalid = || ScriptFault::new(code::INVALID_PARAMS, format!("{}: not the URI of a file", reading.uri));
        let path = reading.path.clone().or_else(|| local_path(&reading.uri)).ok_or_else(invalid)?;
        let bytes = read_inside(&path, &self.resource_roots(), self.home.settings.resource_limit);
        bytes.map(|bytes| ProvidedContent { bytes, mime_type: None }).map_err(|unread| match unread {
            UnreadFile::Missing => ScriptFault::new(code::RESOURCE_NOT_FOUND, unread.to_string()),
            UnreadFile::Outside | UnreadFile::TooLong(_) => ScriptFault::internal(unread.to_string()),
        })
    }

    /// A page of the project's own, as it lies there or as its template makes it.
    pub(super) fn read_page(&self, reading: &ResourceReading) -> Result<ProvidedContent, ScriptFault> {
        let missing = || ScriptFault::new(code::RESOURCE_NOT_FOUND, "Resource not found");
        let found = |bytes: Vec<u8>| ProvidedContent { bytes, mime_type: None };
        let Some(path) = &reading.path else {
            let text = reading.page.as_ref().and_then(ui::generated).ok_or_else(missing)?;
            return Ok(found(text.into_bytes()));
        };
        let limit = self.number("MCPBASH_MAX_UI_RESOURCE_BYTES", LONGEST_PAGE, LONGEST_PAGE << 4);
        let folders = [self.home.folders.tools.clone(), self.home.folders.ui.clone()];
        let bytes = read_inside(path, &folders, usize::try_from(limit).unwrap_or(usize::MAX));
        bytes.map(found).map_err(|unread| match unread {
            UnreadFile::Missing => missing(),
            UnreadFile::Outside | UnreadFile::TooLong(_) => ScriptFault::internal(unread.to_string()),
        })
    }

    /// What stands in the URI itself.
    pub(super) fn read_echo(&self, reading: &ResourceReading) -> Result<ProvidedContent, ScriptFault> {
        let payload = reading.uri.strip_prefix("echo://").ok_or_else(|| {
            ScriptFault::new(code::INVALID_PARAMS, format!("{}: the echo provider reads echo://TEXT", reading.uri))
        })?;
        Ok(ProvidedContent { bytes: percent_encoding::percent_decode_str(payload).collect(), mime_type: None })
    }

    fn resource_roots(&self) -> Vec<PathBuf> {
        let named = self.home.environment.get("MCP_RESOURCES_ROOTS").unwrap_or_default();
        let named: Vec<PathBuf> =
            // Relative to the project; an absolute path stays as it is.
            named.split([':', '\n']).filter(|part| !part.is_empty()).map(|part| self.home.root.join(part)).collect();
        if named.is_empty() { vec![self.home.folders.resources.clone()] } else { named }
    }

    /// Whether a provider may speak to a host at all. Whether it is private is decided when its address is known.
    fn permits_host(&self, stem: &str, host: &str) -> Result<(), ScriptFault> {
        let refused = |why: String| Err(ScriptFault::new(code::INVALID_PARAMS, why));
        let list = |kind: &str| self.home.environment.get(&format!("MCPBASH_{stem}_{kind}_HOSTS")).unwrap_or_default();
        let names =
            |list: &str| list.split([',', ' ']).any(|name| name.trim_matches(['[', ']']).eq_ignore_ascii_case(host));
        let all = self.home.environment.get(&format!("MCPBASH_{stem}_ALLOW_ALL")).unwrap_or_default();
        let all = matches!(all.trim(), "true" | "1" | "yes" | "on");
        let (allowed, denied) = (list("ALLOW"), list("DENY"));
        // Denied wins over allowed.
        if names(denied) {
            return refused(format!("{host} is in MCPBASH_{stem}_DENY_HOSTS"));
        }
        // Nobody is asked unless somebody was named: a project must not reach out by default.
        if allowed.trim().is_empty() && !all {
            return refused(format!("{host} may not be asked: name it in MCPBASH_{stem}_ALLOW_HOSTS"));
        }
        if !allowed.trim().is_empty() && !names(allowed) {
            return refused(format!("{host} is not in MCPBASH_{stem}_ALLOW_HOSTS"));
        }
        Ok(())
    }

    /// A number of the environment, with its default and its most.
    fn number(&self, name: &str, default: u64, most: u64) -> u64 {
        let text = self.home.environment.get(name);
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(default).min(most)
    }
}
