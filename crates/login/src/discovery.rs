//! What there is to log in to: from a server's address and its challenge to its provider. Steps without I/O: an address to read, what
//! came of it, the next.
//!
//! The order is that of the specification: what the challenge names, the well-known places of the server, and for servers of older
//! revisions the server's own origin as a provider. Nothing is made up unless the configuration says so.

use std::collections::VecDeque;

use tidings_config::{LoginConfig, LoginResource};

use crate::challenge::BearerChallenge;
use crate::metadata::{Provider, ResourceMetadata};
use crate::web_address::WebAddress;

/// A server and its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discovered {
    pub(crate) provider: Provider,
    /// What the token is asked for.
    pub(crate) resource: Option<String>,
    /// What the resource says it has.
    pub(crate) scopes: Option<Vec<String>>,
}

/// Why it could not be found out, or must not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DiscoveryFault {
    #[error("{url} does not answer: {reason}")]
    Silent { url: String, reason: String },
    #[error("{url} describes another resource ({resource}) than the server that names it")]
    OtherResource { url: String, resource: String },
    #[error("the server names no provider in {url}")]
    NoProvider { url: String },
    #[error("the server does not name the provider {issuer} of `issuer`; it names {named}")]
    NotNamed { issuer: String, named: String },
    #[error("the provider {issuer} describes itself nowhere")]
    Undescribed { issuer: String },
    #[error("{url} is the description of {found}, and not of {issuer}")]
    OtherIssuer { url: String, issuer: String, found: String },
    #[error("{url} can be read by others on the way: a provider must be reached over https")]
    Unsafe { url: String },
}

impl DiscoveryFault {
    /// Whether it may be otherwise in a moment.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Silent { .. })
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DiscoveryStep {
    /// Read this address, and say what came.
    Get(String),
    Found(Box<Discovered>),
    /// The server wants credentials and names nobody to get them from.
    Nothing,
    Failed(DiscoveryFault),
}

/// What came of reading an address.
pub(crate) enum DiscoveryAnswer<'a> {
    /// A success with this body.
    Body(&'a [u8]),
    /// There is nothing: a status that says so.
    Absent,
    /// Nobody answered, or somebody is out of order.
    Silent(String),
}

enum DiscoveryStage {
    Resource,
    Provider { issuer: String, is_guess: bool },
}

pub(crate) struct Discovery<'s> {
    settings: &'s LoginConfig,
    server: WebAddress,
    stage: DiscoveryStage,
    places: VecDeque<String>,
    reading: Option<String>,
    resource: Option<String>,
    scopes: Option<Vec<String>>,
    silent: Option<DiscoveryFault>,
    done: Option<DiscoveryStep>,
}

impl<'s> Discovery<'s> {
    pub(crate) fn new(server: WebAddress, challenge: Option<&BearerChallenge>, settings: &'s LoginConfig) -> Self {
        let named = challenge.and_then(|challenge| challenge.resource_metadata.clone());
        let mut places: VecDeque<String> = named.into_iter().collect();
        places.extend(server.resource_metadata());
        Self {
            settings,
            server,
            stage: DiscoveryStage::Resource,
            places,
            reading: None,
            resource: None,
            scopes: None,
            silent: None,
            done: None,
        }
    }

    /// What a provider says of itself whose name is known: there is no server that names it.
    pub(crate) fn of_provider(issuer: &WebAddress, name: &str, settings: &'s LoginConfig) -> Self {
        let mut discovery = Self::new(issuer.clone(), None, settings);
        discovery.look_for(name.to_owned(), false);
        discovery
    }

    pub(crate) fn next(&mut self) -> DiscoveryStep {
        loop {
            if let Some(done) = &self.done {
                return done.clone();
            }
            match self.places.pop_front() {
                Some(url) if WebAddress::parse(&url).is_some_and(|address| address.is_safe()) => {
                    self.reading = Some(url.clone());
                    return DiscoveryStep::Get(url);
                }
                // A server without TLS has no safe place of its own; a challenge may name one.
                Some(_) => {}
                None => self.exhausted(),
            }
        }
    }

    /// What came of the last [`DiscoveryStep::Get`].
    pub(crate) fn answer(&mut self, answer: DiscoveryAnswer<'_>) {
        let Some(url) = self.reading.take() else { return };
        match answer {
            DiscoveryAnswer::Absent => {}
            DiscoveryAnswer::Silent(reason) => self.silent = Some(DiscoveryFault::Silent { url, reason }),
            DiscoveryAnswer::Body(body) => match &self.stage {
                DiscoveryStage::Resource => {
                    // What is no such document is as good as none: many servers answer every path with a page.
                    if let Ok(metadata) = serde_json::from_slice(body) {
                        self.described(&url, metadata);
                    }
                }
                DiscoveryStage::Provider { .. } => {
                    if let Ok(provider) = serde_json::from_slice(body) {
                        self.provided(url, provider);
                    }
                }
            },
        }
    }

