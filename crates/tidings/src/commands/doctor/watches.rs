//! Whether each `[watch.X]` can be had, and whether a database tells of its changes.

use std::io::ErrorKind;
use std::path::Path;

use tidings_config::{Config, WatchConfig, WatchSource};
use tidings_watch::{
    AboutResource, ExaminedTable, HttpSource, HttpWatch, NotExamined, PostgresWatch, TriggerState, WatchedSource as _,
    examine,
};

use super::finding::Finding;

/// What makes a path a pattern.
const WILD: [char; 3] = ['*', '?', '['];

pub(super) async fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for watch in &config.watches {
        findings.extend(one(watch).await);
    }
    findings
}

async fn one(watch: &WatchConfig) -> Vec<Finding> {
    let about = format!("watch {}", watch.id);
    match &watch.source {
        WatchSource::File { path } => vec![file(about, path)],
        WatchSource::Postgres { url, query, channel } => {
            let wanted = PostgresWatch { url: url.clone(), query: query.clone(), channel: channel.clone() };
            rows(&about, channel, examine(wanted).await)
        }
        WatchSource::Http { url, every, headers, private } => {
            let wanted = HttpWatch { url: url.clone(), headers: headers.clone(), every: *every, private: *private };
            // A fault of the URL was found with the configuration.
            let Ok(source) =
                HttpSource::new(AboutResource { id: watch.id.clone(), ..AboutResource::default() }, &wanted)
            else {
                return Vec::new();
            };
            let read = source.read(&watch.uri()).await;
            vec![match read {
                Ok(content) => Finding::fine(about, format!("the URL answers, {} bytes", content.bytes.len())),
                Err(why) => {
                    Finding::problem(about, why.to_string(), "see whether `http` and `headers` are right: curl -i URL")
                }
            }]
        }
        WatchSource::Webhook { name, .. } => {
            vec![Finding::fine(about, format!("takes what is posted to /hooks/{name} of `tidings serve`"))]
        }
    }
}

/// A single file or folder, or the folder in which a pattern looks.
fn file(about: String, path: &Path) -> Finding {
    let plain: std::path::PathBuf =
        // Up to the first part with a wildcard: that folder is what must be readable.
        path.components().take_while(|part| !part.as_os_str().to_string_lossy().contains(WILD)).collect();
    let shown = plain.display();
    let readable = match std::fs::metadata(&plain) {
        Ok(metadata) if metadata.is_dir() => std::fs::read_dir(&plain).map(drop),
        Ok(_) => std::fs::File::open(&plain).map(drop),
        Err(error) => Err(error),
    };
    match readable {
        Ok(()) => Finding::fine(about, format!("{shown} can be read")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let what = format!("{shown} is not there; it is announced when it comes");
            Finding::note(about, what, "nothing, if it is to come; else correct `file`")
        }
        Err(error) => {
            let remedy = "let the user who runs Tidings read it and enter the folders above, or correct `file`";
            Finding::problem(about, format!("{shown}: {error}"), remedy)
        }
    }
}

/// One finding for each table of the query.
fn rows(about: &str, channel: &str, examined: Result<Vec<ExaminedTable>, NotExamined>) -> Vec<Finding> {
    let tables = match examined {
        // Found with the configuration.
        Err(NotExamined::Address(_)) => return Vec::new(),
        Err(NotExamined::Database(why)) => {
            let remedy = "try the same with: psql URL -c QUERY; the log of PostgreSQL says more";
            return vec![Finding::problem(about, why, remedy)];
        }
        Ok(tables) => tables,
    };
    if tables.is_empty() {
        let what = "the query works, but which tables it reads can not be told";
        let remedy = format!("have something run: NOTIFY \"{channel}\" whenever its rows change");
        return vec![Finding::note(about, what, remedy)];
    }
    tables.into_iter().map(|table| told(about, channel, table)).collect()
}

fn told(about: &str, channel: &str, examined: ExaminedTable) -> Finding {
    let ExaminedTable { table, trigger, sql } = examined;
    let run = "run this as the owner of the table, once:";
    match trigger {
        TriggerState::Installed => {
            let what = format!("the query works; {table} has a trigger that tells \"{channel}\" of changes");
            Finding::fine(about, what).with_sql(sql)
        }
        TriggerState::Missing => Finding::problem(
            about,
            format!("no trigger of {table} notifies \"{channel}\": nobody hears of changes"),
            run,
        )
        .with_sql(sql),
        TriggerState::Disabled => {
            let what = format!("the trigger of {table} that notifies \"{channel}\" is disabled");
            Finding::problem(about, what, format!("ALTER TABLE … ENABLE TRIGGER …, or {run}")).with_sql(sql)
        }
        TriggerState::Partial(untold) => {
            let what = format!("\"{channel}\" is not told of {} on {table}", untold.join(", "));
            Finding::problem(about, what, run).with_sql(sql)
        }
        TriggerState::Impossible(what) => {
            let what = format!("{table} is {what}, which can not tell of its changes");
            let remedy = format!("have whatever changes it run: NOTIFY \"{channel}\"");
            Finding::note(about, what, remedy)
        }
    }
}
