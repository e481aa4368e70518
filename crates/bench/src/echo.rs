//! The MCP answers that the echo servers on HTTP and stdio share. Knows nothing of transports.

use std::borrow::Cow;
use std::fmt::Write as _;

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The revision that legacy clients of the harness speak.
pub(crate) const LEGACY_REVISION: &str = "2025-11-25";
/// The revision that modern clients of the harness speak.
pub(crate) const MODERN_REVISION: &str = "2026-07-28";

/// The era that the echo server speaks: both need other answers to the first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EchoEra {
    /// Revisions with `initialize` and sessions.
    Legacy,
    /// Revisions where each request stands for itself.
    Modern,
}

impl EchoEra {
    /// The word for it on the command line and in the table.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// Which eras a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OfferedEras {
    Legacy,
    Modern,
    Both,
}

impl OfferedEras {
    fn has(self, era: EchoEra) -> bool {
        match self {
            Self::Both => true,
            Self::Legacy => era == EchoEra::Legacy,
            Self::Modern => era == EchoEra::Modern,
        }
    }
}

/// What a server has to say to one message.
pub(crate) enum EchoReply {
    /// The answer to `initialize`: a transport with sessions opens one.
    Opened(Vec<u8>),
    /// A result; legacy results need an open session.
    Result(EchoEra, Vec<u8>),
    /// A JSON-RPC error of this era and code.
    Error(EchoEra, i32, Vec<u8>),
    /// A notification: nothing to say.
    Nothing,
}

/// An echo server's answers.
pub(crate) struct EchoServer {
    offer: OfferedEras,
    /// The value of `tools`, ready to be written.
    tools: String,
    /// What a call without a text is answered with, ready to be written.
    untold: String,
}

#[derive(Deserialize)]
struct EchoFrame<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: EchoParams<'a>,
}

#[derive(Default, Deserialize)]
struct EchoParams<'a> {
    #[serde(borrow, rename = "protocolVersion")]
    revision: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: EchoArguments<'a>,
    #[serde(borrow, default, rename = "_meta")]
    meta: EchoMeta<'a>,
}

#[derive(Default, Deserialize)]
struct EchoArguments<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct EchoMeta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    revision: Option<Cow<'a, str>>,
}

