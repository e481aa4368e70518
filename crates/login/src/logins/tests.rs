use tidings_store::Store;

use super::*;
use crate::client_registration::{ClientProof, OAuthClient};
use crate::grant_record::{GrantRecord, unix_now};
use crate::metadata::Provider;
use crate::token_exchange::Tokens;

const CRM: &str = "http://127.0.0.1:9/mcp";

/// A process of a gateway with one server, to which each person logs in.
fn process(vault: &VaultTable) -> Logins {
    let logins = Logins::new(vault.clone());
    let settings = LoginConfig { is_personal: true, ..LoginConfig::default() };
    logins.credential("crm", CRM, Some(settings)).expect("an address");
    logins
}

fn grant() -> GrantRecord {
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
