//! The gateway under test, and other servers: started on a free port, awaited, ended with the guard.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::children::{Background, Children};
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::workspace::Workspace;

const START_DEADLINE: Duration = Duration::from_secs(30);
const ANSWER_DEADLINE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(50);

/// A server on its port, while this lives.
pub(crate) struct Serving<'a> {
    port: u16,
    _process: Background<'a>,
}

impl Serving<'_> {
    /// By name, since a server may check the Host header.
    pub(crate) fn url(&self) -> String {
        format!("http://localhost:{}/mcp", self.port)
    }

    pub(crate) fn numeric_url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}

/// The gateway's binary: the named one, or that of this checkout, built now.
pub(crate) fn binary(children: &Children, workspace: &Workspace, named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return fs::canonicalize(named).map_err(Failure::file(named));
    }
    children.run(&workspace.build())?;
    Ok(workspace.built_gateway())
}

/// The named one, or that of this checkout with optimisations and with the load harness beside it.
pub(crate) fn optimised(children: &Children, workspace: &Workspace, named: Option<&Path>) -> Result<PathBuf, Failure> {
    if named.is_some() {
        return binary(children, workspace, named);
    }
    children.run(&workspace.cargo(["build", "--release", "-p", "tidings", "-p", "tidings-bench"]))?;
    Ok(workspace.optimised_gateway())
}

/// `tidings serve` with this configuration and an empty data directory, when it says it is ready.
pub(crate) fn start<'a>(
    children: &'a Children,
    binary: &Path,
    configuration: &str,
    directory: &Path,
) -> Result<Serving<'a>, Failure> {
    let file = directory.join("tidings.toml");
    fs::write(&file, configuration).map_err(Failure::file(&file))?;
    let port = free_port()?;
    let serve = Invocation::new(binary)
        .args(["serve", "--config"])
        .arg(&file)
        .args(["--listen", &format!("127.0.0.1:{port}"), "--data"])
        .arg(directory.join("data"));
    let process = children.background(&serve, &directory.join("tidings.log"))?;
    let ready = |status| status == 200;
    await_answer(process, port, "/readyz", "tidings", ready)
}

/// A server of others that takes its port as an argument of `invocation`.
pub(crate) fn start_other<'a>(
    children: &'a Children,
    invocation: impl FnOnce(u16) -> Invocation,
    what: &str,
    log: &Path,
) -> Result<Serving<'a>, Failure> {
    let port = free_port()?;
    let process = children.background(&invocation(port), log)?;
    // Any status will do: servers of others have no word for being ready.
    await_answer(process, port, "/mcp", what, |_| true)
}

fn await_answer<'a>(
    mut process: Background<'a>,
    port: u16,
    path: &str,
    what: &str,
    good: impl Fn(u16) -> bool,
) -> Result<Serving<'a>, Failure> {
    let log = process.log().to_owned();
    let what = what.to_owned();
    let deadline = Instant::now() + START_DEADLINE;
    while Instant::now() < deadline {
        if get_status(port, path).is_some_and(&good) {
            return Ok(Serving { port, _process: process });
        }
        if process.has_ended() {
            return Err(Failure::EndedEarly { what, log });
        }
        thread::sleep(POLL);
    }
    Err(Failure::NotReady { what, after: START_DEADLINE, log })
}

/// The status of a GET, or nothing when there is no HTTP answer in time.
fn get_status(port: u16, path: &str) -> Option<u16> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_DEADLINE).ok()?;
    stream.set_read_timeout(Some(ANSWER_DEADLINE)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n").ok()?;
    // `HTTP/1.1 200`, and no more of the answer is needed.
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head).ok()?.strip_prefix("HTTP/1.1 ")?.parse().ok()
}

fn free_port() -> Result<u16, Failure> {
    let failed = |source| Failure::NoFreePort { source };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    Ok(listener.local_addr().map_err(failed)?.port())
}
