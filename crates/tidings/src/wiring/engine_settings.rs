//! What the engine is told beside its servers, from the configuration.

use tidings_config::{ClusterSettings, ClusterTls, Config, InitialTriplet, NamingSetting, ViewSetting};
use tidings_engine::{
    FleetSettings, ListAnnouncements, ListPages, Names, NatsAccess, NatsTls, NoticePace, OwnLinkLimits, ParkLimits,
    RefreshPace, SealKey, Settings, WaitLimits,
};
use tidings_hub::fleet::replaced_lists::LISTS_KEPT;
use tidings_proto::gateway_path::GatewayPath;
use tidings_proto::{FieldView, Revision};

use crate::client_profiles;

pub(crate) fn of_cluster(cluster: &ClusterSettings) -> FleetSettings {
    FleetSettings {
        nats: cluster.nats.clone(),
        name: cluster.name.clone(),
        secrets: cluster.secrets.iter().map(|secret| secret.clone().into_bytes()).collect(),
        replica: cluster.replica.clone(),
        copies: cluster.copies,
        labels: cluster.labels.clone(),
        lists_kept: LISTS_KEPT,
        watches: Vec::new(),
        access: NatsAccess {
            credentials: cluster.credentials.clone(),
            tls: cluster.tls.clone().map(|ClusterTls { ca, certificate }| NatsTls { ca, certificate }),
        },
    }
}

pub(super) fn of(config: &Config) -> Settings {
    let (gateway, notifications) = (&config.gateway, &config.notifications);
    Settings {
        waits: WaitLimits {
            start: gateway.start_wait,
            added: gateway.start_timeout,
            silence: gateway.timeout,
            call: gateway.max_timeout,
        },
        pages: ListPages { size: gateway.page_size, longest_bound: None },
        view: match gateway.view {
            ViewSetting::Strict => FieldView::Strict,
            ViewSetting::Pass => FieldView::Pass,
        },
        names: match gateway.names {
            NamingSetting::Auto => Names::Auto,
            NamingSetting::Prefix => Names::Prefix,
            NamingSetting::None => Names::None,
        },
        list_pace: RefreshPace { quiet: notifications.list_quiet, max_wait: notifications.list_max_wait },
        resource_pace: NoticePace { quiet: notifications.resource_quiet, max_wait: notifications.resource_max_wait },
        poll_interval: notifications.poll_interval,
        announcements: ListAnnouncements {
            initially: notifications.initial == InitialTriplet::Once,
            // None is lost here: the configuration refuses what is no revision.
            silent: notifications.suppress.iter().filter_map(|text| Revision::parse(text)).collect(),
            hints: gateway.hint,
        },
        clients: client_profiles::of(config),
        own_links: OwnLinkLimits {
            per_owner: gateway.session_links_per_client,
            total: gateway.session_links,
            idle: gateway.session_link_idle,
            ..OwnLinkLimits::default()
        },
        limits: Default::default(),
        parks: ParkLimits { ttl: gateway.input_wait, ..ParkLimits::default() },
        seal_key: SealKey::default(),
        version: env!("CARGO_PKG_VERSION"),
        path: GatewayPath::default(),
    }
}
