//! `[gateway]`, `[notifications]` and `[page]`.

use std::time::Duration;

use crate::error::ConfigFault;
use crate::plan::gateway::{
    ExposeSetting, GatewaySettings, InitialTriplet, ListenAddress, ListenTarget, NamingSetting, NotificationSettings,
    REVISIONS, RegistryToolsSetting, TlsSettings, ViewSetting,
};
use crate::plan::page::PageSettings;
use crate::read::TableSection;
use crate::read::forms::http_url;
use crate::tree::ConfigValue;

/// More items than this on a page are no page.
const MAX_PAGE_SIZE: i64 = 1_000_000;
/// Each may be a process.
const MAX_SESSION_LINKS: i64 = 1_000_000;

pub(super) fn gateway(mut section: TableSection<'_, '_>) -> GatewaySettings {
    let default = GatewaySettings::default();
    let (listen, also_listen) = listen(&mut section).unwrap_or((default.listen, Vec::new()));
    let asks_everybody = section.choice("auth", &[("open", false), ("token", true)]).unwrap_or_default();
    let names = section.choice(
        "names",
        &[("auto", NamingSetting::Auto), ("prefix", NamingSetting::Prefix), ("none", NamingSetting::None)],
    );
    let expose = section.choice(
        "expose",
        &[("all", ExposeSetting::All), ("search", ExposeSetting::Search), ("both", ExposeSetting::Both)],
    );
    let registry_tools = registry_tools(&mut section);
    section.remember("catalogue");
    let catalogue = section.text("catalogue").map(|path| section.reading.expander.path(&path));
    let start_wait = section.duration("start_wait").unwrap_or(default.start_wait);
    let start_timeout = section.positive_duration("start_timeout").unwrap_or(default.start_timeout);
    let timeout = section.positive_duration("timeout").unwrap_or(default.timeout);
    let max_timeout = section.positive_duration("max_timeout");
    section.not_below("max_timeout", max_timeout, "timeout", Some(timeout));
    let input_wait = section.positive_duration("input_wait").unwrap_or(default.input_wait);
    let page_size = section.integer("page_size", 1, MAX_PAGE_SIZE).and_then(|size| usize::try_from(size).ok());
    let view = section.choice("view", &[("strict", ViewSetting::Strict), ("pass", ViewSetting::Pass)]);
    let hint = section.boolean("hint").unwrap_or(default.hint);
    let mut links = |key| section.integer(key, 1, MAX_SESSION_LINKS).and_then(|number| usize::try_from(number).ok());
    let (session_links, session_links_per_client) = (links("session_links"), links("session_links_per_client"));
    let session_link_idle = section.positive_duration("session_link_idle").unwrap_or(default.session_link_idle);
    let inherit_env = super::server::inherit_env(&mut section).unwrap_or_default();
    let public_url = http_url(&mut section, "public_url");
    let tls = section.section("tls").and_then(tls).map(Box::new);
    section.finish();
    GatewaySettings {
        listen,
        also_listen,
        asks_everybody,
        names: names.unwrap_or_default(),
        expose: expose.unwrap_or_default(),
        registry_tools: registry_tools.unwrap_or_default(),
        catalogue,
        start_wait,
        start_timeout,
        timeout,
        // A timeout above the default maximum raises the maximum, which the user did not set.
        max_timeout: max_timeout.unwrap_or(default.max_timeout.max(timeout)),
        input_wait,
        page_size: page_size.unwrap_or(default.page_size),
        view: view.unwrap_or_default(),
        hint,
        session_links: session_links.unwrap_or(default.session_links),
        session_links_per_client: session_links_per_client.unwrap_or(default.session_links_per_client),
        session_link_idle,
        inherit_env,
        public_url,
        tls,
    }
}

fn tls(mut section: TableSection<'_, '_>) -> Option<TlsSettings> {
    let cert = section.required_text("cert").map(|path| section.reading.expander.path(&path));
    let key = section.required_text("key").map(|path| section.reading.expander.path(&path));
    let client_ca = section.text("client_ca").map(|path| section.reading.expander.path(&path));
    let required = section.choice("client_cert", &[("optional", false), ("required", true)]);
    // Whoever asks for certificates has to say whose count.
    if required.is_some() && client_ca.is_none() {
        section.fault("client_cert", ConfigFault::MissingKey { key: "client_ca" });
    }
    section.finish();
    Some(TlsSettings { cert: cert?, key: key?, client_ca, client_cert_required: required.unwrap_or_default() })
}

