//! Logins of several replicas over a log in memory. The same with processes and NATS is in `tidings/tests/cluster/logins.rs`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tidings_config::LoginGrant;
use tidings_hub::fleet::decision_commits::DecisionBase;
use tidings_hub::grant_keeper::{GrantState, LoginReason};
use tidings_store::Store;
use tidings_upstream::{CredentialRefusal, CredentialRenewal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::tests::{CRM, grant};
use super::*;
use crate::grant_record::GrantRecord;
use crate::metadata::Provider;
use crate::shared_grants::{GrantLog, GrantWritten, SharedGrant, SharedGrantState};
use crate::web_address::WebAddress;

#[derive(Default)]
struct MemoryLog(Lock<LoggedGrants>);

#[derive(Default)]
struct LoggedGrants {
    values: BTreeMap<String, (u64, Bytes)>,
    numbers: u64,
    followers: Vec<(u64, Logins)>,
    cut: BTreeSet<u64>,
    /// Replicas that are told nothing before they have asked so often for what the log has.
    late: BTreeMap<u64, usize>,
    /// A replica whose writes are lost, which it learns when it is told so. Rings when there is one.
    losing: Option<(u64, Arc<LostWrite>)>,
}

#[derive(Default)]
struct LostWrite {
    begun: Notify,
    may_end: Notify,
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
            if !log.cut.contains(&process) && !log.late.contains_key(&process) {
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
            let (is_cut, losing) = {
                let log = self.0.0.lock();
                (log.cut.contains(&self.1), log.losing.clone())
            };
            if let Some((_, lost)) = losing.filter(|(process, _)| *process == self.1) {
                lost.begun.notify_one();
                lost.may_end.notified().await;
                return GrantWritten::Unknown;
            }
            match is_cut {
                true => GrantWritten::Refused("cut off".to_owned()),
                false => self.0.put(subject, base, value.as_ref()),
            }
        })
    }

    fn confirm(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            let mut log = self.0.0.lock();
            if let Some(left) = log.late.get_mut(&self.1) {
                *left -= 1;
                if *left == 0 {
                    log.late.remove(&self.1);
                    let (_, logins) = log.followers.iter().find(|(process, _)| *process == self.1).expect("a follower");
                    for (subject, (n, value)) in &log.values {
                        logins.told(subject, Some((*n, value)));
                    }
                }
            }
            !log.cut.contains(&self.1)
        })
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

/// What the log has, if it is a grant: its token, and whether somebody is about to renew it.
fn logged(log: &MemoryLog) -> Option<(String, bool)> {
    let log = log.0.lock();
    let (_, value) = log.values.values().next()?;
    match serde_json::from_slice::<SharedGrant>(value).expect("a grant").state {
        SharedGrantState::Granted { record, claimed, .. } => Some((record.access, claimed)),
        SharedGrantState::Needed { .. } => None,
    }
}

/// Somebody logs in once more.
fn newer_grant() -> GrantRecord {
    GrantRecord { access: "b".to_owned(), refresh: Some("s".to_owned()), ..grant() }
}

/// The server refuses the first token.
async fn refused(keeper: &Keeper) -> CredentialRenewal {
    let refusal = CredentialRefusal { generation: Some(1), status: 401, challenge: None, is_past_owner: false };
    keeper.clone().refusal(refusal).await
}

/// A provider that is out of order, and takes its time to say so.
struct BrokenProvider {
    provider: Provider,
    asked: Arc<Notify>,
    may_answer: Arc<Notify>,
    /// Ends with this.
    _answering: tokio::task::JoinSet<()>,
}

impl BrokenProvider {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let (asked, may_answer) = (Arc::<Notify>::default(), Arc::<Notify>::default());
        let (rings, waits) = (Arc::clone(&asked), Arc::clone(&may_answer));
        let mut answering = tokio::task::JoinSet::new();
        answering.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 1_024]).await;
                rings.notify_one();
                waits.notified().await;
                let _ = stream.write_all(b"HTTP/1.1 503 X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
                // What is not read would end the connection before the answer is.
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            }
        });
        let provider = Provider::invented(&WebAddress::parse(&origin).expect("an address"));
        Self { provider, asked, may_answer, _answering: answering }
    }
}

