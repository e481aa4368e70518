//! `POST /servers/{name}/upgrade`: a newer release of a server is started beside the one that runs; whoever asked sees how its lists
//! differ and decides; then the new one takes the place of the old one in one commit, or is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tidings_engine::{OfferReview, Origin};
use tidings_inventory::{ChangeReview, RegistryChange, RegistryRefusal};
use tidings_server_catalog::{CatalogEntry, EntryCatalogue, ExtraKeys, KeysError};
use tidings_sync::Lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::task::TaskTracker;

use crate::manage::refused;
use crate::servers::describe_one;
use crate::upgrade_difference::difference;
use crate::{AdminShared, problem};

/// How long a new server waits beside the old one for a decision.
const DECISION: Duration = Duration::from_secs(10 * 60);
/// How many may be under way at a time: each starts a server, which then waits.
const UNDER_WAY: usize = 8;
/// Keys that a release decides: those of another one replace them, and what somebody wrote beside them stays.
const OF_RELEASE: [&str; 11] =
    ["command", "args", "env", "cwd", "url", "type", "headers", "container", "volumes", "network", "release"];

/// Upgrades that wait for a decision. Bounded in number and time.
#[derive(Clone, Debug)]
pub(crate) struct UpgradeDesk {
    table: Arc<Lock<DeskRows>>,
    /// Each task ends with its decision, its deadline, or the gateway; and gives its seat back then.
    tasks: TaskTracker,
    seats: Arc<Semaphore>,
}

impl Default for UpgradeDesk {
    fn default() -> Self {
        let (table, tasks) = Default::default();
        Self { table, tasks, seats: Arc::new(Semaphore::new(UNDER_WAY)) }
    }
}

#[derive(Debug, Default)]
struct DeskRows {
    last: u64,
    waiting: BTreeMap<u64, WaitingUpgrade>,
}

#[derive(Debug)]
struct WaitingUpgrade {
    server: String,
    decide: oneshot::Sender<bool>,
    done: oneshot::Receiver<Result<(), RegistryRefusal>>,
}

/// What an upgrade changes.
struct UpgradeWish {
    entry: Arc<CatalogEntry>,
    from: String,
    to: String,
    read: Value,
    server: Value,
}

/// `POST /servers/{name}/upgrade`.
pub(crate) async fn begin(State(admin): State<AdminShared>, Path(name): Path<String>) -> Response {
    let wish = match wish(&admin, &name).await {
        Ok(Some(wish)) => wish,
        Ok(None) => return Json(json!({ "server": name, "upgrade": null })).into_response(),
        Err(refused) => return *refused,
    };
    // Before anything is started: a seat is a process that may wait for ten minutes.
    let Some(seat) = admin.upgrades.seat() else {
        let detail = format!("{UNDER_WAY} upgrades are under way already; decide about one of them");
        return problem(StatusCode::TOO_MANY_REQUESTS, &detail);
    };
    let (seen, offers) = oneshot::channel();
    let (decide, decided) = oneshot::channel();
    let (tell, mut done) = oneshot::channel();
    let change = RegistryChange::Replace { name: name.clone(), read: wish.read, server: wish.server };
    let registry = admin.registry.clone();
    // A task of its own: the new server waits for the decision, which is another request.
    admin.upgrades.tasks.spawn(async move {
        let _seat = seat;
        let _ = tell.send(registry.apply_reviewed(change, review(seen, decided)).await);
    });
    let offers = tokio::select! {
        // The offers first: where both are ready, the review was shown, and its end is asked for by the decision.
        biased;
        offers = offers => offers,
        done = &mut done => return match done {
            Ok(Err(refusal)) => refused(&refusal),
            _ => refused(&RegistryRefusal::NotRunning),
        },
    };
    // The review was dropped unseen, so the change has ended; its end says why.
    let Ok(offers) = offers else {
        return refused(&done.await.ok().and_then(Result::err).unwrap_or(RegistryRefusal::NotRunning));
    };
    let id = admin.upgrades.keep(WaitingUpgrade { server: name.clone(), decide, done });
    let release = wish.entry.release.as_ref();
    let upgrade = json!({
        "id": id.to_string(),
        "entry": wish.entry.id,
        "from": wish.from,
        "to": wish.to,
        "status": release.map(|release| release.status.word()),
        "status_message": release.and_then(|release| release.message.as_ref()),
        "difference": difference(&offers),
        "expires_in": DECISION.as_secs(),
    });
    Json(json!({ "server": name, "upgrade": upgrade })).into_response()
}

