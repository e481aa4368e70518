use std::collections::BTreeSet;

use super::*;

/// The table, as a model.
#[derive(Default)]
struct Model {
    /// Nothing can be read.
    is_broken: bool,
    owners: BTreeSet<ListOwner>,
    items: BTreeMap<(ListOwner, String), KnownList>,
}

impl KnownLists for Model {
    type Error = ();

    fn owners(&self) -> Result<Vec<ListOwner>, ()> {
        Ok(self.owners.iter().cloned().collect())
    }

    fn list(&self, owner: &ListOwner, kind: &str) -> Result<KnownList, ()> {
        if self.is_broken {
            return Err(());
        }
        Ok(self.items.get(&(owner.clone(), kind.to_owned())).cloned().unwrap_or_default())
    }
}

impl Model {
    fn keep(&mut self, steps: Vec<ListStep>) {
        for step in steps {
            match step {
                ListStep::Know(owner) => drop(self.owners.insert(owner)),
                ListStep::Put(owner, kind, name, hash) => {
                    self.items.entry((owner, kind)).or_default().insert(name, hash);
                }
                ListStep::Remove(owner, kind, name) => {
                    self.items.entry((owner, kind)).or_default().remove(&name);
                }
                ListStep::Say { .. } => {}
                ListStep::Forget(owner) => {
                    self.owners.remove(&owner);
                    self.items.retain(|(of, _), _| *of != owner);
                }
            }
        }
    }
}

/// One process after the other over one table.
#[derive(Default)]
struct House {
    lists: LastLists,
    table: Model,
}

impl House {
    /// What is recorded of an entry: marked or not, the kind, and the names.
    fn take(&mut self, entry: LogEntry) -> Vec<String> {
        let mut batch = Batch::default();
        self.lists.take(entry, &self.table, &mut batch).unwrap();
        self.table.keep(batch.steps);
        batch.records.iter().map(words).collect()
    }

    /// What it would write can not be written.
    fn lose(&mut self, entry: LogEntry) {
        let mut batch = Batch::default();
        self.lists.take(entry, &self.table, &mut batch).unwrap();
        self.lists.not_written(&batch.take_owners());
    }

    fn restart(&mut self, servers: &[&str]) -> Vec<String> {
        self.lists = LastLists::default();
        self.take(LogEntry::Began(now(), servers.iter().map(|server| owner(server)).collect()))
    }

    fn listed(&mut self, server: &str, tools: &[(&str, u8)], at_start: bool) -> Vec<String> {
        self.take(listing(server, tools, at_start))
    }

    fn changed(&mut self, server: &str, kind: &str, put: &[(&str, u8)], removed: &[&str]) -> Vec<String> {
        let names = Names {
            added: put.iter().map(|(name, _)| (*name).to_owned()).collect(),
            removed: removed.iter().map(|name| (*name).to_owned()).collect(),
            changed: Vec::new(),
        };
        let removed = removed.iter().map(|name| (*name).into()).collect();
        let delta = ListDelta { owner: owner(server), put: items(put), removed };
        let record = names.record(now(), &owner(server), kind, false).unwrap();
        self.take(LogEntry::Changed(Box::new(record), Some(delta)))
    }
}

