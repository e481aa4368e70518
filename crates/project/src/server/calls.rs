//! Which script a request means.

use std::sync::Arc;

use serde_json::{Value, json};
use tidings_engine::Surroundings;
use tidings_proto::{LogLevel, Method, code};
use tidings_upstream::{CallEvent, CallStream, OutgoingRequest};
use tidings_wire::{Frame, RawId, response};

use super::following::LinkFollowing;
use super::link::{LIMITS, Refused};
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
    })
}

/// Finds what is asked for in the state of now and runs it.
pub(super) async fn begin(
    registry: &ProjectRegistry,
    runner: &Arc<ScriptRunner>,
    following: &LinkFollowing,
    request: &OutgoingRequest,
    caller: ScriptCaller,
) -> Result<CallStream, Refused> {
    let params = params(request)?;
    if request.method == Method::SetLevel {
        let level = params["level"].as_str().and_then(LogLevel::parse);
        runner.set_level(level.ok_or_else(|| invalid("params.level must be a log level"))?);
        return Ok(at_once(request.id, &json!({})));
    }
    let state = registry.state().await.ok_or((code::INTERNAL_ERROR, "the project was not read in time".to_owned()))?;
    if let Some(problem) = &state.broken {
        return Err((code::INTERNAL_ERROR, problem.to_string()));
    }
    let contents = &state.contents;
    let id = request.id;
    match request.method {
        Method::ToolsCall => {
            let name = text(&params, "name")?;
            let tool = contents.tool(name).ok_or_else(|| invalid(&format!("Tool '{name}' not found")))?;
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
        other => Err((code::METHOD_NOT_FOUND, format!("method not found: {}", other.as_str()))),
    }
}

pub(super) fn reading(contents: &ProjectContents, runner: &ScriptRunner, uri: &str) -> ResourceReading {
    if let Some(resource) = contents.resource(uri) {
        return ResourceReading::listed(resource);
    }
    if let Some(page) = ui::named(uri).and_then(|name| contents.resources.iter().find(|page| ui::is(page, name))) {
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
fn completed<'a>(contents: &'a ProjectContents, reference: &'a Value) -> Result<&'a str, Refused> {
    match reference["type"].as_str() {
        Some("ref/prompt") => {
            let name = text(reference, "name")?;
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

fn params(request: &OutgoingRequest) -> Result<Value, Refused> {
    let frame = Frame::parse(request.bytes.clone(), &LIMITS).map_err(|error| invalid(&error.to_string()))?;
    let raw = frame.params().map(|at| frame.raw(at)).unwrap_or(b"{}");
    serde_json::from_slice(raw).map_err(|error| invalid(&error.to_string()))
}

fn text<'a>(object: &'a Value, name: &str) -> Result<&'a str, Refused> {
    object[name].as_str().filter(|text| !text.is_empty()).ok_or_else(|| invalid(&format!("{name} must be a string")))
}

fn invalid(message: &str) -> Refused {
    (code::INVALID_PARAMS, message.to_owned())
}

fn at_once(id: u64, result: &Value) -> CallStream {
    let frame = Frame::parse(response(&RawId::from(id), result.to_string().as_bytes()), &LIMITS);
    let event = frame.map(CallEvent::Response);
    CallStream::new(futures_util::stream::iter(event))
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
