//! Files, folders and patterns of paths as resources. `survey` looks, `events` says when, `watching` compares.

mod events;
mod glob;
mod survey;
mod watching;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tidings_config::watch::FileWatch;

use super::kinds::{DeclaredWatch, MadeSource, SourceFault, SourceInputs, WatchFinding};
use super::note::PassingNote;
use super::observations::{SourceSignals, hash};
use super::source::{SourceContent, SourceEntry, UnreadableReason, WatchedSource};
use super::{AboutResource, mime};
use survey::DeclaredPath;
use watching::SeenFiles;

/// The longest file that is served.
const LONGEST: u64 = 16 << 20;
/// Longer files are not compared by content: every change of theirs counts.
const LONGEST_COMPARED: u64 = 1 << 20;
/// How often to look where there are no events.
const POLL: Duration = Duration::from_secs(5);
/// What makes a path a pattern.
const WILD: [char; 3] = ['*', '?', '['];

/// A file, a folder, or the files that a pattern matches.
struct FileSource {
    about: AboutResource,
    declared: DeclaredPath,
    /// Says so while it is polled.
    note: PassingNote,
    poll: Duration,
    events: bool,
}

impl FileSource {
    /// The files of an absolute path. One that ends with a slash is a folder even before it is there.
    fn new(about: AboutResource, path: &Path) -> Self {
        let declared = DeclaredPath::new(path, &about.uri());
        Self { about, declared, note: PassingNote::default(), poll: POLL, events: true }
    }

    /// The same without events of the file system.
    #[cfg(test)]
    fn polling(about: AboutResource, path: &Path, every: Duration) -> Self {
        Self { poll: every, events: false, ..Self::new(about, path) }
    }

    fn mime_type(&self, path: &Path) -> Option<String> {
        self.about.mime_type.clone().or_else(|| mime::of_path(path).map(str::to_owned))
    }

    /// Asks the file system about the declared path.
    async fn on_the_path(&self, question: fn(&Path) -> bool) -> bool {
        let declared = self.declared.clone();
        blocking(move || question(declared.path())).await.unwrap_or_default()
    }

    /// What the type of a file is guessed from.
    fn named<'a>(&'a self, name: &'a Path) -> &'a Path {
        if name.as_os_str().is_empty() { self.declared.path() } else { name }
    }
}

/// Runs work that touches files where it may block: a network mount can take seconds.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    // Fails only when the work panicked or the process ends.
    tokio::task::spawn_blocking(work).await.ok()
}

impl WatchedSource for FileSource {
    fn owns(&self, uri: &str) -> bool {
        self.declared.name_of(uri).is_some()
    }

