//! Browsers that open the page of a login are known by the provider that the people of the gateway come from (`client_id` of `jwt`). The
//! provider is a script; a real one is in `conformance/known_browsers.mjs`.

use reqwest::Response;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use serde_json::{Value, json};
use tidings_testkit::{Client, Gateway, Server};

use crate::people_links::patient;
use crate::people_logins::{crm, page, people_of};
use crate::providers::{BROWSER_CLIENT, Provider, bearing};
use crate::scripted_provider::{browser, come_back, provider};

/// A gateway whose people come from a provider, before a server that each of them logs in to.
async fn gateway_of(people: &Provider, keys: &str) -> (Server, Gateway) {
    let (issuer, given) = provider().await;
    let server = crm(&issuer, &given).http().await;
    let gateway = patient(&people.toml_with_browsers()).server_with("crm", &server, keys).serve().await;
    (server, gateway)
}

const PERSONAL: &str = "auth = { for = \"principal\" }\n";

async fn client_of(who: &str, people: &Provider, gateway: &Gateway) -> Client {
    bearing(gateway.client(), &people.token(gateway, &json!({ "sub": who }))).connect().await
}

/// The page that a person is given.
async fn page_of(client: &Client) -> String {
    page(&client.call_tool("log_in", json!({})).await.text())
}

fn field<'a>(url: &'a str, name: &str) -> &'a str {
    let fields = url.split(['?', '&']);
    fields
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
        .unwrap_or_default()
}

/// A browser that opened a page and was sent to the provider of its person.
struct Sent {
    url: String,
    cookie: String,
}

async fn open(page: &str) -> Sent {
    let sent = browser().get(page).send().await.unwrap();
    assert_eq!(sent.status(), 303);
    let cookie = sent.headers()[SET_COOKIE].to_str().unwrap();
    assert!(
        cookie.starts_with("tidings_person_") && cookie.contains("; HttpOnly; SameSite=Lax; Path=/oauth/whoami; "),
        "{cookie}"
    );
    Sent {
        url: sent.headers()[LOCATION].to_str().unwrap().to_owned(),
        cookie: cookie.split(';').next().unwrap().to_owned(),
    }
}

impl Sent {
    /// Where it comes back to as this person.
    fn back(&self, gateway: &Gateway, who: &str) -> String {
        let (state, nonce) = (field(&self.url, "state"), field(&self.url, "nonce"));
        format!("{}/oauth/whoami?code={who}.{nonce}&state={state}", gateway.base_url())
    }

    async fn come_back(&self, gateway: &Gateway, who: &str) -> Response {
        visit(&self.back(gateway, who), &self.cookie).await
    }
}

async fn visit(url: &str, cookie: &str) -> Response {
    browser().get(url).header(COOKIE, cookie).send().await.unwrap()
}

/// What somebody sees who was not let on: a status, a page, and no way to the provider of the server.
async fn shown(answer: Response, status: u16, words: &str) {
    assert_eq!(answer.status(), status);
    assert!(answer.headers().get(LOCATION).is_none());
    let text = answer.text().await.unwrap();
    assert!(text.contains(words), "{text}");
}

// identity 1: "the page knows the browser by the provider of `[auth] jwt` (`sub` equal)"
#[tokio::test]
async fn a_browser_is_known_by_the_provider_of_its_person_and_no_token_is_asked_for() {
    let people = Provider::start().await;
    let (_server, gateway) = gateway_of(&people, PERSONAL).await;
    let ada = client_of("ada", &people, &gateway).await;
    let page = page_of(&ada).await;
    let sent = open(&page).await;
    assert!(sent.url.starts_with(&format!("{}/authorize?", people.issuer)), "{}", sent.url);
    for (name, value) in [
        ("client_id", BROWSER_CLIENT),
        ("response_type", "code"),
        ("scope", "openid"),
        ("code_challenge_method", "S256"),
        ("resource", ""),
    ] {
        assert_eq!(field(&sent.url, name), value, "{}", sent.url);
    }
    let redirect = format!("{}/oauth/whoami", gateway.base_url()).replace(':', "%3A").replace('/', "%2F");
    assert_eq!(field(&sent.url, "redirect_uri"), redirect);
    for secret in ["state", "nonce", "code_challenge"] {
        assert_eq!(field(&sent.url, secret).len(), 43, "{secret} of {}", sent.url);
    }
    let on = sent.come_back(&gateway, "ada").await;
    assert_eq!(on.status(), 303);
    assert!(!on.headers()[LOCATION].to_str().unwrap().starts_with(&people.issuer), "to the provider of the server");
    assert_eq!(come_back(&gateway, &on, "ada").await, 200);
    assert_eq!(people_of(&gateway).await["logged_in"], 1);
    assert_eq!(ada.call_tool("whoami", json!({})).await.text(), "ada");
    shown(browser().get(&page).send().await.unwrap(), 404, "This login is over").await;
}