    fn finish(&mut self, step: DiscoveryStep) {
        self.done = Some(step);
    }

    fn fail(&mut self, fault: DiscoveryFault) {
        self.finish(DiscoveryStep::Failed(fault));
    }

    /// The resource has described itself.
    fn described(&mut self, url: &str, metadata: ResourceMetadata) {
        if let Some(resource) = &metadata.resource {
            // Else a server could have tokens asked for in the name of another, and use them there (RFC 9728, 3.3 and
            // 7.3).
            let fits = WebAddress::parse(resource).is_some_and(|found| found.covers(&self.server));
            if !fits {
                return self.fail(DiscoveryFault::OtherResource { url: url.to_owned(), resource: resource.clone() });
            }
        }
        let named = &metadata.authorization_servers;
        let issuer = match &self.settings.issuer {
            // A server that names nobody leaves it to the configuration.
            Some(issuer) if named.is_empty() || named.contains(issuer) => issuer.clone(),
            Some(issuer) => {
                return self.fail(DiscoveryFault::NotNamed { issuer: issuer.clone(), named: named.join(", ") });
            }
            // The first: RFC 9728 leaves the choice to the client, and nothing here tells them apart.
            None => match named.first() {
                Some(first) => first.clone(),
                None => return self.fail(DiscoveryFault::NoProvider { url: url.to_owned() }),
            },
        };
        self.resource = metadata.resource;
        self.scopes = metadata.scopes_supported;
        self.look_for(issuer, false);
    }

    fn look_for(&mut self, issuer: String, is_guess: bool) {
        let Some(address) = WebAddress::parse(&issuer).filter(WebAddress::is_safe) else {
            return self.fail(DiscoveryFault::Unsafe { url: issuer });
        };
        self.places = address.provider_metadata().into();
        self.stage = DiscoveryStage::Provider { issuer, is_guess };
    }

    /// A provider has described itself.
    fn provided(&mut self, url: String, provider: Provider) {
        let DiscoveryStage::Provider { issuer, is_guess } = &self.stage else { return };
        // A guess is the bare origin, which some spell with a slash.
        let is_same = provider.issuer == *issuer || (*is_guess && provider.issuer.trim_end_matches('/') == issuer);
        if !is_same {
            let (issuer, found) = (issuer.clone(), provider.issuer);
            return self.fail(DiscoveryFault::OtherIssuer { url, issuer, found });
        }
        if provider.token_endpoint.is_none() {
            // Of no use without one; the next place may say more.
            return;
        }
        self.found(provider);
    }

    fn found(&mut self, provider: Provider) {
        if let Some(url) = provider.unsafe_endpoint() {
            let url = url.to_owned();
            return self.fail(DiscoveryFault::Unsafe { url });
        }
        let resource = match &self.settings.resource {
            LoginResource::Omitted => None,
            LoginResource::Named(resource) => Some(resource.clone()),
            // What the resource calls itself, letter by letter: its provider compares it as text.
            LoginResource::Found => Some(self.resource.clone().unwrap_or_else(|| self.server.canonical())),
        };
        let scopes = self.scopes.take();
        self.finish(DiscoveryStep::Found(Box::new(Discovered { provider, resource, scopes })));
    }

    fn exhausted(&mut self) {
        match &self.stage {
            // A place that does not answer may be the one that counts.
            DiscoveryStage::Resource if self.silent.is_some() => self.fall_silent(),
            DiscoveryStage::Resource => match self.settings.issuer.clone() {
                Some(issuer) => self.look_for(issuer, false),
                None => self.look_for_at_the_server(),
            },
            DiscoveryStage::Provider { .. } if self.silent.is_some() => self.fall_silent(),
            DiscoveryStage::Provider { is_guess: true, .. } if self.settings.legacy => {
                let provider = Provider::invented(&self.server);
                self.found(provider);
            }
            DiscoveryStage::Provider { is_guess: true, .. } => self.finish(DiscoveryStep::Nothing),
            DiscoveryStage::Provider { issuer, .. } => {
                let issuer = issuer.clone();
                self.fail(DiscoveryFault::Undescribed { issuer });
            }
        }
    }

    fn look_for_at_the_server(&mut self) {
        // Not `look_for`, which calls it a fault: a server without TLS has nothing to log in to.
        match self.server.is_safe() {
            true => self.look_for(self.server.origin(), true),
            false => self.finish(DiscoveryStep::Nothing),
        }
    }

