use std::time::Instant;

use tidings_store::Store;
use tokio::sync::watch;

use super::*;
use crate::client_registration::{ClientProof, OAuthClient};
use crate::discovery::Discovered;
use crate::grant_record::{GrantRecord, unix_now};
use crate::metadata::Provider;
use crate::pending::{LIFE, LoginOutcome, PendingLogin};
use crate::token_exchange::Tokens;

pub(super) const CRM: &str = "http://127.0.0.1:9/mcp";

/// A process of a gateway with one server, to which each person logs in.
fn process(vault: &VaultTable) -> Logins {
    let logins = Logins::new(vault.clone());
    let settings = LoginConfig { is_personal: true, ..LoginConfig::default() };
    logins.credential("crm", CRM, Some(settings)).expect("an address");
    logins
}

pub(super) fn grant() -> GrantRecord {
    let client = OAuthClient { id: "gateway".to_owned(), secret: None, proof: ClientProof::None };
    let tokens =
        Tokens { access: "a".to_owned(), refresh: Some("r".to_owned()), lives: None, scopes: None, identity: None };
    let mut record = GrantRecord {
        provider: Provider::invented(&WebAddress::parse(CRM).expect("an address")),
        client,
        resource: None,
        scopes: Vec::new(),
        granted: None,
        access: String::new(),
        refresh: None,
        expires: None,
        by_machine: false,
    };
    record.take(tokens);
    record.expires = Some(unix_now() + 3_600);
    record
}

// identity 1: "Nobody else renews"
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn those_who_ask_for_the_grant_of_a_person_at_once_have_one_keeper() {
    let vault = VaultTable::new(&Store::in_memory(), &[7; 32]);
    let first = process(&vault);
    first.keeper("crm", Some("ada")).await.expect("a keeper").logged_in(grant()).await.expect("logged in");
    first.close().await;

    for round in 0..50 {
        let next = process(&vault);
        let ask = |logins: Logins| async move { logins.keeper("crm", Some("ada")).await };
        let asking: Vec<_> = (0..8).map(|_| tokio::spawn(ask(next.clone()))).collect();
        let mut keepers = Vec::new();
        for asked in asking {
            keepers.push(asked.await.expect("a task").expect("a keeper"));
        }
        assert!(keepers.iter().all(|keeper| keeper.is(&keepers[0])), "{round}");
        // Each keeper of a grant has a task that renews it.
        assert_eq!(next.0.tools.tasks.len(), 1, "{round}");
        next.close().await;
    }
}

// identity 1: "single use, 10 min"
#[tokio::test]
async fn a_ticket_is_open_for_ten_minutes_and_from_then_on_for_nobody() {
    let logins = process(&VaultTable::new(&Store::in_memory(), &[7; 32]));
    let keeper = logins.keeper("crm", Some("ada")).await.expect("a keeper");
    let begun = |ticket: &str, since: Instant| {
        let login = PendingLogin {
            keeper: keeper.clone(),
            found: Discovered { provider: Provider::default(), resource: None, scopes: None },
            client: OAuthClient { id: "gateway".to_owned(), secret: None, proof: ClientProof::None },
            scopes: Vec::new(),
            redirect: String::new(),
            verifier: "v".to_owned(),
            state: format!("state of {ticket}"),
            url: "https://login.example/authorize".to_owned(),
            asker: "ada".to_owned(),
            cookie: None,
            since,
            outcome: watch::Sender::new(LoginOutcome::Waiting),
        };
        // As if nobody had looked for what is too old since.
        logins.0.pending.lock().insert(ticket.to_owned(), login, since);
    };
    let now = Instant::now();
    // On a machine that was started less than ten minutes ago there is no such moment.
    let Some(late) = now.checked_sub(LIFE) else { return };
    begun("late", late);
    begun("fresh", now);
    assert!(logins.open_ticket("fresh", None).is_some() && logins.open_ticket("late", None).is_none());
    assert!(logins.use_ticket("late", None).is_none(), "also who has proved meanwhile to be who asked");
    let (_, cookie) = logins.use_ticket("fresh", None).expect("where it leads");
    assert!(logins.open_ticket("fresh", None).is_none(), "it is that browser's from now on");
    assert!(logins.open_ticket("fresh", Some(&cookie)).is_some());
    let back = logins.complete("code=c&state=state%20of%20late", LoginBearer::Asker("ada")).await;
    assert_eq!(back, Err(LoginFault::Stale));
}
