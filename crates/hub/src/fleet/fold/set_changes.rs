//! What changes the set of servers: the file that is in force, and the registry.

use std::collections::BTreeMap;

use super::{FleetServer, FleetState, KeptServer, VoidReason};
use crate::fleet::entry::{PlacedServer, RegistryStep};
use crate::fleet::{BlobHash, FleetServerName, OwnerEpoch};

impl FleetState {
    /// Registry and file share one version: a batch that was made without knowing of a new file is void, and made again.
    pub(super) fn next_version(&mut self, version: u64) -> Result<(), VoidReason> {
        if version != self.set_version + 1 {
            return Err(VoidReason::NotNext);
        }
        self.set_version = version;
        self.set_touched = self.sequence;
        Ok(())
    }

    pub(super) fn step(&mut self, step: &RegistryStep) {
        match step {
            RegistryStep::Keep { server, on } => {
                self.kept.insert(server.name.clone(), KeptServer { planned: server.clone(), on: *on });
            }
            RegistryStep::Forget { server } => {
                self.kept.remove(server);
            }
            RegistryStep::Switch { server, on: Some(on) } => {
                self.switched.insert(server.clone(), *on);
            }
            RegistryStep::Switch { server, on: None } => {
                self.switched.remove(server);
            }
            RegistryStep::Put { server, from_file, owner, offer } => {
                let mut put = self.fresh(server, *from_file);
                put.owner = Some(owner.clone());
                put.offer.clone_from(offer);
                self.servers.insert(server.name.clone(), put);
            }
            RegistryStep::Remove { server } => {
                self.servers.remove(server);
            }
        }
    }

    /// A server that nobody has run as it is planned now.
    fn fresh(&self, planned: &PlacedServer, from_file: bool) -> FleetServer {
        FleetServer {
            planned: planned.clone(),
            from_file,
            added: self.servers.get(&planned.name).map_or(self.sequence, |former| former.added),
            owner: None,
            // Not zero: a claim of the former definition must not hold.
            epoch: OwnerEpoch(self.sequence.0),
            offers: 0,
            offer: None,
            touched: self.sequence,
        }
    }