    fn fall_silent(&mut self) {
        if let Some(fault) = self.silent.take() {
            self.fail(fault);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::{Value, json};

    use super::*;

    const SERVER: &str = "https://crm.example/a/mcp";

    /// What a web of documents leads to, and what was read on the way.
    fn walk(settings: &LoginConfig, challenge: Option<&str>, web: &[(&str, Value)]) -> (DiscoveryStep, Vec<String>) {
        let challenge = challenge.and_then(BearerChallenge::parse);
        let web: HashMap<&str, String> = web.iter().map(|(url, value)| (*url, value.to_string())).collect();
        let server = WebAddress::parse(SERVER).expect("an address");
        let mut discovery = Discovery::new(server, challenge.as_ref(), settings);
        let mut read = Vec::new();
        loop {
            match discovery.next() {
                DiscoveryStep::Get(url) => {
                    match web.get(url.as_str()).map(String::as_str) {
                        Some("\"silent\"") => discovery.answer(DiscoveryAnswer::Silent("503".into())),
                        Some(body) => discovery.answer(DiscoveryAnswer::Body(body.as_bytes())),
                        None => discovery.answer(DiscoveryAnswer::Absent),
                    }
                    read.push(url);
                }
                done => return (done, read),
            }
        }
    }

    fn provider(issuer: &str) -> Value {
        json!({"issuer": issuer, "token_endpoint": "https://login.example/token",
               "authorization_endpoint": "https://login.example/authorize"})
    }

    fn resource(named: &str) -> Value {
        json!({"resource": SERVER, "authorization_servers": [named], "scopes_supported": ["read"]})
    }

    const WELL_KNOWN: &str = "https://crm.example/.well-known/oauth-protected-resource/a/mcp";
    const LOGIN: &str = "https://login.example/.well-known/oauth-authorization-server/t";

    fn issuer_of(step: &DiscoveryStep) -> &str {
        match step {
            DiscoveryStep::Found(found) => &found.provider.issuer,
            other => panic!("{other:?}"),
        }
    }

    // identity 8.1
    #[test]
    fn the_challenge_comes_before_the_well_known_places() {
        let challenge = r#"Bearer resource_metadata="https://crm.example/where""#;
        let web = [
            ("https://crm.example/where", resource("https://login.example/t")),
            (LOGIN, provider("https://login.example/t")),
        ];
        let (found, read) = walk(&LoginConfig::default(), Some(challenge), &web);
        assert_eq!(issuer_of(&found), "https://login.example/t");
        assert_eq!(read, ["https://crm.example/where", LOGIN]);
        let DiscoveryStep::Found(found) = found else { panic!() };
        assert_eq!((found.resource.as_deref(), found.scopes), (Some(SERVER), Some(vec!["read".to_owned()])));
    }

    // identity 8.1
    #[test]
    fn an_older_server_is_its_own_provider_and_nothing_is_made_up() {
        let root = "https://crm.example/.well-known/oauth-authorization-server";
        let (found, read) = walk(&LoginConfig::default(), None, &[(root, provider("https://crm.example"))]);
        assert_eq!(issuer_of(&found), "https://crm.example");
        assert_eq!(read.len(), 3);
        assert_eq!(walk(&LoginConfig::default(), None, &[]).0, DiscoveryStep::Nothing);
        let legacy = LoginConfig { legacy: true, ..LoginConfig::default() };
        let DiscoveryStep::Found(made_up) = walk(&legacy, None, &[]).0 else { panic!() };
        assert_eq!(made_up.provider.token_endpoint.as_deref(), Some("https://crm.example/token"));
    }

    // identity 8.1
    #[test]
    fn what_does_not_fit_is_refused() {
        let other =
            json!({"resource": "https://evil.example/mcp", "authorization_servers": ["https://login.example/t"]});
        for (web, is_refused) in [
            (vec![(WELL_KNOWN, other)], "another resource"),
            (
                vec![(WELL_KNOWN, resource("https://login.example/t")), (LOGIN, provider("https://login.example"))],
                "and not of",
            ),
            (vec![(WELL_KNOWN, resource("http://login.example/t"))], "https"),
            (vec![(WELL_KNOWN, resource("https://login.example/t"))], "nowhere"),
            (vec![(WELL_KNOWN, json!({"resource": SERVER}))], "names no provider"),
            (vec![(WELL_KNOWN, json!("silent"))], "does not answer"),
        ] {
            let (step, _) = walk(&LoginConfig::default(), None, &web);
            let DiscoveryStep::Failed(fault) = step else { panic!("{step:?}") };
            assert!(fault.to_string().contains(is_refused), "{fault}");
        }
        let named = LoginConfig { issuer: Some("https://mine.example".into()), ..LoginConfig::default() };
        let (step, _) = walk(&named, None, &[(WELL_KNOWN, resource("https://login.example/t"))]);
        assert!(matches!(step, DiscoveryStep::Failed(DiscoveryFault::NotNamed { .. })), "{step:?}");
    }

    #[test]
    fn an_endpoint_without_tls_is_not_used() {
        let mut leaky = provider("https://login.example/t");
        leaky["token_endpoint"] = json!("http://login.example/token");
        let web = [(WELL_KNOWN, resource("https://login.example/t")), (LOGIN, leaky)];
        let (step, _) = walk(&LoginConfig::default(), None, &web);
        assert!(matches!(step, DiscoveryStep::Failed(DiscoveryFault::Unsafe { .. })), "{step:?}");
    }
}
