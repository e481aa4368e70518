//! Capabilities: what servers offer, merged for a client; what clients offer, as a server is told.

use serde_json::{Map, Value, json};

use crate::{Era, Revision, Topic, extensions, meta};

/// What the gateway declares to servers on a shared legacy link: everything it can carry to the client that owns a
/// request. Servers hide tools, and the pages of their apps, from clients that declare nothing.
pub fn towards_legacy_server(revision: Revision) -> Value {
    let mut all = json!({ "roots": { "listChanged": true }, "sampling": {}, "extensions": extensions::of_gateway() });
    if revision.has_elicitation() {
        all["elicitation"] = if revision.has_url_elicitation() { json!({ "form": {}, "url": {} }) } else { json!({}) };
    }
    all
}

/// What the gateway declares when it lists on a modern link, for the same reason.
pub fn towards_modern_server() -> Value {
    json!({
        "roots": {},
        "sampling": {},
        "elicitation": { "form": {}, "url": {} },
        "extensions": extensions::of_gateway(),
    })
}

/// What the only client of several servers declares, as far as it may reach them.
pub fn among_several(mut capabilities: Value, era: Era) -> Value {
    if let Some(all) = capabilities.as_object_mut() {
        // What a client declares as experimental is meant for one server; several would each take it for theirs.
        all.remove("experimental");
        if let Some(declared) = all.get_mut("extensions").and_then(Value::as_object_mut) {
            declared.retain(|id, _| extensions::is_carried(id, era));
        }
    }
    capabilities
}

/// What a server behind the gateway offers.
#[derive(Clone, Copy, Debug)]
pub struct OfferedCapabilities<'a> {
    /// As it declared it.
    pub capabilities: &'a Value,
    /// Whether its resources are read from time to time where it does not tell of their changes.
    pub polled: bool,
}

impl OfferedCapabilities<'_> {
    fn can_be_followed(&self) -> bool {
        self.polled || subscribes(self.capabilities)
    }
}

/// Whether a server tells of changes of single resources.
pub fn subscribes(capabilities: &Value) -> bool {
    capabilities.get("resources").and_then(|resources| resources.get("subscribe")).and_then(Value::as_bool)
        == Some(true)
}

/// The client that capabilities are told to.
#[derive(Clone, Copy, Debug)]
pub struct CapabilityReader {
    /// The revision that the client negotiated or named.
    pub revision: Revision,
    /// Of which lists it is told that they changed, by the numbers of [`Topic`].
    pub announced: [bool; 3],
    /// Whether it asks to be told what changed.
    pub asks_changes: bool,
}

/// The capabilities a client is told, from those of the servers behind the gateway. Changes of lists are announced by the
/// gateway, whatever the servers promise, to those that are told of them at all; what changed is told to those who ask.
/// Changes of single resources are told if that of some server can be. `alone`: the capabilities of the only server, whose
/// extensions are its own business with a client of its own era.
pub fn for_client<'a>(
    servers: impl IntoIterator<Item = OfferedCapabilities<'a>>,
    alone: Option<OnlyServer<'a>>,
    told: CapabilityReader,
) -> Value {
    let mut out = Map::new();
    let mut followed = false;
    let servers: Vec<OfferedCapabilities<'_>> = servers.into_iter().collect();
    for server in &servers {
        for name in ["tools", "prompts", "resources", "logging", "completions"] {
            if declares(server.capabilities, name) {
                out.insert(name.to_owned(), declared(name, told));
                followed |= name == "resources" && server.can_be_followed();
            }
        }
    }
    // Declared when one server at least can be followed; the others refuse each subscription by itself.
    if let Some(resources) = out.get_mut("resources").filter(|_| followed) {
        resources["subscribe"] = true.into();
    }
    if let Some(declared) = alone.and_then(|alone| alone.capabilities.get("experimental")?.as_object()) {
        out.insert("experimental".to_owned(), declared.clone().into());
    }
    match alone.filter(|alone| alone.era == told.revision.era()) {
        Some(alone) => {
            if let Some(declared) = alone.capabilities.get("extensions").filter(|value| value.is_object()) {
                out.insert("extensions".to_owned(), declared.clone());
            }
        }
        // Behind several servers, and into the other era, an extension is promised only if the gateway knows how to carry it.
        None => promise(
            &mut out,
            extensions::carried(servers.iter().map(|server| server.capabilities), told.revision.era()),
            told,
        ),
    }
    finish(out, told)
}

