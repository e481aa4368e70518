//! The SDK's server over Streamable HTTP, in this process.

use std::borrow::Cow;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult, CompletionInfo,
    ContentBlock, CreateMessageRequestParams, ElicitRequest, ElicitRequestParams, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, Prompt, PromptArgument, PromptMessage, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Reference, Resource, ResourceContents, ResourceTemplate, Role,
    SamplingMessage, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceError};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::visit::{Doorman, Era};

/// A running server. Dies when dropped.
pub(crate) struct House {
    url: String,
    accepting: AbortHandle,
}

impl House {
    /// Opens at a free port, with all revisions up to an era.
    pub(crate) async fn open(era: Era, doorman: Doorman) -> Self {
        Self::of(Host { era, doorman }).await
    }

    /// The same with somebody else's handler.
    pub(crate) async fn of(host: impl ServerHandler + Clone) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("a bound port has an address"));
        let service = StreamableHttpService::new(
            move || Ok(host.clone()),
            Arc::<LocalSessionManager>::default(),
            StreamableHttpServerConfig::default(),
        );
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(service.clone());
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { url, accepting: accepting.abort_handle() }
    }

    /// The keys that make it a server of the gateway's configuration.
    pub(crate) fn toml(&self) -> String {
        format!("url = {:?}\n", self.url)
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[derive(Clone)]
struct Host {
    era: Era,
    doorman: Doorman,
}

fn text(text: impl Into<String>) -> Result<CallToolResponse, ErrorData> {
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
}

fn failed(error: &ServiceError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn argument(arguments: Option<&serde_json::Map<String, Value>>, name: &str) -> String {
    arguments.and_then(|all| all.get(name)?.as_str()).unwrap_or_default().to_owned()
}

pub(crate) fn name_form() -> ElicitRequestParams {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Name?".to_owned(),
        requested_schema: serde_json::from_value(schema).expect("a valid schema"),
    }
}

fn capital_question() -> CreateMessageRequestParams {
    CreateMessageRequestParams::new(vec![SamplingMessage::user_text("Capital of France?")], 16)
}

fn name_round(state: &str) -> InputRequiredResult {
    let form = InputRequest::Elicitation(ElicitRequest::new(name_form()));
    InputRequiredResult::new(Some(InputRequests::from([("form".to_owned(), form)])), Some(state.to_owned()))
}

/// The name in the answer to [`name_round`], once the state came back as it was.
fn answered_name(responses: Option<InputResponses>, state: Option<&str>, expected: &str) -> Result<String, ErrorData> {
    if state != Some(expected) {
        return Err(ErrorData::invalid_params(format!("the state came back as {state:?}"), None));
    }
    let name = responses.and_then(|all| Some(all.get("form")?["content"]["name"].as_str()?.to_owned()));
    name.ok_or_else(|| ErrorData::invalid_params("the form is missing", None))
}

impl Host {
    async fn steps(&self, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let Some(token) = context.meta.get_progress_token() else { return text("no token") };
        for step in 1..=3 {
            let progress = ProgressNotificationParam::new(token.clone(), f64::from(step))
                .with_total(3.0)
                .with_message(format!("sdk step {step}"));
            context.peer.notify_progress(progress).await.map_err(|error| failed(&error))?;
        }
        text("sdk done")
    }

    async fn ask(&self, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let answer = context.peer.create_elicitation(name_form()).await.map_err(|error| failed(&error))?;
        text(format!("{} for sdk", argument(answer.content.as_ref().and_then(Value::as_object), "name")))
    }

    async fn think(&self, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let thought = context.peer.create_message(capital_question()).await.map_err(|error| failed(&error))?;
        let roots = context.peer.list_roots().await.map_err(|error| failed(&error))?;
        let answer = thought.message.content.first().and_then(|c| c.as_text().map(|t| t.text.clone()));
        text(format!("{} {}", answer.unwrap_or_default(), roots.roots[0].uri))
    }

    /// Two rounds: three questions at once, then one.
    fn form(&self, request: CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
        let responses = request.input_responses.unwrap_or_default();
        match request.request_state.as_deref() {
            None => {
                let mut round = name_round("first \"round\"\n");
                let questions = round.input_requests.get_or_insert_default();
                questions.insert(
                    "thought".to_owned(),
                    InputRequest::CreateMessage(rmcp::model::CreateMessageRequest::new(capital_question())),
                );
                questions.insert("roots".to_owned(), InputRequest::ListRoots(Default::default()));
                Ok(round.into())
            }
            Some("first \"round\"\n") => {
                let said = (&responses["thought"]["content"]["text"], &responses["roots"]["roots"][0]["uri"]);
                Ok(name_round(&format!("{} {}", said.0.as_str().unwrap_or("-"), said.1.as_str().unwrap_or("-"))).into())
            }
            Some(said) => {
                let said = said.to_owned();
                let name = answered_name(Some(responses), Some(&said), "Paris file:///home/ferris")?;
                text(format!("{name} {said}"))
            }
        }
    }
}

impl ServerHandler for Host {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_prompts().enable_resources().enable_completions();
        ServerConfig::new(capabilities.build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        // Up to the newest of its era, as the SDK's servers do.
        Cow::Borrowed(ProtocolVersion::known_up_to(&self.era.version()))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Arc::new(serde_json::Map::from_iter([("type".to_owned(), json!("object"))]));
        let tool = |name: &&'static str| Tool::new(*name, "", schema.clone());
        Ok(ListToolsResult::with_all_items(crate::visit::TOOLS.iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match request.name.as_ref() {
            "echo" => text(format!("sdk {}", Value::from(request.arguments.unwrap_or_default()))),
            "steps" => self.steps(&context).await,
            "wait" => {
                let who = argument(request.arguments.as_ref(), "who");
                text(self.doorman.hold(&who, context.ct.cancelled()).await)
            }
            "ask" => self.ask(&context).await,
            "think" => self.think(&context).await,
            "form" => self.form(request),
            other => Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompt = |name: &str| Prompt::new(name, None::<&str>, Some(vec![PromptArgument::new("name")]));
        Ok(ListPromptsResult::with_all_items(vec![prompt("form"), prompt("greet")]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name = match (request.name.as_str(), request.request_state.as_deref()) {
            ("greet", _) => argument(request.arguments.as_ref(), "name"),
            (_, None) => return Ok(name_round("prompt").into()),
            (_, state) => answered_name(request.input_responses, state, "prompt")?,
        };
        let message = PromptMessage::new_text(Role::User, format!("Greet {name} for sdk"));
        Ok(GetPromptResult::new(vec![message]).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = vec![Resource::new("memo://form", "form"), Resource::new("memo://note", "note")];
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![ResourceTemplate::new("memo://page/{number}", "page")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = match (request.uri.as_str(), request.request_state.as_deref()) {
            ("memo://note", _) => "a note of sdk".to_owned(),
            ("memo://form", None) => return Ok(name_round("resource").into()),
            ("memo://form", state) => answered_name(request.input_responses, state, "resource")?,
            (uri, _) => match uri.strip_prefix("memo://page/") {
                Some(number) => format!("page {number} of sdk"),
                None => return Err(ErrorData::resource_not_found("no such memo", Some(json!({ "uri": uri })))),
            },
        };
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, request.uri)]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let about = match request.r#ref {
            Reference::Prompt(prompt) => prompt.name,
            Reference::Resource(template) => template.uri,
            _ => return Ok(CompleteResult::default()),
        };
        let value = format!("sdk: {about} {}={}", request.argument.name, request.argument.value);
        Ok(CompleteResult::new(CompletionInfo::new(vec![value]).map_err(|e| ErrorData::internal_error(e, None))?))
    }
}
