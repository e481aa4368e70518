//! Who is let in: host name, cookie, origin, and for changes the token of the form.

use axum::body::{Body, to_bytes};
use axum::extract::{RawQuery, Request, State};
use axum::http::header::{COOKIE, HOST, HeaderName, HeaderValue, LOCATION, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tidings_engine::AuditedDecision;
use tidings_page::{DOOR_HEADERS, Door, DoorKeys, DoorReason, door};

use super::{PageServer, html, now};
use crate::secret;

/// The name of the cookie.
const NAME: &str = "tidings";
/// How large a form may be.
const FORM: usize = 64 << 10;

/// Whoever was let in, for the handlers.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    /// What its forms carry; `None` if it may only look.
    pub(super) form_token: Option<String>,
    pub(super) cookie: String,
}

/// A form that was sent, with its token taken out.
#[derive(Clone, Debug, Default)]
pub(super) struct SentForm(Vec<(String, String)>);

impl SentForm {
    /// Every field.
    pub(super) fn all(&self) -> &[(String, String)] {
        &self.0
    }

    #[cfg(test)]
    pub(super) fn of(fields: &[(&str, &str)]) -> Self {
        Self(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

/// Lets in whoever has an open session under the page's own name, and asks from a page of it.
pub(super) async fn admit(State(page): State<PageServer>, mut request: Request, next: Next) -> Response {
    // The page is for whoever sits at this machine: elsewhere it only says so.
    if !page.0.loopback {
        return html(StatusCode::OK, door(DoorReason::Elsewhere, "/"));
    }
    let headers = request.headers();
    let (host, cookie) = (host_of(headers).to_owned(), cookie_of(headers).to_owned());
    // The lock ends with this line; what follows waits for the body.
    let read_only = page.0.door.lock().session(&cookie, &host, now()).map(|session| session.read_only);
    let Some(read_only) = read_only.filter(|_| is_from_ourselves(headers)) else {
        return stranger(&request);
    };
    let form_token = (!read_only).then(|| Door::form_token(&cookie));
    let visitor = Visitor { form_token: form_token.clone(), cookie };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        // Before the body is read: whoever may only look need not send one.
        let Some(token) = form_token else {
            return (StatusCode::FORBIDDEN, "This session may only look.\n").into_response();
        };
        let what = format!("{} {}", request.method(), request.uri().path());
        let (mut parts, body) = request.into_parts();
        let Ok(body) = to_bytes(body, FORM).await else {
            return (StatusCode::PAYLOAD_TOO_LARGE, "The form is too large.\n").into_response();
        };
        let form = SentForm(fields(&String::from_utf8_lossy(&body)));
        // Beside `SameSite` and the origin: a browser that honours neither is stopped by this.
        if form.get("token") != token {
            return (StatusCode::FORBIDDEN, "The form is not of this page. Load the page again.\n").into_response();
        }
        parts.extensions.insert(form);
        parts.extensions.insert(visitor);
        // With an empty body: it was read here, and handlers find the form among the extensions.
        let response = next.run(Request::from_parts(parts, Body::empty())).await;
        let (principal, status) = ("local".to_owned(), response.status().as_u16());
        // After the answer, so that the record says what came of it.
        page.0.gateway.record_decision(AuditedDecision::Administration { principal, request: what, status });
        return response;
    }
    request.extensions_mut().insert(visitor);
    next.run(request).await
}

/// `GET /login?k=…`: uses a link up.
pub(super) async fn login(
    State(page): State<PageServer>,
    method: Method,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    if !page.0.loopback {
        return html(StatusCode::OK, door(DoorReason::Elsewhere, "/"));
    }
    // Whoever only looks ahead must not use the link up.
    let ahead = ["sec-purpose", "purpose", "x-moz", "x-purpose"].iter().any(|name| headers.contains_key(*name));
    // `HEAD`, too: programs that check links must not use it up.
    if ahead || method != Method::GET {
        return StatusCode::NO_CONTENT.into_response();
    }
    let query = fields(&query.unwrap_or_default());
    let key = query.iter().find(|(name, _)| name == "k").map_or("", |(_, value)| value.as_str());
    let Ok(cookie) = secret::fresh() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "There are no random numbers.\n").into_response();
    };
    let keys = DoorKeys { cookie };
    let host = host_of(&headers);
    let redeemed = page.0.door.lock().redeem(key, host, &keys, now());
    if redeemed.is_err() {
        return html(StatusCode::FORBIDDEN, door(DoorReason::Spent, "/"));
    }
    page.keep_sessions().await;
    // Strict: a page of somebody else can not even lead here with it.
    let cookie = format!("{NAME}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age=604800", keys.cookie);
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// What every answer says to browsers.
pub(super) async fn with_headers(mut response: Response) -> Response {
    for (name, value) in DOOR_HEADERS {
        // Only the style sheet and the script say how long they may be kept; they are the same for everybody.
        response.headers_mut().entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn stranger(request: &Request) -> Response {
    let path = request.uri().path();
    // A program that asks, and forms, are told in few words.
    if path == "/live" || !matches!(*request.method(), Method::GET | Method::HEAD) {
        return (StatusCode::UNAUTHORIZED, "Open the page again: tidings open\n").into_response();
    }
    let again = request.uri().query().is_some_and(|query| query.contains("again=1"));
    // A path that begins with two slashes would lead to another host.
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let target = if target.starts_with("//") || target.contains('\\') { "/" } else { target };
    let status = if path == "/" { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
    html(status, door(DoorReason::Stranger { again }, target))
}

/// Whether a request comes from a page of ours, or was typed.
fn is_from_ourselves(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(HOST).unwrap_or_default();
    match text(ORIGIN) {
        Some(origin) => {
            // One address speaks one of the two, and never both.
            let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            site == Some(host)
        }
        // Without `Origin` only where the browser itself says that no other page has led here.
        None => matches!(text(HeaderName::from_static("sec-fetch-site")), Some("same-origin" | "none")),
    }
}

/// The host name without the port.
fn host_of(headers: &HeaderMap) -> &str {
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

fn cookie_of(headers: &HeaderMap) -> &str {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == NAME).map_or("", |(_, value)| value)
}

/// The fields of a form or an address.
pub(super) fn fields(text: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn only_pages_of_the_very_same_address_are_ours() {
        let ours = [("host", "tidings-1.localhost:7337")];
        let with = |more: &[(&'static str, &'static str)]| is_from_ourselves(&headers(&[&ours[..], more].concat()));
        assert!(with(&[("origin", "http://tidings-1.localhost:7337")]));
        assert!(with(&[("sec-fetch-site", "none")]) && with(&[("sec-fetch-site", "same-origin")]));
        for wrong in [
            &[("origin", "http://tidings-1.localhost:7338")][..],
            &[("origin", "http://127.0.0.1:7337")],
            &[("origin", "null")],
            &[("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "cross-site")],
            &[],
        ] {
            assert!(!with(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn cookies_and_fields_are_read_as_they_are_written() {
        let map = headers(&[("cookie", "a=b; tidings=secret; c=d")]);
        assert_eq!(cookie_of(&map), "secret");
        assert_eq!(cookie_of(&headers(&[("cookie", "nottidings=x")])), "");
        assert_eq!(
            fields("a=b+c&d=%2F%22&e"),
            [("a".into(), "b c".into()), ("d".into(), "/\"".into()), ("e".into(), String::new())]
        );
    }
}
