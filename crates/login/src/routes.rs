//! What browsers see of a login: `/connect/TICKET`, which leads to the provider, and `/oauth/callback`, where they come back.
//!
//! A ticket is for who asked for it: without `[auth]` that is the one person of this machine; with it, the page asks for the token
//! that the ticket was asked for with. The browser that opened the ticket is known again by a cookie.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::logins::{LoginBearer, LoginFault, Logins};
use crate::web_address::{decode_fields, single};

/// Whose a token of the gateway is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketAsker {
    /// The principal.
    pub name: String,
    /// Whether they may log in for all.
    pub is_admin: bool,
}

/// Says whose a token of the gateway is; `None` where nobody is asked.
pub type AskerOf = Option<Arc<dyn Fn(&str) -> Option<TicketAsker> + Send + Sync>>;

/// How the cookie of a login is called: each login has its own.
const COOKIE_NAME: &str = "tidings_login_";

const HEADERS: [(&str, &str); 4] = [
    ("content-security-policy", "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

#[derive(Clone)]
struct BrowserSide {
    logins: Logins,
    asker_of: AskerOf,
}

/// The routes.
pub fn routes(logins: Logins, asker_of: AskerOf) -> Router {
    Router::new()
        .route("/connect/{ticket}", get(open).post(prove))
        .route("/oauth/callback", get(callback))
        .route("/oauth/client.json", get(client))
        .with_state(BrowserSide { logins, asker_of })
}

/// `GET /connect/TICKET`.
async fn open(State(side): State<BrowserSide>, Path(ticket): Path<String>, headers: HeaderMap) -> Response {
    // Whoever only looks ahead must not use the ticket up.
    if ["sec-purpose", "purpose", "x-moz", "x-purpose"].iter().any(|name| headers.contains_key(*name)) {
        return StatusCode::NO_CONTENT.into_response();
    }
    let cookie = cookie_of(&headers, &ticket);
    let Some(opened) = side.logins.open_ticket(&ticket, cookie.as_deref()) else { return stale() };
    if side.asker_of.is_none() || opened.is_known_browser {
        return leave(&side, &ticket, cookie.as_deref());
    }
    let (server, issuer, asker) = (escape(&opened.server), escape(&opened.issuer), escape(&opened.asker));
    page(
        StatusCode::OK,
        &format!("Log in to {server}"),
        &format!(
            "<p>{asker} asked to log in to the server <b>{server}</b> at {issuer}.</p>\
             <form method=\"post\"><p><label>Your Tidings token: <input type=\"password\" name=\"token\" autofocus></label> \
             <button>Go on</button></p></form>\
             <p>If you did not ask for this, close this page.</p>"
        ),
    )
}

/// `POST /connect/TICKET`: whoever opened it proves to be who asked.
async fn prove(
    State(side): State<BrowserSide>,
    Path(ticket): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let cookie = cookie_of(&headers, &ticket);
    let Some(opened) = side.logins.open_ticket(&ticket, cookie.as_deref()) else { return stale() };
    let fields = decode_fields(&String::from_utf8_lossy(&body));
    let is_asker = match &side.asker_of {
        None => true,
        Some(asker_of) => {
            let asker = single(&fields, "token").and_then(|token| asker_of(token.trim()));
            asker.is_some_and(|asker| asker.name == opened.asker && (asker.is_admin || opened.is_personal))
        }
    };
    if !is_asker {
        return page(
            StatusCode::FORBIDDEN,
            "Not yours",
            "<p>That is not the token that this login was asked for with.</p>",
        );
    }
    leave(&side, &ticket, cookie.as_deref())
}

/// Off to the provider.
fn leave(side: &BrowserSide, ticket: &str, cookie: Option<&str>) -> Response {
    let Some((url, cookie)) = side.logins.use_ticket(ticket, cookie) else { return stale() };
    let mut response = StatusCode::SEE_OTHER.into_response();
    let name = cookie_name(ticket);
    // Lax: the provider leads back here from its own site. Two paths need it: this page, and the one where the browser comes back.
    let cookie = format!("{name}={cookie}; HttpOnly; SameSite=Lax; Path=/; Max-Age=600");
    let headers = response.headers_mut();
    if let (Ok(url), Ok(cookie)) = (HeaderValue::try_from(url), HeaderValue::try_from(cookie)) {
        headers.insert(LOCATION, url);
        headers.insert(SET_COOKIE, cookie);
    }
    with_headers(response)
}

/// `GET /oauth/callback`.
async fn callback(State(side): State<BrowserSide>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    let cookies = login_cookies(&headers);
    match side.logins.complete(&query.unwrap_or_default(), LoginBearer::Browser(&cookies)).await {
        Ok(done) => {
            let server = escape(&done.server);
            let whom = if done.is_personal { "you, and nobody else" } else { "all its clients" };
            page(
                StatusCode::OK,
                &format!("Logged in to {server}"),
                &format!("<p>Tidings is logged in to <b>{server}</b>, for {whom}. You can close this page.</p>"),
            )
        }
        // What came of a login that is not this browser's is not shown to it.
        Err(LoginFault::Stale) => stale(),
        Err(fault) => page(StatusCode::BAD_GATEWAY, "Not logged in", &format!("<p>{}</p>", escape(&fault.to_string()))),
    }
}

/// `GET /oauth/client.json`: who this gateway is, for providers that read it there.
async fn client(State(side): State<BrowserSide>) -> Response {
    match side.logins.client_description() {
        Some(description) => axum::Json(description).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn stale() -> Response {
    page(
        StatusCode::NOT_FOUND,
        "This login is over",
        "<p>It was used already, has taken longer than ten minutes, or was begun in another browser.</p>\
         <p>Begin again: <code>tidings login SERVER</code></p>",
    )
}

fn page(status: StatusCode, title: &str, content: &str) -> Response {
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><h1>{title}</h1>{content}</html>"
    );
    let mut response = (status, text).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    with_headers(response)
}

fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

fn cookie_name(ticket: &str) -> String {
    format!("{COOKIE_NAME}{}", ticket.get(..8).unwrap_or_default())
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

fn cookie_of(headers: &HeaderMap, ticket: &str) -> Option<String> {
    let name = cookie_name(ticket);
    cookies(headers).find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}

fn login_cookies(headers: &HeaderMap) -> Vec<String> {
    cookies(headers).filter(|(name, _)| name.starts_with(COOKIE_NAME)).map(|(_, value)| value.to_owned()).collect()
}

/// Text of others in a page.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}
