//! JSON-RPC error codes.

/// The bytes are not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON, but not a message that is valid here.
pub const INVALID_REQUEST: i64 = -32600;
/// The receiver does not know the method, or not in this era.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are wrong; also unknown tools, prompts and cursors.
pub const INVALID_PARAMS: i64 = -32602;
/// Something failed on this side of the call.
pub const INTERNAL_ERROR: i64 = -32603;
/// Legacy: no such resource.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// Revision 2025-11-25: visit a URL first.
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
/// Modern: headers and body disagree.
pub const HEADER_MISMATCH: i64 = -32020;
/// Modern: the client did not declare what the call needs.
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
/// Modern: no such protocol version here.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// The token lacks a scope. As the one below.
pub const INSUFFICIENT_SCOPE: i64 = 403;

/// A limit is over. Beyond the range that the protocol closed to new codes, and the number that HTTP has for it.
pub const TOO_MANY_REQUESTS: i64 = 429;

/// Whether only a modern server answers with this code.
pub fn is_modern(code: i64) -> bool {
    // Codes are negative, so the range runs from the last one up to the first.
    (UNSUPPORTED_VERSION..=HEADER_MISMATCH).contains(&code)
}

/// The HTTP status that goes with an error for a modern client.
pub fn modern_status(code: i64) -> u16 {
    match code {
        // The modern HTTP binding gives an unknown method 404, and its own codes 400.
        METHOD_NOT_FOUND => 404,
        code if is_modern(code) => 400,
        // A JSON-RPC error is an answer, and the request was carried out as far as HTTP is concerned.
        _ => 200,
    }
}
