//! Servers that make tasks of calls, in both spellings. The test says how far each is.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tidings_testkit::{ScriptedAnswer, ScriptedCall, Server, ServerBuilder};
use tokio::sync::watch;

pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";
pub(crate) const RELATED: &str = "io.modelcontextprotocol/related-task";

/// What a client that knows the extension declares.
pub(crate) fn knows_tasks() -> Value {
    json!({"extensions": {TASKS: {}}, "elicitation": {"form": {}}})
}

/// The tasks of one server, by its own ids.
#[derive(Clone)]
pub(crate) struct Jobs(Arc<Shelf>);

struct Shelf {
    jobs: Mutex<BTreeMap<String, Value>>,
    changed: watch::Sender<u64>,
}

impl Jobs {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shelf { jobs: Mutex::default(), changed: watch::channel(0).0 }))
    }

    /// Adds a task that is being worked on.
    fn begin(&self) -> Value {
        let mut jobs = self.0.jobs.lock().unwrap();
        let id = format!("job-{}", jobs.len() + 1);
        let time = "2026-11-16T10:00:00Z";
        let job = json!({"taskId": id, "status": "working", "createdAt": time, "lastUpdatedAt": time});
        jobs.insert(id, job.clone());
        job
    }

    pub(crate) fn get(&self, id: &str) -> Option<Value> {
        self.0.jobs.lock().unwrap().get(id).cloned()
    }

    /// Changes members of a task.
    #[allow(clippy::needless_pass_by_value, reason = "it is written as json! wherever it is given")]
    pub(crate) fn set(&self, id: &str, members: Value) {
        let mut jobs = self.0.jobs.lock().unwrap();
        let job = jobs.get_mut(id).expect("there is such a task").as_object_mut().unwrap();
        job.extend(members.as_object().unwrap().clone());
        drop(jobs);
        self.0.changed.send_modify(|changes| *changes += 1);
    }

    pub(crate) fn complete(&self, id: &str, text: &str) {
        self.set(id, json!({"status": "completed", "result": {"content": [{"type": "text", "text": text}]}}));
    }

    /// Waits until the job is as wanted.
    pub(crate) async fn wait(&self, id: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut changed = self.0.changed.subscribe();
        loop {
            if let Some(job) = self.get(id).filter(&fits) {
                return job;
            }
            changed.changed().await.unwrap();
        }
    }

    fn of(&self, call: &ScriptedCall) -> Option<(String, Value)> {
        let id = call.params()["taskId"].as_str()?.to_owned();
        let job = self.get(&id)?;
        Some((id, job))
    }
}

fn is_over(job: &Value) -> bool {
    matches!(job["status"].as_str(), Some("completed" | "failed" | "cancelled"))
}

/// A task without what only the extension has inside.
fn outside(mut job: Value, ttl: &str, poll: &str) -> Value {
    let members = job.as_object_mut().unwrap();
    members.retain(|name, _| !matches!(name.as_str(), "result" | "error" | "inputRequests" | "asks"));
    members.insert(ttl.to_owned(), json!(600_000));
    members.insert(poll.to_owned(), json!(60));
    job
}

fn unknown(call: &ScriptedCall) -> ScriptedAnswer {
    call.error(-32602, "no such task", None)
}

fn tool(name: &str, support: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}})
}

