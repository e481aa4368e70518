//! What the gateway lives in: its data directory, its limits, its port; and itself, when it runs.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use rustix::fs::{Access, access};
use rustix::process::{Resource, getrlimit};
use tidings_config::{Config, ListenAddress};
use tokio::net::TcpListener;

use super::finding::DoctorFinding;
use crate::backend;
use crate::data::{DataDir, RunningGateway};
use crate::failure::CommandFailure;
use crate::shell_word::shell_word;

/// How long a healthy gateway takes at most to say that it is.
const HEALTHY_WITHIN: Duration = Duration::from_secs(5);
/// Fewer open files than this are soon used up: each client, server and watch is at least one.
const FEW_FILES: u64 = 4_096;

/// A file that the environment names by a relative path: it is another one in every folder, so that naming it is no consent.
pub(super) fn relative_config(file: Option<&Path>) -> Option<DoctorFinding> {
    let named =
        std::env::var_os("TIDINGS_CONFIG").filter(|named| Path::new(named).is_relative() && !named.is_empty())?;
    let what =
        "TIDINGS_CONFIG is a relative path, so its file counts as one of the current folder and has to be trusted";
    let file = std::path::absolute(file.unwrap_or(Path::new(&named))).ok()?;
    Some(DoctorFinding::note("configuration", what, format!("export TIDINGS_CONFIG={}", shell_path(&file))))
}

fn shell_path(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

/// Whether state can be kept.
pub(super) fn data(found: &Result<DataDir, CommandFailure>) -> Vec<DoctorFinding> {
    const ABOUT: &str = "data";
    let path = match found {
        Ok(data) => data.path(),
        Err(failure) => {
            let named = std::env::var_os("TIDINGS_DATA").filter(|named| Path::new(named).is_relative());
            let remedy = match named.and_then(|named| std::path::absolute(named).ok()) {
                Some(meant) => format!("export TIDINGS_DATA={}", shell_path(&meant)),
                None => "name one with --data DIR".to_owned(),
            };
            return vec![DoctorFinding::problem(ABOUT, failure.to_string(), remedy)];
        }
    };
    let shown = path.display();
    let elsewhere = "name another data directory with --data DIR or TIDINGS_DATA";
    if path.exists() && !path.is_dir() {
        return vec![DoctorFinding::problem(ABOUT, format!("{shown} is not a directory"), elsewhere)];
    }
    // The nearest that exists decides whether the rest can be made.
    let existing = path.ancestors().find(|ancestor| ancestor.exists() || ancestor.as_os_str().is_empty());
    let existing = existing.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Err(error) = access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        let error = std::io::Error::from(error);
        let remedy = format!("give yourself the right to write there, or {elsewhere}");
        return vec![DoctorFinding::problem(ABOUT, format!("{}: {error}", existing.display()), remedy)];
    }
    let mut findings = vec![match path.exists() {
        true => DoctorFinding::fine(ABOUT, format!("{shown} can be written")),
        false => DoctorFinding::fine(ABOUT, format!("{shown} is made when it is needed")),
    }];
    let token = path.join("admin.token");
    if std::fs::metadata(&token).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0) {
        let what = format!("others can read {}, the key to the gateway's API", token.display());
        findings.push(DoctorFinding::problem(ABOUT, what, format!("chmod 600 {}", token.display())));
    }
    findings
}

/// Whether enough files may be open. `serve` takes all that are allowed.
pub(super) fn open_files() -> Option<DoctorFinding> {
    // `None` is no limit at all.
    let most = getrlimit(Resource::Nofile).maximum?;
    let what = format!("at most {most} files may be open, and every client, server and watch is one or more");
    let remedy = "raise the hard limit: `ulimit -Hn`, LimitNOFILE= of systemd, or --ulimit nofile of Docker";
    (most < FEW_FILES).then(|| DoctorFinding::note("limits", what, remedy))
}

