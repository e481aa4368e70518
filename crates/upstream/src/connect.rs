//! Making a link: transport, era, introduction.
//!
//! When a link is made, and when the next one after a failure, is decided by `hub/link_health.rs`; here one attempt is made.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tidings_proto::{Era, notifications};
use tidings_wire::notification;
use tokio_util::task::TaskTracker;

use crate::container::{ContainerLink, ContainerStarter, PullProgress};
use crate::handshake::{
    InitializeOutcome, OwnIntroduction, ProbeOutcome, first_try, introduce_legacy, introduce_modern, probe,
};
use crate::http::{HttpClient, HttpLink, NetworkReach};
use crate::link::{MessageSink, SharedLink};
use crate::remedy;
use crate::spec::{EraChoice, HttpSpec, ServerSpec, TransportSpec};
use crate::sse::SseLink;
use crate::stdio::StdioLink;
use crate::stdio::process::ProcessLauncher;
use crate::{LinkError, ServerHello};

/// A link that is ready for calls.
pub struct ConnectedLink {
    /// The link, which takes calls from now on.
    pub link: SharedLink,
    /// What the server said of itself.
    pub hello: ServerHello,
}

/// Makes links: starts what has to be started, and does the handshake of the right era.
#[derive(Clone)]
pub struct LinkConnector {
    launcher: Arc<ProcessLauncher>,
    client: HttpClient,
    /// For servers that were added while the gateway runs; made with the first of them.
    declared: Arc<OnceLock<HttpClient>>,
    containers: Arc<ContainerStarter>,
    /// Links that are ending.
    goodbyes: TaskTracker,
}

impl LinkConnector {
    /// A connector that starts processes through `launcher`. What has to outlive the process is kept with temporary files.
    pub fn new(launcher: Arc<ProcessLauncher>) -> Result<Self, LinkError> {
        let user = rustix::process::geteuid().as_raw();
        // By user: the folder for temporary files is shared with others.
        Self::with_home(launcher, std::env::temp_dir().join(format!("tidings-{user}")))
    }

    /// The same, with a folder of this user that outlives the process: it tells the next one which containers are left.
    /// Made with the first container.
    pub fn with_home(launcher: Arc<ProcessLauncher>, home: PathBuf) -> Result<Self, LinkError> {
        let containers = Arc::new(ContainerStarter::new(Arc::clone(&launcher), home));
        Ok(Self {
            launcher,
            client: HttpClient::new()?,
            declared: Arc::default(),
            containers,
            goodbyes: TaskTracker::new(),
        })
    }

    /// Reports of images that are being got, from now on. Who is too slow misses the oldest.
    pub fn pulls(&self) -> tokio::sync::broadcast::Receiver<PullProgress> {
        self.containers.pulls()
    }

    /// Gets what a server needs before it can be started: the image of its container. This may take minutes, and is
    /// reported to [`Self::pulls`]; [`Self::connect`] does it too, but whoever has a deadline for that does it before.
    pub async fn prepare(&self, spec: &ServerSpec) -> Result<(), LinkError> {
        match &spec.transport {
            TransportSpec::Container(container) => self.containers.prepare(&spec.name, container).await,
            TransportSpec::Stdio(_) | TransportSpec::Http(_) | TransportSpec::Sse(_) => Ok(()),
        }
    }

    /// Removes containers that killed processes left, never those of a living one. Has deadlines, and runs nothing when
    /// there is nothing to remove.
    pub async fn sweep(&self) {
        self.containers.sweep().await;
    }

    /// [`Self::sweep`], beside everything else. The connector owns the task.
    pub fn sweep_beside(&self) {
        self.containers.sweep_beside();
    }

    /// Waits until every link that was closed has ended its session. They have deadlines.
    pub async fn goodbyes(&self) {
        self.goodbyes.close();
        self.goodbyes.wait().await;
    }

    /// Connects in the era that is configured, else in the one that is `known` from before, else in the one it finds.
    /// `sink` is asked for once per attempt: each link has its own.
    pub async fn connect(
        &self,
        spec: &ServerSpec,
        known: Option<Era>,
        introduction: &OwnIntroduction,
        sink: &(dyn Fn() -> Arc<dyn MessageSink> + Send + Sync),
    ) -> Result<ConnectedLink, LinkError> {
        self.try_connect(spec, known, introduction, sink).await.map_err(|error| remedy::explain(spec, error))
    }

