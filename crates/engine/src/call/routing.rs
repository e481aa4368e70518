//! Which server a request is for, and what that server calls the thing.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, ItemRoute, RuledServer};
use tidings_hub::client_profile::ViewShape;
use tidings_hub::departures;
use tidings_hub::policy::{Rights, ServerAccess, TriedRule};
use tidings_proto::headers::ParamHeader;
use tidings_proto::outbound::RequestTarget;
use tidings_proto::refusal::{RequestRefusal, ToolDeparture};
use tidings_proto::{ListKind, LocalName, Method, PublicName, extensions};
use tidings_wire::Frame;

use crate::call::RequestRouter;
use crate::client::principal::Principal;
use crate::client::session::Caller;
use crate::client::session::Viewer;
use crate::servers::server::Server;
use crate::servers::server_pool::uris_for;

/// A request with its destination.
pub(crate) struct Routed {
    pub(crate) server: Arc<Server>,
    pub(crate) target: RequestTarget,
    /// What the client calls it.
    pub(crate) exposed: PublicName,
    /// Whether its server lists it. One that is alone is asked for what it does not list, too: such a name is the client's own choice.
    pub(crate) is_listed: bool,
    /// Parameters of a tool that are mirrored into headers, where they were looked at.
    pub(crate) headers: Option<Vec<ParamHeader>>,
    /// What would keep it from whoever asks, if the rules were not only tried.
    pub(crate) tried: Option<TriedRule>,
    /// Scopes that it needs and that whoever sees it lacks; a token of this very request may have them.
    pub(crate) lacking: Option<Box<LackingScopes>>,
}

/// Scopes that a token needs and does not have. A type of its own, in a box: nearly every call lacks none.
pub(crate) struct LackingScopes(pub(crate) BTreeSet<String>);

/// A tool that was looked up before its call is a request.
pub struct RoutedTool(Routed);

impl RoutedTool {
    /// The parameters that are mirrored into headers.
    pub fn headers(&self) -> &[ParamHeader] {
        self.0.headers.as_deref().unwrap_or_default()
    }

    pub(crate) fn into_routed(self) -> Routed {
        self.0
    }
}

/// The parameters of a tool that are mirrored into headers.
pub(crate) fn headers_of<'s>(
    snapshot: &'s CatalogueSnapshot,
    server: ServerId,
    local: &LocalName,
) -> Option<&'s [ParamHeader]> {
    let tool = snapshot.whole_offer(server)?.list(ListKind::Tools).get(local)?;
    Some(&tool.headers)
}

/// What a request names.
struct Wanted {
    what: What,
    member: &'static str,
    in_ref: bool,
    name: PublicName,
    /// What whoever asks has to be permitted.
    right: Rights,
}

#[derive(Clone, Copy)]
enum What {
    Tool,
    Prompt,
    Resource,
}

impl Wanted {
    fn read(frame: &Frame, method: Method) -> Result<Self, RequestRefusal> {
        let (what, member, in_ref) = match method {
            Method::ToolsCall => (What::Tool, "name", false),
            Method::PromptsGet => (What::Prompt, "name", false),
            Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                (What::Resource, "uri", false)
            }
            // Only `completion/complete` is left: every other method is answered or routed elsewhere.
            _ => match frame.param_str(&["ref", "type"]).as_deref() {
                Some("ref/prompt") => (What::Prompt, "name", true),
                Some("ref/resource") => (What::Resource, "uri", true),
                _ => {
                    return Err(RequestRefusal::InvalidParams(
                        "params.ref.type must be ref/prompt or ref/resource".into(),
                    ));
                }
            },
        };
        let path: &[&str] = if in_ref { &["ref", member] } else { &[member] };
        let name = frame
            .param_str(path)
            .ok_or_else(|| RequestRefusal::InvalidParams(format!("params.{} must be a string", path.join("."))))?;
        let right = match method {
            Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => Rights::FOLLOW,
            _ => Rights::USE,
        };
        Ok(Self { what, member, in_ref, name: PublicName::new(name), right })
    }

    /// The list it would stand in.
    fn kind(&self) -> ListKind {
        match self.what {
            What::Tool => ListKind::Tools,
            What::Prompt => ListKind::Prompts,
            What::Resource => ListKind::Resources,
        }
    }

    fn unknown(&self) -> RequestRefusal {
        match self.what {
            What::Tool => RequestRefusal::UnknownTool(self.name.to_string()),
            What::Prompt => RequestRefusal::UnknownPrompt(self.name.to_string()),
            What::Resource => RequestRefusal::UnknownResource(self.name.to_string()),
        }
    }
}

