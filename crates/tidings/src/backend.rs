//! Where a command gets its answers: from the gateway that is running, else from one started for the occasion.

mod events;
mod listen;

pub(crate) use events::{ApiEvents, SILENCE};

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::{Value, json};
use tidings_builtin::SearchService;
use tidings_downstream::LIMITS;
use tidings_engine::{Caller, Gateway, Principal, Reply};
use tidings_inventory::ServerRegistry;
use tidings_proto::meta::{self, ModernMeta};
use tidings_proto::{ListKind, Method, Revision, headers};
use tidings_store::{ServerTable, Store};
use tidings_upstream::{HttpClient, LinkError};
use tidings_wire::{Frame, RawId, request};

use crate::cli::Cli;
use crate::data::{DataDir, RunningGateway};
use crate::failure::CommandFailure;
use crate::lock_files::{LockFiles, LockPaths};
use crate::{settings, wiring};

/// The gateway has its own, shorter patience with servers.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
/// How long a gateway may take to say that it is there.
const GREETING: Duration = Duration::from_secs(3);

pub(crate) enum Backend {
    Running(RunningGateway),
    Own(OwnGateway),
}

/// A gateway for the occasion.
pub(crate) struct OwnGateway {
    gateway: Gateway,
    search: Arc<SearchService>,
    registry: ServerRegistry,
    locks: LockPaths,
    /// Whether other processes agree on what is decided.
    is_of_cluster: bool,
}

impl Backend {
    /// `--config` always means a gateway of one's own.
    pub(crate) fn open(cli: &Cli) -> Result<Self, CommandFailure> {
        // A command that names a file asks about that file, which the running gateway may not serve.
        if cli.config.is_none()
            && let Some(running) = DataDir::find(cli.data.as_deref())?.running()
        {
            return Ok(Self::Running(running));
        }
        Self::of_its_own(cli)
    }

    /// A gateway of one's own, whether or not one is running.
    pub(crate) fn of_its_own(cli: &Cli) -> Result<Self, CommandFailure> {
        let loaded = settings::load_to_run(cli)?;
        let data = DataDir::find(cli.data.as_deref()).ok();
        let mut inputs = loaded.into_inputs(kept(cli), |_| Vec::new());
        // What a gateway for one command happens to see first is not trusted for good.
        inputs.keeps_first_sight = false;
        let prepared = wiring::prepare(cli, inputs, data.as_ref())?;
        let (search, registry, locks) = (prepared.search(), prepared.registry(), prepared.locks());
        let is_of_cluster = prepared.is_of_cluster();
        let gateway = prepared.start(None, None, None);
        Ok(Self::Own(OwnGateway { gateway, search, registry, locks, is_of_cluster }))
    }

    pub(crate) async fn close(self) {
        if let Self::Own(OwnGateway { gateway, .. }) = self {
            gateway.shutdown().await;
        }
    }

    /// The servers, as the API describes them.
    pub(crate) async fn servers(&self) -> Result<Value, CommandFailure> {
        match self {
            Self::Own(OwnGateway { gateway, registry, .. }) => {
                gateway.settled().await;
                Ok(tidings_admin::describe(gateway, &registry.state()))
            }
            Self::Running(running) => api(running, "servers").await,
        }
    }

    /// What waits for approval, as the API describes it.
    pub(crate) async fn approvals(&self) -> Result<Value, CommandFailure> {
        match self {
            Self::Own(OwnGateway { gateway, .. }) => {
                gateway.settled().await;
                Ok(tidings_admin::approvals(gateway))
            }
            Self::Running(running) => api(running, "approvals").await,
        }
    }