/// The first has to be an address: it is what clients are told.
fn listen(section: &mut TableSection<'_, '_>) -> Option<(ListenAddress, Vec<ListenTarget>)> {
    let entry = section.entry("listen")?;
    let texts = match &entry.node.value {
        ConfigValue::List(_) => section.texts("listen")?,
        _ => vec![section.text("listen")?],
    };
    let target = |text: &String| match text.strip_prefix("unix:") {
        Some(path) => Some(ListenTarget::Socket(section.reading.expander.path(path))),
        None => text.parse().ok().map(ListenTarget::Address),
    };
    // All or none: one that does not parse makes the whole key wrong.
    let targets: Option<Vec<ListenTarget>> = texts.iter().map(target).collect();
    let mut targets = targets.unwrap_or_default().into_iter();
    match targets.next() {
        Some(ListenTarget::Address(first)) => Some((first, targets.collect())),
        _ => {
            section.fault("listen", ConfigFault::BadListen);
            None
        }
    }
}

fn registry_tools(section: &mut TableSection<'_, '_>) -> Option<RegistryToolsSetting> {
    let entry = section.entry("registry_tools")?;
    match &entry.node.value {
        ConfigValue::Boolean(true) => Some(RegistryToolsSetting::On),
        ConfigValue::Boolean(false) => Some(RegistryToolsSetting::Off),
        ConfigValue::Text(_) => section
            .choice("registry_tools", &[("auto", RegistryToolsSetting::Auto), ("ask", RegistryToolsSetting::Ask)]),
        other => {
            section.fault(
                "registry_tools",
                ConfigFault::WrongType { expected: "\"auto\", \"ask\", true or false", found: other.kind() },
            );
            None
        }
    }
}

pub(super) fn notifications(mut section: TableSection<'_, '_>) -> NotificationSettings {
    let default = NotificationSettings::default();
    let initial = section.choice("initial", &[("once", InitialTriplet::Once), ("never", InitialTriplet::Never)]);
    let suppress = suppress(&mut section).unwrap_or(default.suppress);
    let list = (default.list_quiet, default.list_max_wait);
    let (list_quiet, list_max_wait) = quiet(&mut section, "list_quiet", "list_max_wait", list);
    let resource = (default.resource_quiet, default.resource_max_wait);
    let (resource_quiet, resource_max_wait) = quiet(&mut section, "resource_quiet", "resource_max_wait", resource);
    let poll_interval = section.duration("poll_interval").unwrap_or(default.poll_interval);
    section.finish();
    NotificationSettings {
        initial: initial.unwrap_or_default(),
        suppress,
        list_quiet,
        list_max_wait,
        resource_quiet,
        resource_max_wait,
        poll_interval,
    }
}

/// A quiet time and the maximum that follows it up when only the quiet time is set.
fn quiet(
    section: &mut TableSection<'_, '_>,
    quiet_key: &'static str,
    max_key: &'static str,
    (default_quiet, default_max): (Duration, Duration),
) -> (Duration, Duration) {
    let quiet = section.duration(quiet_key).unwrap_or(default_quiet);
    let max = section.duration(max_key);
    section.not_below(max_key, max, quiet_key, Some(quiet));
    (quiet, max.unwrap_or(default_max.max(quiet)))
}

fn suppress(section: &mut TableSection<'_, '_>) -> Option<Vec<String>> {
    let revisions = section.texts("suppress")?;
    for revision in &revisions {
        if !REVISIONS.contains(&revision.as_str()) {
            section.fault("suppress", ConfigFault::NotOneOf { found: revision.clone(), choices: REVISIONS.to_vec() });
        }
    }
    Some(revisions)
}

/// `[page]`.
pub(super) fn page(mut section: TableSection<'_, '_>) -> PageSettings {
    let enabled = section.boolean("enabled").unwrap_or(PageSettings::default().enabled);
    section.finish();
    PageSettings { enabled }
}
