//! Keeping up with a declared path: what differs from the last look is signalled.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tidings_folder_events::NoEvents;

use super::events::{EventBell, FolderEvents, PathBatch, PathInterest};
use super::survey::{DeclaredPath, FileSurvey, ServedFile, is_link};
use super::{LONGEST_COMPARED, UnreadableReason};
use crate::observations::{Hash, SourceSignals, hash};

/// Something to do where blocking is allowed.
pub(super) type Look = Box<dyn FnOnce() -> SeenFiles + Send>;

/// What was seen last, and the events since.
pub(super) struct SeenFiles {
    id: String,
    declared: DeclaredPath,
    signals: SourceSignals,
    events: Option<FolderEvents>,
    without_events: Option<NoEvents>,
    survey: FileSurvey,
    /// The digest of the survey's URIs.
    members: Hash,
    first: bool,
}

/// How sure a difference has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DifferenceDoubt {
    /// Something happened to the file.
    Event,
    /// Nothing is known to have happened to it.
    Any,
}

impl SeenFiles {
    pub(super) fn new(id: &str, declared: &DeclaredPath, signals: SourceSignals) -> Self {
        let without_events = Some(NoEvents::System("not asked for".to_owned()));
        let (id, declared) = (id.to_owned(), declared.clone());
        let survey = FileSurvey::default();
        let members = survey.members();
        Self { id, declared, signals, events: None, without_events, survey, members, first: true }
    }

    /// Asks for events, where the file system has them.
    fn with_events(&mut self) {
        match FolderEvents::of(self.declared.path()) {
            Ok(events) => (self.events, self.without_events) = (Some(events), None),
            Err(why) => self.give_up_events(why),
        }
    }

    fn give_up_events(&mut self, why: NoEvents) {
        tracing::warn!(watch = %self.id, reason = %why, "no events from the file system: polling");
        (self.events, self.without_events) = (None, Some(why));
    }

    /// Why there are no events.
    pub(super) fn without_events(&self) -> Option<String> {
        self.without_events.as_ref().map(ToString::to_string)
    }

    pub(super) fn bell(&self) -> Option<EventBell> {
        self.events.as_ref().map(FolderEvents::bell)
    }

    /// The first look, with events if they are wanted.
    pub(super) fn first_look(mut self, events: bool) -> Look {
        Box::new(move || {
            if events {
                self.with_events();
            }
            self.again()
        })
    }

    /// Compares every file, whether an event came for it or not.
    pub(super) fn again(mut self) -> Self {
        self.refresh(DifferenceDoubt::Any);
        self
    }

    /// Looks at what something happened to; at everything when that may have changed the folders themselves.
    pub(super) fn after(mut self, batch: &PathBatch) -> Self {
        // A single file: there is nothing to walk.
        let Some(root) = self.survey.root.clone() else {
            self.refresh(DifferenceDoubt::Event);
            return self;
        };
        let is_structural =
            |path: &PathBuf| self.survey.folders.contains(path) || !path.starts_with(&root) || is_folder(path);
        if batch.all || batch.paths.iter().any(is_structural) {
            self.refresh(DifferenceDoubt::Any);
        }
        // Also after a look at everything, which trusts what seems unchanged.
        let mut members_changed = false;
        for path in &batch.paths {
            let Ok(name) = path.strip_prefix(&root) else { continue };
            members_changed |= self.check(&root, name, DifferenceDoubt::Event);
        }
        // What a link points to lies outside the watched folders: no event comes for it.
        for name in self.survey.links.clone() {
            members_changed |= self.check(&root, &name, DifferenceDoubt::Any);
        }
        if members_changed {
            self.members = self.survey.members();
        }
        // Also when they are the same as before: a client may have listed while one was gone.
        self.signals.later_members(self.members);
        self
    }

