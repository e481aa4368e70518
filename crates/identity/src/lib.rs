//! Who asks: from a bearer token or a certificate to the principal it stands for, and what somebody without one is told.
//!
//! Here belong the kinds of tokens (static ones, signed ones of an identity provider, opaque ones that it is asked about), the keys of
//! providers, and the words of challenges. Not here: what a principal may see (`hub`), how tokens arrive (`downstream`), and the tokens that
//! the gateway itself shows to servers (`login`).

mod authenticator;
mod book_table;
mod client_certificate;
mod credential;
mod introspection;
mod key_care;
mod last_token;
mod person;
mod provider;
mod provider_fetch;
mod resource;
mod ring_verifier;
mod signed_token;
mod static_token;

pub use authenticator::{
    Admission, Authenticator, AuthenticatorFollower, AuthenticatorSettings, Entrant, TokenQuestion,
};
pub use client_certificate::ClientCertificate;
pub use credential::Credential;
pub use last_token::LastToken;
pub use resource::{METADATA, RefusedToken};
pub use static_token::{StaticToken, sha256};

use std::time::Duration;

/// How far clocks may differ.
const SKEW: Duration = Duration::from_secs(30);
