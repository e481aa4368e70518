//! The page: who is let in, and what is shown.

use reqwest::header::{COOKIE, HOST, ORIGIN, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tidings_testkit::*;
use tidings_wire::sse;

use crate::{Feed, described, full, put, quick, token};

/// A browser that was let in, or not.
struct Browser {
    client: reqwest::Client,
    base: String,
    /// The host name and port that it believes to speak to.
    authority: String,
    cookie: String,
}

impl Browser {
    /// One that nobody knows, at the page's own name.
    async fn stranger(gateway: &Gateway) -> (Self, String) {
        let client = reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
        let browser =
            Self { client, base: gateway.base_url().to_owned(), authority: String::new(), cookie: String::new() };
        let link = browser.link(gateway, &json!({})).await;
        let (authority, path) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let (authority, path) = (authority.to_owned(), format!("/{path}"));
        (Self { authority, ..browser }, path)
    }

    /// One that came by a link.
    async fn let_in(gateway: &Gateway) -> Self {
        let (mut browser, path) = Self::stranger(gateway).await;
        browser.come_by(&path).await;
        browser
    }

    async fn come_by(&mut self, path: &str) {
        let answer = self.send(self.typed(path)).await;
        assert_eq!((answer.status().as_u16(), &answer.headers()["location"].to_str().unwrap()), (303, &"/"));
        let cookie = answer.headers()[SET_COOKIE].to_str().unwrap();
        for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        self.cookie = cookie.split(';').next().unwrap().to_owned();
    }

    async fn link(&self, gateway: &Gateway, wish: &Value) -> String {
        let request = self.client.post(format!("{}/api/v1/links", self.base)).bearer_auth(token(gateway)).json(wish);
        let made: Value =
            serde_json::from_slice(&within("a link", request.send()).await.unwrap().bytes().await.unwrap()).unwrap();
        made["url"].as_str().unwrap().to_owned()
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base)).header(HOST, &self.authority);
        if self.cookie.is_empty() { request } else { request.header(COOKIE, &self.cookie) }
    }

    /// An address that was typed, or a link that was followed inside the page.
    fn typed(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path).header("sec-fetch-site", "none")
    }

    /// A form of the page.
    fn form(&self, path: &str, fields: &str) -> RequestBuilder {
        let request = self.request(Method::POST, path).header(ORIGIN, format!("http://{}", self.authority));
        request.header("content-type", "application/x-www-form-urlencoded").body(fields.to_owned())
    }

    async fn send(&self, request: RequestBuilder) -> Response {
        within("an answer of the page", request.send()).await.unwrap()
    }

    async fn page(&self, path: &str) -> (u16, String) {
        let answer = self.send(self.typed(path)).await;
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// What forms carry, read from a page.
    async fn form_token(&self) -> String {
        let (_, page) = self.page("/").await;
        let (_, rest) = page.split_once(r#"name="token" value=""#).unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

// page door: a replayed link, a prefetch, a stranger
#[tokio::test]
async fn a_link_lets_one_browser_in_once() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let (mut browser, link) = Browser::stranger(&gateway).await;
    for path in ["/", "/changes/1", "/servers", "/tools", "/calls", "/approvals", "/connect"] {
        let (status, page) = browser.page(path).await;
        assert_eq!(status, if path == "/" { 200 } else { 401 }, "{path}");
        assert!(page.contains("tidings open") && !page.contains("one"), "{path} tells nothing: {page}");
    }
    assert_eq!(browser.page("/live").await.0, 401);
    let ahead = browser.send(browser.typed(&link).header("sec-purpose", "prefetch")).await;
    assert_eq!(
        (ahead.status().as_u16(), ahead.headers().get(SET_COOKIE)),
        (204, None),
        "whoever looks ahead uses nothing up"
    );
    browser.come_by(&link).await;
    assert_eq!(browser.page("/servers").await.0, 200);
    let (other, _) = Browser::stranger(&gateway).await;
    let (status, page) = other.page(&link).await;
    assert!(status == 403 && page.contains("was used"), "{status} {page}");
    let forged = Browser { cookie: "tidings=0000".into(), ..other };
    assert_eq!(forged.page("/servers").await.0, 401);
}

// page door: DNS rebinding, other names, other ports
#[tokio::test]
async fn a_cookie_counts_only_under_the_pages_own_name_and_from_its_own_pages() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let browser = Browser::let_in(&gateway).await;
    let port = browser.authority.split(':').nth(1).unwrap();
    for (host, expected) in [
        (format!("evil.example:{port}"), 403),
        (format!("tidings-00000000.localhost:{port}"), 403),
        (format!("127.0.0.1:{port}"), 401),
        (format!("localhost:{port}"), 401),
    ] {
        let other = Browser {
            authority: host,
            client: browser.client.clone(),
            base: browser.base.clone(),
            cookie: browser.cookie.clone(),
        };
        assert_eq!(other.page("/servers").await.0, expected, "{}", other.authority);
    }
    for (name, value, expected) in [
        ("sec-fetch-site", "cross-site", 401),
        ("sec-fetch-site", "same-site", 401),
        ("origin", "http://127.0.0.1:9999", 401),
        ("origin", "http://evil.localhost:9999", 403),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "same-origin", 200),
    ] {
        let answer = browser.send(browser.request(Method::GET, "/servers").header(name, value)).await;
        assert_eq!(answer.status().as_u16(), expected, "{name}: {value}");
    }
}