impl EchoServer {
    /// A server of these eras, whose `tools` value has at least `list_bytes` bytes.
    pub(crate) fn new(offer: OfferedEras, list_bytes: usize) -> Self {
        Self { offer, tools: tools(list_bytes), untold: r#""""#.to_owned() }
    }

    /// Answers calls without a text with one of so many bytes.
    pub(crate) fn saying(self, bytes: usize) -> Self {
        Self { untold: format!(r#""{}""#, "x".repeat(bytes)), ..self }
    }

    /// Answers one JSON-RPC message.
    pub(crate) fn answer(&self, message: &[u8]) -> Result<EchoReply, serde_json::Error> {
        let frame: EchoFrame<'_> = serde_json::from_slice(message)?;
        let Some(id) = frame.id.map(RawValue::get) else {
            return Ok(EchoReply::Nothing);
        };
        let era = match frame.params.meta.revision {
            Some(_) => EchoEra::Modern,
            None => EchoEra::Legacy,
        };
        if !self.offer.has(era) {
            return Ok(refuse_era(era, id));
        }
        Ok(match (&*frame.method, era) {
            ("initialize", EchoEra::Legacy) => EchoReply::Opened(initialized(id, &frame.params)),
            ("server/discover", EchoEra::Modern) => EchoReply::Result(era, discovered(id)),
            ("ping", EchoEra::Legacy) => EchoReply::Result(era, result(id, "")),
            ("tools/list", _) => EchoReply::Result(era, self.listed(id, era)),
            ("tools/call", _) => {
                // Copied as raw JSON: the server has to cost less than what is measured in front of it.
                let text = frame.params.arguments.text.map_or(&*self.untold, RawValue::get);
                EchoReply::Result(era, called(id, era, text))
            }
            _ => error(id, era, -32601, "Method not found"),
        })
    }

    fn listed(&self, id: &str, era: EchoEra) -> Vec<u8> {
        let hints = match era {
            EchoEra::Legacy => "",
            EchoEra::Modern => r#","resultType":"complete","ttlMs":60000,"cacheScope":"public""#,
        };
        result(id, &format!(r#""tools":{}{hints}"#, self.tools))
    }
}

fn result(id: &str, members: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{members}}}}}"#).into_bytes()
}

fn error(id: &str, era: EchoEra, code: i32, message: &str) -> EchoReply {
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#);
    EchoReply::Error(era, code, body.into_bytes())
}

fn refuse_era(era: EchoEra, id: &str) -> EchoReply {
    // In the words of the era that the server has: it does not know the other one.
    match era {
        EchoEra::Modern => error(id, EchoEra::Legacy, -32600, "No session"),
        EchoEra::Legacy => error(id, EchoEra::Modern, -32602, "Only revision 2026-07-28 is supported"),
    }
}

fn initialized(id: &str, params: &EchoParams<'_>) -> Vec<u8> {
    let revision = match params.revision.as_deref() {
        Some(known @ ("2024-11-05" | "2025-03-26" | "2025-06-18")) => known,
        _ => LEGACY_REVISION,
    };
    result(
        id,
        &format!(
            r#""protocolVersion":"{revision}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"echo","version":"1.0.0"}}"#
        ),
    )
}

fn discovered(id: &str) -> Vec<u8> {
    result(
        id,
        &format!(
            r#""resultType":"complete","supportedVersions":["{MODERN_REVISION}"],"capabilities":{{"tools":{{}}}},"ttlMs":60000,"cacheScope":"public","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"echo","version":"1.0.0"}}}}"#
        ),
    )
}

fn called(id: &str, era: EchoEra, text: &str) -> Vec<u8> {
    let kind = match era {
        EchoEra::Legacy => "",
        EchoEra::Modern => r#","resultType":"complete""#,
    };
    result(id, &format!(r#""content":[{{"type":"text","text":{text}}}],"isError":false{kind}"#))
}

/// `echo`, and as many tools of an ordinary size as fill the list.
fn tools(list_bytes: usize) -> String {
    let mut list = String::from(
        r#"[{"name":"echo","description":"Answers with its text","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}"#,
    );
    let mut number = 0;
    while list.len() < list_bytes {
        // Writing to a string does not fail.
        let _ = write!(
            list,
            r#",{{"name":"tool_{number:04}","description":"Number {number} of the tools that make this list as long as that of a large server. Takes a path, a pattern and a limit, and reports the lines that match.","inputSchema":{{"type":"object","properties":{{"path":{{"type":"string","description":"Where to look"}},"pattern":{{"type":"string","description":"What to look for"}},"limit":{{"type":"integer","minimum":1,"default":100}}}},"required":["path","pattern"]}}}}"#
        );
        number += 1;
    }
    list.push(']');
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(reply: EchoReply) -> serde_json::Value {
        match reply {
            EchoReply::Opened(body) | EchoReply::Result(_, body) | EchoReply::Error(_, _, body) => {
                serde_json::from_slice(&body).unwrap()
            }
            EchoReply::Nothing => serde_json::Value::Null,
        }
    }

    #[test]
    fn echo_keeps_the_text_and_the_type_of_the_id() {
        let server = EchoServer::new(OfferedEras::Both, 0);
        let call = br#"{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"echo","arguments":{"text":"a\u00e9\n"}}}"#;
        let answer = text(server.answer(call).unwrap());
        assert_eq!(answer["id"], "7");
        assert_eq!(answer["result"]["content"][0]["text"], "aé\n");
        assert!(answer["result"].get("resultType").is_none());
    }

    #[test]
    fn modern_results_carry_the_required_fields() {
        let server = EchoServer::new(OfferedEras::Both, 0);
        let list = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let answer = text(server.answer(list).unwrap());
        for field in ["resultType", "ttlMs", "cacheScope", "tools"] {
            assert!(answer["result"].get(field).is_some(), "{field}");
        }
    }

    #[test]
    fn a_legacy_server_refuses_the_modern_probe() {
        let server = EchoServer::new(OfferedEras::Legacy, 0);
        let probe = br#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        assert!(matches!(server.answer(probe).unwrap(), EchoReply::Error(EchoEra::Legacy, _, _)));
    }

    #[test]
    fn the_long_list_is_as_long_as_asked_and_parses() {
        let list = tools(100_000);
        assert!(list.len() >= 100_000 && list.len() < 101_000);
        serde_json::from_str::<serde_json::Value>(&list).unwrap();
    }
}
