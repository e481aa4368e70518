//! From `[watch.X]` to sources.

use std::fmt::Display;
use std::sync::Arc;

use tidings_config::{Config, WatchConfig, WatchSource};
use tidings_engine::Patience;
use tidings_watch::{
    About, Files, HookWatch, Hooks, Http, HttpWatch, Postgres, PostgresWatch, Source, WatchServer, Webhook,
};

use crate::failure::Failure;

/// The server of all watches, and the way in for webhooks.
#[derive(Default)]
pub(super) struct Watches {
    /// `None` when nothing is watched.
    pub(super) server: Option<WatchServer>,
    pub(super) hooks: Hooks,
}

/// Makes the sources. Nothing is watched yet.
pub(super) fn prepare(config: &Config) -> Result<Watches, Failure> {
    if config.watches.is_empty() {
        return Ok(Watches::default());
    }
    let mut hooks = Vec::new();
    let mut sources = Vec::new();
    for watch in &config.watches {
        let source: Arc<dyn Source> = match &watch.source {
            WatchSource::File { path } => Arc::new(Files::new(about(watch), path)),
            WatchSource::Http { url, every, headers, private } => {
                let wanted = HttpWatch { url: url.clone(), headers: headers.clone(), every: *every, private: *private };
                Arc::new(Http::new(about(watch), &wanted).map_err(|fault| refused(config, watch, "http", &fault))?)
            }
            WatchSource::Postgres { url, query, channel } => {
                let wanted = PostgresWatch { url: url.clone(), query: query.clone(), channel: channel.clone() };
                let source = Postgres::new(about(watch), wanted);
                Arc::new(source.map_err(|fault| refused(config, watch, "postgres", &fault))?)
            }
            WatchSource::Webhook { name, secret, pointer } => {
                let wanted = HookWatch { secret: secret.clone(), pointer: pointer.clone() };
                let hook = Arc::new(Webhook::new(about(watch), wanted));
                hooks.push((name.clone(), Arc::clone(&hook)));
                hook
            }
        };
        sources.push((source, Patience { quiet: watch.quiet, max_wait: watch.max_wait }));
    }
    Ok(Watches { server: Some(WatchServer::new(sources)), hooks: Hooks::new(hooks) })
}

fn about(watch: &WatchConfig) -> About {
    About {
        id: watch.id.clone(),
        uri: watch.uri.clone(),
        name: watch.name.clone(),
        description: watch.description.clone(),
        mime_type: watch.mime_type.clone(),
    }
}

/// A fault that only the source itself can find, with its place.
fn refused(config: &Config, watch: &WatchConfig, key: &str, fault: &dyn Display) -> Failure {
    let key = format!("watch.{}.{key}", watch.id);
    match config.place_of(&key) {
        Some(place) => Failure::Failed(format!("{place}: {key}: {fault}")),
        None => Failure::Failed(format!("{key}: {fault}")),
    }
}
