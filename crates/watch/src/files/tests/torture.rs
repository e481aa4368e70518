//! Ten thousand random operations, then quiet: whoever reads at each announcement, and only then, knows the truth in the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidings_testkit::DEADLINE;

use super::*;

const OPERATIONS: u64 = 10_000;
const NAMES: [&str; 4] = ["a.txt", "b.txt", "c.txt", "d.txt"];
const FOLDERS: [&str; 4] = ["", "p", "q", "p/r"];

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn file(&mut self, root: &Path) -> PathBuf {
        root.join(FOLDERS[self.roll(4)]).join(NAMES[self.roll(4)])
    }

    fn folder(&mut self, root: &Path) -> PathBuf {
        root.join(FOLDERS[1 + self.roll(3)])
    }
}

/// One operation. Many fail, as in life.
fn operate(dice: &mut Dice, root: &Path, number: u64) {
    let content = format!("{number}");
    let file = dice.file(root);
    let _ = match dice.roll(12) {
        0..=3 => fs::write(&file, content),
        4 | 5 => fs::write(file.with_file_name(".next"), content)
            .and_then(|()| fs::rename(file.with_file_name(".next"), &file)),
        6 => fs::remove_file(&file),
        7 => fs::rename(&file, dice.file(root)),
        8 => fs::create_dir_all(dice.folder(root)),
        9 => fs::rename(dice.folder(root), dice.folder(root)),
        10 if dice.roll(4) == 0 => fs::remove_dir_all(dice.folder(root)),
        10 => fs::create_dir_all(dice.folder(root)),
        _ => fs::remove_file(&file).and_then(|()| symlink(NAMES[dice.roll(4)], &file)),
    };
}

/// What a client that reads would see: nothing outside, nothing that is no file.
fn truth(root: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let declared = DeclaredPath::new(root, "watch://w");
    let all = FOLDERS.iter().flat_map(|folder| NAMES.iter().map(move |name| Path::new(folder).join(name)));
    all.map(|name| (declared.uri_of(&name), declared.read(&name, LONGEST).ok())).collect()
}

async fn survive(seed: u64) {
    let dir = TempDir::new();
    let root = fs::canonicalize(dir.path()).unwrap();
    let probe = ProbeLink::of(FileSource::new(about("w"), &root));
    let uris: Vec<String> = truth(&root).into_keys().collect();
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    let mut heard = probe.listen(&uris, true).await;
    let mut believed = truth(&root);
    let mut listed = probe.uris().await;
    let quiet = Arc::new(AtomicBool::new(false));
    let (done, path) = (Arc::clone(&quiet), root.clone());
    let chaos = std::thread::spawn(move || {
        let mut dice = Dice(seed);
        for number in 0..OPERATIONS {
            operate(&mut dice, &path, number);
        }
        done.store(true, Ordering::SeqCst);
    });
    let mut silent_since = std::time::Instant::now();
    loop {
        if quiet.load(Ordering::SeqCst) && believed == truth(&root) && listed == probe.uris().await {
            break;
        }
        match heard.soon(Duration::from_millis(100)).await.as_deref() {
            Some("list") => listed = probe.uris().await,
            Some(uri) => {
                let content = probe.text(uri).await.ok().map(String::into_bytes);
                believed.insert(uri.to_owned(), content);
            }
            None if quiet.load(Ordering::SeqCst) && silent_since.elapsed() > DEADLINE => {
                assert_eq!(believed, truth(&root), "seed {seed}");
                assert_eq!(listed, probe.uris().await, "seed {seed}");
            }
            None => continue,
        }
        silent_since = std::time::Instant::now();
    }
    chaos.join().unwrap();
}

// S1.6, S1.8
#[tokio::test]
async fn after_ten_thousand_random_operations_every_last_change_has_been_told() {
    let seed = std::env::var("TIDINGS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or_else(|| vec![1, 2, 3], |seed| vec![seed]);
    for seed in seeds {
        survive(seed).await;
    }
}
