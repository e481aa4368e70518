//! `[auth]` and `[cluster]`.

use std::collections::BTreeMap;

use crate::error::{ConfigFault, ConfigPlace};
use crate::plan::auth::{AuthSettings, ClusterSettings, JwtSettings, TokenSettings};
use crate::read::TableSection;
use crate::read::forms::{http_url, url};

pub(super) fn auth(mut section: TableSection<'_, '_>) -> AuthSettings {
    let nodes = section.list("tokens", "a list of tables").unwrap_or_default();
    let mut names: BTreeMap<String, ConfigPlace> = BTreeMap::new();
    let mut tokens = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let path = format!("{}[{index}]", section.key("tokens"));
        let entry = TableSection::of_node(section.reading, path.clone(), node.at, node);
        let Some(token) = entry.and_then(token) else { continue };
        match names.get(&token.name) {
            Some(first) => {
                section.reading.fault(&format!("{path}.name"), node.at, ConfigFault::Repeated { first: first.clone() })
            }
            None => drop(names.insert(token.name.clone(), section.reading.place(node.at))),
        }
        tokens.push(token);
    }
    section.remember("jwt");
    let jwt = section.section("jwt").and_then(jwt);
    section.finish();
    AuthSettings { tokens, jwt }
}

fn token(mut section: TableSection<'_, '_>) -> Option<TokenSettings> {
    let name = section.required_text("name");
    let sha256 = section.required_text("sha256").and_then(|text| {
        let digest = digest(text.trim());
        if digest.is_none() {
            section.fault("sha256", ConfigFault::BadDigest);
        }
        digest
    });
    // A token without `servers` may use all of them; an empty list is none.
    let servers = section.texts("servers").unwrap_or_else(|| vec!["*".to_owned()]);
    let admin = section.boolean("admin").unwrap_or(false);
    section.finish();
    Some(TokenSettings { name: name?, sha256: sha256?, servers, admin })
}

fn digest(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    // `from_str_radix` would accept a sign, so the digits are checked before.
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

fn jwt(mut section: TableSection<'_, '_>) -> Option<JwtSettings> {
    let issuer = section.required_text("issuer");
    let audience = section.required_text("audience");
    if !section.has("jwks_url") {
        section.fault("jwks_url", ConfigFault::MissingKey { key: "jwks_url" });
    }
    let jwks_url = http_url(&mut section, "jwks_url");
    section.finish();
    Some(JwtSettings { issuer: issuer?, audience: audience?, jwks_url: jwks_url? })
}

pub(super) fn cluster(mut section: TableSection<'_, '_>) -> Option<ClusterSettings> {
    if !section.has("nats") {
        section.fault("nats", ConfigFault::MissingKey { key: "nats" });
    }
    let nats = url(&mut section, "nats", &["nats://", "tls://"]);
    section.finish();
    Some(ClusterSettings { nats: nats? })
}