// page door: cross-site posts, forms without the token, read-only
#[tokio::test]
async fn nothing_changes_without_the_token_of_the_form() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let browser = Browser::let_in(&gateway).await;
    let form = format!("token={}", browser.form_token().await);
    let status = async |request: RequestBuilder| browser.send(request).await.status().as_u16();
    assert_eq!(status(browser.form("/servers/one/disable", "")).await, 403);
    assert_eq!(status(browser.form("/servers/one/disable", "token=0")).await, 403);
    for origin in ["http://127.0.0.1:9999", "https://evil.example", "null"] {
        let request = browser.request(Method::POST, "/servers/one/disable").header(ORIGIN, origin).body(form.clone());
        assert!(matches!(status(request).await, 401 | 403), "{origin}");
    }
    assert_eq!(
        status(browser.request(Method::POST, "/servers/one/disable").body(form.clone())).await,
        401,
        "no word of where it comes from"
    );
    assert!(!browser.page("/servers").await.1.contains("○ disabled"), "nothing was changed");
    // What takes something from clients is asked for twice.
    assert_eq!(status(browser.form("/servers/one/disable", &form)).await, 200);
    assert!(!browser.page("/servers").await.1.contains("○ disabled"), "nothing was changed");
    assert_eq!(status(browser.form("/servers/one/disable", &format!("{form}&sure=1"))).await, 303);
    assert!(browser.page("/servers").await.1.contains("○ disabled"));
    let (mut looker, _) = Browser::stranger(&gateway).await;
    let link = looker.link(&gateway, &json!({ "read_only": true })).await;
    looker.come_by(&format!("/{}", link.splitn(4, '/').nth(3).unwrap())).await;
    let (status, page) = looker.page("/servers").await;
    assert!(status == 200 && !page.contains("<button>Enable"), "{page}");
    for path in ["/servers/one/enable", "/add", "/tools/one/echo/try", "/tries/1/cancel"] {
        assert_eq!(looker.send(looker.form(path, &form)).await.status(), 403, "{path}");
    }
    assert_eq!(browser.send(browser.form("/logout", &form)).await.status(), 303);
    assert_eq!(browser.page("/servers").await.0, 401, "whoever left is out");
}

// page door: framing, sniffing, scripts
#[tokio::test]
async fn every_answer_forbids_frames_and_foreign_scripts() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let browser = Browser::let_in(&gateway).await;
    for path in ["/", "/servers", "/changes/99", "/page.js", "/page.css", "/login?k=x", "/live?ask=1"] {
        let answer = browser.send(browser.typed(path)).await;
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        let policy = header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self';",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "trusted-types 'none'",
            "form-action 'self'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert_eq!(
            (header("x-content-type-options"), header("cache-control")),
            ("nosniff".into(), "no-store".into()),
            "{path}"
        );
        assert_eq!(
            (header("referrer-policy"), header("cross-origin-opener-policy")),
            ("same-origin".into(), "same-origin".into())
        );
    }
}