/// `POST /servers/{name}/upgrade/{id}`.
pub(crate) async fn decide(
    State(admin): State<AdminShared>,
    Path((name, id)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    let wish: Value = serde_json::from_slice(&body).unwrap_or_default();
    let approve = match wish["decision"].as_str() {
        Some("approve") => true,
        Some("reject") => false,
        _ => return problem(StatusCode::BAD_REQUEST, "`decision` must be \"approve\" or \"reject\""),
    };
    let Some(waiting) = id.parse().ok().and_then(|id| admin.upgrades.take(id, &name)) else {
        let detail = format!("no upgrade \"{id}\" of \"{name}\" waits; begin one: POST /servers/{name}/upgrade");
        return problem(StatusCode::NOT_FOUND, &detail);
    };
    // It may have given up waiting: then the outcome says so.
    let _ = waiting.decide.send(approve);
    match waiting.done.await {
        Ok(Ok(())) => Json(describe_one(&admin, &name)).into_response(),
        Ok(Err(RegistryRefusal::Declined { .. })) if !approve => Json(json!({ "rejected": name })).into_response(),
        Ok(Err(refusal)) => refused(&refusal),
        Err(_) => refused(&RegistryRefusal::NotRunning),
    }
}

impl UpgradeDesk {
    /// Room for one more. Its task has it until it ends, whether anybody decides or not.
    fn seat(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.seats).try_acquire_owned().ok()
    }

    fn keep(&self, waiting: WaitingUpgrade) -> u64 {
        let mut table = self.table.lock();
        // Those whose time is over have ended by themselves.
        table.waiting.retain(|_, waiting| !waiting.decide.is_closed());
        table.last += 1;
        let id = table.last;
        table.waiting.insert(id, waiting);
        id
    }

    fn take(&self, id: u64, server: &str) -> Option<WaitingUpgrade> {
        let mut table = self.table.lock();
        // The name has to fit, too: the number alone could decide about another server.
        let is_its = table.waiting.get(&id).is_some_and(|waiting| waiting.server == server);
        is_its.then(|| table.waiting.remove(&id)).flatten()
    }
}

/// Shows what the new server lists, and waits for the decision.
fn review(seen: oneshot::Sender<Vec<OfferReview>>, decided: oneshot::Receiver<bool>) -> ChangeReview {
    Box::new(|offers| {
        Box::pin(async move {
            if seen.send(offers).is_err() {
                return Err("whoever asked for it went away".to_owned());
            }
            match tokio::time::timeout(DECISION, decided).await {
                Ok(Ok(true)) => Ok(()),
                Ok(Ok(false)) => Err("the upgrade was rejected".to_owned()),
                Ok(Err(_)) => Err("whoever asked for it went away".to_owned()),
                Err(_) => Err(format!("nobody decided within {} min", DECISION.as_secs() / 60)),
            }
        })
    })
}

