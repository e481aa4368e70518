//! Tools of servers that would be taken for built-in ones: these keep their names, and the log says so.

use std::sync::Arc;

use tidings_engine::Catalogue;
use tidings_hub::ServerId;
use tidings_hub::catalogue::CatalogueSnapshot;
use tidings_proto::LocalName;
use tokio::sync::watch;

/// Follows the catalogue and says it whenever a server offers a tool with a name of `own`. Ends with the gateway.
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

/// Says it when a server's tool would be taken for one of ours, once each time.
pub(crate) fn warn(snapshot: &CatalogueSnapshot, own: ServerId, known: &mut Vec<(ServerId, LocalName)>) {
    let mut now = Vec::new();
    for offer in snapshot.offers() {
        for displaced in snapshot.displaced_tools(offer).filter(|displaced| displaced.by == own) {
            let tool = (offer.server, displaced.item.key.clone());
            if !known.contains(&tool) {
                let (server, shown_as) = (&*offer.name, displaced.shown_as.as_str());
                tracing::warn!(tool = %tool.1, server, shown_as, "a server offers a tool with the name of a built-in one; it is shown with its prefix");
            }
            now.push(tool);
        }
    }
    // Replaced, and not extended: what went and comes again is said again.
    *known = now;
}