    /// Decides about what waits, as the API is told.
    pub(crate) async fn decide(&self, body: &Value) -> Result<Value, CommandFailure> {
        match self {
            Self::Own(OwnGateway { is_of_cluster: true, .. }) => Err(CommandFailure::Failed(
                "no replica of the cluster runs here with this data directory, and what is approved is decided by the replicas that run; \
                 ask at one of them, without --config"
                    .to_owned(),
            )),
            Self::Own(OwnGateway { gateway, .. }) => {
                let decided = tidings_admin::decide(gateway, body).await;
                decided.map_err(|fault| CommandFailure::Failed(fault.detail))
            }
            Self::Running(running) => match ask(running, http::Method::POST, "approvals", Some(body)).await? {
                ApiReply::Done(decided) => Ok(decided),
                ApiReply::Refused { detail, .. } => Err(CommandFailure::Failed(detail)),
            },
        }
    }

    /// What every server offers, by the hashes of a lock, as the API describes it.
    pub(crate) async fn offered(&self) -> Result<Value, CommandFailure> {
        match self {
            Self::Own(OwnGateway { gateway, .. }) => {
                gateway.settled().await;
                Ok(tidings_admin::offered(gateway))
            }
            Self::Running(running) => api(running, "lock").await,
        }
    }

    /// Where the locks are.
    pub(crate) async fn lock_paths(&self) -> Result<LockPaths, CommandFailure> {
        match self {
            Self::Own(OwnGateway { locks, .. }) => Ok(locks.clone()),
            Self::Running(running) => {
                // Asked of the gateway: this command may run in another folder, where it would find another file.
                let status = api(running, "status").await?;
                let config = status["config"].as_str().map(Path::new);
                Ok(LockFiles::new(config, Some(&running.data), false).paths())
            }
        }
    }

    /// The tools, as the API describes them: all, or those that fit a query, best first.
    pub(crate) async fn tools(&self, query: Option<String>) -> Result<Value, CommandFailure> {
        match self {
            Self::Own(OwnGateway { gateway, search, .. }) => {
                gateway.settled().await;
                let text = tidings_admin::tools(gateway, &search.index(), query, None).await;
                serde_json::from_str(&text).map_err(CommandFailure::failed)
            }
            Self::Running(running) => {
                let path = query
                    .map_or_else(|| "tools".to_owned(), |query| format!("tools?q={}", crate::url_text::encode(&query)));
                api(running, &path).await
            }
        }
    }

    /// The resources or the prompts, as the API describes them.
    pub(crate) async fn offers(&self, kind: ListKind) -> Result<Value, CommandFailure> {
        match self {
            Self::Own(OwnGateway { gateway, .. }) => {
                gateway.settled().await;
                serde_json::from_str(&tidings_admin::offers(gateway, kind)).map_err(CommandFailure::failed)
            }
            Self::Running(running) => api(running, kind.member()).await,
        }
    }

    /// The tools as a client is shown them that calls itself so.
    pub(crate) async fn tools_seen_by(&self, info: &Value) -> Result<Vec<Value>, CommandFailure> {
        if let Self::Own(OwnGateway { gateway, .. }) = self {
            gateway.settled().await;
        }
        let (mut tools, mut params) = (Vec::new(), json!({ "_meta": { meta::LOOK: true } }));
        loop {
            let mut page = self.send(Method::List(ListKind::Tools), params.clone(), None, info).await?;
            tools.extend(page["tools"].as_array_mut().map(std::mem::take).unwrap_or_default());
            match page.get("nextCursor") {
                Some(cursor) => params["cursor"] = cursor.clone(),
                None => return Ok(tools),
            }
        }
    }

    /// One request, as a modern client makes it.
    pub(crate) async fn request(&self, method: Method, params: Value) -> Result<Value, CommandFailure> {
        self.send(method, params, None, &own_info()).await
    }

    /// The same; `hear` gets every notification that comes before the answer, progress among them.
    pub(crate) async fn request_heard(
        &self,
        method: Method,
        params: Value,
        hear: &mut (dyn FnMut(&Value) + Send),
    ) -> Result<Value, CommandFailure> {
        self.send(method, params, Some(hear), &own_info()).await
    }

