//! Traces and measures for a collector, as OTLP over HTTP in protobuf.
//!
//! The engine hands over spans that are over ([`tidings_engine::TelemetrySink`]); here they are measured, written and queued, and one task
//! sends them. Nobody waits for it: what does not fit is dropped and counted. `sampler` decides which traces are recorded, `queue` how much
//! may wait, `exporter` when it is sent and what becomes of a collector that is down.
//!
//! Belongs here: what a collector is sent. Not here: what a span is about (`engine/observe`).

mod durations;
mod export_settings;
mod exporter;
mod metric_message;
mod protobuf;
mod queue;
mod sampler;
mod span_message;
mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidings_engine::{EndedSpan, TelemetrySink};
use tidings_proto::TraceParent;
use tidings_sync::Lock;
use tidings_upstream::{HttpClient, LinkError};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use durations::OperationDurations;
pub use export_settings::{EnvironmentReader, ExportSettings};
use exporter::Exporter;
use queue::SpanQueue;
pub use status::{CollectorState, TelemetryStatus};

/// Telemetry that is sent somewhere.
#[derive(Clone)]
pub struct Telemetry(Arc<TelemetryParts>);

struct TelemetryParts {
    shared: Arc<TelemetryShared>,
    stop: CancellationToken,
    task: Lock<Option<JoinHandle<()>>>,
}

/// What the path of a call and the task that sends both hold.
struct TelemetryShared {
    settings: ExportSettings,
    queue: SpanQueue,
    durations: Lock<OperationDurations>,
    status: Lock<ExportHealth>,
    exported: AtomicU64,
    failed: AtomicU64,
}

/// How the collector is.
#[derive(Debug, Default)]
struct ExportHealth {
    /// Why it takes nothing, since it does not.
    error: Option<String>,
}

impl Telemetry {
    /// Begins to send. Only inside a runtime.
    pub fn start(settings: ExportSettings) -> Result<Self, LinkError> {
        // The operator says where: a collector stands in a private network, as a rule.
        let client = HttpClient::new()?;
        let shared = Arc::new(TelemetryShared {
            settings,
            queue: SpanQueue::default(),
            durations: Lock::default(),
            status: Lock::default(),
            exported: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let stop = CancellationToken::new();
        let task = tokio::spawn(Exporter::new(Arc::clone(&shared), client).run(stop.clone()));
        Ok(Self(Arc::new(TelemetryParts { shared, stop, task: Lock::new(Some(task)) })))
    }

    /// Who is told of spans.
    pub fn sink(&self) -> Arc<dyn TelemetrySink> {
        Arc::clone(&self.0.shared) as _
    }

    /// How it goes.
    pub fn status(&self) -> TelemetryStatus {
        let shared = &self.0.shared;
        let (queued, dropped) = shared.queue.counts();
        let error = shared.status.lock().error.clone();
        TelemetryStatus {
            endpoint: shared.settings.shown(),
            state: if error.is_some() { CollectorState::Down } else { CollectorState::Fine },
            error,
            exported: shared.exported.load(Ordering::Relaxed),
            failed: shared.failed.load(Ordering::Relaxed),
            dropped,
            queued,
        }
    }

    /// Sends what is left, for a moment, and ends.
    pub async fn close(&self) {
        self.0.stop.cancel();
        let task = self.0.task.lock().take();
        if let Some(task) = task {
            let _ = task.await;
        }
    }
}

impl TelemetrySink for TelemetryShared {
    fn samples(&self, parent: Option<&TraceParent>, trace: &[u8; 16]) -> bool {
        self.settings.traces && self.settings.sampler.samples(parent, trace)
    }

    fn traces(&self) -> bool {
        self.settings.traces
    }

    fn ended(&self, span: EndedSpan) {
        if self.settings.metrics {
            self.durations.lock().observe(&span);
        }
        if span.context.parent.sampled && self.settings.traces {
            self.queue.push(span_message::span(&span));
        }
    }
}
