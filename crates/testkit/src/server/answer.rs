//! How a request ends.

use bytes::Bytes;
use serde_json::Value;
use tidings_wire::{RawId, error_response, response};

/// What a handler gives back.
#[derive(Clone, Debug)]
pub enum ScriptedAnswer {
    /// A result, as raw JSON.
    Result(Bytes),
    /// An error.
    Error(RpcError),
    /// A whole message, as it is.
    Raw(Bytes),
    /// Never answers; the connection stays open.
    Silent,
    /// Closes the response without an answer. On stdio the same as [`ScriptedAnswer::Silent`].
    HangUp,
    /// The server dies: the process exits with this code, or the port closes.
    Exit(u8),
    /// An HTTP response of its own making. On stdio the same as [`ScriptedAnswer::Silent`].
    Http {
        /// The HTTP status, such as 503.
        status: u16,
        /// Headers beside those that hyper adds.
        headers: Vec<(String, String)>,
        /// The body, sent as it is.
        body: Bytes,
    },
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// The JSON-RPC code.
    pub code: i64,
    /// Its text.
    pub message: String,
    /// The `data` member; `None` leaves it out.
    pub data: Option<Value>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(crate) fn with_data(code: i64, message: impl Into<String>, data: Value) -> Self {
        Self { code, message: message.into(), data: Some(data) }
    }

    pub(crate) fn to_bytes(&self, id: Option<&RawId>) -> Bytes {
        let data = self.data.as_ref().map(Value::to_string);
        error_response(id, self.code, &self.message, data.as_deref().map(str::as_bytes))
    }

    pub(crate) fn from_value(error: &Value) -> Self {
        Self {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            data: error.get("data").cloned(),
        }
    }
}

impl From<RpcError> for ScriptedAnswer {
    fn from(error: RpcError) -> Self {
        Self::Error(error)
    }
}

impl ScriptedAnswer {
    /// An answer with this result, as it is: nothing is added for the caller's era.
    pub fn result(value: impl Into<Value>) -> Self {
        Self::Result(value.into().to_string().into())
    }

    /// An error.
    pub fn error(code: i64, message: impl Into<String>) -> Self {
        Self::Error(RpcError::new(code, message))
    }

    /// An HTTP response with a status and a plain body.
    pub fn http(status: u16, body: impl Into<Bytes>) -> Self {
        Self::Http { status, headers: Vec::new(), body: body.into() }
    }

    /// The message, for those that are one.
    pub(crate) fn message(&self, id: &RawId) -> Option<Bytes> {
        match self {
            Self::Result(result) => Some(response(id, result)),
            Self::Error(error) => Some(error.to_bytes(Some(id))),
            Self::Raw(bytes) => Some(bytes.clone()),
            Self::Silent | Self::HangUp | Self::Exit(_) | Self::Http { .. } => None,
        }
    }
}