    async fn send(
        &self,
        method: Method,
        mut params: Value,
        mut hear: Option<Hear<'_>>,
        info: &Value,
    ) -> Result<Value, CommandFailure> {
        let mut own = meta::own(Revision::MODERN, info, &json!({}));
        if let (Some(own), Some(given)) = (own.as_object_mut(), params["_meta"].as_object_mut()) {
            // The caller's own members win: `append` replaces those of the same name.
            own.append(given);
        }
        params["_meta"] = own;
        if hear.is_some() {
            // Without a token no server sends progress; one request is made at a time, so any token will do.
            params["_meta"][meta::PROGRESS_TOKEN] = 1.into();
        }
        let id = RawId::from(1);
        let body = request(&id, method.as_str(), Some(params.to_string().as_bytes()));
        let answer = match self {
            Self::Running(running) => {
                let name = method.name_param().and_then(|param| params[param].as_str()).unwrap_or_default();
                post(running, method, name, body, &mut hear).await?
            }
            Self::Own(OwnGateway { gateway, .. }) => {
                let frame = Frame::parse(body, &LIMITS).map_err(CommandFailure::failed)?;
                let meta = ModernMeta::read(&frame).map_err(CommandFailure::failed)?;
                let profile = gateway.profile_of(info.to_string().as_bytes());
                let (who, capabilities) = (Principal::local(), meta.capabilities);
                let caller = gateway.modern_caller(None, Revision::MODERN, &who, None, capabilities, profile);
                let mut exchange = gateway.request(Caller::Modern(caller), frame, method, id);
                loop {
                    match exchange.next().await {
                        Reply::Answer(answer) | Reply::Forbidden { answer, .. } => break answer.payload.to_bytes(),
                        Reply::Cancelled => return Err(CommandFailure::Failed("the request was cancelled".into())),
                        Reply::Message(message) => told(&mut hear, &message),
                        _ => {}
                    }
                }
            }
        };
        let answer: Value = serde_json::from_slice(&answer).map_err(CommandFailure::failed)?;
        match answer.get("error") {
            Some(error) => Err(CommandFailure::Refused {
                code: error["code"].as_i64().unwrap_or_default(),
                message: error["message"].as_str().unwrap_or("error").to_owned(),
                data: error.get("data").cloned(),
            }),
            None => Ok(answer["result"].clone()),
        }
    }
}

/// Whoever hears what comes before an answer.
type Hear<'a> = &'a mut (dyn FnMut(&Value) + Send);

fn told(hear: &mut Option<Hear<'_>>, message: &[u8]) {
    if let (Some(hear), Ok(message)) = (hear, serde_json::from_slice(message)) {
        hear(&message);
    }
}

/// Posts a request to a running gateway, and gives the answer.
async fn post(
    running: &RunningGateway,
    method: Method,
    name: &str,
    body: Bytes,
    hear: &mut Option<Hear<'_>>,
) -> Result<Bytes, CommandFailure> {
    let mut post = Request::post(format!("{}/mcp", running.url))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header(headers::PROTOCOL_VERSION, Revision::MODERN.as_str())
        .header(headers::METHOD, method.as_str())
        .header("authorization", format!("Bearer {}", running.token));
    // The `Mcp-Name` header is only for methods that have a name or URI.
    if !name.is_empty() {
        post = post.header(headers::NAME, &*headers::encode(name));
    }
    let post = post.body(Full::new(body)).map_err(CommandFailure::failed)?;
    let client = running.client()?;
    let unreachable = |error: LinkError| CommandFailure::Failed(format!("the gateway at {} {error}", running.url));
    let answer = tokio::time::timeout(PATIENCE, client.send(post)).await;
    let answer =
        answer.map_err(|_| CommandFailure::Failed(format!("the gateway at {} does not answer", running.url)))?;
    let answer = answer.map_err(unreachable)?;
    // The gateway answers as a stream when something came before the answer.
    let streamed = answer.headers().get("content-type").is_some_and(|v| v.as_bytes().starts_with(b"text/event"));
    if !streamed {
        let body = Limited::new(answer.into_body(), LIMITS.max_bytes).collect();
        let body = tokio::time::timeout(PATIENCE, body).await.map_err(CommandFailure::failed)?;
        return Ok(body.map_err(|_| unreachable(LinkError::Lost))?.to_bytes());
    }
    let mut events = ApiEvents::of(answer.into_body());
    while let Some(data) = events.next().await? {
        // An answer has no method; everything before it has one.
        let is_answer = serde_json::from_slice::<Value>(&data).is_ok_and(|message| message.get("method").is_none());
        if is_answer {
            return Ok(data);
        }
        told(hear, &data);
    }
    Err(unreachable(LinkError::Lost))
}

