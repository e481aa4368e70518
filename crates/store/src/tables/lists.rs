//! What every server was last known to list: the hash of each item. Servers that go take their rows with them, so the table is as
//! large as what the configured servers list.

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError, WriteTransaction};

use crate::lists::{ItemHash, KnownList, ListOwner, ListStep};

/// The server, whether it is built in, the kind and the name of an item, to the hash of what it says. Whoever changes how that is
/// computed gives the tables other names, or everything would seem to have changed while the gateway was down.
const ITEMS: TableDefinition<'_, (&str, bool, &str, &str), &ItemHash> = TableDefinition::new("last_lists");
/// The servers of which lists are known, also those that list nothing.
const OWNERS: TableDefinition<'_, (&str, bool), ()> = TableDefinition::new("last_lists_servers");

pub(super) fn owners(database: &Database) -> Result<Vec<ListOwner>, redb::Error> {
    let read = database.begin_read()?;
    let table = match read.open_table(OWNERS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut owners = Vec::new();
    for row in table.iter()? {
        let key = row?.0;
        let (server, built_in) = key.value();
        owners.push(ListOwner { server: server.to_owned(), built_in });
    }
    Ok(owners)
}

pub(super) fn list(database: &Database, owner: &ListOwner, kind: &str) -> Result<KnownList, redb::Error> {
    let read = database.begin_read()?;
    let table = match read.open_table(ITEMS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(KnownList::new()),
        Err(error) => return Err(error.into()),
    };
    let mut list = KnownList::new();
    for row in table.range((owner.server.as_str(), owner.built_in, kind, "")..)? {
        let (key, hash) = row?;
        let (server, built_in, of, name) = key.value();
        if server != owner.server || built_in != owner.built_in || of != kind {
            break;
        }
        list.insert(name.into(), *hash.value());
    }
    Ok(list)
}

/// Takes steps. It does not matter if they were taken already.
pub(super) fn keep(write: &WriteTransaction, steps: &[ListStep]) -> Result<(), redb::Error> {
    if steps.is_empty() {
        return Ok(());
    }
    let mut items = write.open_table(ITEMS)?;
    let mut owners = write.open_table(OWNERS)?;
    for step in steps {
        match step {
            ListStep::Know(owner) => {
                owners.insert((owner.server.as_str(), owner.built_in), ())?;
            }
            ListStep::Put(owner, kind, name, hash) => {
                items.insert((owner.server.as_str(), owner.built_in, kind.as_str(), &**name), hash)?;
            }
            ListStep::Remove(owner, kind, name) => {
                items.remove((owner.server.as_str(), owner.built_in, kind.as_str(), &**name))?;
            }
            // That is the matter of `definitions.rs`.
            ListStep::Say { .. } => {}
            ListStep::Forget(owner) => {
                owners.remove((owner.server.as_str(), owner.built_in))?;
                let key = |kind| (owner.server.as_str(), owner.built_in, kind, "");
                // Collected first: a table can not be changed while it is walked.
                let mut all = Vec::new();
                for row in items.range(key("")..)? {
                    let row = row?.0;
                    let (server, built_in, kind, name) = row.value();
                    if server != owner.server || built_in != owner.built_in {
                        break;
                    }
                    all.push((kind.to_owned(), name.to_owned()));
                }
                for (kind, name) in &all {
                    items.remove((owner.server.as_str(), owner.built_in, kind.as_str(), name.as_str()))?;
                }
            }
        }
    }
    Ok(())
}