impl RequestRouter {
    /// Finds the destination. While servers are still starting, a name that is not known yet is waited for.
    pub(crate) async fn route(&self, caller: &Caller, frame: &Frame, method: Method) -> Result<Routed, RequestRefusal> {
        if method == Method::Other {
            return self.route_unknown(caller, frame).await;
        }
        self.find(caller.viewer(), &Wanted::read(frame, method)?).await
    }

    /// Where a request goes whose method the gateway does not know: to the only server there is, else to the one that what
    /// it names belongs to, else to the only one that declares the extension of that prefix. Never to several.
    async fn route_unknown(&self, caller: &Caller, frame: &Frame) -> Result<Routed, RequestRefusal> {
        if self.catalogue.starting() {
            self.catalogue.wait_settled().await;
        }
        let servers = self.pool.servers();
        // What is built in never has methods that the gateway does not know.
        let principal = caller.principal();
        // Rules can not tell what such a request is about, so it goes only where they keep nothing.
        let usable = |server: &&Arc<Server>| {
            !server.plan.is_built_in()
                && principal.may_use(&server.plan)
                && self.pool.access_by_rules(principal, server) == ServerAccess::Everything
        };
        let usable: Vec<&Arc<Server>> = servers.iter().filter(usable).collect();
        let to = |server: &Arc<Server>| {
            Ok(Routed {
                server: Arc::clone(server),
                target: RequestTarget::nothing(),
                exposed: PublicName::default(),
                is_listed: false,
                headers: None,
                tried: None,
                lacking: None,
            })
        };
        // Whoever may use one server only has nobody else to mean.
        if let [only] = usable[..] {
            return to(only);
        }
        if let Some(routed) = self.route_by_name(caller, frame) {
            return Ok(routed);
        }
        let (catalogue, method) = (self.catalogue.current(), frame.method());
        let declares = |server: &&&Arc<Server>| {
            let hello = catalogue.server(server.id).and_then(|status| status.hello.as_ref());
            hello.is_some_and(|hello| extensions::declares_namespace(&hello.capabilities, &method))
        };
        let mut declaring = usable.iter().filter(declares);
        match (declaring.next(), declaring.next()) {
            (Some(server), None) => to(server),
            // Whoever may use no server at all has nobody to mean.
            _ if usable.is_empty() => Err(RequestRefusal::UnknownMethod(method.to_string())),
            (Some(_), Some(_)) => Err(RequestRefusal::Unroutable {
                method: method.to_string(),
                reason: "several servers declare an extension of this prefix",
            }),
            (None, _) => Err(RequestRefusal::Unroutable {
                method: method.to_string(),
                reason: "no server declares an extension of this prefix, and it names nothing that belongs to one",
            }),
        }
    }

    /// By a `uri` or `name` that is known and belongs to one server.
    fn route_by_name(&self, caller: &Caller, frame: &Frame) -> Option<Routed> {
        let snapshot = self.discovery.view_of(caller.viewer());
        let principal = caller.principal();
        let (member, name, route) = match (frame.param_str(&["uri"]), frame.param_str(&["name"])) {
            (Some(uri), _) => {
                let route = self.by_prefix(principal, &uri).or_else(|| snapshot.resource(&uri));
                // Whoever routes by name has waited until all servers have settled.
                let route = route.or_else(|| snapshot.only_owner(&uri))?;
                ("uri", uri, route)
            }
            (None, Some(name)) => {
                let route = match (snapshot.tool(&name), snapshot.prompt(&name)) {
                    // A guess could reach a server that the request was not meant for.
                    (Some(tool), Some(prompt)) if tool.server != prompt.server => return None,
                    (Some(tool), _) => tool.clone(),
                    (None, prompt) => prompt?.clone(),
                };
                ("name", name, route)
            }
            (None, None) => return None,
        };
        let server = self.pool.server(route.server).filter(|server| principal.may_use(&server.plan))?;
        if self.pool.access_by_rules(principal, &server) != ServerAccess::Everything {
            return None;
        }
        let target = RequestTarget { member, in_ref: false, local: route.local };
        Some(Routed {
            server,
            target,
            exposed: PublicName::new(name),
            is_listed: false,
            headers: None,
            tried: None,
            lacking: None,
        })
    }

