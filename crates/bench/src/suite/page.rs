//! Cases 24 and 25: the screens of the page, with ten thousand changes, a thousand servers and five thousand clients.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use memchr::memmem;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tidings_store::{ChangeLog, ChangeQuery, ChangeRecord, ChangedItem, FieldChange, LogLimits, QueryStart, Store};
use tidings_testkit::Server;
use tokio::net::TcpStream;

use super::BenchContext;
use super::listeners::listen;
use crate::error::BenchError;
use crate::load::http::LoadConnection;
use crate::process::{GatewayProcess, run_part};
use crate::report::{BenchSample, ReportRow, RowMeasure, RowTarget};

const CHANGES: usize = 10_000;
const SERVERS: usize = 1_000;
const CLIENTS: usize = 5_000;
/// How often each screen is asked for.
const TIMES: usize = 100;
/// How many records may wait to be written while the log is filled.
const AHEAD: usize = 1_000;
/// How long filling may take.
const FILLING: Duration = Duration::from_secs(60);

/// Options of the `fill` part.
#[derive(clap::Args)]
pub(crate) struct FillOptions {
    /// The data directory.
    #[arg(long)]
    data: PathBuf,
}

/// Fills the change log of a data directory that no gateway has.
pub(crate) async fn fill(options: &FillOptions) -> Result<(), BenchError> {
    fill_log(&options.data).await
}

/// What a screen takes, and what a filter of the feed takes: the slowest of each.
pub(super) async fn rows(bench: &BenchContext) -> Vec<ReportRow> {
    eprintln!("the page …");
    let (mut screens, mut filters, mut note) = (Vec::new(), Vec::new(), None);
    match measure(bench).await {
        Ok(measured) => {
            let sample = |wanted: bool| {
                let of = || measured.iter().filter(move |(_, filter, _)| *filter == wanted);
                let worst = of().map(|(_, _, p99)| *p99).fold(0.0, f64::max);
                let full = of().map(|(path, _, p99)| json!({ "path": path, "p99_ms": p99 })).collect::<Vec<Value>>();
                BenchSample { baseline: None, gateway: Some(worst), full: full.into() }
            };
            screens.push(sample(false));
            filters.push(sample(true));
        }
        Err(error) => note = Some(error.to_string()),
    }
    let what = |which: &str| format!("the page, {CHANGES} changes, {SERVERS} servers, {CLIENTS} clients: {which}, p99");
    let row = |case, which: &str, most, samples, note| {
        ReportRow::judge(
            case,
            what(which),
            RowMeasure::Milliseconds,
            RowTarget::MillisecondsAtMost(most),
            samples,
            note,
        )
    };
    vec![
        row(24, "the slowest screen", 10.0, screens, note.clone()),
        row(25, "the slowest filter", 100.0, filters, note),
    ]
}

async fn measure(bench: &BenchContext) -> Result<Vec<(String, bool, f64)>, BenchError> {
    let data = bench.folder.path().join("page-data");
    // In a process of its own, which has let go of the store when it has ended.
    run_part("fill", &["--data".to_owned(), data.display().to_string()]).await?;
    let server = Server::builder("one").echo("echo").modern_only().http().await;
    let one = |number: usize| format!("[servers.s{number:04}]\n{}\n", server.toml());
    let config: String = (0..SERVERS).map(one).collect();
    let gateway = GatewayProcess::start_ready_in(&bench.gateway, &config, bench.folder.path(), data).await?;
    let measured = measure_running(&gateway).await;
    gateway.stop().await;
    measured
}

