//! `auth` of `[servers.X]`: a word, or a table.

use crate::error::ConfigFault;
use crate::plan::login::{LoginConfig, LoginGrant, LoginResource, LoginSetting};
use crate::read::TableSection;
use crate::read::forms::{http_url, url};
use crate::tree::ConfigValue;

/// How the gateway logs in to a server behind a URL.
pub(super) fn login(section: &mut TableSection<'_, '_>) -> Option<LoginSetting> {
    let entry = section.entry("auth")?;
    match &entry.node.value {
        ConfigValue::Table(_) => section.section("auth").map(|section| LoginSetting::As(Box::new(table(section)))),
        ConfigValue::Text(_) => section.choice("auth", &[("auto", false), ("none", true)]).map(|is_off| match is_off {
            true => LoginSetting::Off,
            false => LoginSetting::Auto,
        }),
        other => {
            let expected = "\"auto\", \"none\" or a table";
            section.fault("auth", ConfigFault::WrongType { expected, found: other.kind() });
            None
        }
    }
}

fn table(mut section: TableSection<'_, '_>) -> LoginConfig {
    let people = section.choice("for", &[("shared", false), ("principal", true)]);
    let grants = [
        ("code", LoginGrant::Code),
        ("device", LoginGrant::Device),
        ("client_credentials", LoginGrant::ClientCredentials),
        ("jwt_bearer", LoginGrant::JwtBearer),
    ];
    let grant = section.choice("grant", &grants).unwrap_or_default();
    let by_machine = match grant {
        LoginGrant::Code | LoginGrant::Device => None,
        LoginGrant::ClientCredentials => Some("grant = \"client_credentials\""),
        LoginGrant::JwtBearer => Some("grant = \"jwt_bearer\""),
    };
    if let (Some(true), Some(kind)) = (people, by_machine) {
        // The gateway logs in as itself, whoever asks.
        section.fault("for", ConfigFault::DoesNotApply { kind });
    }
    let client_id = section.text("client_id");
    if matches!(grant, LoginGrant::ClientCredentials | LoginGrant::JwtBearer) && !section.has("client_id") {
        section.fault("client_id", ConfigFault::MissingKey { key: "client_id" });
    }
    if grant == LoginGrant::JwtBearer && !section.has("assertion") {
        section.fault("assertion", ConfigFault::MissingKey { key: "assertion" });
    }
    let client_secret = section.text("client_secret");
    let client_key = section.text("client_key");
    let client_metadata_url = url(&mut section, "client_metadata_url", &["https://"]);
    let scopes = section.texts("scopes");
    let issuer = http_url(&mut section, "issuer");
    let resource = resource(&mut section);
    let pkce = section.choice("pkce", &[("advertised", false), ("assumed", true)]);
    let legacy = section.boolean("legacy");
    let assertion = section.text("assertion").map(|path| section.reading.expander.path(&path));
    section.finish();
    LoginConfig {
        is_personal: people.unwrap_or_default(),
        grant,
        client_id,
        client_secret,
        client_key,
        client_metadata_url,
        scopes,
        issuer,
        resource,
        pkce_assumed: pkce.unwrap_or_default(),
        legacy: legacy.unwrap_or_default(),
        assertion,
    }
}

fn resource(section: &mut TableSection<'_, '_>) -> LoginResource {
    let Some(entry) = section.entry("resource") else { return LoginResource::Found };
    match &entry.node.value {
        ConfigValue::Boolean(true) => LoginResource::Found,
        ConfigValue::Boolean(false) => LoginResource::Omitted,
        ConfigValue::Text(_) => section.text("resource").map(LoginResource::Named).unwrap_or_default(),
        other => {
            let expected = "true, false or a string";
            section.fault("resource", ConfigFault::WrongType { expected, found: other.kind() });
            LoginResource::Found
        }
    }
}