/// What a running gateway serves, in words, if it is another file than this.
pub(super) async fn other_configuration(running: &RunningGateway, file: &Path) -> Option<String> {
    let asked = tokio::time::timeout(HEALTHY_WITHIN, backend::api(running, "status")).await;
    let Ok(Ok(status)) = asked else { return Some("does not say which configuration it serves".to_owned()) };
    // Links and relative paths may name one file in two ways.
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match status["config"].as_str() {
        Some(served) if real(Path::new(served)) == real(file) => None,
        Some(served) => Some(format!("serves {served}")),
        None => Some("serves without a configuration file".to_owned()),
    }
}

/// A gateway that serves something else, and whether one could listen beside it.
pub(super) async fn beside(running: &RunningGateway, other: &str, config: Option<&Config>) -> Vec<DoctorFinding> {
    const ABOUT: &str = "gateway";
    let what = format!("the one at {} {other}; so this file is examined by itself", running.url);
    let mut findings = vec![DoctorFinding::fine(ABOUT, what)];
    let Some(config) = config else { return findings };
    let listen = &config.gateway.listen;
    // By the port alone: the host may be spelled in several ways.
    if running.url.ends_with(&format!(":{}", listen.port)) {
        let remedy = format!(
            "to serve both, choose another address: tidings serve --listen {}:{} --data DIR",
            listen.host,
            listen.port.checked_add(1).unwrap_or(7338)
        );
        findings.push(DoctorFinding::note(ABOUT, format!("that gateway listens on {listen}"), remedy));
    } else {
        findings.push(port(listen, "").await);
    }
    findings
}

/// The gateway that runs and whether it answers; else whether one could listen.
pub(super) async fn gateway(running: Option<&RunningGateway>, config: Option<&Config>) -> (bool, Vec<DoctorFinding>) {
    const ABOUT: &str = "gateway";
    if let Some(running) = running {
        let url = &running.url;
        return match health(running).await {
            Ok(()) => (true, vec![DoctorFinding::fine(ABOUT, format!("runs and answers at {url}/mcp"))]),
            Err(why) => {
                let remedy = "look at its log; end it and start `tidings serve` again";
                (false, vec![DoctorFinding::problem(ABOUT, format!("its process is there, but {url} {why}"), remedy)])
            }
        };
    }
    let Some(config) = config else { return (false, Vec::new()) };
    let listen = &config.gateway.listen;
    let mut findings = vec![port(listen, "none is running; ").await];
    if !listen.is_loopback() && config.auth.is_none() {
        let what = format!("{listen} can be reached from other machines, and nobody needs a token");
        findings.push(DoctorFinding::problem(ABOUT, what, "add [auth] tokens, or listen on 127.0.0.1"));
    }
    (false, findings)
}

async fn health(running: &RunningGateway) -> Result<(), String> {
    let request =
        Request::get(format!("{}/healthz", running.url)).body(Full::<Bytes>::default()).map_err(|e| e.to_string())?;
    let client = running.client().map_err(|failure| failure.to_string())?;
    let answer = client.fetch(request, HEALTHY_WITHIN, 1 << 16).await.map_err(|error| error.to_string())?;
    match answer.status().as_u16() {
        200 => Ok(()),
        status => Err(format!("answers {status} to /healthz")),
    }
}

/// Tries to listen, for a moment.
async fn port(listen: &ListenAddress, before: &str) -> DoctorFinding {
    const ABOUT: &str = "gateway";
    match TcpListener::bind((listen.host.as_str(), listen.port)).await {
        Ok(_) => DoctorFinding::fine(ABOUT, format!("{before}{listen} is free for `tidings serve`")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let remedy = format!(
                "end that program, or serve elsewhere: tidings serve --listen {}:{}, or `listen` in [gateway]",
                listen.host,
                listen.port.checked_add(1).unwrap_or(7338)
            );
            DoctorFinding::problem(ABOUT, format!("{listen} is used by another program"), remedy)
        }
        Err(error) => {
            let what = format!("nobody can listen on {listen}: {error}");
            DoctorFinding::problem(ABOUT, what, "choose an address of this machine: `listen` in [gateway]")
        }
    }
}