    pub(super) fn plan(&mut self, config: BlobHash, servers: &[PlacedServer]) {
        self.config = Some(config);
        let is_off = |name: &FleetServerName, on: bool| !self.switched.get(name).copied().unwrap_or(on);
        let planned: BTreeMap<_, _> = servers.iter().map(|planned| (&planned.name, planned)).collect();
        // What was added and stood behind a server of the former file comes to light with it.
        let kept = self.kept.iter().filter(|(name, kept)| !planned.contains_key(name) && !is_off(name, kept.on));
        let shown: Vec<PlacedServer> = kept.map(|(_, kept)| kept.planned.clone()).collect();
        let wanted: Vec<PlacedServer> =
            servers.iter().filter(|planned| !is_off(&planned.name, true)).cloned().collect();
        let stays = |name: &FleetServerName| wanted.iter().any(|planned| planned.name == *name);
        // What was added at run time does not go because a file does not name it.
        self.servers.retain(|name, server| !server.from_file || stays(name));
        for planned in &wanted {
            match self.servers.get_mut(&planned.name) {
                // Same definition: a new file is no reason to start it again.
                Some(known) if known.planned.definition == planned.definition => {
                    known.planned = planned.clone();
                    // One that was added and now stands in the file goes with the file from here on.
                    known.from_file = true;
                }
                _ => {
                    let fresh = self.fresh(planned, true);
                    self.servers.insert(planned.name.clone(), fresh);
                }
            }
        }
        for planned in &shown {
            if !self.servers.contains_key(&planned.name) {
                let fresh = self.fresh(planned, false);
                self.servers.insert(planned.name.clone(), fresh);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::ReplicaId;
    use crate::fleet::entry::{FleetEntry, IsolationRule};
    use crate::fleet::fold::{EntryEffect, FleetFold};

    struct Log(FleetFold);

    impl Log {
        /// Whether an entry holds that makes the next version of the set.
        fn holds(&mut self, entry: impl FnOnce(u64) -> FleetEntry) -> bool {
            let entry = entry(self.0.state().set_version() + 1);
            let position = self.0.next_position();
            let effect = self.0.apply(position, &entry, BlobHash::of(&position.to_le_bytes()));
            effect == EntryEffect::SetChanged
        }

        fn change(&mut self, steps: Vec<RegistryStep>) {
            let by = ReplicaId { name: "a".into(), incarnation: 1 };
            assert!(self.holds(|version| FleetEntry::Registry { version, by, number: version, steps }));
        }

        fn file(&mut self, names: &[&str]) {
            let servers = names.iter().map(|name| placed(name, "of the file")).collect();
            let config = BlobHash::of(names.concat().as_bytes());
            assert!(self.holds(|version| FleetEntry::Plan { version, config, servers }));
        }

        /// The servers that run, with where they come from.
        fn set(&self) -> Vec<(&str, bool)> {
            self.0
                .state()
                .servers()
                .iter()
                .filter_map(|(name, server)| Some((name.server()?, server.from_file)))
                .collect()
        }
    }

    fn placed(name: &str, definition: &str) -> PlacedServer {
        PlacedServer {
            name: name.into(),
            definition: BlobHash::of(definition.as_bytes()),
            placement: Vec::new(),
            on_isolation: IsolationRule::Keep,
        }
    }

    fn added(name: &str) -> Vec<RegistryStep> {
        let (server, owner) = (placed(name, "added"), ReplicaId { name: "a".into(), incarnation: 1 });
        let put = RegistryStep::Put { server: server.clone(), from_file: false, owner, offer: None };
        vec![RegistryStep::Keep { server, on: true }, put]
    }

    // cluster: registry and file
    #[test]
    fn a_server_of_the_file_hides_one_that_was_added_until_the_file_drops_it() {
        let mut log = Log(FleetFold::default());
        log.file(&["one"]);
        log.change(added("two"));
        assert_eq!(log.set(), [("one", true), ("two", false)]);
        log.file(&["one", "two"]);
        assert_eq!(log.set(), [("one", true), ("two", true)]);
        log.file(&["one"]);
        assert_eq!(log.set(), [("one", true), ("two", false)]);
        let server = || FleetServerName::from("two");
        log.change(vec![RegistryStep::Forget { server: server() }, RegistryStep::Remove { server: server() }]);
        log.file(&["three"]);
        assert_eq!(log.set(), [("three", true)]);
    }

    // cluster: registry and file
    #[test]
    fn what_is_switched_off_stays_off_with_the_next_file() {
        let mut log = Log(FleetFold::default());
        log.file(&["one", "two"]);
        log.change(added("three"));
        for name in ["two", "three"] {
            let server = || FleetServerName::from(name);
            let off = RegistryStep::Switch { server: server(), on: Some(false) };
            log.change(vec![off, RegistryStep::Remove { server: server() }]);
        }
        log.file(&["one", "two", "four"]);
        assert_eq!(log.set(), [("four", true), ("one", true)]);
        log.change(vec![RegistryStep::Switch { server: "two".into(), on: None }]);
        log.file(&["one", "two"]);
        assert_eq!(log.set(), [("one", true), ("two", true)]);
    }

    // cluster: all or nothing
    #[test]
    fn a_change_of_another_version_does_nothing() {
        let mut log = Log(FleetFold::default());
        log.file(&["one"]);
        let by = ReplicaId { name: "a".into(), incarnation: 1 };
        let late = |version| FleetEntry::Registry { version: version - 1, by, number: 1, steps: added("two") };
        assert!(!log.holds(late));
        assert_eq!(log.set(), [("one", true)]);
    }
}