fn listing(server: &str, tools: &[(&str, u8)], at_start: bool) -> LogEntry {
    let lists = vec![("tools".to_owned(), items(tools)), ("prompts".to_owned(), Vec::new())];
    LogEntry::Listed(Listing { time: now(), commit: None, owner: owner(server), at_start, lists })
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn owner(server: &str) -> ListOwner {
    ListOwner { server: server.to_owned(), built_in: false }
}

fn items(items: &[(&str, u8)]) -> Vec<ListedItem> {
    items.iter().map(|(name, says)| ((*name).into(), [*says; 32], Bytes::new())).collect()
}

fn words(record: &ChangeRecord) -> String {
    let changed = record.changed.iter().map(|item| format!("~{}", item.name));
    let added = record.added.iter().map(|name| format!("+{name}"));
    let removed = record.removed.iter().map(|name| format!("-{name}"));
    let names: Vec<String> = added.chain(removed).chain(changed).collect();
    let down = if record.while_down { " (down)" } else { "" };
    format!("{} {} {}{down}", record.server, record.kind, names.join(" "))
}

const NOTHING: [&str; 0] = [];

// edges F11
#[test]
fn the_same_list_is_no_record_however_late_it_comes() {
    let mut house = House::default();
    assert_eq!(house.restart(&["fast", "slow"]), NOTHING);
    assert_eq!(house.listed("fast", &[("a", 1)], true), NOTHING, "what is there at the first start is no change");
    assert_eq!(house.listed("slow", &[("b", 1)], false), ["slow tools +b"], "clients saw it come");
    for late in [false, true, false] {
        assert_eq!(house.restart(&["fast", "slow"]), NOTHING);
        assert_eq!(house.listed("slow", &[("b", 1)], !late), NOTHING);
        assert_eq!(house.listed("fast", &[("a", 1)], late), NOTHING);
    }
}

// edges F11
#[test]
fn what_differs_from_the_last_process_is_recorded_once_and_marked() {
    let mut house = House::default();
    house.restart(&["one"]);
    house.listed("one", &[("a", 1), ("b", 1), ("c", 1)], true);
    assert_eq!(house.changed("one", "tools", &[("d", 1)], &["c"]), ["one tools +d -c"]);
    house.restart(&["one"]);
    assert_eq!(house.listed("one", &[("a", 2), ("d", 1), ("e", 1)], true), ["one tools +e -b ~a (down)"]);
    assert_eq!(
        house.changed("one", "tools", &[("f", 1)], &[]),
        ["one tools +f"],
        "from now on it is seen as it happens"
    );
    house.restart(&["one"]);
    assert_eq!(house.listed("one", &[("a", 2), ("d", 1), ("e", 1), ("f", 1)], false), NOTHING);
}

// edges F11
#[test]
fn servers_that_came_or_went_while_the_gateway_was_down_are_told() {
    let mut house = House::default();
    house.restart(&["one", "empty"]);
    house.listed("one", &[("a", 1)], true);
    house.listed("empty", &[], true);
    assert_eq!(house.restart(&["two", "empty"]), ["one tools -a (down)"]);
    assert_eq!(house.listed("two", &[("b", 1)], true), ["two tools +b (down)"]);
    assert_eq!(house.listed("empty", &[("c", 1)], true), ["empty tools +c (down)"], "it was known to list nothing");
    assert_eq!(house.table.owners, BTreeSet::from([owner("two"), owner("empty")]), "what is gone leaves no row");
    assert_eq!(house.table.items.values().map(BTreeMap::len).sum::<usize>(), 2);
}

// edges F11
#[test]
fn what_comes_and_goes_while_the_gateway_runs_is_not_marked() {
    let mut house = House::default();
    house.restart(&["one", "failing"]);
    house.listed("one", &[("a", 1)], true);
    house.listed("failing", &[("f", 1)], true);
    house.restart(&["one", "failing"]);
    house.listed("one", &[("a", 1)], true);
    assert_eq!(house.listed("added", &[("b", 1)], false), ["added tools +b"]);
    assert_eq!(house.changed("added", "tools", &[], &["b"]), ["added tools -b"]);
    assert_eq!(house.take(LogEntry::Gone(now(), owner("added"))), NOTHING);
    assert_eq!(house.listed("added", &[("b", 1)], false), ["added tools +b"]);
    // This one was never reached in this process, and is removed: what was known of it is gone.
    assert_eq!(house.take(LogEntry::Gone(now(), owner("failing"))), ["failing tools -f"]);
    assert_eq!(house.restart(&["one", "added"]), NOTHING);
}

// edges F11
#[test]
fn a_list_that_failed_at_first_is_compared_when_it_comes() {
    let mut house = House::default();
    house.restart(&["one"]);
    house.listed("one", &[("a", 1)], true);
    house.changed("one", "resources", &[("r", 1), ("s", 1)], &[]);
    house.restart(&["one"]);
    assert_eq!(house.listed("one", &[("a", 1)], true), NOTHING, "its resources could not be had");
    assert_eq!(house.changed("one", "resources", &[("r", 1), ("t", 1)], &[]), ["one resources +t -s (down)"]);
    assert_eq!(house.changed("one", "resources", &[("u", 1)], &[]), ["one resources +u"]);
    house.restart(&["one"]);
    house.lists.overlook(&owner("one"));
    assert_eq!(house.changed("one", "resources", &[("v", 1)], &[]), ["one resources +v"], "no list, only a part of it");
}

// edges F11
#[test]
fn a_part_of_the_program_is_not_a_server_of_its_name() {
    let mut house = House::default();
    let own = ListOwner { server: "watch".into(), built_in: true };
    let began =
        |both: bool| LogEntry::Began(now(), if both { vec![own.clone(), owner("watch")] } else { vec![own.clone()] });
    house.take(began(true));
    let listing = Listing {
        time: now(),
        commit: None,
        owner: own.clone(),
        at_start: true,
        lists: vec![("tools".into(), items(&[("a", 1)]))],
    };
    house.take(LogEntry::Listed(listing.clone()));
    house.listed("watch", &[("b", 1)], true);
    house.lists = LastLists::default();
    assert_eq!(house.take(began(false)), ["watch tools -b (down)"]);
    assert_eq!(house.take(LogEntry::Listed(listing)), NOTHING);
}

// edges F11
#[test]
fn a_server_whose_first_record_was_lost_is_known_by_the_next() {
    let mut house = House::default();
    house.restart(&["one"]);
    house.lose(listing("one", &[("a", 1)], true));
    house.changed("one", "tools", &[("b", 1)], &[]);
    assert!(house.table.owners.contains(&owner("one")), "the next process finds it");
    assert_eq!(house.restart(&[]), ["one tools -b (down)"], "and sees that it went");
    assert!(house.table.items.is_empty() && house.table.owners.is_empty());
}

// edges F11
#[test]
fn what_comes_after_a_list_that_could_not_be_compared_is_not_taken_for_the_list() {
    let mut house = House::default();
    house.restart(&["one"]);
    house.listed("one", &[("a", 1), ("b", 1)], true);
    house.restart(&["one"]);
    house.table.is_broken = true;
    let mut batch = Batch::default();
    house.lists.take(listing("one", &[("a", 1), ("b", 1)], true), &house.table, &mut batch).unwrap_err();
    house.table.is_broken = false;
    assert_eq!(house.changed("one", "tools", &[("c", 1)], &[]), ["one tools +c"], "the others are still there");
}