    /// The destination, if it is known at once.
    pub(crate) fn route_now(&self, caller: &Caller, frame: &Frame, method: Method) -> Option<Routed> {
        self.find_now(caller.viewer(), &Wanted::read(frame, method).ok()?)
    }

    /// The tool that a modern request names, with its headers.
    pub(crate) fn found_tool(
        &self,
        principal: &Principal,
        shape: Option<&Arc<ViewShape>>,
        frame: &Frame,
    ) -> Option<RoutedTool> {
        let wanted = Wanted::read(frame, Method::ToolsCall).ok()?;
        // A modern caller has no session: what it sees is what its person does.
        let snapshot = self.discovery.view_of(Viewer { principal, session: None, shape });
        let mut routed =
            self.look_up(&snapshot, principal, &wanted, || self.catalogue.current().built_ins_settled())?;
        let headers = headers_of(&snapshot, routed.server.id, &routed.target.local);
        routed.headers = Some(headers.map(<[_]>::to_vec).unwrap_or_default());
        Some(RoutedTool(routed))
    }

    fn find_now(&self, viewer: Viewer<'_>, wanted: &Wanted) -> Option<Routed> {
        let snapshot = self.discovery.view_of(viewer);
        self.look_up(&snapshot, viewer.principal, wanted, || self.catalogue.current().built_ins_settled())
    }

    /// Where a call of this tool would go.
    pub(crate) async fn find_tool(&self, viewer: Viewer<'_>, name: PublicName) -> Option<ItemRoute> {
        let wanted = Wanted { what: What::Tool, member: "name", in_ref: false, name, right: Rights::USE };
        let routed = self.find(viewer, &wanted).await.ok()?;
        Some(ItemRoute { server: routed.server.id, local: routed.target.local })
    }

    /// Where a resource is that a client of the shared catalogue wants to follow.
    pub(crate) async fn find_resource(&self, principal: &Principal, uri: PublicName) -> Result<Routed, RequestRefusal> {
        let wanted = Wanted { what: What::Resource, member: "uri", in_ref: false, name: uri, right: Rights::FOLLOW };
        self.find(Viewer::of_resources(principal, None), &wanted).await
    }

    async fn find(&self, viewer: Viewer<'_>, wanted: &Wanted) -> Result<Routed, RequestRefusal> {
        let principal = viewer.principal;
        // Found in nearly every case: nothing below is on the path of an ordinary call.
        let look_up_now = || self.find_now(viewer, wanted);
        if let Some(routed) = look_up_now() {
            return Ok(routed);
        }
        if self.catalogue.starting() {
            let mut catalogue = self.catalogue.subscribe();
            // Only until this one name is known, not until the slowest server is.
            let known = catalogue.wait_for(|c| {
                let seen = c.snapshot.seen_as(&principal.scope, viewer.shape);
                c.settled() || self.look_up(&seen, principal, wanted, || c.built_ins_settled()).is_some()
            });
            // Late or not, what is known then decides.
            let _ = tokio::time::timeout_at(self.catalogue.start_deadline().into(), known).await;
            if let Some(routed) = look_up_now() {
                return Ok(routed);
            }
        }
        if !self.discovery.is_own_view_settled(viewer) {
            // A link of its own that is being looked at may have it.
            self.discovery.own_view_settled(viewer).await;
        }
        // It may be what a server has just announced.
        self.discovery.refresh_list(viewer, wanted.kind()).await;
        if let Some(routed) = look_up_now() {
            return Ok(routed);
        }
        // Last, because it makes a server list: not every server announces that it has something new.
        if let Some(fleet) = &self.runtime.fleet {
            // Another replica may have told of it.
            fleet.read().await;
        }
        self.discovery.look_for_unlisted(viewer, wanted.kind(), wanted.name.as_str()).await;
        look_up_now().ok_or_else(|| self.departed(viewer, wanted).unwrap_or_else(|| wanted.unknown()))
    }

