//! `[cluster]`.

use crate::error::ConfigFault;
use crate::plan::cluster::{ClusterSettings, ClusterTls};
use crate::read::TableSection;
use crate::read::forms::url;
use crate::tree::ConfigValue;

const NATS_SCHEMES: &[&str] = &["nats://", "tls://"];
/// The least that a secret of a cluster has.
const SECRET_LEAST: usize = 32;
/// A seed of a user: 32 bytes, what it is of and a checksum, in base32.
const SEED_LENGTH: usize = 58;
const LABELS_MOST: usize = 32;
const LABEL_MOST: usize = 64;

pub(super) fn cluster(mut section: TableSection<'_, '_>) -> Option<ClusterSettings> {
    for key in ["nats", "replica", "secret"] {
        if !section.has(key) {
            section.fault(key, ConfigFault::MissingKey { key });
        }
    }
    let nats = match section.entry("nats").map(|entry| &entry.node.value) {
        Some(ConfigValue::List(_)) => section.texts("nats").unwrap_or_default(),
        _ => url(&mut section, "nats", NATS_SCHEMES).into_iter().collect(),
    };
    if nats.iter().any(|server| !NATS_SCHEMES.iter().any(|scheme| server.starts_with(scheme))) {
        section.fault("nats", ConfigFault::BadNats);
    }
    let secrets = match section.entry("secret").map(|entry| &entry.node.value) {
        Some(ConfigValue::List(_)) => section.texts("secret").unwrap_or_default(),
        _ => section.text("secret").into_iter().collect(),
    };
    let secrets: Vec<String> = secrets.into_iter().map(|secret| secret.trim().to_owned()).collect();
    if secrets.iter().any(|secret| secret.len() < SECRET_LEAST) {
        section.fault("secret", ConfigFault::ShortSecret);
    }
    let name = section.text("name").unwrap_or_else(|| "tidings".to_owned());
    // It is a part of subjects and of names of streams.
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        section.fault("name", ConfigFault::BadClusterName);
    }
    let replica = section.text("replica");
    let copies = section.integer("copies", 1, 5).map_or(1, |copies| usize::try_from(copies).unwrap_or(1));
    let credentials = credentials(&mut section, &nats);
    let tls = section.section("tls").map(tls);
    let labels = labels(&mut section, "labels");
    section.finish();
    // One that can not be used is none; why was noted above.
    let replica = replica.filter(|_| !nats.is_empty() && !secrets.is_empty())?;
    Some(ClusterSettings { nats, name, secrets, replica, copies, credentials, tls, labels })
}

/// How the replica logs in to NATS: once, and at all servers alike.
fn credentials(section: &mut TableSection<'_, '_>, nats: &[String]) -> Option<String> {
    let mut logins = nats.iter().filter_map(|server| login_of(server));
    let first = logins.next();
    // A replica logs in once and follows whichever server answers: another login there would be refused after a
    // failover.
    if logins.any(|login| Some(login) != first) {
        section.fault("nats", ConfigFault::UnlikeLogins);
    }
    let credentials = section.text("credentials")?;
    if first.is_some() {
        section.fault("credentials", ConfigFault::TwoLogins);
    // With an unresolved reference in it a text can not be judged.
    } else if !is_creds(&credentials) && !section.reading.lenient.get() {
        section.fault("credentials", ConfigFault::BadCredentials);
    }
    Some(credentials)
}

/// What stands before the host of a URL.
fn login_of(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    authority.rsplit_once('@').map(|(login, _)| login)
}

/// Whether it is a file as `nsc` writes them: a token, then the seed of its user, each between two lines of dashes.
fn is_creds(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let mut part = |kind: &str| {
        lines.find(|line| line.starts_with("---") && line.contains(kind))?;
        lines.find(|line| !line.is_empty())
    };
    let is_token = part("JWT").is_some_and(|token| token.split('.').filter(|part| !part.is_empty()).count() == 3);
    let is_seed = |seed: &str| {
        let is_base32 = seed.bytes().all(|byte| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte));
        seed.len() == SEED_LENGTH && seed.starts_with("SU") && is_base32
    };
    is_token && part("SEED").is_some_and(is_seed)
}

/// `labels` of `[cluster]`, and `placement` of a server or a watch. Every beat carries those of its replica.
pub(crate) fn labels(section: &mut TableSection<'_, '_>, key: &'static str) -> Vec<String> {
    let mut labels = section.texts(key).unwrap_or_default();
    let is_label = |label: &String| {
        let fits = label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=' | '/'));
        !label.is_empty() && label.len() <= LABEL_MOST && fits
    };
    if !labels.iter().all(is_label) {
        section.fault(key, ConfigFault::BadLabel);
    } else if labels.len() > LABELS_MOST {
        section.fault(key, ConfigFault::TooMany { most: LABELS_MOST });
    }
    // Two spellings of one set are one to whoever compares them.
    labels.sort();
    labels.dedup();
    labels
}

fn tls(mut section: TableSection<'_, '_>) -> ClusterTls {
    let mut file = |key| section.text(key).map(|path| section.reading.expander.path(&path));
    let (ca, cert, key) = (file("ca"), file("cert"), file("key"));
    match (&cert, &key) {
        (Some(_), None) => section.fault("key", ConfigFault::MissingKey { key: "key" }),
        (None, Some(_)) => section.fault("cert", ConfigFault::MissingKey { key: "cert" }),
        _ => {}
    }
    section.finish();
    ClusterTls { ca, certificate: cert.zip(key) }
}
