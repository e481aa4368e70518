//! Servers that are gateways: one that leads back to this one is refused, before its lists are shown.

use tidings_proto::gateway_path;
use tidings_proto::meta;
use tidings_proto::refusal::RequestRefusal;
use tidings_upstream::LinkError;
use tidings_wire::Frame;

use crate::plan::Settings;
use crate::servers::server::Server;
use crate::servers::server_pool::ServerPool;

impl Server {
    /// It says that it is a gateway with these behind it; fails when this one is among them.
    pub(crate) fn heard_gateways(&self, settings: &Settings, gateways: Vec<String>) -> Result<(), LinkError> {
        if let Some(reason) = settings.path.loop_with(&gateways) {
            return Err(LinkError::Unusable(reason.to_owned()));
        }
        // Kept, because a loop may lead through several gateways: whoever asks us is told of all that are behind us.
        *self.gateways.lock() = gateways;
        Ok(())
    }
}

impl ServerPool {
    /// Refuses a client that is this gateway itself. `Some` when the client is another gateway: it is told which gateways
    /// its answer comes through.
    pub(crate) fn asking_gateways(&self, frame: &Frame) -> Result<Option<Vec<String>>, RequestRefusal> {
        let Some(asking) = gateway_path::asking(frame) else { return Ok(None) };
        match self.runtime.settings.path.loop_with(&asking) {
            Some(reason) => Err(RequestRefusal::InvalidRequest(format!("a gateway in a loop: {reason}"))),
            None => Ok(Some(self.gateways_behind())),
        }
    }

    /// This gateway, and those whose lists are part of its own.
    fn gateways_behind(&self) -> Vec<String> {
        let mut all = vec![self.runtime.settings.path.id().to_owned()];
        for server in self.servers().iter() {
            all.extend(server.gateways.lock().iter().cloned());
        }
        // So that the same set always gives the same bytes.
        all.sort();
        all.dedup();
        all
    }
}

/// A member of a list for a client that is a gateway.
pub(crate) fn list_meta(gateways: &[String]) -> String {
    let ids = serde_json::json!(gateways);
    format!(r#""_meta":{{"{}":{ids}}},"#, meta::GATEWAYS)
}
