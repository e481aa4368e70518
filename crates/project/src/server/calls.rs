//! Which script a request means.

use std::sync::Arc;

use serde_json::{Value, json};
use tidings_engine::Surroundings;
use tidings_proto::{LogLevel, Method};
use tidings_upstream::in_process::{self, RequestError};
use tidings_upstream::{CallStream, OutgoingRequest};

use super::following::LinkFollowing;
use crate::entry::ProjectContents;
use crate::registry::ProjectRegistry;
use crate::run::{ResourceReading, ScriptCaller, ScriptRunner};
use crate::ui;

/// Who makes a call.
pub(super) fn caller(surroundings: &Surroundings, call: u64) -> ScriptCaller {
    surroundings.client(call).map_or_else(ScriptCaller::default, |client| ScriptCaller {
        key: client.key,
        form: client.fills_in_forms,
        url: client.visits_urls,
        roots: client.tells_roots,
        comes_back: client.comes_back,
    })
}

/// Finds what is asked for in the state of now and runs it.
pub(super) async fn begin(
    registry: &ProjectRegistry,
    runner: &Arc<ScriptRunner>,
    following: &LinkFollowing,
    request: &OutgoingRequest,
    caller: ScriptCaller,
) -> Result<CallStream, RequestError> {
    let params = params(request)?;
    // Needs nothing of the project, so it works also while that can not be read.
    if request.method == Method::SetLevel {
        let level = params["level"].as_str().and_then(LogLevel::parse);
        runner.set_level(level.ok_or_else(|| invalid("params.level must be a log level"))?);
        return Ok(at_once(request.id, &json!({})));
    }
    let state = registry.state().await.ok_or_else(|| RequestError::internal("the project was not read in time"))?;
    if let Some(problem) = &state.broken {
        return Err(RequestError::internal(problem.to_string()));
    }
    let contents = &state.contents;
    let id = request.id;
    match request.method {
        Method::ToolsCall => {
            let name = text(&params, "name")?;
            let tool = contents.tool(name).ok_or_else(|| invalid(&format!("Tool '{name}' not found")))?;
            // Asked at each call, because the policy script may decide by the time of day or a file.
            runner.permit(tool).await?;
            let tool = Arc::clone(tool);
            Ok(runner.call_tool(id, tool, params, caller))
        }
        Method::PromptsGet => {
            let name = text(&params, "name")?;
            let prompt = contents.prompt(name).ok_or_else(|| invalid(&format!("Prompt '{name}' not found")))?;
            let prompt = Arc::clone(prompt);
            Ok(runner.get_prompt(id, prompt, params, caller))
        }
        Method::ResourcesRead => {
            let reading = reading(contents, runner, text(&params, "uri")?);
            Ok(runner.read_resource(id, reading, caller))
        }
        Method::ResourcesSubscribe => {
            following.add(registry, runner, text(&params, "uri")?).await?;
            Ok(at_once(id, &json!({})))
        }
        Method::ResourcesUnsubscribe => {
            following.remove(text(&params, "uri")?);
            Ok(at_once(id, &json!({})))
        }
        Method::Complete => {
            text(&params["argument"], "name")?;
            let name = completed(contents, &params["ref"])?;
            match contents.completion(name).cloned() {
                Some(completion) => Ok(runner.complete(id, completion, params, caller)),
                // Known, and nobody has anything to suggest.
                None => Ok(at_once(id, &json!({ "completion": { "values": [], "hasMore": false } }))),
            }
        }
        other => Err(RequestError::unknown_method(other)),
    }
}

pub(super) fn reading(contents: &ProjectContents, runner: &ScriptRunner, uri: &str) -> ResourceReading {
    if let Some(resource) = contents.resource(uri) {
        return ResourceReading::listed(resource);
    }
    if let Some(page) = ui::named(uri).and_then(|name| contents.resources.iter().find(|page| ui::is(page, name))) {
        // Answered under the URI that was asked for: a gateway may have put its prefix into it.
        return ResourceReading { uri: uri.to_owned(), ..ResourceReading::listed(page) };
    }
    match contents.templates.iter().find(|template| fits(&template.uri_template, uri)) {
        Some(template) => {
            let described = ResourceReading::described(uri, template);
            let provider = described.provider.clone().or_else(|| runner.own_provider(uri));
            ResourceReading { provider, ..described }
        }
        // The scheme decides; what the provider may read is bounded all the same.
        None => {
            ResourceReading { uri: uri.to_owned(), provider: runner.own_provider(uri), ..ResourceReading::default() }
        }
    }
}

/// The name of what an argument belongs to: completions are registered by it.
fn completed<'a>(contents: &'a ProjectContents, reference: &'a Value) -> Result<&'a str, RequestError> {
    match reference["type"].as_str() {
        Some("ref/prompt") => {
            let name = text(reference, "name")?;
            // A completion may be registered for a prompt that is not listed at the moment.
            let known = contents.prompt(name).is_some() || contents.completion(name).is_some();
            known.then_some(name).ok_or_else(|| invalid(&format!("Prompt '{name}' not found")))
        }
        Some("ref/resource") => {
            let uri = text(reference, "uri")?;
            let resource = contents.resource(uri).map(|resource| resource.name.as_str());
            let template = || contents.templates.iter().find(|template| template.uri_template == uri);
            Ok(resource.or_else(|| template().map(|template| template.name.as_str())).unwrap_or(uri))
        }
        _ => Err(invalid("params.ref must be of type ref/prompt or ref/resource")),
    }
}

/// Whether a URI can be had from a template: what is fixed stands in it in the same order. An expression stands for
/// anything, so that this errs on the side of a match; the provider looks again.
fn fits(template: &str, uri: &str) -> bool {
    let mut rest = uri;
    let mut parts = template.split('{');
    let Some(start) = parts.next() else { return false };
    let Some(after) = rest.strip_prefix(start) else { return false };
    rest = after;
    let mut open = false;
    for part in parts {
        let literal = part.split_once('}').map_or("", |(_, literal)| literal);
        match rest.find(literal) {
            Some(at) if !literal.is_empty() => rest = &rest[at + literal.len()..],
            Some(_) => {}
            None => return false,
        }
        open = literal.is_empty();
    }
    open || rest.is_empty()
}

fn params(request: &OutgoingRequest) -> Result<Value, RequestError> {
    let read = in_process::read_request(request).and_then(|frame| in_process::read_params(&frame));
    read.map_err(|error| invalid(&error.to_string()))
}

fn text<'a>(object: &'a Value, name: &str) -> Result<&'a str, RequestError> {
    object[name].as_str().filter(|text| !text.is_empty()).ok_or_else(|| invalid(&format!("{name} must be a string")))
}

fn invalid(message: &str) -> RequestError {
    RequestError::invalid_params(message)
}

fn at_once(id: u64, result: &Value) -> CallStream {
    in_process::at_once(in_process::answer(id, Ok(result.to_string().as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_template_is_found_by_what_is_fixed_in_it() {
        assert!(fits("file:///{path}", "file:///a/b.txt"));
        assert!(fits("git+https://{repo}#{ref}:{path}", "git+https://h/r#HEAD:a"));
        assert!(fits("x://{a}/end", "x://1/end"));
        assert!(!fits("x://{a}/end", "x://1/end/more"));
        assert!(!fits("file:///{path}", "https://h/"));
        assert!(!fits("x://{a}/y/{b}", "x://1/z/2"));
    }
}
