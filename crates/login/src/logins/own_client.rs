//! What the gateway is to providers as a client: where browsers come back to, and the document that describes it.

use super::Logins;

impl Logins {
    /// Where the browser comes back to.
    pub(super) fn redirect(&self) -> String {
        format!("{}/oauth/callback", self.0.base.get().map_or("http://127.0.0.1", String::as_str))
    }

    /// Where the document stands that describes this gateway as a client: only where providers can read it.
    pub fn client_document(&self) -> Option<String> {
        // A provider fetches it from the internet, and refuses an identifier without TLS.
        self.0.base.get().filter(|base| base.starts_with("https://")).map(|base| format!("{base}/oauth/client.json"))
    }

    /// What stands there.
    pub fn client_description(&self) -> Option<serde_json::Value> {
        let document = self.client_document()?;
        Some(serde_json::json!({
            "client_id": document,
            "client_name": "Tidings",
            "redirect_uris": [self.redirect()],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }))
    }
}