    async fn try_connect(
        &self,
        spec: &ServerSpec,
        known: Option<Era>,
        introduction: &OwnIntroduction,
        sink: &(dyn Fn() -> Arc<dyn MessageSink> + Send + Sync),
    ) -> Result<ConnectedLink, LinkError> {
        // `None`: the era has to be found out by a probe.
        let first = match &spec.transport {
            // The transport of the first revision: nobody speaks the modern era over it.
            TransportSpec::Sse(_) => Some(Era::Legacy),
            _ => first_try(spec.era, known),
        };
        // The probe is a modern request.
        let open = self.open(spec, first.unwrap_or(Era::Modern), sink()).await?;
        // Whoever asked may lose patience: then nothing must be left.
        let abandoned = AbandonedLink(Some(open.link()));
        let outcome = match first {
            Some(Era::Modern) => introduce_modern(open.link(), introduction).await.map(Box::new),
            Some(Era::Legacy) => legacy(&open, introduction).await,
            None => match probe(open.link(), introduction).await {
                Ok(ProbeOutcome::Modern(hello)) => Ok(hello),
                Ok(ProbeOutcome::Legacy) => legacy(&open, introduction).await,
                // There are servers that end at a first message that is not `initialize`: started again, they get
                // just that.
                Ok(ProbeOutcome::Died) => {
                    // Waited for: two processes of one server must not run side by side.
                    open.link().close().await;
                    let words = open.link().last_words();
                    let again = Box::pin(self.connect_again(spec, introduction, sink)).await;
                    // What it said the first time may be all that it says.
                    return again.map_err(|error| error.with_words(words));
                }
                Err(error) => Err(error),
            },
        };
        match outcome {
            Ok(hello) => {
                // Before the link is given out: a call must not overtake `initialized`.
                open.settle(&hello).await;
                abandoned.keep();
                Ok(ConnectedLink { link: open.into_link(), hello: *hello })
            }
            Err(error) => {
                let error = error.with_words(open.link().last_words());
                open.link().close().await;
                match &spec.transport {
                    TransportSpec::Http(http) if spec.era != EraChoice::Modern && may_be_sse(&error) => {
                        self.try_sse(spec, http, introduction, sink, error).await
                    }
                    _ => Err(error),
                }
            }
        }
    }

    /// The URL does not take messages as Streamable HTTP does: it may be that of an old server, which opens a stream there.
    async fn try_sse(
        &self,
        spec: &ServerSpec,
        http: &HttpSpec,
        introduction: &OwnIntroduction,
        sink: &(dyn Fn() -> Arc<dyn MessageSink> + Send + Sync),
        refused: LinkError,
    ) -> Result<ConnectedLink, LinkError> {
        let old = ServerSpec { transport: TransportSpec::Sse(http.clone()), ..spec.clone() };
        match Box::pin(self.try_connect(&old, Some(Era::Legacy), introduction, sink)).await {
            // There is no such stream either: what the server said first is about what was configured.
            Err(error) if !is_about_sse(&error) => Err(refused),
            connected => connected,
        }
    }

    /// The process ended on the probe: start it again, straight into `initialize`.
    async fn connect_again(
        &self,
        spec: &ServerSpec,
        introduction: &OwnIntroduction,
        sink: &(dyn Fn() -> Arc<dyn MessageSink> + Send + Sync),
    ) -> Result<ConnectedLink, LinkError> {
        self.try_connect(spec, Some(Era::Legacy), introduction, sink).await
    }

    /// A client with connections of its own, which dials as far as this server may lead.
    fn client_of(&self, http: &HttpSpec) -> Result<HttpClient, LinkError> {
        let shared = match http.reach {
            NetworkReach::Anywhere => &self.client,
            NetworkReach::Declared | NetworkReach::Public => match self.declared.get() {
                Some(declared) => declared,
                None => {
                    // Two at once make two, and one is kept: they hold nothing but certificates.
                    let made = HttpClient::declared_only()?;
                    self.declared.get_or_init(|| made)
                }
            },
        };
        Ok(shared.with_own_pool())
    }

