//! What to do about a server that can not be connected: from its description and the error to a sentence for whoever wrote
//! the description. Only wording; nothing here decides what the gateway does.

use crate::environment;
use crate::error::{LinkError, NOT_FOUND, REDIRECTS, WEB_PAGE};
use crate::shown_url::ShownUrl;
use crate::spec::{ServerSpec, StdioSpec, TransportSpec};
use crate::stdio::sandbox;

/// Programs that are often missing, and where they come from.
const SOURCES: [(&[&str], &str); 4] = [
    (&["npx", "npm", "node"], "it is part of Node.js (https://nodejs.org)"),
    (&["uvx", "uv"], "it is part of uv (https://docs.astral.sh/uv)"),
    (&["python", "python3", "pipx"], "it is part of Python (https://www.python.org)"),
    (&["deno", "bun", "bunx"], "install it, or use npx"),
];

/// The same error with a remedy, where there is one.
pub(crate) fn explain(spec: &ServerSpec, error: LinkError) -> LinkError {
    let remedy = match &spec.transport {
        TransportSpec::Stdio(stdio) => of_command(stdio, error.cause())
            .or_else(|| of_environment(stdio, &error))
            .or_else(|| sandbox::remedy(stdio, &error)),
        TransportSpec::Http(http) => of_url(&http.url, error.cause()),
        TransportSpec::Sse(http) => of_stream(error.cause()).or_else(|| of_url(&http.url, error.cause())),
        TransportSpec::Container(_) => None,
    };
    match remedy {
        Some(remedy) => LinkError::Explained { error: Box::new(error), remedy },
        None => error,
    }
}

fn of_command(spec: &StdioSpec, error: &LinkError) -> Option<String> {
    let LinkError::Spawn { reason, .. } = error else { return None };
    if reason != NOT_FOUND {
        return None;
    }
    let program = &spec.program;
    let mut words = program.split_whitespace();
    // The whole command line was written as `command`, as clients' files often have it.
    if let (Some(first), true) = (words.next(), program.trim().contains(char::is_whitespace)) {
        let args: Vec<String> =
            words.map(str::to_owned).chain(spec.args.iter().cloned()).map(|arg| format!("{arg:?}")).collect();
        return Some(format!("`command` is the program alone: command = {first:?}, args = [{}]", args.join(", ")));
    }
    if program.contains('/') {
        return Some("There is no such file; correct the path in `command`".to_owned());
    }
    let source = SOURCES.iter().find(|(names, _)| names.contains(&program.as_str())).map(|(_, source)| *source);
    let source = source.unwrap_or("install it, or write its whole path as `command`");
    Some(format!("{program} is not in the PATH of the gateway: {source}"))
}

/// A server that asks for a variable which the gateway has, and does not pass on.
fn of_environment(spec: &StdioSpec, error: &LinkError) -> Option<String> {
    let mut withheld = spec.inherit_env.withheld();
    // What the description sets itself is not missing.
    withheld.retain(|name| !spec.env.iter().any(|(given, _)| given == name));
    let named = environment::named_in(error.last_words()?, &withheld);
    let (first, more) = named.split_first()?;
    let names = named.join(" and ");
    let list: Vec<String> = named.iter().map(|name| format!("{name:?}")).collect();
    let (are, them) = if more.is_empty() { ("is", first) } else { ("are", &"them") };
    Some(format!(
        "{names} {are} set for the gateway and not passed on to servers; to give it {them}: inherit_env = [{}]",
        list.join(", ")
    ))
}

/// A server that was said to speak HTTP+SSE and opens no stream.
fn of_stream(error: &LinkError) -> Option<String> {
    let is_other = match error {
        LinkError::Status { status, body } => {
            matches!(status, 400 | 404..=406) && !body.as_ref().is_some_and(|body| body.starts_with(REDIRECTS))
        }
        LinkError::Protocol(_) | LinkError::HandshakeTimeout(_) => true,
        _ => false,
    };
    is_other.then(|| {
        "It opens no stream of HTTP+SSE there: correct the path of `url` (often /sse), or leave out `type` and have it found out"
            .to_owned()
    })
}

fn of_url(url: &str, error: &LinkError) -> Option<String> {
    match error {
        LinkError::Status { body: Some(body), .. } if body.starts_with(REDIRECTS) => {
            Some(format!("Write that address as `url`: url = {:?}", body.trim_start_matches(REDIRECTS)))
        }
        LinkError::Status { status: 400, body: Some(body) } if body.contains("HTTPS") => Some(secure(url)),
        LinkError::Status { status: 404 | 405, .. } => {
            Some("Is the path of `url` right? Most servers have theirs at /mcp, old ones at /sse".to_owned())
        }
        LinkError::Protocol(reason) if reason.contains(WEB_PAGE) => {
            Some("`url` is the address of the MCP endpoint, often the page's with /mcp at its end".to_owned())
        }
        LinkError::Unreachable(reason) | LinkError::Broken(reason) => unreachable(url, reason),
        _ => None,
    }
}

