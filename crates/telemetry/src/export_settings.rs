//! What is sent where: `[telemetry]`, and the variables of OpenTelemetry for what it does not say.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use tidings_config::TelemetrySettings;

use crate::sampler::TraceSampler;

/// Reads a variable of the environment.
pub type EnvironmentReader<'a> = &'a dyn Fn(&str) -> Option<String>;

/// How long spans are gathered before they are sent.
const SPANS_EVERY: Duration = Duration::from_secs(1);
/// How often measures are sent.
const METRICS_EVERY: Duration = Duration::from_secs(60);
/// More often would be a load for the collector and no news.
const SHORTEST: Duration = Duration::from_millis(10);

/// Everything that the export is told.
#[derive(Clone)]
pub struct ExportSettings {
    pub(crate) traces_url: Uri,
    pub(crate) metrics_url: Uri,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) resource: Vec<(String, String)>,
    pub(crate) sampler: TraceSampler,
    pub(crate) traces: bool,
    pub(crate) metrics: bool,
    pub(crate) spans_every: Duration,
    pub(crate) metrics_every: Duration,
}

impl ExportSettings {
    /// `None` where nothing is to be sent. What is wrong with a variable is said as a warning, because a gateway that does not start for it
    /// would be worse.
    pub fn read(configured: &TelemetrySettings, env: EnvironmentReader<'_>) -> (Option<Self>, Vec<String>) {
        let mut warnings = Vec::new();
        let variable = |name: &str| env(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        // Before the endpoint, also that of the configuration: the variable switches off what anything else has
        // switched on.
        let is_disabled = variable("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let base = configured.otlp.clone().or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let Some(base) = base.filter(|_| !is_disabled) else { return (None, warnings) };
        let is_none = |name| variable(name).is_some_and(|text| text.eq_ignore_ascii_case("none"));
        let (traces, metrics) = (!is_none("OTEL_TRACES_EXPORTER"), !is_none("OTEL_METRICS_EXPORTER"));
        let of = |path: &str| format!("{}{path}", base.trim_end_matches('/')).parse::<Uri>().ok();
        let is_http = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
        let urls = of("/v1/traces").filter(is_http).zip(of("/v1/metrics"));
        let Some((traces_url, metrics_url)) = urls else {
            // The configuration's own URL was checked when it was read, so only the variable can be wrong here.
            warnings.push("OTEL_EXPORTER_OTLP_ENDPOINT is no URL that begins with http:// or https://".to_owned());
            return (None, warnings);
        };
        // Said and then ignored: the address may be right all the same, and a gateway that does not start would be
        // worse.
        if let Some(protocol) = variable("OTEL_EXPORTER_OTLP_PROTOCOL").filter(|known| known != "http/protobuf") {
            warnings.push(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL is {protocol:?}: only http/protobuf is spoken, most often on port 4318"
            ));
        }
        let sampler = match variable("OTEL_TRACES_SAMPLER") {
            None => TraceSampler::default(),
            Some(name) => {
                let argument = variable("OTEL_TRACES_SAMPLER_ARG");
                TraceSampler::parse(&name, argument.as_deref()).unwrap_or_else(|| {
                    warnings.push(format!(
                        "OTEL_TRACES_SAMPLER {name:?} with OTEL_TRACES_SAMPLER_ARG {argument:?} is not known: \
                         parentbased_always_on is used"
                    ));
                    TraceSampler::default()
                })
            }
        };
        let every = |name, otherwise| {
            let told = variable(name).and_then(|text| text.parse().ok()).map(Duration::from_millis);
            told.unwrap_or(otherwise).max(SHORTEST)
        };
        let settings = Self {
            traces_url,
            metrics_url,
            headers: headers(&configured.headers, variable("OTEL_EXPORTER_OTLP_HEADERS").as_deref(), &mut warnings),
            resource: resource(
                configured.service_name.clone().or_else(|| variable("OTEL_SERVICE_NAME")),
                variable("OTEL_RESOURCE_ATTRIBUTES").as_deref(),
            ),
            sampler,
            traces,
            metrics,
            spans_every: every("OTEL_BSP_SCHEDULE_DELAY", SPANS_EVERY),
            metrics_every: every("OTEL_METRIC_EXPORT_INTERVAL", METRICS_EVERY),
        };
        (Some(settings), warnings)
    }

    /// The collector, as it is shown: paths and passwords in URLs are keys, sometimes.
    pub fn shown(&self) -> String {
        let host = self.traces_url.host().unwrap_or_default();
        let port = self.traces_url.port_u16().map(|port| format!(":{port}"));
        format!("{}://{host}{}", self.traces_url.scheme_str().unwrap_or_default(), port.unwrap_or_default())
    }
}

/// `a=1,b=2`, the values with percent signs.
fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    let decoded = |text: &str| percent_decode_str(text.trim()).decode_utf8_lossy().into_owned();
    let pair = move |part: &str| part.split_once('=').map(|(key, value)| (decoded(key), decoded(value)));
    text.split(',').filter_map(pair).filter(|(key, _)| !key.is_empty())
}

