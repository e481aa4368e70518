//! Gateways behind gateways: how one recognises that a server leads back to it.
//!
//! Every gateway has an id of its own for as long as it runs. It tells the servers that it connects to which gateways ask
//! ([`GatewayPath::ahead_of_server`]), and a server that is a gateway answers with its own id and those behind it, at the
//! handshake and with every list. Whoever finds itself in such an answer is in a loop: its own tools would come back to it,
//! under a longer name each time.

use serde_json::Value;
use tidings_wire::Frame;

use crate::meta;

/// One gateway, and those that are known to ask it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayPath {
    id: String,
    ahead: Vec<String>,
}

/// The most ids that are read from one message: nobody has that many gateways, and the sender is a stranger.
const MOST: usize = 64;
const LONGEST: usize = 128;

impl GatewayPath {
    /// A gateway. `configuration` is the same for two gateways of the same configuration file.
    pub fn new(instance: &str, configuration: Option<&str>) -> Self {
        // Without a configuration file nothing follows the dot, and two such gateways are never taken for one.
        Self { id: format!("{instance}.{}", configuration.unwrap_or_default()), ahead: Vec::new() }
    }

    /// The same one, whose only client comes through these gateways.
    #[must_use]
    pub fn behind(self, ahead: Vec<String>) -> Self {
        Self { ahead, ..self }
    }

    /// The id of this gateway: new with every start, and with a hash of its configuration file behind a dot.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Who asks, as servers are told it: the nearest gateway last.
    pub fn ahead_of_server(&self) -> Vec<&str> {
        self.ahead.iter().map(String::as_str).chain([self.id()]).collect()
    }

    /// Why these gateways and this one make a loop, if they do. A gateway of the same configuration file counts as this one:
    /// it would connect to the same servers, and so to a gateway like itself, without end.
    pub fn loop_with(&self, gateways: &[String]) -> Option<&'static str> {
        let configuration =
            |id: &str| id.split_once('.').map(|(_, file)| file.to_owned()).filter(|file| !file.is_empty());
        let mine = configuration(&self.id);
        if gateways.contains(&self.id) {
            return Some("it leads back to this gateway; remove it from the configuration");
        }
        let same = mine.is_some() && gateways.iter().any(|other| configuration(other) == mine);
        same.then_some(
            "it is a gateway of the same configuration file, which would connect to itself without end; remove it",
        )
    }
}

/// The gateways through which a request comes; `None` when it does not come from a gateway.
pub fn asking(frame: &Frame) -> Option<Vec<String>> {
    let at = frame.param(&["_meta", meta::GATEWAYS])?;
    Some(read(&serde_json::from_slice(frame.raw(at)).ok()?))
}

/// The gateways that a result names, by its `_meta`.
pub fn answering(result: &Value) -> Vec<String> {
    result.get("_meta").and_then(|meta| meta.get(meta::GATEWAYS)).map(read).unwrap_or_default()
}

fn read(value: &Value) -> Vec<String> {
    let ids = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    // What is too long is left out and not an error: it is told by somebody we do not know.
    ids.filter(|id| id.len() <= LONGEST).take(MOST).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn a_gateway_knows_itself_and_those_of_its_configuration() {
        let me = GatewayPath::new("a", Some("f1")).behind(ids(&["z."]));
        assert_eq!(me.ahead_of_server(), ["z.", "a.f1"]);
        assert!(me.loop_with(&ids(&["b.", "a.f1"])).is_some());
        assert!(me.loop_with(&ids(&["b.f1"])).is_some());
        assert!(me.loop_with(&ids(&["b.f2", "c."])).is_none());
        // Without a file, only the very same one counts.
        let bare = GatewayPath::new("a", None);
        assert!(bare.loop_with(&ids(&["b."])).is_none());
        assert!(bare.loop_with(&ids(&["a."])).is_some());
    }

    #[test]
    fn what_a_stranger_says_is_bounded() {
        let many: Vec<Value> = (0..1_000).map(|n| n.to_string().into()).collect();
        let result = serde_json::json!({ "_meta": { (meta::GATEWAYS): many } });
        assert_eq!(answering(&result).len(), MOST);
        assert!(answering(&serde_json::json!({ "_meta": { (meta::GATEWAYS): ["x".repeat(1_000), 7] } })).is_empty());
    }
}