    async fn open(&self, spec: &ServerSpec, era: Era, sink: Arc<dyn MessageSink>) -> Result<OpenTransport, LinkError> {
        Ok(match &spec.transport {
            TransportSpec::Stdio(stdio) => {
                OpenTransport::Stdio(StdioLink::spawn(&self.launcher, &spec.name, stdio, None, sink).await?)
            }
            TransportSpec::Http(http) => {
                let goodbyes = self.goodbyes.clone();
                // A pool per link: whoever closes the link closes its connections and no others.
                OpenTransport::Http(HttpLink::open(self.client_of(http)?, http, era, sink, goodbyes)?)
            }
            TransportSpec::Sse(http) => {
                let goodbyes = self.goodbyes.clone();
                let client = self.client_of(http)?;
                OpenTransport::Sse(SseLink::open(client, &spec.name, http, sink, goodbyes).await?)
            }
            TransportSpec::Container(container) => {
                OpenTransport::Container(self.containers.open(&spec.name, container, sink).await?)
            }
        })
    }
}

/// Gives a link up when it is dropped before it was kept.
struct AbandonedLink<'a>(Option<&'a dyn crate::Link>);

impl AbandonedLink<'_> {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for AbandonedLink<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.0 {
            // Closing goes on in a task of the link's own, so the future need not be polled.
            drop(link.close());
        }
    }
}

async fn legacy(open: &OpenTransport, introduction: &OwnIntroduction) -> Result<Box<ServerHello>, LinkError> {
    // Before the message: its headers say the era too.
    open.expect_era(Era::Legacy);
    match introduce_legacy(open.link(), introduction).await? {
        InitializeOutcome::Hello(hello) => Ok(hello),
        // It refused `initialize` with an error that only the modern era has.
        InitializeOutcome::IsModern => {
            open.expect_era(Era::Modern);
            introduce_modern(open.link(), introduction).await.map(Box::new)
        }
    }
}

/// Whether a server that takes no messages at its URL may be one of the first revision. The statuses are those that the later
/// revisions name for it, and what frameworks give for a wrong method or media type.
fn may_be_sse(error: &LinkError) -> bool {
    matches!(error.cause(), LinkError::Status { status: 400 | 404 | 405 | 406 | 415, .. })
}

/// Whether a failure shows that the server has a stream of that transport all the same.
fn is_about_sse(error: &LinkError) -> bool {
    matches!(
        error.cause(),
        LinkError::Unusable(_) | LinkError::Refused(_) | LinkError::Unauthorized(_) | LinkError::NeedsLogin(_)
    )
}

enum OpenTransport {
    Stdio(Arc<StdioLink>),
    Http(Arc<HttpLink>),
    Sse(Arc<SseLink>),
    Container(ContainerLink),
}

impl OpenTransport {
    fn link(&self) -> &dyn crate::Link {
        match self {
            Self::Stdio(link) => &**link,
            Self::Http(link) => &**link,
            Self::Sse(link) => &**link,
            Self::Container(container) => &*container.link,
        }
    }

    fn into_link(self) -> SharedLink {
        match self {
            Self::Stdio(link) => link,
            Self::Http(link) => link,
            Self::Sse(link) => link,
            Self::Container(container) => container.link,
        }
    }

    /// HTTP says the era in headers too; on stdio only the messages do.
    fn expect_era(&self, era: Era) {
        if let Self::Http(link) = self {
            link.speak(era);
        }
    }

    /// Headers say the revision from now on, `initialized` is the first to, and only then does the server speak by itself.
    async fn settle(&self, hello: &ServerHello) {
        match self {
            Self::Http(link) => link.settle(hello.revision),
            Self::Sse(link) => link.settle(),
            Self::Container(container) => container.settle(),
            Self::Stdio(_) => {}
        }
        if hello.revision.era() == Era::Modern {
            return;
        }
        self.link().deliver(notification(notifications::INITIALIZED, None)).await;
        if let Self::Http(link) = self {
            link.listen().await;
        }
    }
}