// page feed: readable differences, hostile text, filters, pages, resumption
#[tokio::test]
async fn the_feed_shows_what_changed_and_goes_on_where_a_reader_was() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let browser = Browser::let_in(&gateway).await;
    let mut feed = Feed::all(&gateway).await;
    assert!(browser.page("/").await.1.contains("Nothing changed yet"));
    put(&server, described("search", "Search the code."));
    feed.next().await;
    put(&server, described("search", "Search <script>alert(1)</script> the\u{200b} code."));
    feed.next().await;
    let (status, page) = browser.page("/").await;
    assert_eq!(status, 200);
    for part in
        ["#2</a>", "◆ suspect", "&lt;script&gt;alert(1)", "⟦U+200B⟧", "· quiet", "+ <code><bdi>search</bdi></code>"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<script>") && !page.contains('\u{200b}'), "{page}");
    let filtered = browser.page("/?severity=suspect").await.1;
    assert!(filtered.contains("#2</a>") && !filtered.contains("#1</a>"), "{filtered}");
    assert!(browser.page("/?q=nothing+like+this").await.1.contains("No change fits"));
    assert!(!browser.page("/?before=2").await.1.contains("#2</a>"));
    let (status, one) = browser.page("/changes/2").await;
    assert!(status == 200 && one.contains("before and after") && one.contains("Search the code."), "{one}");
    assert_eq!(browser.page("/changes/99").await.0, 404);
    let missed: Value = serde_json::from_str(&browser.page("/live?ask=1&since=1").await.1).unwrap();
    assert_eq!(
        missed,
        json!([{ "seq": 2, "server": "one", "kind": "tools", "severity": "suspect", "names": ["search"] }])
    );
    let request = browser
        .request(Method::GET, "/live?since=0")
        .header("sec-fetch-site", "same-origin")
        .header("last-event-id", "1");
    let mut stream = browser.send(request).await;
    let mut decoder = sse::SseDecoder::new(1 << 20);
    let mut next = async || {
        within("an event", async {
            loop {
                match decoder.next_event().unwrap() {
                    // Without a number it is what is, and no change.
                    Some(event) if event.id.is_some() => return event,
                    Some(_) => {}
                    None => decoder.push(&stream.chunk().await.unwrap().unwrap()),
                }
            }
        })
        .await
    };
    assert_eq!(next().await.id.as_deref(), Some("2"), "what it has not seen, and not what it has");
    put(&server, described("search", "Search."));
    let event = next().await;
    assert_eq!(event.id.as_deref(), Some("3"));
}

// page door: a session outlives the gateway
#[tokio::test]
async fn a_browser_that_was_let_in_stays_in_after_a_restart() {
    let server = full().stdio().await;
    let mut gateway = quick().server("one", &server).serve().await;
    let mut browser = Browser::let_in(&gateway).await;
    let kept = std::fs::read_to_string(gateway.data().join("page.sessions")).unwrap();
    let secret = browser.cookie.split('=').nth(1).unwrap();
    assert!(!kept.contains(secret), "only its hash is kept");
    let name = std::fs::read_to_string(gateway.data().join("page.host")).unwrap();
    assert!(browser.authority.starts_with(&format!("tidings-{name}.localhost:")), "{}", browser.authority);
    assert!(gateway.terminate().await.success());
    gateway = gateway.again().await;
    browser.base = gateway.base_url().to_owned();
    browser.authority = format!("tidings-{name}.localhost:{}", browser.base.rsplit(':').next().unwrap());
    assert_eq!(browser.page("/servers").await.0, 200);
}

// page accepted 1: what a page needs to be painted is asked for once
#[tokio::test]
async fn a_browser_may_keep_the_style_and_the_script_of_this_version_and_nothing_else() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let browser = Browser::let_in(&gateway).await;
    let (_, page) = browser.page("/").await;
    for name in ["page.css", "page.js"] {
        let (_, rest) = page.split_once(&format!("\"/{name}?")).unwrap();
        let version = rest.split('"').next().unwrap();
        for (query, kept) in [(version, true), ("v=0000000000000000", false), ("", false)] {
            let answer = browser.send(browser.typed(&format!("/{name}?{query}"))).await;
            let header = answer.headers()["cache-control"].to_str().unwrap();
            assert_eq!(header.contains("immutable"), kept, "{name}?{query}: {header}");
        }
    }
}