// identity 1: "MUST check that who opens it is who asked"
#[tokio::test]
async fn nobody_else_goes_on_with_a_login_and_nothing_is_granted_by_trying() {
    let people = Provider::start().await;
    let (_server, gateway) = gateway_of(&people, PERSONAL).await;
    let ada = client_of("ada", &people, &gateway).await;
    let page = page_of(&ada).await;

    // Somebody else, who is a person of the gateway, too.
    let dans = open(&page).await;
    shown(dans.come_back(&gateway, "dan").await, 403, "asked for by somebody else than who you are at").await;
    shown(dans.come_back(&gateway, "ada").await, 404, "This login is over").await;

    // Without the cookie of that browser, with that of another, and with a state that nobody gave.
    let (sent, other) = (open(&page).await, open(&page).await);
    let back = sent.back(&gateway, "ada");
    for cookie in ["", &*other.cookie, "tidings_person_x=made-up"] {
        shown(visit(&back, cookie).await, 404, "This login is over").await;
    }
    let made_up = format!("{}/oauth/whoami?code=ada.n&state={}", gateway.base_url(), "x".repeat(43));
    shown(visit(&made_up, &sent.cookie).await, 404, "This login is over").await;
    // Another provider may have sent it here.
    let strange = format!("{}&iss=https%3A%2F%2Fevil.example", other.back(&gateway, "ada"));
    shown(visit(&strange, &other.cookie).await, 502, "not from the provider that was asked").await;
    let denied = open(&page).await;
    let no = format!("{}/oauth/whoami?error=access_denied&state={}", gateway.base_url(), field(&denied.url, "state"));
    shown(visit(&no, &denied.cookie).await, 502, "it says access_denied").await;

    // An ID token of another login, of another client, of another provider, or none at all.
    let (thief, at) = (Provider::start().await, |seconds: i64| {
        std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64 + seconds
    });
    for (what, says, words) in [
        ("nonce", json!({"nonce": "of another login"}), "belongs to another login"),
        ("audience", json!({"aud": gateway.url()}), "meant for somebody else"),
        ("party", json!({"azp": "another-client"}), "given to another client"),
        ("issuer", json!({"iss": thief.issuer}), "issued by somebody else"),
        ("end", json!({"exp": at(-60)}), "has expired"),
        ("signature", json!({"header.alg": "none"}), "not signed in a way that is accepted"),
        ("kind", json!({"header.typ": "at+jwt"}), "no ID token"),
        ("subject", json!({"sub": ""}), "does not say whose it is"),
    ] {
        people.identity_says(says);
        let forged = open(&page).await;
        let answer = forged.come_back(&gateway, "ada").await;
        assert_eq!(answer.status(), 403, "{what}");
        shown(answer, 403, words).await;
    }
    people.identity_says(json!({}));
    assert_eq!(people_of(&gateway).await, json!({"logged_in": 0, "need_login": 1}), "nothing was granted");

    // All of this took nothing from who asked.
    let sent = open(&page).await;
    let on = sent.come_back(&gateway, "ada").await;
    assert_eq!(on.status(), 303);
    shown(sent.come_back(&gateway, "ada").await, 404, "This login is over").await;
    // From now on it is open for that browser alone, also to somebody who is who asked.
    assert_eq!(browser().get(&page).send().await.unwrap().status(), 404);
    assert_eq!(come_back(&gateway, &on, "ada").await, 200);
    let log = gateway.stderr().all().join("\n");
    assert!(
        !log.contains("hunter2") && !log.contains("access-of-the-browser") && !log.contains(field(&sent.url, "nonce")),
        "{log}"
    );
}

