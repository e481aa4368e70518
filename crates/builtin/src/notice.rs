//! A server without anything to offer: its instructions say why there is nothing, and what to do.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use tidings_engine::{LocalServer, ServerAudience, Surroundings};
use tidings_upstream::in_process::RequestError;
use tidings_upstream::{ConnectedLink, MessageSink, ServerHello};

use crate::local::{LocalAnswers, LocalOutcome, LocalRequest, connect_tools};

/// The server of one text.
pub struct NoticeServer {
    text: String,
}

impl NoticeServer {
    /// Says this to every client.
    pub fn new(text: String) -> Self {
        Self { text }
    }
}

impl LocalServer for NoticeServer {
    fn audience(&self) -> ServerAudience {
        ServerAudience::Everybody
    }

    fn connect(&self, sink: Arc<dyn MessageSink>, _surroundings: Surroundings) -> ConnectedLink {
        // The link lives for as long as somebody holds the sink.
        let held = Arc::clone(&sink);
        let work = async move {
            let _held = held;
            std::future::pending::<()>().await;
        };
        let connected = connect_tools(Arc::new(NoAnswers), sink, Some(work));
        let hello = ServerHello { capabilities: json!({}), instructions: Some(self.text.clone()), ..connected.hello };
        ConnectedLink { hello, ..connected }
    }
}

struct NoAnswers;

impl LocalAnswers for NoAnswers {
    fn answer(self: Arc<Self>, request: LocalRequest) -> BoxFuture<'static, LocalOutcome> {
        Box::pin(std::future::ready(RequestError::unknown_method(request.method).into()))
    }
}
