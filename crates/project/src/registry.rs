//! The registry: the last good state of a project, kept up to date for as long as somebody holds it.

use std::sync::Arc;
use std::time::Duration;

use tidings_upstream::ProcessLauncher;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::entry::{ListDigests, ProjectContents};
use crate::events::WatchedFolders;
use crate::home::ProjectHome;
use crate::problem::{ProblemSeverity, ProjectProblem};
use crate::register::{ProjectRegistration, RegisterHook, hook_of};
use crate::survey::ProjectSurvey;

/// How long events are gathered before a look; an editor makes several for one save.
const GATHER: Duration = Duration::from_millis(15);
/// How long the first state is waited for.
const FIRST: Duration = Duration::from_secs(60);

/// What a project offers at one moment; replaced as a whole when its folder changes.
#[derive(Debug)]
pub(crate) struct ProjectState {
    /// The last good contents.
    pub(crate) contents: Arc<ProjectContents>,
    pub(crate) digests: ListDigests,
    /// Set while there never was a good one.
    pub(crate) broken: Option<ProjectProblem>,
}

/// Holds the state; dropping it ends the watching.
pub(crate) struct ProjectRegistry {
    state: watch::Receiver<Option<Arc<ProjectState>>>,
    looks: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl Drop for ProjectRegistry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ProjectRegistry {
    /// Begins to look. Must be called inside a runtime.
    pub(crate) fn start(home: Arc<ProjectHome>, launcher: Option<Arc<ProcessLauncher>>) -> Arc<Self> {
        let (sender, state) = watch::channel(None);
        let (looked, looks) = watch::channel(0);
        let keeper =
            RegistryTask { home, launcher, sender, looked, survey: None, hook: HookState::default(), events: None };
        let task = tokio::spawn(keeper.run());
        Arc::new(Self { state, looks, task })
    }

    /// The state, once there is one.
    pub(crate) async fn state(&self) -> Option<Arc<ProjectState>> {
        let mut state = self.state.clone();
        let first = timeout(FIRST, state.wait_for(Option::is_some)).await.ok()?.ok()?;
        first.clone()
    }

    /// The state there is now.
    pub(crate) fn now(&self) -> Option<Arc<ProjectState>> {
        self.state.borrow().clone()
    }

    /// To wait for something that happened in the folder, whether or not it changed what is listed.
    pub(crate) fn looks(&self) -> watch::Receiver<u64> {
        self.looks.clone()
    }

    /// To wait for the next.
    pub(crate) fn changes(&self) -> watch::Receiver<Option<Arc<ProjectState>>> {
        self.state.clone()
    }
}

/// What became of `register.sh`.
#[derive(Default)]
struct HookState {
    /// What it registered last.
    good: Option<ProjectRegistration>,
    signature: Option<[u8; 32]>,
    problem: Option<ProjectProblem>,
    due: Option<Instant>,
}

/// The task behind the registry.
struct RegistryTask {
    home: Arc<ProjectHome>,
    launcher: Option<Arc<ProcessLauncher>>,
    sender: watch::Sender<Option<Arc<ProjectState>>>,
    /// Counts the looks at the folder.
    looked: watch::Sender<u64>,
    survey: Option<ProjectSurvey>,
    hook: HookState,
    events: Option<WatchedFolders>,
}

impl RegistryTask {
    async fn run(mut self) {
        self.run_hook().await;
        // Before events are asked for: the first state should not wait for the watches.
        if !self.look().await {
            return;
        }
        self.listen().await;
        let silence = Arc::new(Notify::new());
        loop {
            let bell = self.events.as_ref().map_or_else(|| Arc::clone(&silence), WatchedFolders::bell);
            // A folder that is gone can not be watched; it may come back.
            let unheard = self.events.is_none() || self.survey.as_ref().is_some_and(|survey| survey.contents.is_err());
            let poll = unheard.then(|| Instant::now() + self.home.settings.scan_ttl);
            tokio::select! {
                // An editor writes, renames and touches; one look is for all of it.
                () = bell.notified() => tokio::time::sleep(GATHER).await,
                () = at(poll) => {}
                () = at(self.hook.due) => {}
            }
            let began = Instant::now();
            self.run_hook().await;
            if !self.look().await || !self.follow().await {
                return;
            }
            // A folder that changes without pause costs no more than half of a thread.
            tokio::time::sleep(began.elapsed().min(Duration::from_secs(1))).await;
        }
    }

    /// Runs `register.sh` where it is there, permitted, and new or due.
    async fn run_hook(&mut self) {
        let home = Arc::clone(&self.home);
        let Ok(found) = tokio::task::spawn_blocking(move || hook_of(&home)).await else { return };
        let hook = match found {
            Ok(Some(hook)) => hook,
            Ok(None) => return self.hook = HookState::default(),
            Err(problem) => return self.hook = HookState { problem: Some(problem), ..HookState::default() },
        };
        // A hook that was edited is run at once, one that was not when its time is over.
        let is_new = self.hook.signature != Some(hook.signature);
        if is_new || self.hook.due.is_none_or(|due| due <= Instant::now()) {
            self.register(&hook).await;
        }
    }