// page enabled
#[tokio::test]
async fn a_page_that_is_switched_off_is_not_there() {
    let server = full().stdio().await;
    let gateway = quick().toml("[page]\nenabled = false").server("one", &server).serve().await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for path in ["/", "/login?k=x", "/page.js"] {
        let answer = within("an answer", client.get(format!("{}{path}", gateway.base_url())).send()).await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
    }
    let link = client.post(format!("{}/api/v1/links", gateway.base_url())).bearer_auth(token(&gateway));
    let answer = within("an answer", link.send()).await.unwrap();
    assert_eq!(answer.status(), 404);
    assert!(answer.text().await.unwrap().contains("[page] enabled"));
}

// page accepted 2: of many clients those that are shown are described
#[tokio::test]
async fn clients_are_shown_in_parts_each_of_them_once() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let browser = Browser::let_in(&gateway).await;
    let mut clients = Vec::new();
    for _ in 0..53 {
        clients.push(gateway.client().connect().await);
    }
    let shown = |page: &str| {
        let rows = page.split("data-client=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap());
        rows.collect::<Vec<u64>>()
    };
    let (_, first) = browser.page("/clients").await;
    let (_, rest) = browser.page("/clients?from=50").await;
    assert!(first.contains("Clients 1 to 50 of 53") && rest.contains("Clients 51 to 53 of 53"), "{rest}");
    let all = [shown(&first), shown(&rest)].concat();
    assert!(all.len() == 53 && all.is_sorted_by(|a, b| a < b), "{all:?}");
    let (_, heard) = browser.page("/clients?state=heard&from=50").await;
    assert_eq!(shown(&heard), shown(&rest), "nothing changed for any of them");
    assert!(browser.page("/clients?state=deaf").await.1.contains("No client is"));
    assert_eq!(browser.page(&format!("/clients/{}", all[52])).await.0, 200);
    assert_eq!(browser.page("/clients/999999").await.0, 404);
    let (_, connect) = browser.page("/connect").await;
    assert!(connect.contains("53 clients") && connect.contains("+ 33 more"), "{connect}");
    drop(clients);
}

// page servers, follows
#[tokio::test]
async fn a_server_shows_its_log_and_what_is_followed() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    let browser = Browser::let_in(&gateway).await;
    let (status, page) = browser.page("/servers/one").await;
    assert!(status == 200 && page.contains("connected server=one"), "{page}");
    let (status, log) = crate::get(&gateway, "/servers/one/log").await;
    assert!(status == 200 && log["lines"][0].as_str().unwrap().contains("server=one"), "{log}");
    assert_eq!(crate::get(&gateway, "/servers/other/log").await.0, 404);
    assert!(browser.page("/follows").await.1.contains("Nobody follows a resource"));
    let client = gateway.client().connect().await;
    let _stream = client.open_get().await;
    client.request("resources/subscribe", json!({ "uri": "file:///r" })).await;
    let (_, page) = browser.page("/follows?server=one").await;
    assert!(page.contains("file:///r") && page.contains("1 client"), "{page}");
    assert!(page.contains("<h2>Map</h2>") && page.contains("no change yet"), "{page}");
    // Of one resource: the row leads to it.
    let (_, rest) = page.split_once("<a class=\"muted\" href=\"").unwrap();
    let one = rest.split('"').next().unwrap().replace("&amp;", "&");
    let (_, map) = browser.page(&one).await;
    assert!(map.contains("<h2>Map</h2>") && map.contains("file:///r"), "{one}: {map}");
    server.notify("notifications/resources/updated", json!({ "uri": "file:///r" }));
    client.wait_for_method("notifications/resources/updated", 1).await;
    let (_, map) = browser.page(&one).await;
    assert!(map.contains("1 change"), "{map}");
    let (_, shown) = crate::get(&gateway, "/subscriptions").await;
    assert_eq!(shown["subscriptions"][0]["announced"], 1, "{shown}");
}
