//! Built-in tools that give way to a server's tool of the same name.

use std::sync::Arc;

use tidings_engine::Catalogue;
use tidings_hub::ServerId;
use tidings_hub::catalogue::CatalogueSnapshot;
use tidings_proto::LocalName;
use tokio::sync::watch;

/// Follows the catalogue and says it whenever a tool of `own` gives way. Ends with the gateway.
pub(crate) async fn report(mut catalogue: watch::Receiver<Arc<Catalogue>>, own: ServerId) {
    let mut known = Vec::new();
    loop {
        let now = Arc::clone(&catalogue.borrow_and_update().snapshot);
        warn(&now, own, &mut known);
        if catalogue.changed().await.is_err() {
            return;
        }
    }
}

/// Says it when a server's tool takes the place of one of ours, once each time.
pub(crate) fn warn(snapshot: &CatalogueSnapshot, own: ServerId, known: &mut Vec<LocalName>) {
    let Some(offer) = snapshot.offer(own) else { return };
    let hidden: Vec<LocalName> = snapshot.hidden_tools(offer).map(|item| item.key.clone()).collect();
    for name in hidden.iter().filter(|name| !known.contains(name)) {
        let route = snapshot.tool(name.as_str());
        let winner = route.and_then(|route| snapshot.offer(route.server)).map_or("another", |offer| &*offer.name);
        tracing::warn!(tool = %name, server = winner, "a server offers a tool of this name; the built-in one is hidden");
    }
    *known = hidden;
}
