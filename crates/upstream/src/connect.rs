//! Making a link: transport, era, introduction.

use std::path::PathBuf;
use std::sync::Arc;

use tidings_proto::Era;
use tidings_wire::notification;
use tokio_util::task::TaskTracker;

use crate::container::{ContainerLink, Containers, PullProgress};
use crate::handshake::{Initialized, Introduction, Probed, first_try, introduce_legacy, introduce_modern, probe};
use crate::http::{HttpClient, HttpLink};
use crate::link::{SharedLink, Sink};
use crate::remedy;
use crate::spec::{ServerSpec, Transport};
use crate::stdio::StdioLink;
use crate::stdio::process::Launcher;
use crate::{Hello, LinkError};

/// A link that is ready for calls.
pub struct Connected {
    /// The link.
    pub link: SharedLink,
    /// What the server said of itself.
    pub hello: Hello,
}

/// Makes links.
#[derive(Clone)]
pub struct Connector {
    launcher: Arc<Launcher>,
    client: HttpClient,
    containers: Arc<Containers>,
    /// Links that are ending.
    goodbyes: TaskTracker,
}

impl Connector {
    /// A connector that starts processes through `launcher`. What has to outlive the process is kept with temporary files.
    pub fn new(launcher: Arc<Launcher>) -> Result<Self, LinkError> {
        let user = rustix::process::geteuid().as_raw();
        Self::with_home(launcher, std::env::temp_dir().join(format!("tidings-{user}")))
    }

    /// The same, with a folder of this user that outlives the process: it tells the next one which containers are left.
    /// Made with the first container.
    pub fn with_home(launcher: Arc<Launcher>, home: PathBuf) -> Result<Self, LinkError> {
        let containers = Arc::new(Containers::new(Arc::clone(&launcher), home));
        Ok(Self { launcher, client: HttpClient::new()?, containers, goodbyes: TaskTracker::new() })
    }

    /// Reports of images that are being got, from now on. Who is too slow misses the oldest.
    pub fn pulls(&self) -> tokio::sync::broadcast::Receiver<PullProgress> {
        self.containers.pulls()
    }

    /// Gets what a server needs before it can be started: the image of its container. This may take minutes, and is
    /// reported to [`Self::pulls`]; [`Self::connect`] does it too, but whoever has a deadline for that does it before.
    pub async fn prepare(&self, spec: &ServerSpec) -> Result<(), LinkError> {
        match &spec.transport {
            Transport::Container(container) => self.containers.prepare(&spec.name, container).await,
            Transport::Stdio(_) | Transport::Http(_) => Ok(()),
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
        introduction: &Introduction,
        sink: &(dyn Fn() -> Arc<dyn Sink> + Send + Sync),
    ) -> Result<Connected, LinkError> {
        self.try_connect(spec, known, introduction, sink).await.map_err(|error| remedy::explain(spec, error))
    }

    async fn try_connect(
        &self,
        spec: &ServerSpec,
        known: Option<Era>,
        introduction: &Introduction,
        sink: &(dyn Fn() -> Arc<dyn Sink> + Send + Sync),
    ) -> Result<Connected, LinkError> {
        let first = first_try(spec.era, known);
        let open = self.open(spec, first.unwrap_or(Era::Modern), sink()).await?;
        // Whoever asked may lose patience: then nothing must be left.
        let abandoned = Abandoned(Some(open.link()));
        let outcome = match first {
            Some(Era::Modern) => introduce_modern(open.link(), introduction).await.map(Box::new),
            Some(Era::Legacy) => legacy(&open, introduction).await,
            None => match probe(open.link(), introduction).await {
                Ok(Probed::Modern(hello)) => Ok(hello),
                Ok(Probed::Legacy) => legacy(&open, introduction).await,
                Ok(Probed::Died) => {
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
                open.settle(&hello).await;
                abandoned.keep();
                Ok(Connected { link: open.into_link(), hello: *hello })
            }
            Err(error) => {
                let error = error.with_words(open.link().last_words());
                open.link().close().await;
                Err(error)
            }
        }
    }

    /// The process ended on the probe: start it again, straight into `initialize`.
    async fn connect_again(
        &self,
        spec: &ServerSpec,
        introduction: &Introduction,
        sink: &(dyn Fn() -> Arc<dyn Sink> + Send + Sync),
    ) -> Result<Connected, LinkError> {
        self.try_connect(spec, Some(Era::Legacy), introduction, sink).await
    }

    async fn open(&self, spec: &ServerSpec, era: Era, sink: Arc<dyn Sink>) -> Result<Open, LinkError> {
        Ok(match &spec.transport {
            Transport::Stdio(stdio) => {
                Open::Stdio(StdioLink::spawn(&self.launcher, &spec.name, stdio, None, sink).await?)
            }
            Transport::Http(http) => {
                let goodbyes = self.goodbyes.clone();
                Open::Http(HttpLink::open(self.client.with_own_pool(), http, era, sink, goodbyes)?)
            }
            Transport::Container(container) => {
                Open::Container(self.containers.open(&spec.name, container, sink).await?)
            }
        })
    }
}

/// Gives a link up when it is dropped before it was kept.
struct Abandoned<'a>(Option<&'a dyn crate::Link>);

impl Abandoned<'_> {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.0 {
            drop(link.close());
        }
    }
}

async fn legacy(open: &Open, introduction: &Introduction) -> Result<Box<Hello>, LinkError> {
    open.expect_era(Era::Legacy);
    match introduce_legacy(open.link(), introduction).await? {
        Initialized::Hello(hello) => Ok(hello),
        Initialized::IsModern => {
            open.expect_era(Era::Modern);
            introduce_modern(open.link(), introduction).await.map(Box::new)
        }
    }
}

enum Open {
    Stdio(Arc<StdioLink>),
    Http(Arc<HttpLink>),
    Container(ContainerLink),
}

impl Open {
    fn link(&self) -> &dyn crate::Link {
        match self {
            Self::Stdio(link) => &**link,
            Self::Http(link) => &**link,
            Self::Container(container) => &*container.link,
        }
    }

    fn into_link(self) -> SharedLink {
        match self {
            Self::Stdio(link) => link,
            Self::Http(link) => link,
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
    async fn settle(&self, hello: &Hello) {
        match self {
            Self::Http(link) => link.settle(hello.revision),
            Self::Container(container) => container.settle(),
            Self::Stdio(_) => {}
        }
        if hello.revision.era() == Era::Modern {
            return;
        }
        self.link().deliver(notification("notifications/initialized", None)).await;
        if let Self::Http(link) = self {
            link.listen();
        }
    }
}
