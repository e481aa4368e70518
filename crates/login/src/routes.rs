//! What browsers see of a login: `/connect/TICKET`, which leads to the provider, and `/oauth/callback`, where they come back.
//!
//! A ticket is for who asked for it. Without `[auth]` that is the one person of this machine; with it, the provider of who asked says whose
//! the browser is (`/oauth/whoami`), or the page asks for the token that the ticket was asked for with. The browser that opened the ticket is
//! known again by a cookie.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::login_page::{cookie_of, cookies_with, escape, page, stale, with_headers};
use crate::logins::{LoginBearer, LoginFault, Logins, OpenedTicket, ProofFault};
use crate::people_door::{AskerDoor, PersonProvider, TicketAsker};
use crate::web_address::{decode_fields, single};

/// How the cookie of a login is called: each login has its own.
const LOGIN_COOKIE: &str = "tidings_login_";
/// How the cookie of a browser is called that is sent to say whose it is: each time has its own.
const PERSON_COOKIE: &str = "tidings_person_";

#[derive(Clone)]
struct BrowserSide {
    logins: Logins,
    door: AskerDoor,
}

/// The routes.
pub fn routes(logins: Logins, door: AskerDoor) -> Router {
    Router::new()
        .route("/connect/{ticket}", get(open).post(prove))
        .route("/oauth/whoami", get(returned))
        .route("/oauth/callback", get(callback))
        .route("/oauth/client.json", get(client))
        .with_state(BrowserSide { logins, door })
}