/// The servers that were added at run time, unless another process has them.
fn kept(cli: &Cli) -> ServerTable {
    // Only a store that exists: a command that looks makes no files.
    let kept = DataDir::find(cli.data.as_deref()).ok().and_then(|data| {
        let store = Store::existing(data.path()).ok().flatten()?;
        ServerTable::new(&store).read().ok()
    });
    // In memory, though it was read from the store: a command must change nothing there, and the store may be in use.
    ServerTable::in_memory(kept.unwrap_or_default())
}

/// How the command line introduces itself in each request.
fn own_info() -> Value {
    json!({ "name": "tidings-cli", "version": env!("CARGO_PKG_VERSION") })
}

/// What the API of a running gateway says.
pub(crate) async fn api(running: &RunningGateway, path: &str) -> Result<Value, CommandFailure> {
    match ask(running, http::Method::GET, path, None).await? {
        ApiReply::Done(value) => Ok(value),
        ApiReply::Refused { detail, .. } => {
            Err(CommandFailure::Failed(format!("the gateway at {} refused: {detail}", running.url)))
        }
    }
}

/// What the API of a running gateway answers.
pub(crate) enum ApiReply {
    /// The change is made; the value is the answer's body.
    Done(Value),
    /// It is not, and nothing has changed.
    Refused {
        /// The kind of reason.
        status: http::StatusCode,
        /// The reason, in the words of the gateway.
        detail: String,
    },
}

/// Asks the API of a running gateway for something.
pub(crate) async fn ask(
    running: &RunningGateway,
    method: http::Method,
    path: &str,
    body: Option<&Value>,
) -> Result<ApiReply, CommandFailure> {
    let request = Request::builder()
        .method(method)
        .uri(format!("{}/api/v1/{path}", running.url))
        .header("authorization", format!("Bearer {}", running.token))
        .header("content-type", "application/json");
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let answer = fetch(running, request, body).await?;
    let status = answer.status();
    let value: Value = serde_json::from_slice(&answer.into_body()).map_err(CommandFailure::failed)?;
    if status.is_success() {
        return Ok(ApiReply::Done(value));
    }
    let detail = value["detail"].as_str().unwrap_or("it gives no reason").to_owned();
    Ok(ApiReply::Refused { status, detail })
}

/// Fails when the gateway is there but answers nobody, as one that is stopped.
async fn greet(running: &RunningGateway, client: &HttpClient) -> Result<(), CommandFailure> {
    let (url, pid) = (&running.url, running.pid);
    let request = Request::get(format!("{url}/healthz")).body(Full::default()).map_err(CommandFailure::failed)?;
    match client.fetch(request, GREETING, LIMITS.max_bytes).await {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(CommandFailure::Failed(format!("what answers at {url} is no gateway: {}", answer.status()))),
        Err(error) => Err(CommandFailure::Failed(format!(
            "the gateway at {url} does not answer ({error}); if its process {pid} is stopped, `kill -CONT {pid}` lets it go on"
        ))),
    }
}

async fn fetch(
    running: &RunningGateway,
    request: http::request::Builder,
    body: Vec<u8>,
) -> Result<Response<Bytes>, CommandFailure> {
    let request = request.body(Full::new(body.into())).map_err(CommandFailure::failed)?;
    let client = running.client()?;
    // A request may take as long as its tool; whether anybody is there is known at once.
    greet(running, &client).await?;
    client
        .fetch(request, PATIENCE, LIMITS.max_bytes)
        .await
        .map_err(|error| CommandFailure::Failed(format!("the gateway at {} {error}", running.url)))
}
