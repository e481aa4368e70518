//! The SDK's client: it answers every question of a server and keeps what it saw.

use rmcp::ErrorData;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, Implementation, ListRootsResult, ProgressNotificationParam, ProtocolVersion,
    ResourceUpdatedNotificationParam, Root, SamplingMessage,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::json;
use tidings_testkit::within;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A user who is called Ferris.
pub(crate) struct Guest {
    version: ProtocolVersion,
    knows_tasks: bool,
    progress: UnboundedSender<ProgressNotificationParam>,
    asked: UnboundedSender<String>,
    updated: UnboundedSender<String>,
}

/// What a [`Guest`] saw.
pub(crate) struct Seen {
    progress: UnboundedReceiver<ProgressNotificationParam>,
    asked: UnboundedReceiver<String>,
    updated: UnboundedReceiver<String>,
}

impl Guest {
    pub(crate) fn new(version: ProtocolVersion) -> (Self, Seen) {
        let (progress, progress_seen) = unbounded_channel();
        let (asked, asked_seen) = unbounded_channel();
        let (updated, updated_seen) = unbounded_channel();
        let seen = Seen { progress: progress_seen, asked: asked_seen, updated: updated_seen };
        (Self { version, knows_tasks: false, progress, asked, updated }, seen)
    }

    /// The same, and it declares the extension of tasks.
    pub(crate) fn who_knows_tasks(self) -> Self {
        Self { knows_tasks: true, ..self }
    }

    fn asked(&self, what: impl Into<String>) {
        let _ = self.asked.send(what.into());
    }
}

impl Seen {
    /// The next progress, past or future.
    pub(crate) async fn progress(&mut self) -> ProgressNotificationParam {
        within("progress at the client", self.progress.recv()).await.expect("the client lives")
    }

    /// The next resource that changed, past or future.
    pub(crate) async fn updated(&mut self) -> String {
        within("an update at the client", self.updated.recv()).await.expect("the client lives")
    }

    /// Whether all updates were taken.
    pub(crate) fn no_more_updates(&self) -> bool {
        self.updated.is_empty()
    }

    /// Whether all progress was taken.
    pub(crate) fn no_more_progress(&self) -> bool {
        self.progress.is_empty()
    }

    /// All that was asked so far, sorted.
    pub(crate) fn questions(&mut self) -> Vec<String> {
        let mut questions: Vec<_> = std::iter::from_fn(|| self.asked.try_recv().ok()).collect();
        questions.sort();
        questions
    }
}

impl ClientHandler for Guest {
    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let question = request.messages.first().and_then(|m| m.content.first()?.as_text().map(|t| t.text.clone()));
        self.asked(question.unwrap_or_default());
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("Paris"), "guest-1".to_owned()))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.asked("roots");
        Ok(ListRootsResult::new(vec![Root::new("file:///home/ferris")]))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        self.asked(message);
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "Ferris"})))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let _ = self.progress.send(progress);
    }

    async fn on_resource_updated(&self, updated: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        let _ = self.updated.send(updated.uri);
    }

    fn get_info(&self) -> ClientConfig {
        let able = ClientCapabilities::builder().enable_elicitation().enable_sampling().enable_roots();
        let capabilities = if self.knows_tasks { able.enable_tasks().build() } else { able.build() };
        ClientConfig::new(capabilities, Implementation::new("guest", "1.0")).with_protocol_version(self.version.clone())
    }
}
