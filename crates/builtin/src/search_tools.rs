//! `retrieve_tools` and `call_tool`: finding a tool by what it does, and calling what was found.
//!
//! The index is kept current by a task of the link, and every search brings it up to what its caller may see first. A
//! call of `call_tool` is not carried out here: the gateway is told which tool to call instead.

mod arguments;
mod definitions;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tidings_engine::{CallerView, Catalogue, LocalServer, ServerAudience, Surroundings};
use tidings_hub::ServerId;
use tidings_hub::catalogue::{CatalogueSnapshot, ItemRoute, OfferExposure};
use tidings_proto::{ListKind, Method, PublicName};
use tidings_search::{FoundTool, Question, SearchView, ToolIndex, present, present_all};
use tidings_upstream::in_process::RequestError;
use tidings_upstream::{ConnectedLink, MessageSink, ToolRedirect};
use tidings_wire::encode_string;
use tokio::sync::watch;

use crate::displaced;
use crate::local::{LocalAnswers, LocalOutcome, LocalRequest, connect_tools};
use crate::search_service::{Learner, SearchService};
use arguments::{CallArguments, RetrieveArguments};
use definitions::{CALL, RETRIEVE};

/// How many names are suggested in the place of an unknown one.
const SUGGESTIONS: usize = 3;

/// The server of the two tools.
pub struct SearchTools {
    index: Arc<ToolIndex>,
    learner: Option<Arc<Learner>>,
}

impl SearchTools {
    /// Searches the index of a service, and keeps it current as long as the link lives.
    pub fn new(service: &SearchService) -> Self {
        Self { index: service.index(), learner: service.learner() }
    }
}

impl LocalServer for SearchTools {
    fn audience(&self) -> ServerAudience {
        // They find and call for each caller only what that caller may use.
        ServerAudience::Everybody
    }

    fn exposure(&self) -> OfferExposure {
        OfferExposure::FindsTools
    }

    fn connect(&self, sink: Arc<dyn MessageSink>, surroundings: Surroundings) -> ConnectedLink {
        let (index, own) = (Arc::clone(&self.index), surroundings.server());
        let current = surroundings.catalogue().map(|catalogue| keep_current(index, catalogue, own));
        let tools = SearchToolSet { index: Arc::clone(&self.index), learner: self.learner.clone(), surroundings };
        connect_tools(Arc::new(tools), sink, current)
    }
}

/// Follows the catalogue until the gateway ends.
async fn keep_current(index: Arc<ToolIndex>, mut catalogue: watch::Receiver<Arc<Catalogue>>, own: ServerId) {
    let mut displaced_tools = Vec::new();
    loop {
        let now = Arc::clone(&catalogue.borrow_and_update().snapshot);
        displaced::warn(&now, own, &mut displaced_tools);
        let (index, latest) = (Arc::clone(&index), catalogue.clone());
        // The first lists may be thousands of tools: not on a thread that serves calls.
        // The newest at the moment when it is read, and not the one that woke this: changes may have come meanwhile.
        let step = move || index.follow(|| Arc::clone(&latest.borrow().snapshot));
        if tokio::task::spawn_blocking(step).await.is_err() {
            tracing::warn!("the tool index could not be updated; searches bring it up to date themselves");
        }
        if catalogue.changed().await.is_err() {
            return;
        }
    }
}

struct SearchToolSet {
    index: Arc<ToolIndex>,
    learner: Option<Arc<Learner>>,
    surroundings: Surroundings,
}

impl LocalAnswers for SearchToolSet {
    fn answer(self: Arc<Self>, request: LocalRequest) -> BoxFuture<'static, LocalOutcome> {
        Box::pin(async move {
            match request.method {
                Method::List(ListKind::Tools) => LocalOutcome::Result(definitions::list().to_string().into()),
                Method::ToolsCall => self.call(&request).await,
                other => RequestError::unknown_method(other).into(),
            }
        })
    }
}

impl SearchToolSet {
    async fn call(&self, request: &LocalRequest) -> LocalOutcome {
        let name = request.frame.param_str(&["name"]).unwrap_or_default();
        let outcome = match &*name {
            RETRIEVE => match RetrieveArguments::read(&request.frame) {
                Ok(query) => self.retrieve(request.call, query).await,
                Err(fault) => Err(fault.to_string()),
            },
            CALL => match CallArguments::read(&request.frame) {
                Ok(call) => self.pass_on(request.call, call).await,
                Err(fault) => Err(fault.to_string()),
            },
            other => return RequestError::invalid_params(format!("unknown tool: {other}")).into(),
        };
        outcome.unwrap_or_else(|problem| failed(&problem))
    }