/// Writes the change log of a data directory.
async fn fill_log(data: &Path) -> Result<(), BenchError> {
    std::fs::create_dir_all(data).map_err(BenchError::io("making a data directory"))?;
    let store = Store::open(data, Duration::ZERO);
    let log = ChangeLog::start(move || store, LogLimits::default());
    let deadline = Instant::now() + FILLING;
    for number in 0..CHANGES {
        log.append(record(number)?, None);
        if number % AHEAD == AHEAD - 1 {
            // What does not fit would be lost.
            while written(&log).await < number as u64 {
                if Instant::now() > deadline {
                    return Err(BenchError::unexpected("the change log", "that it is written", b""));
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
    log.close().await;
    Ok(())
}

async fn written(log: &ChangeLog) -> u64 {
    let newest = ChangeQuery { from: QueryStart::Newest, limit: 1, max_bytes: 1 };
    log.read(newest).await.map_or(0, |found| found.last)
}

/// A change of two texts of a tool; every tenth adds and removes tools besides.
fn record(number: usize) -> Result<ChangeRecord, BenchError> {
    let raw = |text: String| {
        let json = Value::from(text).to_string();
        RawValue::from_string(json)
            .map(Some)
            .map_err(|error| BenchError::unexpected("a text", "JSON", error.to_string().as_bytes()))
    };
    let text = |which: &str| {
        format!(
            "Searches the {which} of the project for what is asked, with the words of the question. {}",
            "Gives the best first, at most as many as are wanted. ".repeat(4)
        )
    };
    let diff = ["description", "title"].map(|field| {
        Ok(FieldChange {
            field: field.to_owned(),
            before: raw(text(&format!("notes {number}")))?,
            after: raw(text(&format!("files {number}")))?,
            truncated: false,
        })
    });
    let diff = diff.into_iter().collect::<Result<Vec<FieldChange>, BenchError>>()?;
    let tenth = number.is_multiple_of(10);
    Ok(ChangeRecord {
        seq: 0,
        time: Timestamp::now(),
        commit: Some(1_000_000 + number as u64),
        server: format!("s{:04}", number % SERVERS),
        kind: "tools".to_owned(),
        added: if tenth { vec!["create_issue".to_owned()] } else { Vec::new() },
        removed: if tenth { vec!["old_search".to_owned()] } else { Vec::new() },
        changed: vec![ChangedItem {
            name: "search".to_owned(),
            fields: vec!["description".to_owned(), "title".to_owned()],
            diff,
        }],
        while_down: false,
        held: false,
        severity: Some(["wording", "suspect", "breaking", "quiet"][number % 4].to_owned()),
        remarks: Vec::new(),
        omitted: 0,
        lost: 0,
    })
}

async fn measure_running(gateway: &GatewayProcess) -> Result<Vec<(String, bool, f64)>, BenchError> {
    let mut streams: Vec<TcpStream> = Vec::with_capacity(CLIENTS);
    for number in 0..CLIENTS {
        streams.push(listen(gateway.address, number).await?);
    }
    let mut visitor = PageVisitor::enter(gateway).await?;
    let client = visitor.first_client(gateway).await?;
    let screens = [
        "/",
        "/?before=5000",
        "/changes/9999",
        "/clients",
        "/clients?from=2500",
        &format!("/clients/{client}"),
        "/follows",
        "/servers",
        "/servers?from=500",
        "/servers/s0500",
        "/tools",
        "/tools?from=500",
        "/tools?q=echo",
        "/approvals",
        "/calls",
        "/connect",
    ];
    let filters = ["/?severity=suspect", "/?server=s0001", "/?q=nowhere", "/servers?q=s05", "/clients?state=current"];
    let mut measured = Vec::new();
    for (paths, is_filter) in [(&screens[..], false), (&filters[..], true)] {
        for path in paths {
            measured.push(((*path).to_owned(), is_filter, visitor.p99(path).await?));
        }
    }
    drop(streams);
    Ok(measured)
}

/// Somebody with the page open, on one connection.
struct PageVisitor {
    connection: LoadConnection,
    host: String,
    cookie: String,
}

impl PageVisitor {
    /// Makes a link and uses it.
    async fn enter(gateway: &GatewayProcess) -> Result<Self, BenchError> {
        let token =
            std::fs::read_to_string(gateway.data.join("admin.token")).map_err(BenchError::io("reading the token"))?;
        let mut connection = LoadConnection::open(gateway.address).await?;
        let request = format!(
            "POST /api/v1/links HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}",
            gateway.address,
            token.trim()
        );
        let answer = connection.exchange(request.as_bytes()).await?;
        let link: Value = serde_json::from_slice(answer.body).unwrap_or_default();
        let url = link["url"].as_str().and_then(|url| url.strip_prefix("http://"));
        let place = url.and_then(|url| url.split_once('/'));
        let (host, path) =
            place.ok_or_else(|| BenchError::unexpected("the gateway", "a link to the page", answer.body))?;
        let (host, path) = (host.to_owned(), path.to_owned());
        let answer = connection.exchange(format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await?;
        let cookie = answer.header("set-cookie").and_then(|cookie| cookie.split(';').next()).map(str::to_owned);
        let cookie = cookie.ok_or_else(|| BenchError::unexpected("the page", "a cookie", answer.body))?;
        Ok(Self { connection, host, cookie })
    }

    async fn first_client(&mut self, gateway: &GatewayProcess) -> Result<u64, BenchError> {
        let token =
            std::fs::read_to_string(gateway.data.join("admin.token")).map_err(BenchError::io("reading the token"))?;
        let request = format!(
            "GET /api/v1/clients HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
            gateway.address,
            token.trim()
        );
        let answer = self.connection.exchange(request.as_bytes()).await?;
        let all: Value = serde_json::from_slice(answer.body).unwrap_or_default();
        let count = all["clients"].as_array().map_or(0, Vec::len);
        if count < CLIENTS {
            return Err(BenchError::unexpected("the gateway", "all clients", count.to_string().as_bytes()));
        }
        Ok(all["clients"][0]["id"].as_u64().unwrap_or_default())
    }

    /// Milliseconds from the request to the last byte of the page.
    async fn p99(&mut self, path: &str) -> Result<f64, BenchError> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\ncookie: {}\r\nsec-fetch-site: none\r\n\r\n",
            self.host, self.cookie
        );
        let mut took = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            let begun = Instant::now();
            let answer = self.connection.exchange(request.as_bytes()).await?;
            took.push(begun.elapsed().as_secs_f64() * 1e3);
            // The door has no such number.
            let is_screen = memmem::find(answer.body, b"<body data-last=").is_some();
            if answer.status != 200 || !is_screen || !answer.body.ends_with(b"</html>") {
                return Err(BenchError::unexpected("the page", "a screen", path.as_bytes()));
            }
        }
        took.sort_by(f64::total_cmp);
        Ok(took[TIMES * 99 / 100 - 1])
    }
}
