//! Making new messages: those that the gateway itself says. What it passes on is patched instead (`patch`).

use bytes::{BufMut, Bytes, BytesMut};

use crate::id::RawId;
use crate::text::encode_string;

/// A successful response with a raw JSON result.
pub fn response(id: &RawId, result: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(result.len() + id.as_bytes().len() + 40);
    out.put_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.put_slice(id.as_bytes());
    out.put_slice(br#","result":"#);
    out.put_slice(result);
    out.put_u8(b'}');
    out.freeze()
}

/// An error response; without an id where the request's could not be read.
pub fn error_response(id: Option<&RawId>, code: i64, message: &str, data: Option<&[u8]>) -> Bytes {
    let mut out = BytesMut::with_capacity(message.len() + 96);
    out.put_slice(br#"{"jsonrpc":"2.0","id":"#);
    // JSON-RPC asks for the member also where there is no id to give back.
    out.put_slice(id.map_or(&b"null"[..], RawId::as_bytes));
    out.put_slice(br#","error":{"code":"#);
    out.put_slice(code.to_string().as_bytes());
    out.put_slice(br#","message":"#);
    out.put_slice(encode_string(message).as_bytes());
    if let Some(data) = data {
        out.put_slice(br#","data":"#);
        out.put_slice(data);
    }
    out.put_slice(b"}}");
    out.freeze()
}

/// A notification with raw JSON params.
pub fn notification(method: &str, params: Option<&[u8]>) -> Bytes {
    envelope(None, method, params)
}

/// A request with raw JSON params.
pub fn request(id: &RawId, method: &str, params: Option<&[u8]>) -> Bytes {
    envelope(Some(id), method, params)
}

fn envelope(id: Option<&RawId>, method: &str, params: Option<&[u8]>) -> Bytes {
    let mut out = BytesMut::with_capacity(method.len() + params.map_or(0, <[u8]>::len) + 64);
    out.put_slice(br#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        out.put_slice(br#""id":"#);
        out.put_slice(id.as_bytes());
        out.put_u8(b',');
    }
    out.put_slice(br#""method":"#);
    out.put_slice(encode_string(method).as_bytes());
    if let Some(params) = params {
        out.put_slice(br#","params":"#);
        out.put_slice(params);
    }
    out.put_u8(b'}');
    out.freeze()
}
