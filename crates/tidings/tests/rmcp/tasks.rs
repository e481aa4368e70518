//! The SDK's tasks: a server with its `TaskManager`, and its client, which know the extension of 2026-07-28 and nothing of tasks of 2025-11-25.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock, CreateTaskResult,
    ElicitRequest, GetTaskParams, GetTaskResult, InputRequest, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ServerCapabilities, ServerConfig, TaskPayload, Tool, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleClient, RoleServer, RunningService, ServiceError};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use serde_json::{Map, Value, json};
use tidings_testkit::{ClientReply, Gateway, Server, TempDir, within};

use crate::guest::{Guest, Seen};
use crate::house::{House, name_form};
use crate::task_jobs::{Jobs, core};
use crate::text;
use crate::visit::{Era, Over, TRANSPORTS, over_http, over_stdio};

/// Makes a task of every call: `work` asks for a name, `endless` goes on until it is cancelled.
#[derive(Clone, Default)]
struct Workshop {
    tasks: TaskManager,
    begun: Arc<AtomicUsize>,
    cancelled: Arc<AtomicUsize>,
}

impl ServerHandler for Workshop {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&Era::Modern.version()))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Arc::new(Map::from_iter([("type".to_owned(), json!("object"))]));
        let tool = |name: &'static str| Tool::new(name, "", Arc::clone(&schema));
        Ok(ListToolsResult::with_all_items(vec![tool("endless"), tool("work")]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // The SDK itself refuses a task for who does not declare the extension; the work must not begin before that.
        if context.client_capabilities().is_some_and(|declared| declared.supports_tasks()) {
            self.begun.fetch_add(1, Ordering::SeqCst);
        }
        let cancelled = Arc::clone(&self.cancelled);
        let asks = request.name == "work";
        let options = TaskOptions::new().with_poll_interval_ms(50).with_status_message("begun");
        let task = self.tasks.spawn(options, move |task| {
            Box::pin(async move {
                if !asks {
                    task.cancelled().await;
                    cancelled.fetch_add(1, Ordering::SeqCst);
                    return Err(TaskExit::Cancelled);
                }
                let form = InputRequest::Elicitation(ElicitRequest::new(name_form()));
                let answer = task.request_input("who", form).await?;
                let name = answer["content"]["name"].as_str().unwrap_or("nobody");
                Ok(CallToolResult::success(vec![ContentBlock::text(format!("{name} worked"))]))
            })
        });
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(&self, request: UpdateTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}

/// A client of the SDK, and before it a gateway with the SDK's server and a script of 2025-11-25.
struct Shop {
    client: RunningService<RoleClient, Guest>,
    seen: Seen,
    workshop: Workshop,
    jobs: Jobs,
    script: Server,
    _house: House,
    _gateway: Option<Gateway>,
    _directory: Option<TempDir>,
}

impl Shop {
    async fn visit(client: Era, over: Over, knows_tasks: bool) -> Self {
        eprintln!("a client of {} over {over:?}, tasks: {knows_tasks}", client.version());
        let workshop = Workshop::default();
        let house = House::of(workshop.clone()).await;
        let jobs = Jobs::new();
        let script = core(&jobs).stdio().await;
        let (guest, seen) = Guest::new(client.version());
        let guest = if knows_tasks { guest.who_knows_tasks() } else { guest };
        let sdk = format!("[servers.sdk]\n{}\n{}", Era::Modern.key(), house.toml());
        let (client, gateway, directory) = match over {
            Over::Http => {
                let gateway = Gateway::builder().server("script", &script).toml(&sdk).serve().await;
                (over_http(guest, &gateway, client.lifecycle()).await, Some(gateway), None)
            }
            Over::Stdio => {
                let config = format!("[gateway]\nregistry_tools = false\n[servers.script]\n{}\n{sdk}", script.toml());
                let (client, directory) = over_stdio(guest, config, client.lifecycle()).await;
                (client, None, Some(directory))
            }
        };
        Self { client, seen, workshop, jobs, script, _house: house, _gateway: gateway, _directory: directory }
    }

    async fn begin(&self, tool: &str) -> String {
        let called = self.client.call_tool_once(CallToolRequestParams::new(tool.to_owned()));
        match within("a task", called).await.expect("a task") {
            CallToolResponse::Task(created) => created.task.task_id,
            other => panic!("no task but {other:?}"),
        }
    }

    /// Asks until the task is as wanted.
    async fn told(&self, id: &str, fits: impl Fn(&TaskPayload) -> bool) -> TaskPayload {
        let asking = async {
            loop {
                let told = self.client.get_task(GetTaskParams::new(id)).await.expect("a task that is known");
                if fits(&told.task.payload) {
                    return told.task.payload;
                }
            }
        };
        within("a task that is so far", asking).await
    }

    async fn leave(self) {
        within("the client's end", self.client.cancel()).await.expect("no panic in the client");
        self.script.assert_clean();
    }
}

fn outcome(payload: &TaskPayload) -> String {
    let TaskPayload::Completed { result } = payload else { panic!("no outcome but {payload:?}") };
    result["content"][0]["text"].as_str().expect("a text").to_owned()
}

// bridging B7: declaring client; extension and 2025-11-25 upstream
#[tokio::test]
async fn the_sdks_client_has_tasks_of_both_kinds_of_servers_in_its_own_words() {
    for over in TRANSPORTS {
        let shop = Shop::visit(Era::Modern, over, true).await;
        let id = shop.begin("sdk__work").await;
        assert!(id.starts_with("t1."), "{id}");
        let asks = shop.told(&id, |payload| matches!(payload, TaskPayload::InputRequired { .. })).await;
        let TaskPayload::InputRequired { input_requests } = asks else { unreachable!("it was looked for") };
        let answers = input_requests.keys().map(|key| {
            let answer = json!({"action": "accept", "content": {"name": "Ferris"}});
            (key.clone(), answer)
        });
        let update = UpdateTaskParams::new(id.clone(), answers.collect());
        within("an acknowledgement", shop.client.update_task(update)).await.expect("an acknowledgement");
        let over = shop.told(&id, |payload| payload.status().is_terminal()).await;
        assert_eq!(outcome(&over), "Ferris worked");

        let id = shop.begin("sdk__endless").await;
        within("an acknowledgement", shop.client.cancel_task(CancelTaskParams::new(id.clone()))).await.expect("a word");
        let over = shop.told(&id, |payload| payload.status().is_terminal()).await;
        assert!(matches!(over, TaskPayload::Cancelled), "{over:?}");
        assert_eq!(shop.workshop.begun.load(Ordering::SeqCst), 2, "no call ran twice");

        let id = shop.begin("script__must").await;
        shop.jobs.complete("job-1", "of the core");
        let over = shop.told(&id, |payload| payload.status().is_terminal()).await;
        assert_eq!(outcome(&over), "of the core");
        let unknown = shop.client.get_task(GetTaskParams::new("t1.nothing")).await;
        assert!(matches!(unknown, Err(ServiceError::McpError(error)) if error.code.0 == -32602), "an id of nobody");
        shop.leave().await;
    }
}

// bridging B7: clients that know no tasks; extension and 2025-11-25 upstream
#[tokio::test]
async fn the_sdks_clients_without_tasks_get_what_their_era_promises() {
    for over in TRANSPORTS {
        let mut shop = Shop::visit(Era::Legacy, over, false).await;
        let called = shop.client.call_tool(CallToolRequestParams::new("sdk__work"));
        let result = within("an outcome", called).await.expect("an outcome");
        assert_eq!(text(&result), "Ferris worked");
        let questions = shop.seen.questions();
        assert!(questions.len() == 1 && questions[0].contains("Name?"), "{questions:?}");
        assert_eq!(shop.workshop.begun.load(Ordering::SeqCst), 1, "no call ran twice");
        shop.leave().await;

        let shop = Shop::visit(Era::Modern, over, false).await;
        let refused = within("a refusal", shop.client.call_tool(CallToolRequestParams::new("sdk__work"))).await;
        assert!(matches!(&refused, Err(ServiceError::McpError(error)) if error.code.0 == -32021), "{refused:?}");
        assert_eq!(shop.workshop.begun.load(Ordering::SeqCst), 0, "and nothing was begun");
        let begun = async {
            while shop.jobs.get("job-1").is_none() {
                tokio::task::yield_now().await;
            }
            shop.jobs.complete("job-1", "followed");
        };
        let called = shop.client.call_tool(CallToolRequestParams::new("script__must"));
        let (result, ()) = within("an outcome", async { tokio::join!(called, begun) }).await;
        assert_eq!(text(&result.expect("an outcome")), "followed");
        shop.leave().await;
    }
}

// bridging B7: client of 2025-11-25, extension upstream
#[tokio::test]
async fn a_client_of_2025_11_25_has_a_task_of_the_sdks_server() {
    let workshop = Workshop::default();
    let house = House::of(workshop.clone()).await;
    let sdk = format!("[servers.sdk]\n{}\n{}", Era::Modern.key(), house.toml());
    let gateway = Gateway::builder().toml(&sdk).serve().await;
    for client in [gateway.client(), gateway.stdio()] {
        let client = client.capabilities(json!({"elicitation": {}})).connect().await;
        client.on_request(|_| ClientReply::Result(json!({"action": "accept", "content": {"name": "Ada"}})));
        let make = async |tool: &str| {
            let made = client.request("tools/call", json!({"name": tool, "task": {"ttl": 60_000}})).await.result();
            made["task"]["taskId"].clone()
        };
        let ask = async |method: &str, id: &Value| client.request(method, json!({"taskId": id})).await;
        let id = make("work").await;
        assert_eq!(ask("tasks/result", &id).await.text(), "Ada worked");
        assert_eq!(ask("tasks/get", &id).await.result()["status"], "completed");

        let before = workshop.cancelled.load(Ordering::SeqCst);
        let id = make("endless").await;
        assert_eq!(ask("tasks/cancel", &id).await.result()["status"], "cancelled");
        let heard = async {
            while workshop.cancelled.load(Ordering::SeqCst) == before {
                tokio::task::yield_now().await;
            }
        };
        within("the server's end of the work", heard).await;
        assert_eq!(ask("tasks/get", &id).await.result()["status"], "cancelled");
    }
    assert_eq!(workshop.begun.load(Ordering::SeqCst), 4, "no call ran twice");
}
