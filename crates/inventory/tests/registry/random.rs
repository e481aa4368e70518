//! Everything at random, then quiet: every client's list is the truth, and nothing is left.

use std::collections::BTreeSet;
use std::time::Duration;

use tidings_inventory::RegistryChange;
use tidings_testkit::{Server, within};

use crate::house::{House, ListFollower, keys, put};

const CLIENTS: usize = 50;
const STEPS: usize = 200;
const SERVERS: usize = 8;

/// A small generator: the steps of a run are those of its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

// issue 6, done when
#[tokio::test(flavor = "multi_thread")]
async fn after_any_changes_every_client_sees_the_truth_and_nothing_is_left() {
    let mut servers = Vec::new();
    for number in 0..SERVERS {
        let script = Server::builder("s").echo("echo").echo(&format!("tool{number}"));
        servers.push(if number % 2 == 0 { script.stdio().await } else { script.http().await });
    }
    let house = House::open("").await;
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let client = house.client();
        let client = if number % 2 == 0 { client.modern() } else { client };
        clients.push(ListFollower::quietly(client.connect().await).await);
    }
    let seed = 20_261_115;
    let mut dice = Dice(seed);
    // Those with an even number come from the file, the others at run time.
    let (mut in_file, mut added) = (BTreeSet::new(), BTreeSet::new());
    for step in 0..STEPS {
        let number = dice.roll(SERVERS);
        let name = format!("s{number}");
        match dice.roll(4) {
            0 | 1 if number % 4 < 2 => {
                if !in_file.remove(&number) {
                    in_file.insert(number);
                }
                let table = |n: &usize| format!("[servers.s{n}]\n{}\n", servers[*n].toml());
                house.rewrite(&in_file.iter().map(table).collect::<String>());
                house.registry.reload().await.unwrap_or_else(|e| panic!("seed {seed}, step {step}: {e}"));
            }
            0 | 1 => {
                let change = match added.remove(&number) {
                    true => RegistryChange::Delete { name },
                    false => {
                        added.insert(number);
                        put(&name, keys(&servers[number]))
                    }
                };
                house.registry.apply(vec![change]).await.unwrap_or_else(|e| panic!("seed {seed}, step {step}: {e}"));
            }
            2 => {
                let is_there = in_file.contains(&number) || added.contains(&number);
                let restarted = house.registry.restart(&name).await;
                assert_eq!(restarted.is_ok(), is_there, "seed {seed}, step {step}: {restarted:?}");
            }
            _ => {
                // Several at once, one of which may not start: then none is there.
                let bad = dice.roll(2) == 0;
                let free: Vec<usize> = (0..SERVERS).filter(|n| n % 4 >= 2 && !added.contains(n)).collect();
                let mut changes: Vec<RegistryChange> =
                    free.iter().map(|n| put(&format!("s{n}"), keys(&servers[*n]))).collect();
                if bad {
                    changes.push(put("bad", crate::house::shell("exit 1")));
                }
                let outcome = house.registry.apply(changes).await;
                assert_eq!(outcome.is_ok(), !bad, "seed {seed}, step {step}: {outcome:?}");
                if !bad {
                    added.extend(free);
                }
            }
        }
    }
    let there: BTreeSet<usize> = in_file.union(&added).copied().collect();
    let mut truth: Vec<String> = there.iter().flat_map(|n| [format!("s{n}__echo"), format!("s{n}__tool{n}")]).collect();
    truth.sort();
    for follower in &clients {
        // A client lists again on each notice: the last list it made must be the truth.
        let mut names = follower.client.names("tools").await;
        names.sort();
        assert_eq!(names, truth, "seed {seed}");
    }
    for (number, server) in servers.iter().enumerate().filter(|(_, server)| !server.is_http()) {
        let expected = usize::from(there.contains(&number));
        let alive = || server.processes().iter().filter(|process| process.alive).count();
        within(&format!("{expected} processes of s{number}"), async {
            while alive() != expected {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
    // The feed tells the whole story: whoever follows it knows what is there.
    let mut told: BTreeSet<String> = BTreeSet::new();
    for change in house.feed.all().iter().filter(|change| change.kind == tidings_proto::ListKind::Tools) {
        change
            .added
            .iter()
            .for_each(|tool| assert!(told.insert(format!("{}__{tool}", change.server.name)), "{change:?}"));
        change
            .removed
            .iter()
            .for_each(|tool| assert!(told.remove(&format!("{}__{tool}", change.server.name)), "{change:?}"));
    }
    assert_eq!(told.into_iter().collect::<Vec<_>>(), truth);
    drop(clients);
    // Shutting down waits for every task.
    house.close().await;
    for server in servers.iter().filter(|server| !server.is_http()) {
        server.wait_all_exited().await;
    }
}