/// `GET /connect/TICKET`.
async fn open(State(side): State<BrowserSide>, Path(ticket): Path<String>, headers: HeaderMap) -> Response {
    // Whoever only looks ahead must not use the ticket up.
    if ["sec-purpose", "purpose", "x-moz", "x-purpose"].iter().any(|name| headers.contains_key(*name)) {
        return StatusCode::NO_CONTENT.into_response();
    }
    let cookie = cookie_of(&headers, &login_cookie(&ticket));
    let Some(opened) = side.logins.open_ticket(&ticket, cookie.as_deref()) else { return stale() };
    // A browser that was let in once, and comes back with its cookie, is not asked again.
    let Some(door) = side.door.as_ref().filter(|_| !opened.is_known_browser) else {
        return leave(&side, &ticket, cookie.as_deref());
    };
    if let Some(provider) = door.provider_of(&opened.asker) {
        return ask_provider(&side, &ticket, &provider).await;
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

/// Off to the provider of who asked, to come back with who the browser's person is. The ticket is not used up by it.
async fn ask_provider(side: &BrowserSide, ticket: &str, provider: &PersonProvider) -> Response {
    match side.logins.send_to_prove(ticket, provider).await {
        Ok(sent) => {
            // A part of the state, so that two tabs of one browser do not overwrite each other's cookie. What is secret
            // is the value.
            let name = format!("{PERSON_COOKIE}{}", sent.state.get(..8).unwrap_or_default());
            side.sent_to(&sent.url, &name, &sent.cookie, "/oauth/whoami")
        }
        Err(reason) => unknown(StatusCode::BAD_GATEWAY, &provider.issuer, &reason),
    }
}

/// `GET /oauth/whoami`: a browser comes back from the provider of who asked for a login.
async fn returned(State(side): State<BrowserSide>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    let Some(door) = &side.door else { return stale() };
    let cookies = cookies_with(&headers, PERSON_COOKIE);
    let back = match side.logins.returned(&query.unwrap_or_default(), &cookies).await {
        Ok(back) => back,
        Err(ProofFault::Stale) => return stale(),
        Err(ProofFault::Refused { issuer, reason }) => return unknown(StatusCode::BAD_GATEWAY, &issuer, &reason),
    };
    let asker = match door.by_identity(&back.issuer, &back.id_token, &back.nonce).await {
        Ok(asker) => asker,
        Err(reason) => return unknown(StatusCode::FORBIDDEN, &back.issuer, &reason),
    };
    let cookie = cookie_of(&headers, &login_cookie(&back.ticket));
    let Some(opened) = side.logins.open_ticket(&back.ticket, cookie.as_deref()) else { return stale() };
    let other = format!(
        "<p>This login was asked for by somebody else than who you are at {}. If you asked for it, log out there, or open its page in \
         another browser.</p>",
        escape(&back.issuer)
    );
    if let Some(refused) = refused(Some(&asker), &opened, &other) {
        return refused;
    }
    leave(&side, &back.ticket, cookie.as_deref())
}

/// `POST /connect/TICKET`: whoever opened it proves to be who asked.
async fn prove(
    State(side): State<BrowserSide>,
    Path(ticket): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let cookie = cookie_of(&headers, &login_cookie(&ticket));
    let Some(opened) = side.logins.open_ticket(&ticket, cookie.as_deref()) else { return stale() };
    if let Some(door) = &side.door {
        let fields = decode_fields(&String::from_utf8_lossy(&body));
        let asker = single(&fields, "token").and_then(|token| door.by_token(token.trim()));
        let other = "<p>That is not the token that this login was asked for with.</p>";
        if let Some(refused) = refused(asker.as_ref(), &opened, other) {
            return refused;
        }
    }
    leave(&side, &ticket, cookie.as_deref())
}

/// Who must not go on with a login, and what they are told. `other`: what is said to somebody else than who asked.
fn refused(asker: Option<&TicketAsker>, opened: &OpenedTicket, other: &str) -> Option<Response> {
    let reason = match asker {
        Some(asker) if asker.name == opened.asker => {
            // Who asked for a login for all was an admin then; who goes on with it has to be one, too.
            if asker.is_admin || opened.is_personal {
                return None;
            }
            "<p>This login is for all clients, and takes an admin. What is known of you does not say that you are one.</p>"
        }
        _ => other,
    };
    Some(page(StatusCode::FORBIDDEN, "Not yours", &format!("{reason}<p>Nothing was logged in.</p>")))
}

/// Whose the browser is could not be found out.
fn unknown(status: StatusCode, issuer: &str, reason: &str) -> Response {
    let (issuer, reason) = (escape(issuer), escape(reason));
    page(
        status,
        "Not known",
        &format!(
            "<p>Who you are could not be found out at {issuer}: {reason}.</p>\
             <p>Nothing was logged in. Open the page of the login again to try once more.</p>"
        ),
    )
}

/// Off to the provider of the server.
fn leave(side: &BrowserSide, ticket: &str, cookie: Option<&str>) -> Response {
    let Some((url, cookie)) = side.logins.use_ticket(ticket, cookie) else { return stale() };
    // Two paths need it: this page, and the one where the browser comes back.
    side.sent_to(&url, &login_cookie(ticket), &cookie, "/")
}

impl BrowserSide {
    /// Sends a browser elsewhere, with a cookie for when it comes back to `path`.
    fn sent_to(&self, url: &str, name: &str, value: &str, path: &str) -> Response {
        // Always a GET from here (RFC 9110, 15.4.4): the form with the token must not be sent on to the provider.
        let mut response = StatusCode::SEE_OTHER.into_response();
        let secure = if self.logins.is_secure() { "; Secure" } else { "" };
        // Lax: the provider leads back here from its own site.
        let cookie = format!("{name}={value}; HttpOnly; SameSite=Lax; Path={path}; Max-Age=600{secure}");
        let headers = response.headers_mut();
        if let (Ok(url), Ok(cookie)) = (HeaderValue::try_from(url), HeaderValue::try_from(cookie)) {
            headers.insert(LOCATION, url);
            headers.insert(SET_COOKIE, cookie);
        }
        with_headers(response)
    }
}

/// `GET /oauth/callback`.
async fn callback(State(side): State<BrowserSide>, headers: HeaderMap, RawQuery(query): RawQuery) -> Response {
    let cookies = cookies_with(&headers, LOGIN_COOKIE);
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

fn login_cookie(ticket: &str) -> String {
    format!("{LOGIN_COOKIE}{}", ticket.get(..8).unwrap_or_default())
}
