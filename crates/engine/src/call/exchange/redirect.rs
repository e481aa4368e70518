//! A server in the process has another tool called in its place: the very same request goes there.
//!
//! Id, progress token, `_meta`, deadline rules and everything that comes back are those of the client's own request, so
//! neither the router nor the client notices a difference to a direct call.

use bytes::Bytes;
use tidings_proto::refusal::RequestRefusal;
use tidings_proto::{Method, PublicName};
use tidings_upstream::ToolRedirect;
use tidings_wire::{Frame, FrameLimits, ObjectEdit, Patch, encode_string};

use super::{Exchange, Reply, Stage};
use crate::call::seal::Binding;
use crate::links::in_flight::TakenBack;

/// How often one request may be passed on. Servers in the process may name each other, but not in a circle.
const MOST: u8 = 4;

/// What a request was that goes elsewhere now.
pub(super) struct Detour {
    /// What the client named, and its arguments: a retry is recognised by them, because it will name them again.
    asked: PublicName,
    arguments: Bytes,
    taken: u8,
}

impl Detour {
    pub(super) fn binding<'a>(&'a self, principal: &'a str, method: Method) -> Binding<'a> {
        Binding { principal, method: method.as_str(), name: self.asked.as_str(), arguments: &self.arguments }
    }
}

impl Exchange {
    /// Sends the request to another tool. Between the two it can be cancelled like one that has just arrived.
    pub(super) fn redirect(&mut self, instead: &ToolRedirect) -> Result<Option<Reply>, RequestRefusal> {
        let Stage::Calling(calling) = &self.stage else { return Ok(None) };
        // Taken out of the table without an outcome: the same request is about to be sent elsewhere.
        let Some(TakenBack { waiter, moot, .. }) = self.router.links.in_flight.take_back(calling.call) else {
            return Ok(Some(Reply::Cancelled));
        };
        (self.waiter, self.is_arriving) = (waiter, self.caller.names_its_calls());
        for (shown, ask) in &moot {
            self.router.links.withdraw_from_client(*shown, ask);
        }
        let passed_on = |reason: &str| RequestRefusal::ServerDown {
            server: calling.routed.server.plan.name.clone(),
            reason: format!("passed the call on {reason}"),
        };
        let frame = spliced(&self.frame, instead).ok_or_else(|| passed_on("with arguments that are not valid"))?;
        let detour = match self.detour.take() {
            None => {
                // From the frame as the client sent it: below it is replaced by the one that goes on.
                let arguments = self.frame.param(&["arguments"]).map(|at| self.frame.slice(at)).unwrap_or_default();
                let asked = calling.routed.exposed.clone();
                Detour { asked, arguments, taken: 1 }
            }
            Some(before) if before.taken < MOST => {
                // `asked` and `arguments` stay those of the first detour, because the client's retry repeats what the
                // client sent.
                Detour { taken: before.taken + 1, ..*before }
            }
            Some(_) => return Err(passed_on("in a circle")),
        };
        self.frame = frame;
        self.detour = Some(Box::new(detour));
        self.stage = Stage::Start;
        Ok(None)
    }
}

/// The request with another name and other arguments; every other byte is the client's.
fn spliced(frame: &Frame, instead: &ToolRedirect) -> Option<Frame> {
    let mut patch = Patch::new();
    let mut edit = ObjectEdit::new(frame.bytes(), frame.params()?);
    edit.set("name", encode_string(instead.name.as_str()));
    match &instead.arguments {
        Some(arguments) => edit.set("arguments", arguments.clone()),
        None => edit.remove("arguments"),
    };
    edit.finish(&mut patch);
    let bytes = patch.apply(frame.bytes());
    // The client's own message was within the limits, and this is made of it.
    let limits = FrameLimits { max_bytes: bytes.len(), max_depth: 512, ..FrameLimits::default() };
    Frame::parse(bytes, &limits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn splice(request: &str, arguments: Option<&'static str>) -> Option<String> {
        let frame = Frame::parse(request.to_owned(), &FrameLimits::default()).ok()?;
        let instead = ToolRedirect {
            name: PublicName::new("t\""),
            arguments: arguments.map(|raw| Bytes::from_static(raw.as_bytes())),
        };
        let spliced = spliced(&frame, &instead)?;
        Some(String::from_utf8_lossy(spliced.bytes()).into_owned())
    }

    #[test]
    fn only_the_name_and_the_arguments_are_replaced() {
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{ "x" : 1.0,"name":"call_tool","arguments":{"name":"t"},"_meta":{"progressToken":7}}}"#;
        let expected = request.replace("\"call_tool\"", "\"t\\\"\"").replace("{\"name\":\"t\"}", "{ \"n\": 5.00 }");
        assert_eq!(splice(request, Some("{ \"n\": 5.00 }")), Some(expected));
        let without = request.replace("\"call_tool\"", "\"t\\\"\"").replace(",\"arguments\":{\"name\":\"t\"}", "");
        assert_eq!(splice(request, None), Some(without));
    }

    #[test]
    fn arguments_that_are_not_json_are_not_sent() {
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool","arguments":{}}}"#;
        assert_eq!(splice(request, Some("{")), None);
    }
}
