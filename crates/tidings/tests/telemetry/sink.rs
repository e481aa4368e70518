//! A collector in the process of the test: takes OTLP over HTTP, and decodes it with the types of the standard.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as SpanStatus;
use prost::Message as _;
use tidings_sync::Lock;
use tidings_testkit::within;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

#[derive(Clone, Default)]
pub(crate) struct OtlpSink {
    got: Arc<Lock<Gathered>>,
    /// What it answers, 200 once there is nothing left.
    pub(crate) answers: Arc<Lock<Vec<u16>>>,
}

#[derive(Default)]
struct Gathered {
    requests: usize,
    headers: Vec<HeaderMap>,
    bodies: Vec<Bytes>,
    spans: Vec<ReceivedSpan>,
    points: BTreeMap<String, Vec<HistogramDataPoint>>,
}

/// A span with its attributes by name.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedSpan {
    pub(crate) raw: Span,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) resource: BTreeMap<String, String>,
}

impl ReceivedSpan {
    pub(crate) fn is(&self, kind: SpanKind, name: &str) -> bool {
        self.raw.kind() == kind && self.raw.name == name
    }

    pub(crate) fn attribute(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.raw.status.as_ref().is_some_and(|status| status.code() == SpanStatus::Error)
    }

    /// What a `traceparent` says of it.
    pub(crate) fn parent_line(&self) -> String {
        format!("00-{}-{}-01", hex(&self.raw.trace_id), hex(&self.raw.span_id))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn named(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &AnyValue| match value {
        AnyValue::StringValue(text) => text.clone(),
        AnyValue::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let value = |pair: &KeyValue| pair.value.as_ref().and_then(|value| value.value.as_ref()).map(text);
    attributes.iter().map(|pair| (pair.key.clone(), value(pair).unwrap_or_default())).collect()
}

impl OtlpSink {
    /// An address where nobody listens yet.
    pub(crate) async fn reserve() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
    }

    pub(crate) async fn listen(&self, address: SocketAddr) -> JoinHandle<()> {
        let listener = TcpListener::bind(address).await.unwrap();
        let router = Router::new().fallback(Self::take).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() })
    }

    /// A sink that listens, and what a gateway has to be told of it.
    pub(crate) async fn start() -> (Self, String) {
        let (sink, address) = (Self::default(), Self::reserve().await);
        drop(sink.listen(address).await);
        (sink, format!("[telemetry]\notlp = \"http://{address}\"\n"))
    }

    async fn take(State(sink): State<Self>, uri: Uri, headers: HeaderMap, body: Bytes) -> StatusCode {
        let mut got = sink.got.lock();
        got.requests += 1;
        let answer = sink.answers.lock().pop();
        if let Some(answer) = answer.filter(|status| *status != 200) {
            return StatusCode::from_u16(answer).unwrap();
        }
        assert_eq!(headers["content-type"], "application/x-protobuf");
        got.headers.push(headers);
        got.bodies.push(body.clone());
        match uri.path() {
            "/v1/traces" => {
                let request = ExportTraceServiceRequest::decode(body).unwrap();
                for group in request.resource_spans {
                    let resource = named(&group.resource.unwrap().attributes);
                    for span in group.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                        let attributes = named(&span.attributes);
                        got.spans.push(ReceivedSpan { raw: span, attributes, resource: resource.clone() });
                    }
                }
            }
            "/v1/metrics" => {
                let request = ExportMetricsServiceRequest::decode(body).unwrap();
                let scopes = request.resource_metrics.into_iter().flat_map(|group| group.scope_metrics);
                for metric in scopes.flat_map(|scope| scope.metrics) {
                    assert_eq!(metric.unit, "s");
                    let Some(Data::Histogram(histogram)) = metric.data else { panic!("{metric:?}") };
                    got.points.insert(metric.name, histogram.data_points);
                }
            }
            other => panic!("{other}"),
        }
        StatusCode::OK
    }

    pub(crate) fn requests(&self) -> usize {
        self.got.lock().requests
    }

    pub(crate) fn headers(&self) -> Vec<HeaderMap> {
        self.got.lock().headers.clone()
    }

    pub(crate) fn spans(&self) -> Vec<ReceivedSpan> {
        self.got.lock().spans.clone()
    }

    /// Whether a text is anywhere in what was sent.
    pub(crate) fn contains(&self, text: &str) -> bool {
        self.got.lock().bodies.iter().any(|body| body.windows(text.len()).any(|part| part == text.as_bytes()))
    }

    /// The first span that fits.
    pub(crate) async fn wait_span(&self, what: &str, fits: impl Fn(&ReceivedSpan) -> bool) -> ReceivedSpan {
        let found = async {
            loop {
                if let Some(span) = self.got.lock().spans.iter().find(|span| fits(span)) {
                    return span.clone();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        within(what, found).await
    }

    /// The series of a histogram, once there is one that fits.
    pub(crate) async fn wait_point(
        &self,
        metric: &str,
        fits: impl Fn(&BTreeMap<String, String>, &HistogramDataPoint) -> bool,
    ) -> HistogramDataPoint {
        let found =
            async {
                loop {
                    let point =
                        self.got.lock().points.get(metric).and_then(|points| {
                            points.iter().find(|point| fits(&named(&point.attributes), point)).cloned()
                        });
                    match point {
                        Some(point) => return point,
                        None => tokio::time::sleep(Duration::from_millis(10)).await,
                    }
                }
            };
        within(metric, found).await
    }
}
