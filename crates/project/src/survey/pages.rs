//! Pages for clients that show them, in the folders of tools and in `ui/`.

use std::path::Path;
use std::sync::Arc;

use super::{MadeEntry, SurveyLook};
use crate::entry::ProjectResource;
use crate::identity::server_name;
use crate::ui;

impl SurveyLook<'_> {
    /// A page for each folder `ui/` of a tool, then for each folder of `ui/`; of two with the same name, the tool's.
    pub(super) fn found_pages(&mut self) -> Vec<Arc<ProjectResource>> {
        let (tools, own) = (self.home.folders.tools.clone(), self.home.folders.ui.clone());
        let server = server_name(self.home);
        let mut pages: Vec<Arc<ProjectResource>> = Vec::new();
        let of_tools = folders(&tools).into_iter().map(|(name, path)| (name, path.join(ui::FOLDER)));
        let folders: Vec<_> = of_tools.chain(folders(&own)).filter(|(_, folder)| ui::is_page(folder)).collect();
        for (name, folder) in folders {
            self.folders.insert(folder.clone());
            if pages.iter().any(|page| page.name == name) {
                continue;
            }
            match ui::page(&folder, &name, &server, &self.home.root, &mut self.problems) {
                Ok(page) => {
                    let page = Arc::new(page);
                    self.made.insert(folder, MadeEntry::Resource(Arc::clone(&page)));
                    pages.push(page);
                }
                Err(problem) => {
                    if let Some(MadeEntry::Resource(page)) = self.keep(&folder, problem) {
                        pages.push(page);
                    }
                }
            }
        }
        pages.sort_by(|a, b| a.name.cmp(&b.name));
        pages
    }
}

/// The folders in a folder, by name; links are not followed.
fn folders(folder: &Path) -> Vec<(String, std::path::PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut found: Vec<_> =
        real.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect();
    found.sort();
    found
}