// identity 1: a browser that was under way when another one opened the ticket
#[tokio::test]
async fn of_two_browsers_of_one_person_the_first_that_comes_back_has_the_login() {
    let people = Provider::start().await;
    let (_server, gateway) = gateway_of(&people, PERSONAL).await;
    let ada = client_of("ada", &people, &gateway).await;
    let page = page_of(&ada).await;
    let (first, second) = (open(&page).await, open(&page).await);
    assert_eq!(second.come_back(&gateway, "ada").await.status(), 303);
    shown(first.come_back(&gateway, "ada").await, 404, "This login is over").await;
}

// identity 7: a provider that does not answer is said, and the login can go on when it does
#[tokio::test]
async fn a_provider_that_does_not_answer_is_said_and_uses_up_nothing() {
    let people = Provider::start().await;
    let (_server, gateway) = gateway_of(&people, PERSONAL).await;
    let ada = client_of("ada", &people, &gateway).await;
    let page = page_of(&ada).await;
    people.falls_silent(true);
    shown(browser().get(&page).send().await.unwrap(), 502, "could not be found out at").await;
    people.falls_silent(false);
    let sent = open(&page).await;
    people.falls_silent(true);
    shown(sent.come_back(&gateway, "ada").await, 502, "HTTP status 503").await;
    people.falls_silent(false);
    assert_eq!(open(&page).await.come_back(&gateway, "ada").await.status(), 303);
}

/// An admin begins a login for all; gives its page.
async fn begin(gateway: &Gateway, token: &str) -> String {
    let begin = format!("{}/api/v1/servers/crm/login", gateway.base_url());
    let begun = browser().post(begin).bearer_auth(token).send().await.unwrap().text().await.unwrap();
    serde_json::from_str::<Value>(&begun).unwrap()["url"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned()
}

// identity 1: "shared grant, no admin": who goes on with a login for all has to be an admin at that moment, also by what the provider says
#[tokio::test]
async fn a_login_for_all_takes_an_admin_by_what_the_provider_says_of_the_browser() {
    let people = Provider::start().await;
    let (_server, gateway) = gateway_of(&people, "").await;
    gateway.wait_server("crm", "in need of a login", |crm| crm["state"] == "needs login").await;
    let page = begin(&gateway, &people.token(&gateway, &json!({"sub": "olga", "groups": ["ops"]}))).await;
    for groups in [Value::Null, json!([]), json!(["dev"])] {
        people.identity_says(json!({ "groups": groups }));
        shown(open(&page).await.come_back(&gateway, "olga").await, 403, "takes an admin").await;
    }
    assert_eq!(gateway.server_status("crm").await["state"], "needs login");
    people.identity_says(json!({"groups": ["ops"]}));
    shown(open(&page).await.come_back(&gateway, "oleg").await, 403, "somebody else").await;
    let on = open(&page).await.come_back(&gateway, "olga").await;
    assert_eq!(on.status(), 303);
    assert_eq!(come_back(&gateway, &on, "olga").await, 200);
}

// identity 1: "shared grant, no admin", with tokens of the configuration
#[tokio::test]
async fn a_login_for_all_is_not_gone_on_with_by_somebody_who_is_no_admin_any_more() {
    let (issuer, given) = provider().await;
    let server = crm(&issuer, &given).http().await;
    let toml = |admin| crate::auth(&[("boss", &["*"], admin), ("chief", &["*"], true)]);
    let gateway = patient(&toml(true)).server("crm", &server).serve().await;
    gateway.wait_server("crm", "in need of a login", |crm| crm["state"] == "needs login").await;
    let page = begin(&gateway, "token-boss").await;
    let file = std::fs::read_to_string(gateway.config()).unwrap();
    std::fs::write(gateway.config(), file.replace(&toml(true), &toml(false))).unwrap();
    let refused_by_api = async || {
        let servers = format!("{}/api/v1/servers", gateway.base_url());
        browser().get(servers).bearer_auth("token-boss").send().await.unwrap().status() == 403
    };
    tidings_testkit::within("the other rights", async { while !refused_by_api().await {} }).await;
    let show = async |token: &str| browser().post(&page).body(format!("token=token-{token}")).send().await.unwrap();
    shown(show("boss").await, 403, "takes an admin").await;
    shown(show("chief").await, 403, "not the token").await;
    assert_eq!(gateway.server_status("crm").await["state"], "needs login");
}