// cluster: grants
#[tokio::test]
async fn a_provider_that_fails_takes_no_login_and_no_logout_back_that_came_meanwhile() {
    for is_logout in [false, true] {
        let broken = BrokenProvider::start().await;
        let log = Arc::<MemoryLog>::default();
        let (one, other) = (log.replica(1), log.replica(2));
        let (here, there) = (ada(&one).await, ada(&other).await);
        here.logged_in(GrantRecord { provider: broken.provider, ..grant() }).await.expect("logged in");
        let asking = tokio::spawn(async move { refused(&here).await });
        let asked = tokio::time::timeout(Duration::from_secs(10), broken.asked.notified());
        asked.await.expect("the provider is asked");
        assert_eq!(logged(&log), Some(("a".to_owned(), true)));
        match is_logout {
            true => assert_eq!(other.log_out("crm", "ada").await, Ok(true)),
            false => there.logged_in(newer_grant()).await.expect("logged in"),
        }
        broken.may_answer.notify_one();
        asking.await.expect("an answer");
        // Its task has ended, so nothing comes any more.
        one.close().await;
        assert_eq!(logged(&log), (!is_logout).then(|| ("b".to_owned(), false)));
        assert_eq!(token(&there).as_deref(), (!is_logout).then_some("Bearer b"));
    }
}

// cluster: grants
#[tokio::test]
async fn who_reads_of_a_login_when_about_to_write_neither_takes_it_away_nor_claims_it() {
    // With nothing to renew it with, a refusal is the end of the first one.
    for refresh in [None, Some("r".to_owned())] {
        let log = Arc::<MemoryLog>::default();
        let (one, other) = (log.replica(1), log.replica(2));
        let (here, there) = (ada(&one).await, ada(&other).await);
        here.logged_in(GrantRecord { refresh, ..grant() }).await.expect("logged in");
        // Read when somebody was refused, and before anything is written: the news comes with the second.
        log.0.lock().late.insert(1, 2);
        there.logged_in(newer_grant()).await.expect("logged in");
        refused(&here).await;
        one.close().await;
        assert_eq!(logged(&log), Some(("b".to_owned(), false)));
        assert_eq!(token(&here).as_deref(), Some("Bearer b"));
    }
}

// cluster: grants
#[tokio::test]
async fn a_login_that_could_not_be_written_comes_after_no_logout_that_was_told_meanwhile() {
    let log = Arc::<MemoryLog>::default();
    let (one, other) = (log.replica(1), log.replica(2));
    let here = ada(&one).await;
    here.logged_in(grant()).await.expect("logged in");
    let lost = Arc::<LostWrite>::default();
    log.0.lock().losing = Some((1, Arc::clone(&lost)));
    let keeper = here.clone();
    let writing = tokio::spawn(async move { keeper.logged_in(newer_grant()).await });
    tokio::time::timeout(Duration::from_secs(10), lost.begun.notified()).await.expect("it is written");
    assert_eq!(other.log_out("crm", "ada").await, Ok(true));
    log.0.lock().losing = None;
    lost.may_end.notify_one();
    assert!(writing.await.expect("a task").is_err());
    one.close().await;
    assert_eq!((logged(&log), here.state()), (None, GrantState::NeedsLogin(LoginReason::Never)));
    assert!(!here.is_unsaved(), "nothing is left to be written");
}

// cluster: grants
#[tokio::test]
async fn a_refusal_past_the_replica_that_runs_the_server_gives_what_there_is_and_renews_nothing() {
    let log = Arc::<MemoryLog>::default();
    let (one, other) = (log.replica(1), log.replica(2));
    let (here, there) = (ada(&one).await, ada(&other).await);
    // With nothing to renew it with, a refusal would be the end of it.
    here.logged_in(GrantRecord { refresh: None, ..grant() }).await.expect("logged in");
    let refusal = |generation| CredentialRefusal { generation, status: 401, challenge: None, is_past_owner: true };
    assert!(matches!(there.clone().refusal(refusal(Some(1))).await, CredentialRenewal::Unknown));
    assert!(matches!(there.clone().refusal(refusal(None)).await, CredentialRenewal::Use(_)));
    log.0.lock().late.insert(2, 1);
    here.logged_in(newer_grant()).await.expect("logged in");
    let newer = there.clone().refusal(refusal(Some(1))).await;
    assert!(matches!(newer, CredentialRenewal::Use(held) if held.header == "Bearer b"));
    other.close().await;
    assert_eq!(logged(&log), Some(("b".to_owned(), false)));
    assert_eq!(there.state(), GrantState::Valid(2));
}

// cluster: grants
#[tokio::test]
async fn what_a_machine_needs_says_nothing_of_other_replicas() {
    let logins = Arc::<MemoryLog>::default().replica(1);
    let of = |name: &str, grant| {
        let settings = LoginConfig { grant, ..LoginConfig::default() };
        logins.credential(name, CRM, Some(settings)).expect("an address").0.need()
    };
    assert!(of("one", LoginGrant::ClientCredentials).is_none());
    assert!(of("two", LoginGrant::default()).is_some());
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