/// A server of 2025-11-25: `may` can be a task, `must` has to be, `plain` can not.
pub(crate) fn core(jobs: &Jobs) -> ServerBuilder {
    let run = |jobs: &Jobs, required: bool| {
        let jobs = jobs.clone();
        move |call: ScriptedCall| {
            let jobs = jobs.clone();
            async move {
                if call.params()["task"].is_object() {
                    let task = outside(jobs.begin(), "ttl", "pollInterval");
                    return call.ok(json!({"task": task}));
                }
                if required { call.error(-32601, "only as a task", None) } else { call.ok_text("at once") }
            }
        }
    };
    let (get, cancel, outcome) = (jobs.clone(), jobs.clone(), jobs.clone());
    Server::builder("alpha")
        .capabilities(json!({"tools": {}, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}))
        .tool_def(tool("may", "optional"), run(jobs, false))
        .tool_def(tool("must", "required"), run(jobs, true))
        .echo("plain")
        .on_raw("tasks/get", move |call| {
            let jobs = get.clone();
            async move {
                match jobs.of(&call) {
                    Some((_, job)) => call.ok(outside(job, "ttl", "pollInterval")),
                    None => unknown(&call),
                }
            }
        })
        .on_raw("tasks/cancel", move |call| {
            let jobs = cancel.clone();
            async move {
                let Some((id, _)) = jobs.of(&call) else { return unknown(&call) };
                jobs.set(&id, json!({"status": "cancelled"}));
                call.ok(outside(jobs.get(&id).unwrap(), "ttl", "pollInterval"))
            }
        })
        .on_raw("tasks/result", move |call| {
            let jobs = outcome.clone();
            async move {
                let Some((id, job)) = jobs.of(&call) else { return unknown(&call) };
                if let Some(asks) = job.get("asks").filter(|asks| asks.is_object() || asks.is_array()) {
                    let ask = |params: Option<&Value>| {
                        let related = params.map(|params| {
                            let mut params = params.clone();
                            params["_meta"] = json!({RELATED: {"taskId": id}});
                            params
                        });
                        async {
                            let Some(params) = related else { return Value::Null };
                            call.elicit(params).await.unwrap_or_default()
                        }
                    };
                    let first = if asks.is_array() { asks.get(0) } else { Some(asks) };
                    let (first, second) = tokio::join!(ask(first), ask(asks.get(1)));
                    let heard = if second.is_null() { first } else { json!([first, second]) };
                    // Somebody may have asked before; what is over stays what it is.
                    if !is_over(&jobs.get(&id).unwrap()) {
                        jobs.complete(&id, &heard.to_string());
                    }
                }
                let job = jobs.wait(&id, is_over).await;
                if job["error"].is_object() {
                    let text = job["error"]["message"].as_str().unwrap_or_default();
                    return call.error(job["error"]["code"].as_i64().unwrap_or(-32603), text, None);
                }
                let mut result = job["result"].clone();
                result["_meta"] = json!({RELATED: {"taskId": id}});
                call.ok(result)
            }
        })
}

/// A server of the extension: `may` makes a task for who knows them, `must` for nobody else.
pub(crate) fn extension(jobs: &Jobs) -> ServerBuilder {
    let run = |jobs: &Jobs, required: bool| {
        let jobs = jobs.clone();
        move |call: ScriptedCall| {
            let jobs = jobs.clone();
            async move {
                if call.client_capabilities()["extensions"][TASKS].is_object() {
                    let mut task = outside(jobs.begin(), "ttlMs", "pollIntervalMs");
                    task["resultType"] = json!("task");
                    return call.ok(task);
                }
                let data = json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
                if required { call.error(-32021, "only as a task", Some(data)) } else { call.ok_text("at once") }
            }
        }
    };
    let about = |jobs: &Jobs, answer: fn(&Jobs, &ScriptedCall, &str) -> Value| {
        let jobs = jobs.clone();
        move |call: ScriptedCall| {
            let jobs = jobs.clone();
            async move {
                assert!(call.client_capabilities()["extensions"][TASKS].is_object(), "who asks must declare it");
                match jobs.of(&call) {
                    Some((id, _)) => call.ok(answer(&jobs, &call, &id)),
                    None => unknown(&call),
                }
            }
        }
    };
    Server::builder("alpha")
        .modern_only()
        .capabilities(json!({"tools": {}, "resources": {}, "extensions": {TASKS: {}}}))
        .tool("may", run(jobs, false))
        .tool("must", run(jobs, true))
        .echo("plain")
        .on_raw(
            "tasks/get",
            about(jobs, |jobs, _, id| {
                let mut job = jobs.get(id).unwrap();
                job["ttlMs"] = json!(600_000);
                job["pollIntervalMs"] = json!(60);
                job
            }),
        )
        .on_raw(
            "tasks/update",
            about(jobs, |jobs, call, id| {
                let given = call.params()["inputResponses"].to_string();
                jobs.set(id, json!({"status": "completed", "result": {"content": [{"type": "text", "text": given}]}}));
                json!({})
            }),
        )
        .on_raw(
            "tasks/cancel",
            about(jobs, |jobs, _, id| {
                jobs.set(id, json!({"status": "cancelled"}));
                json!({})
            }),
        )
}
