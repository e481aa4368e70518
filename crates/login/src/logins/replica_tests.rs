//! Logins of several replicas over a log in memory. The same with processes and NATS is in `tidings/tests/cluster/logins.rs`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tidings_hub::fleet::decision_commits::DecisionBase;
use tidings_hub::grant_keeper::{GrantState, LoginReason};
use tidings_store::Store;

use super::tests::{CRM, grant};
use super::*;
use crate::shared_grants::{GrantLog, GrantWritten};

#[derive(Default)]
struct MemoryLog(Lock<LoggedGrants>);

#[derive(Default)]
struct LoggedGrants {
    values: BTreeMap<String, (u64, Bytes)>,
    numbers: u64,
    followers: Vec<(u64, Logins)>,
    cut: BTreeSet<u64>,
}

struct LogOf(Arc<MemoryLog>, u64);

impl MemoryLog {
    fn put(&self, subject: &str, base: DecisionBase, value: Option<&Bytes>) -> GrantWritten {
        let mut log = self.0.lock();
        let there = log.values.get(subject).map_or(0, |(n, _)| *n);
        if matches!(base, DecisionBase::Exactly(n) if n != there) {
            return GrantWritten::Overtaken;
        }
        log.numbers += 1;
        let n = log.numbers;
        match value {
            Some(value) => log.values.insert(subject.to_owned(), (n, value.clone())),
            None => log.values.remove(subject),
        };
        for (process, logins) in log.followers.clone() {
            if !log.cut.contains(&process) {
                logins.told(subject, value.map(|value| (n, &**value)));
            }
        }
        GrantWritten::Applied
    }

    /// A replica with one server, to which each person logs in.
    fn replica(self: &Arc<Self>, process: u64) -> Logins {
        let logins = Logins::of_replica(VaultTable::new(&Store::in_memory(), &[7; 32]));
        let settings = LoginConfig { is_personal: true, ..LoginConfig::default() };
        logins.credential("crm", CRM, Some(settings)).expect("an address");
        let mut log = self.0.lock();
        for (subject, (n, value)) in &log.values {
            logins.told(subject, Some((*n, value)));
        }
        log.followers.push((process, logins.clone()));
        logins.attach_log(Arc::new(LogOf(Arc::clone(self), process)));
        logins
    }
}

impl GrantLog for LogOf {
    fn process(&self) -> u64 {
        self.1
    }

    fn write<'l>(&'l self, subject: &'l str, base: DecisionBase, value: Option<Bytes>) -> BoxFuture<'l, GrantWritten> {
        Box::pin(async move {
            let is_cut = self.0.0.lock().cut.contains(&self.1);
            match is_cut {
                true => GrantWritten::Refused("cut off".to_owned()),
                false => self.0.put(subject, base, value.as_ref()),
            }
        })
    }

    fn confirm(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { !self.0.0.lock().cut.contains(&self.1) })
    }

    fn is_gone(&self, _: u64) -> bool {
        false
    }
}

async fn ada(logins: &Logins) -> Keeper {
    logins.keeper("crm", Some("ada")).await.expect("a keeper")
}

fn token(keeper: &Keeper) -> Option<String> {
    keeper.held().borrow().as_ref().and_then(|held| held.header.to_str().ok().map(str::to_owned))
}

// cluster: grants
#[tokio::test]
async fn a_login_at_one_replica_is_one_at_all_and_at_those_that_come_later() {
    let log = Arc::<MemoryLog>::default();
    let (one, other) = (log.replica(1), log.replica(2));
    let waiting = ada(&other).await;
    ada(&one).await.logged_in(grant()).await.expect("logged in");
    for logins in [&one, &other, &log.replica(3)] {
        assert_eq!(token(&ada(logins).await).as_deref(), Some("Bearer a"));
        assert_eq!(logins.people("crm").logged_in, 1);
    }
    assert_eq!(token(&waiting).as_deref(), Some("Bearer a"), "also who was there before");

    assert_eq!(other.log_out("crm", "ada").await, Ok(true));
    for logins in [&one, &other] {
        let keeper = ada(logins).await;
        assert_eq!((token(&keeper), keeper.state()), (None, GrantState::NeedsLogin(LoginReason::Never)));
        assert!(keeper.need().borrow().as_ref().is_some_and(|words| words.contains("log_in")));
        assert_eq!(logins.people("crm").logged_in, 0);
    }
    assert_eq!(one.log_out("crm", "ada").await, Ok(false), "it was taken away");
}

// cluster: grants
#[tokio::test]
async fn a_replica_that_is_cut_off_goes_on_with_what_it_has_and_ends_nothing() {
    let log = Arc::<MemoryLog>::default();
    let (one, other) = (log.replica(1), log.replica(2));
    ada(&one).await.logged_in(grant()).await.expect("logged in");
    log.0.lock().cut.insert(2);
    assert!(matches!(other.log_out("crm", "ada").await, Err(LoginFault::Refused(why)) if why.contains("cut off")));
    assert!(matches!(other.begin("crm", "ada", false).await, Err(LoginFault::Refused(why)) if why.contains("cut off")));
    assert_eq!(token(&ada(&other).await).as_deref(), Some("Bearer a"));
    assert!(ada(&other).await.logged_in(grant()).await.is_err(), "the others do not know of it");
}

// cluster: grants
#[tokio::test]
async fn a_server_that_is_gone_leaves_no_grant_behind() {
    let log = Arc::<MemoryLog>::default();
    let (one, other) = (log.replica(1), log.replica(2));
    ada(&one).await.logged_in(grant()).await.expect("logged in");
    // Nobody has asked for it there.
    other.forget("crm").await;
    assert!(log.0.lock().values.is_empty());
    assert_eq!(token(&ada(&one).await), None);
}

// cluster: grants
#[tokio::test]
async fn what_a_browser_comes_with_names_the_process_that_knows_it() {
    let logins = Arc::<MemoryLog>::default().replica(0x2a);
    let ticket = logins.fresh_ticket();
    assert_eq!(Logins::home_of(&format!("/connect/{ticket}"), None), Some(0x2a));
    assert_eq!(Logins::home_of("/oauth/callback", Some(&format!("code=c&state={ticket}"))), Some(0x2a));
    assert_eq!(Logins::home_of("/oauth/client.json", Some(&format!("state={ticket}"))), None);
    assert_eq!(Logins::home_of("/connect/alone", None), None);
}