    fn list(&self) -> BoxFuture<'_, Vec<SourceEntry>> {
        Box::pin(async move {
            let declared = self.declared.clone();
            let survey = blocking(move || declared.survey(&mut |_| {})).await.unwrap_or_default();
            if survey.truncated {
                tracing::warn!(watch = %self.about.id, files = survey.files.len(), "there are more files than are listed");
            }
            let entry = |(uri, found): (String, survey::ServedFile)| {
                let shown = found.name.display().to_string();
                SourceEntry {
                    uri,
                    name: if shown.is_empty() { self.about.name().to_owned() } else { shown },
                    description: self.note.describe(&self.about),
                    mime_type: self.mime_type(self.named(&found.name)),
                    size: found.stamp.map(|stamp| stamp.size),
                    last_modified: found.modified,
                }
            };
            survey.files.into_iter().map(entry).collect()
        })
    }

    fn template(&self) -> BoxFuture<'_, Option<SourceEntry>> {
        Box::pin(async move {
            let holds_many =
                self.declared.is_pattern() || !self.declared.may_be_a_file() || self.on_the_path(Path::is_dir).await;
            holds_many.then(|| {
                let uri = format!("{}/{{+path}}", self.about.uri().trim_end_matches('/'));
                let name = self.about.name().to_owned();
                SourceEntry { uri, name, description: self.note.describe(&self.about), ..self.about.entry() }
            })
        })
    }

    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<SourceContent, UnreadableReason>> {
        Box::pin(async move {
            let name = self.declared.name_of(uri).ok_or(UnreadableReason::NotFound)?;
            let mime_type = self.mime_type(self.named(&name));
            let declared = self.declared.clone();
            let bytes = blocking(move || declared.read(&name, LONGEST)).await;
            let bytes = bytes.unwrap_or(Err(UnreadableReason::Io(std::io::ErrorKind::Interrupted)))?;
            Ok(SourceContent { mime_type, bytes: bytes.into() })
        })
    }

    fn list_is_alive(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move { self.declared.is_pattern() || !self.on_the_path(Path::is_file).await })
    }

    fn look<'a>(&'a self, uris: &'a [String], signals: &'a SourceSignals) -> BoxFuture<'a, ()> {
        let (declared, uris, signals) = (self.declared.clone(), uris.to_vec(), signals.clone());
        Box::pin(async move {
            blocking(move || {
                for uri in uris {
                    let Some(name) = declared.name_of(&uri) else { continue };
                    match declared.read(&name, LONGEST_COMPARED) {
                        Ok(bytes) => signals.baseline(&uri, Some(hash(&bytes))),
                        Err(UnreadableReason::TooLong { .. }) => {}
                        Err(_) => signals.baseline(&uri, None),
                    }
                }
            })
            .await;
        })
    }

    fn watch(&self, signals: SourceSignals) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let watching = SeenFiles::new(&self.about.id, &self.declared, signals.clone());
            let mut next = watching.first_look(self.events);
            loop {
                // The look panicked; the task begins the watch again after a pause.
                let Some(looked) = blocking(next).await else { return };
                let every = self.poll.as_secs();
                let remark =
                    looked.without_events().map(|why| format!("looked at every {every} s, without events: {why}"));
                if self.note.set(remark) {
                    signals.list_changed();
                }
                // Only after the first look: from here on every change is seen.
                signals.ready();
                next = match looked.bell() {
                    Some(bell) => {
                        // Waited for without the rest of the state, which moves into the next look.
                        let batch = bell.next().await;
                        Box::new(move || looked.after(&batch))
                    }
                    None => {
                        tokio::time::sleep(self.poll).await;
                        Box::new(move || looked.again())
                    }
                };
            }
        })
    }
}

impl DeclaredWatch for FileWatch {
    fn make(&self, about: AboutResource, _inputs: &SourceInputs<'_>) -> Result<MadeSource, SourceFault> {
        let source: Arc<dyn WatchedSource> = Arc::new(FileSource::new(about, &self.path));
        Ok(source.into())
    }

    fn examine(&self, _about: AboutResource) -> BoxFuture<'_, Vec<WatchFinding>> {
        Box::pin(std::future::ready(vec![readable(&self.path)]))
    }
}

/// A single file or folder, or the folder in which a pattern looks.
fn readable(path: &Path) -> WatchFinding {
    let plain: PathBuf =
        // Up to the first part with a wildcard: that folder is what must be readable.
        path.components().take_while(|part| !part.as_os_str().to_string_lossy().contains(WILD)).collect();
    let shown = plain.display();
    let readable = match std::fs::metadata(&plain) {
        Ok(metadata) if metadata.is_dir() => std::fs::read_dir(&plain).map(drop),
        Ok(_) => std::fs::File::open(&plain).map(drop),
        Err(error) => Err(error),
    };
    match readable {
        Ok(()) => WatchFinding::fine(format!("{shown} can be read")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let what = format!("{shown} is not there; it is announced when it comes");
            WatchFinding::note(what, "nothing, if it is to come; else correct `file`")
        }
        Err(error) => {
            let remedy = "let the user who runs Tidings read it and enter the folders above, or correct `file`";
            WatchFinding::problem(format!("{shown}: {error}"), remedy)
        }
    }
}

#[cfg(test)]
mod tests;
