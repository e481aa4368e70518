//! What forms change. Each answers with a way back to the screen it came from.

use axum::extract::{Extension, Path, State};
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use tidings_page::ConfirmScreen;

use super::entrance::{SentForm, Visitor};
use super::{PageServer, html, screens};

/// Restarts a server, switches it on or off, or begins a login to it.
pub(super) async fn server(
    State(page): State<PageServer>,
    Path((name, action)): Path<(String, String)>,
    Extension(visitor): Extension<Visitor>,
    Extension(form): Extension<SentForm>,
) -> Response {
    if action == "login" {
        return log_in(&page, &name, visitor).await;
    }
    if action == "disable" && form.get("sure") != "1" {
        let shell = page.shell(visitor.form_token).await;
        let told = page.0.gateway.connected_count();
        let screen = ConfirmScreen {
            title: format!("Disable {name}?"),
            detail: format!(
                "Its tools, prompts and resources go. {told} clients are connected; those that see them are told."
            ),
            label: "Disable".to_owned(),
            action: format!("/servers/{}/disable", crate::url_text::encode(&name)),
            fields: Vec::new(),
            back: "/servers".to_owned(),
        };
        return html(StatusCode::OK, screen.page(&shell));
    }
    let done = match action.as_str() {
        "restart" => page.0.registry.restart(&name).await,
        "enable" => page.0.registry.set_enabled(&name, true).await,
        "disable" => page.0.registry.set_enabled(&name, false).await,
        _ => return (StatusCode::NOT_FOUND, "There is no such action.\n").into_response(),
    };
    match done {
        Ok(()) => back("/servers"),
        Err(refusal) => {
            let status = StatusCode::from_u16(refusal.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let shell = page.shell(visitor.form_token).await;
            html(status, tidings_page::problem(&shell, "That could not be done", &refusal.to_string(), "/servers"))
        }
    }
}

/// Begins a login to a server, and leads to where the provider is asked.
async fn log_in(page: &PageServer, name: &str, visitor: Visitor) -> Response {
    let begun = match &page.0.logins {
        Some(logins) => match logins.begin(name, "local", false).await {
            Ok(begun) => begun
                .authorize
                .and_then(|_| logins.connect_url(&begun.ticket))
                .ok_or_else(|| format!("In a browser nobody can log in to {name}: tidings login {name}")),
            Err(fault) => Err(fault.to_string()),
        },
        None => Err("This gateway keeps no logins.".to_owned()),
    };
    let shell = page.shell(visitor.form_token).await;
    match begun {
        // A link and no redirect: forms may lead only to the page's own host, and this is another.
        Ok(url) => html(StatusCode::OK, tidings_page::log_in(&shell, name, &url)),
        Err(fault) => {
            html(StatusCode::CONFLICT, tidings_page::problem(&shell, "That could not be done", &fault, "/servers"))
        }
    }
}

/// Approves or rejects the definition that was shown; if the server changed it since, nothing is decided.
pub(super) async fn approve(
    State(page): State<PageServer>,
    Extension(visitor): Extension<Visitor>,
    Extension(form): Extension<SentForm>,
) -> Response {
    let items = json!([{ "id": form.get("id"), "digest": form.get("digest") }]);
    let decision = json!({ "decision": form.get("decision"), "items": items });
    match tidings_admin::decide(&page.0.gateway, &decision).await {
        Ok(_) => back("/approvals"),
        Err(fault) => {
            let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            screens::approvals_page(&page, visitor.form_token, status, Some(fault.detail)).await
        }
    }
}

/// Ends the session.
pub(super) async fn leave(State(page): State<PageServer>, Extension(visitor): Extension<Visitor>) -> Response {
    page.0.door.lock().leave(&visitor.cookie);
    page.keep_sessions().await;
    let mut response = back("/");
    response
        .headers_mut()
        .insert(SET_COOKIE, HeaderValue::from_static("tidings=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"));
    response
}

fn back(path: &'static str) -> Response {
    to(path)
}

/// Leads to a screen of the page, whose path is encoded.
pub(super) fn to(path: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(LOCATION, HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/")));
    response
}
