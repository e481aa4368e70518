//! What `tidings serve` prints when it is ready: where it is, how each client is connected, and the next commands.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::demo::Demo;

/// The address under which this machine reaches the listener. Nobody can connect to "any address".
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// How a client reaches the gateway.
fn client_url(url: &str, address: &SocketAddr) -> String {
    let scheme = url.split("://").next().unwrap_or("http");
    match address.ip().is_unspecified() {
        true => format!("{scheme}://THIS-MACHINE:{}", address.port()),
        false => url.to_owned(),
    }
}

/// What connects each client: a command, or what to write into its file.
pub(super) fn connections(url: &str, address: &SocketAddr, has_tokens: bool) -> Vec<(String, String)> {
    let all = commands(&client_url(url, address), has_tokens);
    all.into_iter().map(|(client, command)| (client.to_owned(), command)).collect()
}

/// Which token clients have to send.
#[derive(Clone, Copy)]
pub(super) enum WantedToken<'a> {
    /// One of `[auth]`.
    OfAuth,
    /// The key of the data directory, in this file.
    Own(&'a Path),
}

fn commands(client: &str, has_tokens: bool) -> [(&'static str, String); 3] {
    let (claude, codex, json) = match has_tokens {
        false => ("", "", ""),
        true => (
            " --header \"Authorization: Bearer TOKEN\"",
            " --bearer-token-env-var TIDINGS_TOKEN",
            ", \"headers\": {\"Authorization\": \"Bearer TOKEN\"}",
        ),
    };
    [
        ("Claude Code", format!("claude mcp add --transport http tidings {client}/mcp{claude}")),
        ("Codex", format!("codex mcp add tidings --url {client}/mcp{codex}")),
        ("Cursor, others", format!("{{\"mcpServers\": {{\"tidings\": {{\"url\": \"{client}/mcp\"{json}}}}}}}")),
    ]
}

/// The words. `page` is a link to the page. `url` is how this machine reaches the gateway, `address` where it listens.
pub(super) fn of(
    url: &str,
    address: &SocketAddr,
    tokens: Option<WantedToken<'_>>,
    demo: Option<&Demo>,
    page: Option<&str>,
) -> String {
    let mut out = String::new();
    let mut line = |text: String| _ = writeln!(out, "{text}");
    let what = if demo.is_some() { "a demo (no server is configured yet)" } else { "your servers" };
    line(format!("Tidings serves {what} at {url}/mcp\n"));
    if let Some(page) = page {
        line("See what changes, in a browser (the link works once; another one: tidings open):".to_owned());
        line(format!("  {page}"));
    }
    let client = client_url(url, address);
    if address.ip().is_unspecified() {
        line(format!(
            "From other machines it is {client}/mcp, where THIS-MACHINE is the name or address of this one.\n"
        ));
    }
    line("Connect a client: tidings connect, or by hand".to_owned());
    for (client, command) in commands(&client, tokens.is_some()) {
        line(format!("  {client:<15} {command}"));
    }
    match tokens {
        Some(WantedToken::OfAuth) => {
            line("TOKEN is the secret of an entry in [auth] tokens; this makes one more: tidings token NAME".to_owned())
        }
        Some(WantedToken::Own(file)) => line(format!("TOKEN is what stands in {}", file.display())),
        None => {}
    }
    line("Look behind it:".to_owned());
    for command in ["tidings servers", "tidings tools", "tidings changes --follow"] {
        line(format!("  {command}"));
    }
    if let Some(demo) = demo {
        let (project, notes) = (demo.project.display(), demo.notes.display());
        line("  tidings call echo text=hello".to_owned());
        line("See a change arrive, in another terminal:".to_owned());
        line(format!("  a new tool      {}", demo.change()));
        line(format!("  a changed note  tidings watch watch://notes/todo.md, and add a line to {notes}/todo.md"));
        line("Add your own:".to_owned());
        line(format!("  scripts         tidings project scaffold tool hello --project {project}"));
        line("  servers         tidings add NAME -- COMMAND, or tidings add NAME --url URL".to_owned());
        line("  a configuration tidings init".to_owned());
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn banner(listen: &str, has_tokens: bool) -> String {
        let address: SocketAddr = listen.parse().expect("an address");
        let tokens = has_tokens.then_some(WantedToken::OfAuth);
        of(&format!("http://{}", reachable(address)), &address, tokens, None, None)
    }

    // edges F12
    #[test]
    fn a_command_that_connects_a_client_has_an_address_that_can_be_reached() {
        let everywhere = banner("0.0.0.0:7337", true);
        assert!(!everywhere.contains("0.0.0.0"), "{everywhere}");
        assert!(everywhere.contains("serves your servers at http://127.0.0.1:7337/mcp"), "{everywhere}");
        assert!(everywhere.contains("tidings http://THIS-MACHINE:7337/mcp --header"), "{everywhere}");
        assert!(banner("[::]:7337", true).contains("at http://[::1]:7337/mcp"));
        let one = banner("192.0.2.7:80", true);
        assert!(
            one.contains("--transport http tidings http://192.0.2.7:80/mcp") && !one.contains("THIS-MACHINE"),
            "{one}"
        );
    }

    // edges F12
    #[test]
    fn where_tokens_are_wanted_every_command_sends_one() {
        let with = banner("127.0.0.1:7337", true);
        for words in [
            "--header \"Authorization: Bearer TOKEN\"",
            "--bearer-token-env-var TIDINGS_TOKEN",
            "\"Bearer TOKEN\"}",
            "tidings token NAME",
        ] {
            assert!(with.contains(words), "{words}: {with}");
        }
        assert!(!banner("127.0.0.1:7337", false).contains("TOKEN"));
    }
}