/// Those of the configuration go first.
fn headers(
    configured: &[(String, String)],
    told: Option<&str>,
    warnings: &mut Vec<String>,
) -> Vec<(HeaderName, HeaderValue)> {
    let told = told.into_iter().flat_map(pairs);
    let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
    for (name, value) in configured.iter().cloned().chain(told) {
        let (Ok(name), Ok(mut value)) = (HeaderName::try_from(&name), HeaderValue::try_from(&value)) else {
            // Not its value, which is a key as a rule.
            warnings.push(format!("the header {name:?} for the collector is not valid, and is not sent"));
            continue;
        };
        value.set_sensitive(true);
        // The first of a name stays, which is the configuration's: a variable of the machine must not replace a key.
        if !headers.iter().any(|(known, _)| *known == name) {
            headers.push((name, value));
        }
    }
    headers
}

fn resource(service_name: Option<String>, told: Option<&str>) -> Vec<(String, String)> {
    let mut resource: Vec<(String, String)> = told.into_iter().flat_map(pairs).collect();
    if let Some(name) = service_name {
        // `OTEL_SERVICE_NAME` wins over `service.name` among the attributes, by the specification.
        resource.retain(|(key, _)| key != "service.name");
        resource.push(("service.name".to_owned(), name));
    }
    let own = [("service.name", "tidings"), ("service.version", env!("CARGO_PKG_VERSION"))];
    for (key, value) in own {
        if !resource.iter().any(|(known, _)| known == key) {
            resource.push((key.to_owned(), value.to_owned()));
        }
    }
    resource
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(configured: &TelemetrySettings, env: &[(&str, &str)]) -> (Option<ExportSettings>, Vec<String>) {
        let find = |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        ExportSettings::read(configured, &find)
    }

    // reach 7
    #[test]
    fn nothing_is_sent_unless_somebody_says_where() {
        let configured = TelemetrySettings { otlp: Some("http://c:4318".into()), ..TelemetrySettings::default() };
        assert!(read(&TelemetrySettings::default(), &[]).0.is_none());
        assert!(read(&configured, &[]).0.is_some());
        assert!(read(&configured, &[("OTEL_SDK_DISABLED", "true")]).0.is_none());
        let (settings, _) = read(&TelemetrySettings::default(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e:1/base/")]);
        assert_eq!(settings.expect("on").traces_url, "http://e:1/base/v1/traces");
        let (settings, warnings) = read(&TelemetrySettings::default(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", "e:4317")]);
        assert!(settings.is_none() && warnings.len() == 1, "{warnings:?}");
    }

    // reach 7
    #[test]
    fn the_file_goes_before_the_variables() {
        let configured = TelemetrySettings {
            otlp: Some("https://me:hunter2@c:4318/secret".into()),
            headers: vec![("x-key".into(), "file".into())],
            service_name: Some("house".into()),
        };
        let env = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://other"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=variable,b=two%20words,=x,bad header=1"),
            ("OTEL_SERVICE_NAME", "variable"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=third,deployment.environment.name=lab%2C1"),
            ("OTEL_TRACES_SAMPLER", "nonsense"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ];
        let (settings, warnings) = read(&configured, &env);
        let settings = settings.expect("on");
        assert_eq!(settings.shown(), "https://c:4318");
        let headers: Vec<_> = settings.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(headers, [("x-key", &b"file"[..]), ("b", b"two words")]);
        let resource = |key: &str| settings.resource.iter().find(|(known, _)| known == key).map(|(_, v)| v.as_str());
        assert_eq!(resource("service.name"), Some("house"));
        assert_eq!(resource("deployment.environment.name"), Some("lab,1"));
        assert_eq!(settings.sampler, TraceSampler::default());
        assert_eq!(warnings.len(), 3, "{warnings:?}");
    }
}