    async fn register(&mut self, hook: &RegisterHook) {
        let outcome = hook.run(&self.home, self.launcher.as_ref()).await;
        self.hook.signature = Some(hook.signature);
        self.hook.due = Some(Instant::now() + self.home.settings.register_ttl);
        match outcome {
            Ok(registration) => (self.hook.good, self.hook.problem) = (Some(registration), None),
            // What it registered before still holds.
            Err(problem) => self.hook.problem = Some(problem),
        }
    }

    /// Looks at the folder and publishes what differs. `false`: the program is ending.
    async fn look(&mut self) -> bool {
        // Moved into the blocking task and given back: unchanged files are not read again.
        let (home, previous, hook) = (Arc::clone(&self.home), self.survey.take(), self.hook.good.clone());
        let look = move || {
            let next = ProjectSurvey::after(previous.as_ref(), &home, hook.as_ref());
            (previous, next)
        };
        let Ok((previous, mut survey)) = tokio::task::spawn_blocking(look).await else { return false };
        if let Some(problem) = &self.hook.problem {
            survey.problems.push(problem.clone());
            // Without a registration that ever was good nobody knows what should be shown.
            if problem.fault.severity() == ProblemSeverity::Error && self.hook.good.is_none() && survey.contents.is_ok()
            {
                survey.contents = Err(problem.clone());
            }
        }
        // Before it is published, so that whoever misses an entry finds the reason in the log.
        report(previous.as_ref(), &survey);
        self.publish(&survey);
        survey.keep(previous);
        self.survey = Some(survey);
        // Also when nothing differs: a followed resource may have changed though no list did.
        self.looked.send_modify(|count| *count += 1);
        true
    }

    fn publish(&self, survey: &ProjectSurvey) {
        let current = self.sender.borrow().clone();
        let next = match (&survey.contents, current) {
            // Events came and nothing that clients see is different: nobody is woken.
            (Ok(contents), Some(state)) if *contents == *state.contents && state.broken.is_none() => return,
            (Ok(contents), _) => {
                ProjectState { digests: contents.digests(), contents: Arc::new(contents.clone()), broken: None }
            }
            // The last good state holds.
            (Err(_), Some(state)) if state.broken.is_none() => return,
            (Err(problem), _) => {
                let contents = ProjectContents::default();
                ProjectState {
                    digests: contents.digests(),
                    contents: Arc::new(contents),
                    broken: Some(problem.clone()),
                }
            }
        };
        self.sender.send_replace(Some(Arc::new(next)));
    }

    /// Begins to watch, and looks again: nobody heard what happened since the first look.
    async fn listen(&mut self) {
        if !self.home.settings.events {
            return self.give_up_events(&"they are switched off by TIDINGS_PROJECT_EVENTS");
        }
        let root = self.home.root.clone();
        match tokio::task::spawn_blocking(move || WatchedFolders::new(&root)).await {
            Ok(Ok(events)) => self.events = Some(events),
            Ok(Err(reason)) => self.give_up_events(&reason),
            Err(_) => return,
        }
        self.follow().await;
    }

    /// Watches the folders that there are now, until there is no new one.
    async fn follow(&mut self) -> bool {
        loop {
            let Some(mut events) = self.events.take() else { return true };
            let folders = self.survey.as_ref().map(|survey| survey.folders.clone()).unwrap_or_default();
            let watch = move || {
                let outcome = events.watch(&folders);
                (events, outcome)
            };
            let Ok((events, outcome)) = tokio::task::spawn_blocking(watch).await else { return false };
            match outcome {
                Ok(false) => {
                    self.events = Some(events);
                    return true;
                }
                // Folders were added: what happened in them before they were watched needs another look.
                Ok(true) => self.events = Some(events),
                Err(reason) => {
                    self.give_up_events(&reason);
                    return true;
                }
            }
            if !self.look().await {
                return false;
            }
        }
    }

    fn give_up_events(&mut self, reason: &dyn std::fmt::Display) {
        let every = self.home.settings.scan_ttl;
        tracing::warn!(project = %self.home.root.display(), "no events from the file system ({reason}): looking every {every:?}");
        self.events = None;
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Says what is newly wrong, once.
fn report(previous: Option<&ProjectSurvey>, survey: &ProjectSurvey) {
    for problem in survey.all_problems() {
        // Said once, and not at every look.
        if previous.is_some_and(|previous| previous.all_problems().any(|known| known == problem)) {
            continue;
        }
        match problem.fault.severity() {
            ProblemSeverity::Error => tracing::warn!(target: "tidings::project", "{problem}"),
            ProblemSeverity::Warning => tracing::debug!(target: "tidings::project", "{problem}"),
        }
    }
}

#[cfg(test)]
mod tests;