/// Tells a client of extensions, if its revision has what they need.
fn promise(out: &mut Map<String, Value>, carried: Map<String, Value>, told: CapabilityReader) {
    if told.revision.has_item_meta() {
        declare(out, carried);
    }
}

/// An empty `extensions` says the same as none.
fn declare(out: &mut Map<String, Value>, extensions: Map<String, Value>) {
    if !extensions.is_empty() {
        out.insert("extensions".to_owned(), extensions.into());
    }
}

/// The only server there is.
#[derive(Clone, Copy, Debug)]
pub struct OnlyServer<'a> {
    /// As it declared them.
    pub capabilities: &'a Value,
    /// The era that it talks in: subscriptions are announced otherwise in each.
    pub era: Era,
}

/// For a legacy client of several servers: its view is frozen at `initialize`, while servers come later. Who can not be
/// followed says so when somebody wants to. `carried`: the extensions that servers have, or may have when they are there.
pub fn frozen(told: CapabilityReader, carried: Map<String, Value>) -> Value {
    let all = ["tools", "prompts", "resources", "logging", "completions"];
    let mut out: Map<String, Value> = all.into_iter().map(|name| (name.to_owned(), declared(name, told))).collect();
    // Capabilities can not be changed after the introduction, so everything that a server may bring later is
    // promised.
    out["resources"]["subscribe"] = true.into();
    promise(&mut out, carried, told);
    finish(out, told)
}

fn declared(name: &str, told: CapabilityReader) -> Value {
    let topic = Topic::ALL.into_iter().find(|topic| topic.as_str() == name);
    match topic.is_some_and(|topic| told.announced[topic as usize]) {
        true => json!({ "listChanged": true }),
        false => json!({}),
    }
}

fn finish(mut out: Map<String, Value>, told: CapabilityReader) -> Value {
    if !told.revision.declares_completions() {
        out.remove("completions");
    }
    // Where no change of a list is told, there is nothing that a summary could be about.
    if told.asks_changes && out.values().any(|capability| capability.get("listChanged").is_some()) {
        // The old era has no extensions of its own: those that clients know are named as in the new one, this is not.
        let group = if told.revision.era() == Era::Modern { "extensions" } else { "experimental" };
        out.entry(group).or_insert_with(|| json!({}))[meta::CHANGES] = json!({});
    }
    Value::Object(out)
}

/// Whether a client declared what a server's request needs.
pub fn client_can(capabilities: &Value, method: &str, url_mode: bool) -> bool {
    match method {
        "sampling/createMessage" => capabilities.get("sampling").is_some(),
        "roots/list" => capabilities.get("roots").is_some(),
        "elicitation/create" => capabilities.get("elicitation").is_some_and(|e| {
            // `{}` means forms, as it did before there were modes.
            if url_mode { e.get("url").is_some() } else { e.get("form").is_some() || e.get("url").is_none() }
        }),
        _ => false,
    }
}

/// Whether the server declares a list.
pub fn declares(capabilities: &Value, name: &str) -> bool {
    capabilities.get(name).is_some_and(Value::is_object)
}

/// The single stdio client's own capabilities, as a legacy server of another revision may be told them.
pub fn of_client(capabilities: &Value, client: Era, server: Revision) -> Value {
    let mut out = Map::new();
    // By name: whatever else a newer client declares means nothing to a server of the old era.
    for name in ["roots", "sampling", "elicitation", "experimental", "extensions"] {
        if let Some(value) = capabilities.get(name) {
            out.insert(name.to_owned(), value.clone());
        }
    }
    if !server.has_elicitation() {
        out.remove("elicitation");
    }
    if client == Era::Modern {
        // Of extensions that the gateway does not know it can not know that both eras have them.
        out.remove("extensions");
        declare(&mut out, extensions::carried_of(capabilities, Era::Legacy));
    }
    // Before there were modes a client had the capability or not.
    if !server.has_url_elicitation()
        && let Some(elicitation) = out.get_mut("elicitation")
    {
        *elicitation = json!({});
    }
    Value::Object(out)
}
