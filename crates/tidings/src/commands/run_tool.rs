//! `tidings run-tool`: one tool of a folder of scripts, run as a client would have it run, without a gateway.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tidings_project::run::{ScriptCaller, ScriptRunner};
use tidings_project::{ProjectHome, ProjectSurvey, ProjectTool};
use tidings_proto::MessageSubject;
use tidings_upstream::{CallEvent, CallStream, ProcessLauncher};

use super::call::exit_code;
use super::content::ContentPrinter;
use super::project::named;
use crate::cli::Cli;
use crate::failure::CommandFailure;
use crate::wiring;

/// What was typed after `tidings project run-tool`.
pub(super) struct RunToolArgs<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: Option<&'a str>,
    pub(super) project: Option<&'a Path>,
    pub(super) dry_run: bool,
    pub(super) print_env: bool,
    pub(super) timeout: Option<f64>,
    pub(super) json: bool,
}

pub(super) async fn run(cli: &Cli, args: RunToolArgs<'_>) -> Result<(), CommandFailure> {
    let dir = named(args.project).unwrap_or_else(|| PathBuf::from("."));
    let arguments = arguments(args.arguments)?;
    let timeout = args.timeout.map(|seconds| match seconds {
        // NaN is in no range, so it is refused as well.
        seconds if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        other => Err(CommandFailure::Usage(format!("--timeout {other}: not a number of seconds up to 86400"))),
    });
    let timeout = timeout.transpose()?;
    let home = wiring::open_project(&dir, &[]).map_err(CommandFailure::failed)?;
    let tool = find(&home, args.name)?;
    let launcher = ProcessLauncher::new(std::env::current_exe().ok());
    let runner = ScriptRunner::new(Arc::new(home), launcher, &wiring::kit(cli));
    if args.print_env {
        for (name, value) in runner.tool_environment() {
            println!("{}={}", name.to_string_lossy(), value.to_string_lossy());
        }
    }
    if args.dry_run {
        let script = tool.script.display().to_string();
        match args.json {
            true => {
                println!("{:#}", json!({ "tool": tool.name, "script": script, "arguments": arguments, "runs": false }))
            }
            false => println!("would run {script} with {arguments}"),
        }
    }
    if args.dry_run || args.print_env {
        return Ok(());
    }
    // Without a token a script reports no progress.
    let mut params = json!({ "name": tool.name, "arguments": arguments, "_meta": { "progressToken": 1 } });
    if let Some(timeout) = timeout {
        params["timeoutSecs"] = timeout.into();
    }
    let stream = runner.call_tool(1, tool, params, ScriptCaller::default());
    let answer = tokio::select! {
        answer = followed(stream, args.json) => Some(answer?),
        _ = tokio::signal::ctrl_c() => None,
    };
    // Ends what the tool started, also after Ctrl-C.
    runner.close().await;
    match answer {
        Some(answer) => show(&answer, args.json),
        None => Err(CommandFailure::Failed("interrupted; the tool was ended".into())),
    }
}

fn arguments(text: Option<&str>) -> Result<Value, CommandFailure> {
    let Some(text) = text else { return Ok(json!({})) };
    let text = match text.strip_prefix('@') {
        Some(file) => {
            std::fs::read_to_string(file).map_err(|error| CommandFailure::Usage(format!("--args @{file}: {error}")))?
        }
        None => text.to_owned(),
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(object.into()),
        Ok(_) => Err(CommandFailure::Usage("--args must be a JSON object, such as '{\"name\": \"Ann\"}'".into())),
        Err(error) => Err(CommandFailure::Usage(format!("--args is not JSON: {error}"))),
    }
}

fn find(home: &ProjectHome, name: &str) -> Result<Arc<ProjectTool>, CommandFailure> {
    let survey = ProjectSurvey::of(home);
    for problem in survey.all_problems() {
        eprintln!("{problem}");
    }
    let contents = survey.contents.map_err(CommandFailure::failed)?;
    if let Some(tool) = contents.tool(name) {
        return Ok(Arc::clone(tool));
    }
    let known: Vec<&str> = contents.tools.iter().map(|tool| tool.name.as_str()).collect();
    let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
    Err(CommandFailure::Failed(format!("{}: no tool called {name}; {known}", home.root.display())))
}

/// Shows what the tool says while it runs, and gives its answer.
async fn followed(mut stream: CallStream, quiet: bool) -> Result<Value, CommandFailure> {
    loop {
        match stream.next().await {
            CallEvent::Message(message) if !quiet => {
                let params: Value =
                    message.params().and_then(|at| serde_json::from_slice(message.raw(at)).ok()).unwrap_or_default();
                let said = |name: &str| match &params[name] {
                    Value::String(text) => text.clone(),
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                match message.subject() {
                    MessageSubject::Progress => eprintln!("progress {} {}", said("progress"), said("message")),
                    MessageSubject::Log => eprintln!("{}: {}", said("level"), said("data")),
                    _ => {}
                }
            }
            CallEvent::Response(frame) => return serde_json::from_slice(frame.bytes()).map_err(CommandFailure::failed),
            CallEvent::Failed(error) | CallEvent::Unsent(error) => return Err(CommandFailure::failed(error)),
            _ => {}
        }
    }
}

fn show(answer: &Value, as_json: bool) -> Result<(), CommandFailure> {
    if let Some(error) = answer.get("error") {
        if as_json {
            println!("{:#}", json!({ "error": error }));
        }
        return Err(CommandFailure::Refused {
            code: error["code"].as_i64().unwrap_or_default(),
            message: format!("the tool failed: {}", error["message"].as_str().unwrap_or_default()),
            data: error.get("data").cloned(),
        });
    }
    let result = &answer["result"];
    let failed = result["isError"] == true;
    if as_json {
        println!("{result:#}");
    } else {
        let mut printer = ContentPrinter::new(None);
        for block in result["content"].as_array().into_iter().flatten() {
            let text = printer.block(block)?;
            println!("{}", text.strip_suffix('\n').unwrap_or(&text));
        }
        // A result that failed has it among its words.
        if let Some(errors) = result["_meta"]["stderr"].as_str().filter(|_| !failed) {
            eprint!("{errors}");
        }
    }
    if failed { Err(CommandFailure::Failed(format!("the tool reports an error{}", exit_code(result)))) } else { Ok(()) }
}