    /// One file below the folder. Says whether it came or went.
    fn check(&mut self, root: &Path, name: &Path, doubt: DifferenceDoubt) -> bool {
        let uri = self.declared.uri_of(name);
        if self.declared.serves(name) && is_link(&root.join(name)) {
            self.survey.links.insert(name.to_owned());
        } else {
            self.survey.links.remove(name);
        }
        let found = self.declared.examine(root, name);
        let old = match found.clone() {
            Some(found) => self.survey.files.insert(uri.clone(), found),
            None => self.survey.files.remove(&uri),
        };
        self.compare(&uri, old.as_ref(), found.as_ref(), doubt);
        old.is_some() != found.is_some()
    }

    fn refresh(&mut self, doubt: DifferenceDoubt) {
        let footing = self.declared.footing();
        let root = std::fs::canonicalize(self.declared.path()).ok().filter(|root| root.is_dir());
        // Taken out, because arming borrows it while the survey borrows the rest.
        let mut events = self.events.take();
        let mut failed = None;
        let mut arm = |events: &mut Option<FolderEvents>, folder: &Path| {
            if let Some(Err(why)) = events.as_mut().map(|events| events.arm(folder)) {
                failed = Some(why);
                *events = None;
            }
        };
        if let Some(events) = &mut events {
            // Before arming: the system forgot folders that were moved, and arming one it seems to know would do
            // nothing.
            events.forget_missing();
            events.set_interest(PathInterest { root, entries: footing.entries });
        }
        for folder in &footing.folders {
            arm(&mut events, folder);
        }
        // Each folder is armed before it is read: a file that comes in between is seen twice rather than never.
        let survey = self.declared.survey(&mut |folder| arm(&mut events, folder));
        if let Some(events) = &mut events {
            let wanted: BTreeSet<PathBuf> = survey.folders.union(&footing.folders).cloned().collect();
            // What is not there any more would use up watches, of which the system has a limit.
            events.keep(&wanted);
        }
        self.events = events;
        if let Some(why) = failed {
            self.give_up_events(why);
        }
        self.take(survey, doubt);
    }

    /// Takes a new survey for the old one and signals the difference. The first is only the beginning, unless somebody
    /// could not wait for it.
    fn take(&mut self, survey: FileSurvey, doubt: DifferenceDoubt) {
        self.members = survey.members();
        let old = std::mem::replace(&mut self.survey, survey);
        // The first look is what followers begin with, no change.
        if std::mem::take(&mut self.first) && !self.signals.is_ready() {
            return self.signals.first_members(self.members);
        }
        self.signals.later_members(self.members);
        let new = &self.survey;
        for (uri, was) in &old.files {
            self.compare(uri, Some(was), new.files.get(uri), doubt);
        }
        for (uri, found) in new.files.iter().filter(|(uri, _)| !old.files.contains_key(*uri)) {
            self.compare(uri, None, Some(found), doubt);
        }
    }

    /// Signals what became of one file.
    fn compare(&self, uri: &str, old: Option<&ServedFile>, new: Option<&ServedFile>, doubt: DifferenceDoubt) {
        let stamp = |found: Option<&ServedFile>| found.and_then(|found| found.stamp);
        let (was, is) = (stamp(old), stamp(new));
        if new.is_some_and(|new| new.name.as_os_str().is_empty()) && was.is_some() != is.is_some() {
            let word = if is.is_some() { "the file is back" } else { "the file is gone; its folder is watched" };
            tracing::info!(watch = %self.id, "{word}");
        }
        let is_same = was == is && doubt == DifferenceDoubt::Any;
        // A file whose stamp is too young to be trusted is read though nothing seems to have happened.
        if is_same && old.is_none_or(ServedFile::is_settled) || !self.signals.follows(uri) {
            return;
        }
        let (Some(found), Some(stamp)) = (new, is) else {
            // It is gone, which is a content like any other: followers are told once.
            return self.signals.observed(uri, None);
        };
        // Too long to be read for every event: the stamp has to do.
        if stamp.size > LONGEST_COMPARED {
            if !is_same {
                self.signals.changed(uri);
            }
            return;
        }
        match self.declared.read(&found.name, LONGEST_COMPARED) {
            Ok(bytes) => self.signals.observed(uri, Some(hash(&bytes))),
            Err(UnreadableReason::TooLong { .. }) => self.signals.changed(uri),
            Err(_) => self.signals.observed(uri, None),
        }
    }
}

fn is_folder(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}
