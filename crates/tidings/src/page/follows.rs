//! `GET /follows`: which resources are followed, and by whom.

use std::collections::{HashMap, HashSet};

use axum::extract::{Extension, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use tidings_engine::FollowedResource;
use tidings_page::{FollowView, FollowsScreen, PagePart, ROWS, follow_key, follow_rank};

use super::entrance::Visitor;
use super::screens::ScreenQuery;
use super::{PageServer, html, views};

/// How many followers of one resource are named.
const NAMED: usize = 64;

pub(super) async fn show(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(raw): RawQuery,
) -> Response {
    let query = ScreenQuery::of(raw);
    let shell = page.shell(visitor.form_token).await;
    html(StatusCode::OK, follows(&page, &query).page(&shell))
}

/// Resources that are followed, trouble first: those that fit, which part of them is shown, and every server that has some.
fn follows(page: &PageServer, query: &ScreenQuery) -> FollowsScreen {
    let (server, uri, client, from) = (query.text("server"), query.text("uri"), query.client(), query.from());
    let (mut resources, followers) = page.0.gateway.followed();
    let mut servers: Vec<String> = resources.iter().map(|resource| resource.server.clone()).collect();
    servers.dedup();
    let of_client = client.map(|id| {
        let own = followers.iter().filter(move |follower| follower.id == id);
        own.flat_map(|follower| &follower.resources)
            .map(|(server, local)| (&**server, &**local))
            .collect::<HashSet<_>>()
    });
    resources.retain(|resource| {
        (server.is_empty() || resource.server == server)
            && (uri.is_empty() || resource.uri == uri)
            && of_client.as_ref().is_none_or(|own| own.contains(&(&*resource.server, &*resource.local)))
    });
    resources.sort_by_key(|resource| follow_rank(resource.phase.as_str()));
    let total = resources.len();
    let shown: Vec<FollowedResource> = resources.into_iter().skip(from).take(ROWS).collect();
    let wanted: HashSet<(&str, &str)> = shown.iter().map(|resource| (&*resource.server, &*resource.local)).collect();
    let mut clients: HashMap<(&str, &str), Vec<(u64, String)>> = HashMap::new();
    for follower in &followers {
        let name = follower.name.as_deref().unwrap_or("a client without a name");
        for (server, local) in follower.resources.iter().filter(|(server, local)| wanted.contains(&(server, local))) {
            let all = clients.entry((server, local)).or_default();
            // More are only counted.
            if all.len() < NAMED {
                all.push((follower.id, name.to_owned()));
            }
        }
    }
    let one = |resource: &FollowedResource| FollowView {
        key: follow_key(&resource.server, &resource.local),
        server: resource.server.clone(),
        uri: resource.uri.clone(),
        state: resource.phase.as_str().to_owned(),
        unheard: resource.unheard_for.map(|unheard| unheard.as_secs()),
        followers: resource.followers,
        clients: clients.get(&(resource.server.as_str(), &*resource.local)).cloned().unwrap_or_default(),
        announced: resource.announced,
        last: resource.announced_ago.and_then(views::past),
    };
    let follows: Vec<FollowView> = shown.iter().map(one).collect();
    let part = PagePart { from, shown: follows.len(), total };
    FollowsScreen { follows, part, server, client, uri, servers }
}