    /// The tools that fit, as structured content, and as text for clients that know no other.
    async fn retrieve(&self, call: u64, query: RetrieveArguments) -> Result<LocalOutcome, String> {
        let view = self.surroundings.view(call).await.ok_or("the gateway is shutting down")?;
        // May ask the embeddings endpoint, so it comes before the index is locked.
        let mut question = self.index.question(query.text).await;
        let learning = self.learner.as_ref().zip(self.surroundings.principal(call));
        if let Some((learner, principal)) = &learning {
            question = learner.recall(principal, question);
        }
        let text = question.text.clone();
        let found = self.search(&view, question, query.limit, |snapshot, found| {
            let shown = present(snapshot, found.server, &found.local, Some(found.score))?;
            let server = snapshot.offer(found.server).map(|offer| offer.name.to_string())?;
            Some((shown, (server, found.local.to_string())))
        });
        let (shown, names): (Vec<String>, Vec<(String, String)>) = found.await.into_iter().unzip();
        if let Some((learner, principal)) = learning {
            // Only what the caller was shown can be what the caller then chooses.
            learner.note_search(&principal, &text, names);
        }
        let structured = present_all(shown);
        let text = encode_string(&structured);
        let result = format!(
            r#"{{"resultType":"complete","content":[{{"type":"text","text":{text}}}],"structuredContent":{structured}}}"#
        );
        Ok(LocalOutcome::Result(result.into()))
    }

    /// Has the tool called, if there is one.
    async fn pass_on(&self, request: u64, call: CallArguments) -> Result<LocalOutcome, String> {
        let name = PublicName::new(call.name);
        match self.surroundings.find_tool(request, name.clone()).await {
            // It would be redirected to itself without end.
            Some(route) if route.server == self.surroundings.server() && route.local == *CALL => {
                Err(format!("{CALL} can not call itself; `name` must be the tool to call"))
            }
            Some(route) => {
                // Before the call is made: whether it succeeds says nothing about whether it was meant.
                self.note_call(request, &route);
                Ok(LocalOutcome::Redirect(ToolRedirect { name, arguments: call.arguments }))
            }
            None => Err(self.suggest(request, name.as_str()).await),
        }
    }

    /// What was searched for and is called now was the right answer.
    fn note_call(&self, request: u64, route: &ItemRoute) {
        let Some((learner, principal)) = self.learner.as_ref().zip(self.surroundings.principal(request)) else {
            return;
        };
        // The shared catalogue knows the names of all servers; the caller's own view might have to be waited for.
        let Some(catalogue) = self.surroundings.catalogue() else { return };
        let snapshot = Arc::clone(&catalogue.borrow().snapshot);
        if let Some(offer) = snapshot.offer(route.server) {
            learner.note_call(&principal, &offer.name, route.local.as_str());
        }
    }

    async fn suggest(&self, request: u64, name: &str) -> String {
        let mut problem = format!("there is no tool {}", encode_string(name));
        let near = match self.surroundings.view(request).await {
            Some(view) => {
                let public = |snapshot: &CatalogueSnapshot, found: &FoundTool| {
                    snapshot.public_name(ListKind::Tools, found.server, &found.local).map(ToString::to_string)
                };
                self.search(&view, Question::of_words(name), SUGGESTIONS, public).await
            }
            None => Vec::new(),
        };
        if !near.is_empty() {
            problem.push_str(&format!("; did you mean {}?", near.join(" or ")));
        }
        problem.push_str(&format!(" Use {RETRIEVE} to find tools by what they do."));
        problem
    }

    /// The best tools other than our own, each shown in some way.
    async fn search<T: Send + 'static>(
        &self,
        view: &CallerView,
        question: Question,
        limit: usize,
        show: impl Fn(&CatalogueSnapshot, &FoundTool) -> Option<T> + Send + 'static,
    ) -> Vec<T> {
        let (index, own) = (Arc::clone(&self.index), self.surroundings.server());
        let (snapshot, whole) = (Arc::clone(&view.snapshot), Arc::clone(&view.whole));
        let whose = if view.shared { SearchView::Shared } else { SearchView::Own };
        let search = move || {
            let wanted = |found: &FoundTool| {
                // The index knows the tools of everybody; what this caller does not see must not be found, not even
                // by its score.
                found.server != own && snapshot.public_name(ListKind::Tools, found.server, &found.local).is_some()
            };
            let mut found = index.search(&whole, whose, &question, limit, wanted);
            // With a view that is the whole, nothing is hidden that a score could tell of.
            if !Arc::ptr_eq(&snapshot, &whole) {
                scores_by_place(&mut found);
            }
            found.iter().filter_map(|found| show(&snapshot, found)).collect()
        };
        // Usually far below a millisecond, but the first one may have to read thousands of tools.
        tokio::task::spawn_blocking(search).await.unwrap_or_default()
    }
}

/// Scores that say nothing but the order. How rare a word is was counted over everybody's tools, so the true scores tell whoever
/// sees only some of them what the others say.
fn scores_by_place(found: &mut [FoundTool]) {
    for (place, found) in (1u16..).zip(found) {
        found.score = 1.0 / f32::from(place);
    }
}

/// A failure that the model can read and mend.
fn failed(problem: &str) -> LocalOutcome {
    let text = encode_string(problem);
    LocalOutcome::Result(
        format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":{text}}}],"isError":true}}"#).into(),
    )
}
