//! Requests that the gateway makes of a server in its own name.

use serde_json::{Value, json};
use tidings_proto::{Era, LocalName, Method, capabilities, meta, task};
use tidings_upstream::{OutgoingRequest, ServerHello};
use tidings_wire::{RawId, request};

use crate::links::open_links::OpenLinks;

impl OpenLinks {
    /// A request with a new id, with what the server's era wants in every request.
    pub(crate) fn own_request(&self, hello: &ServerHello, method: Method, mut params: Value) -> OutgoingRequest {
        let name = method.name_param().and_then(|member| params[member].as_str().map(LocalName::new));
        if hello.revision.era() == Era::Modern {
            let info = json!({ "name": "tidings", "version": self.runtime.settings.version });
            let mut declared = capabilities::towards_modern_server();
            if matches!(method, Method::Task(_)) {
                // Who asks about tasks has to know them.
                declared["extensions"][task::TASKS] = json!({});
            }
            params["_meta"] = meta::own(hello.revision, &info, &declared);
        }
        let id = self.in_flight.mint();
        let bytes = request(&RawId::from(id), method.as_str(), Some(params.to_string().as_bytes()));
        OutgoingRequest { id, method, bytes, name, params: Vec::new(), trace: None }
    }
}