    /// Why a tool is not there, if it was there and whoever asks could see it.
    fn departed(&self, viewer: Viewer<'_>, wanted: &Wanted) -> Option<RequestRefusal> {
        if !matches!(wanted.what, What::Tool) {
            return None;
        }
        let budget = viewer.shape.and_then(|shape| shape.name_budget);
        let (tool, full_name) = self.notifier.departed_tool(wanted.name.as_str(), budget)?;
        if !viewer.principal.scope.permits(tool.audience, &tool.server_name) {
            return None;
        }
        let snapshot = self.discovery.view_of(viewer);
        // What rules may have kept from them is not there for them, and never was.
        if snapshot.is_ruled() {
            let ruled = RuledServer { id: tool.server, name: &tool.server_name, audience: tool.audience };
            if snapshot.access_by_rules(&viewer.principal.scope, ruled) != ServerAccess::Everything {
                return None;
            }
        }
        let route = departures::renamed_route(&tool);
        let renamed =
            route.and_then(|route| snapshot.public_name(ListKind::Tools, route.server, &route.local).cloned());
        let at = i64::try_from(tool.commit).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok())?;
        Some(RequestRefusal::DepartedTool(Box::new(ToolDeparture {
            name: wanted.name.to_string(),
            full_name: full_name.map(|name| name.to_string()),
            at: at.to_string(),
            change: tool.commit,
            renamed: renamed.map(|name| name.to_string()),
            nearest: departures::nearest(&snapshot, wanted.name.as_str()),
        })))
    }

    /// `is_whole`: whether a name that is not there is certainly none of our own.
    fn look_up(
        &self,
        snapshot: &CatalogueSnapshot,
        principal: &Principal,
        wanted: &Wanted,
        is_whole: impl FnOnce() -> bool,
    ) -> Option<Routed> {
        let said = wanted.name.as_str();
        let found = match wanted.what {
            What::Tool => snapshot.tool(said).cloned(),
            What::Prompt => snapshot.prompt(said).cloned(),
            What::Resource => snapshot
                .listed_owner(said)
                .map(|server| ItemRoute { server, local: LocalName::unchanged(&wanted.name) })
                // Before the templates of `resource`, also while the server has not listed yet.
                .or_else(|| self.by_prefix(principal, said))
                .or_else(|| snapshot.resource(said))
                .or_else(|| snapshot.only_owner(said).filter(|_| !self.catalogue.starting())),
        };
        // Alone, a server answers for everything, listed or not; but where tools and prompts have to be approved, for those alone.
        let alone = || {
            let server = self.pool.passthrough_for(principal).filter(|_| is_whole())?;
            let is_screened = || self.pool.server(server).is_some_and(|server| server.plan.approval.is_some());
            if !matches!(wanted.what, What::Resource) && is_screened() {
                return None;
            }
            // What is the gateway's own is nobody else's, also where it is not there.
            let is_own = match wanted.what {
                What::Tool => snapshot.reserves_tool(said),
                What::Prompt => false,
                What::Resource => !uris_for(&principal.scope, &*self.pool.server(server)?).leaves(said),
            };
            (!is_own).then(|| ItemRoute { server, local: LocalName::unchanged(&wanted.name) })
        };
        let is_listed = found.is_some();
        let route = found.or_else(alone)?;
        let server = self.pool.server(route.server).filter(|server| principal.may_use(&server.plan))?;
        // A hidden tool must look as if it were not there, also to who guesses its name.
        if matches!(wanted.what, What::Tool) && !(server.plan.permits)(&route.local) {
            return None;
        }
        let (mut tried, mut lacking) = (None, None);
        if snapshot.is_ruled() {
            let (ruled, kind, name) = (server.ruled(), wanted.kind(), route.local.as_str());
            // So must what the rules keep, listed or not.
            if !snapshot.permits(ruled, kind, name, wanted.right) {
                // What only a scope is missing for is listed, and no secret.
                let scopes = (wanted.right == Rights::USE).then(|| snapshot.lacking_scopes(ruled, kind, name));
                lacking = Some(Box::new(LackingScopes(scopes.flatten()?)));
            }
            tried = snapshot.would_keep(&principal.scope, ruled, kind, name, wanted.right);
        }
        Some(Routed {
            server,
            target: RequestTarget { member: wanted.member, in_ref: wanted.in_ref, local: route.local },
            exposed: wanted.name.clone(),
            is_listed,
            headers: None,
            tried,
            lacking,
        })
    }

    /// Whose resource it is by its prefix, whether that server has listed yet or not.
    fn by_prefix(&self, principal: &Principal, uri: &str) -> Option<ItemRoute> {
        // Where one server is asked for alone, every URI is its own as it is.
        if principal.scope.alone().is_some() {
            return None;
        }
        let servers = self.pool.servers();
        let mut found = servers
            .iter()
            .filter(|server| principal.may_use(&server.plan))
            .filter_map(|server| Some((server.id, server.uris.by_prefix(uri)?)));
        // Servers stand in the order of their ids, so the first configured one wins, as with names.
        found.next().map(|(server, local)| ItemRoute { server, local: LocalName::new(local) })
    }
}