/// What the words of the system and of TLS mean.
fn unreachable(url: &str, reason: &str) -> Option<String> {
    let reason = reason.to_ascii_lowercase();
    let says = |words: &str| reason.contains(words);
    if says("invalidcontenttype") || says("corrupt message") {
        return Some(format!(
            "It does not speak TLS there: url = \"{}\"",
            ShownUrl::of(&url.replacen("https://", "http://", 1))
        ));
    }
    if says("invalid http") || says("http version") {
        return Some(secure(url));
    }
    if says("certificate") {
        return Some("Have the authority that signed its certificate trusted by this machine".to_owned());
    }
    if says("refused") {
        return Some("Nothing listens there: start the server, or correct the port in `url`".to_owned());
    }
    let unknown = says("lookup") || says("name or service") || says("nodename") || says("dns");
    unknown.then(|| "Nobody knows that host: correct the name in `url`".to_owned())
}

fn secure(url: &str) -> String {
    format!("It speaks TLS there: url = \"{}\"", ShownUrl::of(&url.replacen("http://", "https://", 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::InheritEnv;
    use crate::http::NetworkReach;
    use crate::spec::{EraChoice, HttpSpec};

    fn said(transport: TransportSpec, error: LinkError) -> String {
        explain(&ServerSpec { name: "x".into(), transport, era: EraChoice::Auto }, error).to_string()
    }

    fn command(program: &str, args: &[&str]) -> String {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let inherit_env = InheritEnv::default();
        let spec = StdioSpec { program: program.into(), args, env: Vec::new(), cwd: None, inherit_env, sandbox: None };
        said(TransportSpec::Stdio(spec), LinkError::Spawn { program: program.into(), reason: NOT_FOUND.into() })
    }

    fn url(url: &str, error: LinkError) -> String {
        said(
            TransportSpec::Http(HttpSpec {
                url: url.into(),
                headers: Vec::new(),
                reach: NetworkReach::Anywhere,
                credential: None,
            }),
            error,
        )
    }

    fn stream(url: &str, error: LinkError) -> String {
        said(
            TransportSpec::Sse(HttpSpec {
                url: url.into(),
                headers: Vec::new(),
                reach: NetworkReach::Anywhere,
                credential: None,
            }),
            error,
        )
    }

    // edges F15
    #[test]
    fn every_mistake_has_a_sentence_that_names_it_and_what_to_write() {
        let status = |status: u16, body: &str| LinkError::Status { status, body: Some(body.to_owned()) };
        let cut = |reason: &str| LinkError::Unreachable(reason.to_owned());
        for (said, words) in [
            (command("npx -y pkg", &["more"]), r#"command = "npx", args = ["-y", "pkg", "more"]"#),
            (command("uvx", &[]), "uvx is not in the PATH of the gateway: it is part of uv"),
            (command("/no/such/server", &[]), "correct the path in `command`"),
            (command("my-server", &[]), "write its whole path as `command`"),
            (stream("http://h/mcp", status(405, "")), "leave out `type`"),
            (stream("http://h/sse", status(308, "it redirects to https://h/b")), r#"url = "https://h/b""#),
            (stream("http://h/sse", cut("Connection refused (os error 111)")), "correct the port"),
            (url("http://h/", status(404, "")), "/mcp"),
            (url("http://h/", LinkError::Protocol(WEB_PAGE.into())), "MCP endpoint"),
            (url("http://h/a", status(308, "it redirects to https://h/b")), r#"url = "https://h/b""#),
            (
                url("https://h:1/mcp", cut("received corrupt message of type InvalidContentType")),
                r#"url = "http://h:1/mcp""#,
            ),
            (
                url("http://h/mcp", LinkError::Broken("invalid HTTP version parsed".to_owned())),
                r#"url = "https://h/mcp""#,
            ),
            (
                url("http://h/mcp", status(400, "The plain HTTP request was sent to HTTPS port")),
                r#"url = "https://h/mcp""#,
            ),
            (url("https://h/mcp", cut("invalid peer certificate: UnknownIssuer")), "authority"),
            (url("http://h/mcp", cut("Connection refused (os error 111)")), "correct the port"),
            (
                url("http://h/mcp", cut("failed to lookup address information: Name or service not known")),
                "correct the name",
            ),
        ] {
            assert!(said.contains(words), "{words:?} is not in: {said}");
        }
        assert_eq!(
            url("http://h/mcp", LinkError::Lost),
            LinkError::Lost.to_string(),
            "nothing is added where nothing is known"
        );
    }
}
