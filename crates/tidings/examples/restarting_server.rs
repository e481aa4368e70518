//! A server of the official Rust SDK over Streamable HTTP, for `conformance/server_restarts.py`: it is killed and started again as
//! another generation of itself. What it offers is what `conformance/restarting_server.py` offers, in both eras.

use std::borrow::Cow;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The content of the first is the same in every generation, that of the second is not.
const RESOURCES: [&str; 2] = ["note://same", "note://generation"];

#[derive(Clone)]
struct Generation {
    number: u64,
    /// Each job that begins is written here, so that none runs twice unseen.
    runs: PathBuf,
}

impl Generation {
    fn own_tool(&self) -> String {
        format!("of_{}", self.number)
    }

    async fn work(&self, arguments: &Map<String, Value>) -> Result<CallToolResponse, ErrorData> {
        let job = arguments.get("job").and_then(Value::as_str).unwrap_or_default().to_owned();
        let seconds = arguments.get("seconds").and_then(Value::as_f64).unwrap_or_default();
        let written = OpenOptions::new().append(true).open(&self.runs).and_then(|mut runs| writeln!(runs, "{job}"));
        written.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        Ok(CallToolResult::success(vec![ContentBlock::text(job)]).into())
    }
}

#[allow(deprecated, reason = "the SDK calls the subscriptions of the older era so")]
impl ServerHandler for Generation {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe();
        ServerConfig::new(capabilities.build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::V_2026_07_28))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Arc::new(Map::from_iter([("type".to_owned(), json!("object"))]));
        let tools = ["work".to_owned(), self.own_tool()];
        Ok(ListToolsResult::with_all_items(tools.map(|name| Tool::new(name, "", schema.clone())).to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match request.name.as_ref() {
            "work" => self.work(&request.arguments.unwrap_or_default()).await,
            name if name == self.own_tool() => {
                Ok(CallToolResult::success(vec![ContentBlock::text(self.number.to_string())]).into())
            }
            other => Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(RESOURCES.map(|uri| Resource::new(uri, uri)).to_vec()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = match request.uri.as_str() {
            "note://same" => "the same".to_owned(),
            "note://generation" => self.number.to_string(),
            uri => return Err(ErrorData::resource_not_found("no such note", Some(json!({ "uri": uri })))),
        };
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, request.uri)]).into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }
}

/// Serves until it is killed.
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(port), Some(number), Some(runs)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: restarting_server PORT GENERATION FILE-OF-RUNS".into());
    };
    let generation = Generation { number: number.parse()?, runs: runs.into() };
    let listener = TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    let service = StreamableHttpService::new(
        move || Ok(generation.clone()),
        Arc::<LocalSessionManager>::default(),
        StreamableHttpServerConfig::default(),
    );
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        while connections.try_join_next().is_some() {}
    }
}
