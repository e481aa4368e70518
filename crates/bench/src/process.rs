//! The processes of a run: the harness's own parts, and the gateway. Each ends with its owner.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::error::BenchError;
use crate::load::http::LoadConnection;

const READY_WITHIN: Duration = Duration::from_secs(30);
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// The path of this program, of which every part is a subcommand.
pub(crate) fn this_program() -> Result<PathBuf, BenchError> {
    std::env::current_exe().map_err(BenchError::io("finding this program"))
}

/// A part that listens. Dropping it ends the process.
pub(crate) struct PartProcess {
    pub(crate) address: SocketAddr,
    // Held for its drop: stdin closes and the process is killed.
    _child: Child,
}

impl PartProcess {
    /// Starts it and waits until it says where it listens.
    pub(crate) async fn start(part: &'static str, args: &[String]) -> Result<Self, BenchError> {
        let mut child = Command::new(this_program()?)
            .arg(part)
            .arg("--until-stdin-ends")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(BenchError::io("starting a part"))?;
        let mut line = String::new();
        // The pipe is closed after this line; a part prints nothing else.
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).await.map_err(BenchError::io("reading a part's address"))?;
        }
        let address = line.trim().parse().map_err(|_| BenchError::unexpected(part, "an address", line.as_bytes()))?;
        Ok(Self { address, _child: child })
    }
}

/// Runs a part to its end and gives what it printed.
pub(crate) async fn run_part(part: &'static str, args: &[String]) -> Result<Vec<u8>, BenchError> {
    let output = Command::new(this_program()?)
        .arg(part)
        .args(args)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(BenchError::io("running a part"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(BenchError::PartEnded {
        part,
        status: output.status.to_string(),
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

/// A gateway in a process of its own, with files of its own. Dropped without [`Self::stop`], it is killed.
pub(crate) struct GatewayProcess {
    pub(crate) address: SocketAddr,
    /// Taken just before the process was made.
    pub(crate) started: Instant,
    /// Its configuration file.
    pub(crate) config: PathBuf,
    /// Its data directory.
    pub(crate) data: PathBuf,
    child: Child,
    log: PathBuf,
}

impl GatewayProcess {
    /// Starts it on a free port; does not wait for anything.
    pub(crate) fn start(binary: &Path, config: &str, folder: &Path) -> Result<Self, BenchError> {
        let address = free_address()?;
        Self::start_at(binary, config, folder, address, folder.join(format!("data-{}", address.port())))
    }

    fn start_at(
        binary: &Path,
        config: &str,
        folder: &Path,
        address: SocketAddr,
        data: PathBuf,
    ) -> Result<Self, BenchError> {
        if !binary.is_file() {
            return Err(BenchError::GatewayMissing(binary.to_owned()));
        }
        let file = folder.join(format!("gateway-{}.toml", address.port()));
        let log = folder.join(format!("gateway-{}.log", address.port()));
        std::fs::write(&file, config).map_err(BenchError::io("writing the configuration"))?;
        // A file and no pipe: nobody reads while it is measured, and a full pipe would hold the gateway up.
        let stderr = File::create(&log).map_err(BenchError::io("making the gateway's log"))?;
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .arg("--config")
            .arg(&file)
            .arg("--listen")
            .arg(address.to_string())
            .arg("--data")
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .kill_on_drop(true);
        let started = Instant::now();
        let child = command.spawn().map_err(BenchError::io("starting the gateway"))?;
        Ok(Self { address, started, config: file, data, child, log })
    }

    /// Starts it and waits until `/readyz` says 200.
    pub(crate) async fn start_ready(binary: &Path, config: &str, folder: &Path) -> Result<Self, BenchError> {
        Self::until_ready(Self::start(binary, config, folder)?).await
    }

    /// The same with a data directory that has something in it.
    pub(crate) async fn start_ready_in(
        binary: &Path,
        config: &str,
        folder: &Path,
        data: PathBuf,
    ) -> Result<Self, BenchError> {
        Self::until_ready(Self::start_at(binary, config, folder, free_address()?, data)?).await
    }

    async fn until_ready(mut gateway: Self) -> Result<Self, BenchError> {
        let deadline = gateway.started + READY_WITHIN;
        while Instant::now() < deadline {
            if is_ready(gateway.address).await {
                return Ok(gateway);
            }
            if let Ok(Some(status)) = gateway.child.try_wait() {
                return Err(BenchError::PartEnded {
                    part: "gateway",
                    status: status.to_string(),
                    stderr: gateway.log_tail(),
                });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(BenchError::GatewayNotReady { waited: READY_WITHIN, log: gateway.log_tail() })
    }

    /// Its process id, while it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Asks it to end, so that it ends its own servers too; kills it when it does not.
    pub(crate) async fn stop(mut self) {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It may be gone already; then there is nothing to end.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        if tokio::time::timeout(STOP_WITHIN, self.child.wait()).await.is_err() {
            eprintln!("the gateway did not end within {STOP_WITHIN:?} of SIGTERM; killing it");
            let _ = self.child.kill().await;
        }
    }

    /// Kills it, and waits until it is gone.
    pub(crate) async fn kill(&mut self) {
        // It may be gone already.
        let _ = self.child.kill().await;
    }

    /// The last lines it logged.
    pub(crate) fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }
}

async fn is_ready(address: SocketAddr) -> bool {
    let Ok(mut connection) = LoadConnection::open(address).await else {
        return false;
    };
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\n\r\n");
    // A gateway that holds the answer back until it is ready is fine, within the deadline.
    let exchange = connection.exchange(request.as_bytes());
    match tokio::time::timeout(READY_WITHIN, exchange).await {
        Ok(Ok(answer)) => answer.status == 200,
        _ => false,
    }
}

fn free_address() -> Result<SocketAddr, BenchError> {
    // Another program may take the port before the gateway does; then its start fails, and its log says so.
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map_err(BenchError::io("finding a free port"))
}

/// Reads one line from a child's output.
pub(crate) async fn read_line(output: &mut (impl AsyncReadExt + Unpin)) -> Result<String, BenchError> {
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).await.map_err(BenchError::io("reading a server's answer"))?;
    Ok(line)
}