/// What the server would be; `None` when it is that already.
async fn wish(admin: &AdminShared, name: &str) -> Result<Option<UpgradeWish>, Box<Response>> {
    let conflict = |detail: String| Box::new(problem(StatusCode::CONFLICT, &detail));
    let state = admin.registry.state();
    let Some(server) = state.server(name) else {
        return Err(Box::new(refused(&RegistryRefusal::Unknown { name: name.to_owned() })));
    };
    let (Some(made_of), Some(release)) = (&server.made_of, &server.release) else {
        let detail = format!("\"{name}\" was not made of an entry of a registry, so nobody knows its next release");
        return Err(conflict(detail));
    };
    if server.origin == Origin::File {
        return Err(Box::new(refused(&RegistryRefusal::FromFile { name: name.to_owned() })));
    }
    let missing = || conflict(format!("no registry has \"{made_of}\" any more"));
    let catalogue: Arc<dyn EntryCatalogue> = admin.entries.clone().ok_or_else(missing)?;
    let found = catalogue.get(made_of.clone()).await;
    let found = found.map_err(|error| Box::new(problem(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())))?;
    let entry = found.filter(|entry| entry.release.is_some()).ok_or_else(missing)?;
    let read = admin.registry.kept(name).await.unwrap_or_default();
    let fresh = catalogue.keys(Arc::clone(&entry), wishes(&read)).await.map_err(|fault| {
        let status = match fault {
            KeysError::Unfetched { .. } => StatusCode::BAD_GATEWAY,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Box::new(problem(status, &fault.to_string()))
    })?;
    let server = merged(&read, fresh);
    // The keys have the version and the digest in them: where they are the same, nothing is new.
    if server == read {
        return Ok(None);
    }
    let to = entry.release.as_ref().map(|release| release.version.clone()).unwrap_or_default();
    Ok(Some(UpgradeWish { entry, from: release.version.clone(), to, read, server }))
}

/// What was asked for when the server was added.
fn wishes(keys: &Value) -> ExtraKeys {
    let release = &keys["release"];
    let inputs = release["inputs"].as_object().into_iter().flatten();
    let args = release["args"].as_array().into_iter().flatten();
    ExtraKeys {
        args: args.filter_map(Value::as_str).map(str::to_owned).collect(),
        environment: inputs.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect(),
        kind: release["kind"].as_str().map(str::to_owned),
    }
}

/// The keys of the new release, with what else stood beside those of the old one.
fn merged(read: &Value, fresh: Value) -> Value {
    let mut keys: Map<String, Value> = read.as_object().cloned().unwrap_or_default();
    // Dropped before the fresh ones come: a key that the new release does not have must not stay from the old one.
    keys.retain(|key, _| !OF_RELEASE.contains(&key.as_str()));
    if let Value::Object(fresh) = fresh {
        keys.extend(fresh);
    }
    keys.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    // reach 5
    #[test]
    fn upgrades_that_nobody_decided_about_in_time_leave_room_for_others() {
        let desk = UpgradeDesk::default();
        let begun: Vec<_> = std::iter::from_fn(|| desk.seat()).take(100).collect();
        assert_eq!((begun.len(), desk.seat().is_none()), (UNDER_WAY, true), "bounded while they are under way");
        for seat in begun {
            let ((decide, decided), (tell, done)) = (oneshot::channel(), oneshot::channel());
            desk.keep(WaitingUpgrade { server: "s".to_owned(), decide, done });
            // As their task ends when their time is over.
            drop((decided, tell, seat));
        }
        assert!(desk.seat().is_some(), "those whose time is over hold nobody up");
        let ((decide, _decided), (_tell, done)) = (oneshot::channel(), oneshot::channel());
        desk.keep(WaitingUpgrade { server: "s".to_owned(), decide, done });
        assert_eq!(desk.table.lock().waiting.len(), 1, "and are forgotten");
    }

    // reach 5
    #[test]
    fn what_stood_beside_the_release_stays_and_the_rest_is_new() {
        let read = json!({
            "command": "npx", "args": ["-y", "p@1.0.0"], "env": {"K": "${env:K}"}, "prefix": "p", "approve": "manual",
            "entry": "a/b", "release": {"version": "1.0.0", "kind": "npm", "inputs": {"K": "${env:K}"}, "args": ["x"]},
        });
        let wishes = wishes(&read);
        assert_eq!(wishes.environment, [("K".to_owned(), "${env:K}".to_owned())]);
        assert_eq!((wishes.args, wishes.kind.as_deref()), (vec!["x".to_owned()], Some("npm")));
        let fresh =
            json!({"command": "npx", "args": ["-y", "p@2.0.0"], "entry": "a/b", "release": {"version": "2.0.0"}});
        let expected = json!({
            "command": "npx", "args": ["-y", "p@2.0.0"], "prefix": "p", "approve": "manual", "entry": "a/b",
            "release": {"version": "2.0.0"},
        });
        assert_eq!(merged(&read, fresh), expected);
    }
}
