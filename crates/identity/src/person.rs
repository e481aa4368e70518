//! From the claims of a provider, or the name in a certificate, to somebody of whom rules can ask.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use tidings_config::{CertificateSettings, PeopleSettings, glob_matches};
use tidings_engine::{AccessScope, Principal};
use tidings_hub::who::{PersonFacts, WhoPattern};

use crate::resource::RefusedToken;

/// Groups of one person that are kept; a provider that sends more means something else by them.
const MOST: usize = 1024;

/// How the people of one provider are read.
pub(crate) struct PeopleReader {
    pub(crate) settings: PeopleSettings,
    admin: Vec<WhoPattern>,
    /// Claims that rules ask for.
    claims: BTreeSet<String>,
}

impl PeopleReader {
    pub(crate) fn new(settings: PeopleSettings, claims: &BTreeSet<String>) -> Self {
        // A pattern that does not parse was refused by the configuration; here it would fit nobody.
        let admin: Vec<WhoPattern> = settings.admin.iter().filter_map(|who| who.parse().ok()).collect();
        let mut claims = claims.clone();
        // Kept of a person only if some rule asks: tokens carry more about people than the gateway needs to hold.
        claims.extend(admin.iter().filter_map(|who| match who {
            WhoPattern::Claim { name, .. } => Some(name.clone()),
            _ => None,
        }));
        Self { settings, admin, claims }
    }

    /// The person of verified claims, by whoever issued them.
    pub(crate) fn person(&self, issuer: &str, claims: &Map<String, Value>) -> Result<Principal, RefusedToken> {
        let person = self.identified(issuer, claims)?;
        match self.settings.scopes.iter().all(|scope| person.scope.facts().scopes.contains(scope)) {
            true => Ok(person),
            false => Err(RefusedToken::Insufficient(self.settings.scopes.clone())),
        }
    }

    /// The same for claims that only say who somebody is: they have no scopes, and open nothing.
    pub(crate) fn identified(&self, issuer: &str, claims: &Map<String, Value>) -> Result<Principal, RefusedToken> {
        let subject = claims.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty());
        let subject = subject.ok_or(RefusedToken::Invalid("the token does not say whose it is"))?;
        let mut scopes = texts(claims.get("scope"), true);
        // `scope` is one text (RFC 8693, 4.2); `scp` is what others call it, and some send a list.
        scopes.extend(texts(claims.get("scp"), true));
        let asked_for = self
            .claims
            .iter()
            .flat_map(|name| texts(at(claims, name), false).into_iter().map(move |value| (name.clone(), value)));
        let facts = PersonFacts {
            token: None,
            groups: texts(at(claims, &self.settings.groups), false),
            scopes,
            claims: asked_for.collect(),
        };
        let admin = self.admin.iter().any(|who| who.fits(&facts));
        let scope = AccessScope::new(self.settings.servers.clone(), admin, glob_matches).of_person(facts);
        // An issuer has no `#` and a static token no `://`: nobody else can have this name.
        Ok(Principal::new(&format!("{issuer}#{subject}"), scope))
    }
}

/// What names of people with certificates begin with. Those of tokens can not.
pub(crate) const CERTIFIED: &str = "cert:";

/// The person whose certificate has this name, if the rules let them in. The first that fits counts.
pub(crate) fn person_with_certificate(rules: &[CertificateSettings], name: &str) -> Option<Principal> {
    let rule = rules.iter().find(|rule| glob_matches(&rule.name, name))?;
    let facts = PersonFacts { groups: rule.groups.iter().cloned().collect(), ..PersonFacts::default() };
    let scope = AccessScope::new(rule.servers.clone(), rule.admin, glob_matches).of_person(facts);
    Some(Principal::new(&format!("{CERTIFIED}{name}"), scope))
}

/// A claim; dots lead into objects, unless a claim has that very name.
fn at<'c>(claims: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    // The whole name first: claims are often URLs, which have dots.
    claims.get(path).or_else(|| {
        let (first, rest) = path.split_once('.')?;
        at(claims.get(first)?.as_object()?, rest)
    })
}

/// The texts of a claim: one, several in one, or a list.
fn texts(claim: Option<&Value>, spaced: bool) -> BTreeSet<String> {
    match claim {
        Some(Value::String(text)) if spaced => text.split_whitespace().take(MOST).map(str::to_owned).collect(),
        Some(Value::String(text)) => [text.clone()].into(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).take(MOST).map(str::to_owned).collect(),
        // Rules compare texts, so `true` and 42 become theirs.
        Some(value @ (Value::Bool(_) | Value::Number(_))) => [value.to_string()].into(),
        _ => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reader(admin: &str) -> PeopleReader {
        let settings = PeopleSettings {
            audience: Vec::new(),
            scopes: vec!["mcp".to_owned()],
            groups: "realm_access.roles".to_owned(),
            servers: vec!["*".to_owned()],
            admin: vec![admin.to_owned()],
        };
        PeopleReader::new(settings, &["dept".to_owned()].into())
    }

    fn person(reader: &PeopleReader, claims: &Value) -> Result<Principal, RefusedToken> {
        reader.person("https://login.example", claims.as_object().expect("an object"))
    }

    // identity 2
    #[test]
    fn a_person_is_issuer_and_subject_with_what_rules_can_ask_for() {
        let claims = json!({"sub": "7", "scope": "openid mcp", "scp": ["x"], "dept": 9, "email": "a@b",
            "realm_access": {"roles": ["ops", "dev"]}});
        let ada = person(&reader("group:ops"), &claims).expect("let in");
        assert_eq!(&*ada.name, "https://login.example#7");
        let facts = ada.scope.facts();
        assert!(facts.groups.contains("ops") && facts.scopes.contains("mcp") && facts.scopes.contains("x"));
        assert_eq!(facts.claims, [("dept".to_owned(), "9".to_owned())].into(), "only claims that rules name");
        assert!(ada.is_admin());
        assert!(!person(&reader("group:boss"), &claims).expect("let in").is_admin());
        let other = reader("group:ops").person("https://other.example", claims.as_object().expect("an object"));
        assert_ne!(other.expect("let in").name, ada.name, "the same subject elsewhere is somebody else");
    }

    // identity 2
    #[test]
    fn whoever_lacks_a_scope_or_a_name_is_not_let_in() {
        let lacking = person(&reader("group:ops"), &json!({"sub": "7", "scope": "openid"}));
        assert!(matches!(lacking, Err(RefusedToken::Insufficient(scopes)) if scopes == ["mcp"]));
        for nobody in [json!({"scope": "mcp"}), json!({"scope": "mcp", "sub": ""}), json!({"scope": "mcp", "sub": 7})] {
            assert!(matches!(person(&reader("*"), &nobody), Err(RefusedToken::Invalid(_))), "{nobody}");
        }
    }
}
