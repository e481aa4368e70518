//! What a page of a login looks like, and the cookies by which browsers are known again.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

const HEADERS: [(&str, &str); 4] = [
    // No script and no style from anywhere: what others have worded stands in these pages.
    ("content-security-policy", "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"),
    // The address of the page holds the ticket, and that of the callback the code.
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

pub(crate) fn stale() -> Response {
    page(
        StatusCode::NOT_FOUND,
        "This login is over",
        "<p>It was used already, has taken longer than ten minutes, or was begun in another browser.</p>\
         <p>Begin again: <code>tidings login SERVER</code></p>",
    )
}

pub(crate) fn page(status: StatusCode, title: &str, content: &str) -> Response {
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><h1>{title}</h1>{content}</html>"
    );
    let mut response = (status, text).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    with_headers(response)
}

pub(crate) fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    // In all lines: HTTP/2 lets a browser send one header for each cookie (RFC 9113, 8.2.3).
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

/// The cookie with this name.
pub(crate) fn cookie_of(headers: &HeaderMap, name: &str) -> Option<String> {
    cookies(headers).find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}

/// The cookies whose names begin so.
pub(crate) fn cookies_with(headers: &HeaderMap, prefix: &str) -> Vec<String> {
    cookies(headers).filter(|(name, _)| name.starts_with(prefix)).map(|(_, value)| value.to_owned()).collect()
}

/// Text of others in a page.
pub(crate) fn escape(text: &str) -> String {
    // The ampersand first: it is part of what the others become.
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}
