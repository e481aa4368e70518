//! What `expose` decides: which tools are listed, and so which changes are told.

use serde_json::json;
use tidings_testkit::{Client, Server};

use crate::{call, clients, exposing, followers, office, outside, tool};

async fn listed(client: &Client) -> Vec<String> {
    let mut names = client.names("tools").await;
    names.sort();
    names
}

#[tokio::test]
async fn all_lists_every_tool_and_has_no_built_ins() {
    let server = office().stdio().await;
    let other = office().http().await;
    let gateway = exposing("all").server("office", &server).server("other", &other).serve().await;
    for client in clients(&gateway).await {
        let names = listed(&client).await;
        assert_eq!(names.len(), 8);
        assert!(!names.iter().any(|name| name.ends_with("_tools") || name == "call_tool"), "{names:?}");
        assert_eq!(client.call_tool("retrieve_tools", json!({"query": "a"})).await.error_code(), -32602);
    }
}

#[tokio::test]
async fn search_lists_the_built_ins_only_and_every_tool_can_be_called() {
    let office = office().prompt("p", |call| async move { call.ok_message("hi") }).resource("file:///r", "r");
    let server = office.stdio().await;
    let other = Server::builder("other").echo("echo").modern_only().http().await;
    let gateway = exposing("search").server("office", &server).server("other", &other).serve().await;
    for client in clients(&gateway).await {
        assert_eq!(listed(&client).await, ["call_tool", "retrieve_tools"]);
        assert_eq!(client.names("prompts").await, ["office__p"], "prompts and resources are as ever");
        assert_eq!(client.names("resources").await, ["office+file:///r"]);
        assert_eq!(client.call_tool("office__book_room", json!({"text": "5"})).await.text(), "book_room: 5");
    }
}

#[tokio::test]
async fn both_lists_everything() {
    let server = office().stdio().await;
    let gateway = exposing("both").server("office", &server).serve().await;
    let all = ["book_room", "call_tool", "createInvoice", "list_holidays", "retrieve_tools", "send_message"];
    for client in clients(&gateway).await {
        assert_eq!(listed(&client).await, all);
    }
}

// S0.2; architecture invariant 2
#[tokio::test]
async fn a_change_that_no_client_sees_is_told_to_nobody() {
    for build in [|| office(), || office().modern_only()] {
        let server = build().resource("file:///r", "r").stdio().await;
        let gateway = exposing("search").server("office", &server).serve().await;
        let followers = followers(&gateway).await;
        let told: Vec<usize> = followers.iter().map(|follower| follower.count("tools")).collect();
        server.put_tool(tool("new", "Something new."));
        server.remove_tool("book_room");
        server.list_changed("tools");
        // What is said next shows that nothing was said before.
        let resources: Vec<usize> = followers.iter().map(|follower| follower.count("resources")).collect();
        server.put_resource(tidings_testkit::Tool::resource("file:///s", "s"));
        server.list_changed("resources");
        for ((follower, tools), resources) in followers.iter().zip(told).zip(resources) {
            follower.heard("resources", resources + 1).await;
            assert_eq!(follower.count("tools"), tools, "{}", follower.client.revision());
            assert_eq!(call(&follower.client, "new", json!({})).await.text(), "new: ");
        }
    }
}

#[tokio::test]
async fn a_built_in_keeps_its_name_and_the_imitation_is_reported() {
    let server = office().entry_tool(tool("call_tool", "Rings somebody up.")).stdio().await;
    let gateway = exposing("both").server("office", &server).serve().await;
    let is_warning = |line: &String| line.contains("WARN") && line.contains("call_tool") && line.contains("office");
    gateway.stderr().wait_for("a warning about the name", is_warning).await;
    for client in clients(&gateway).await {
        let tools = client.list("tools").await;
        let named = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap()["description"].clone();
        assert_ne!(named("call_tool"), "Rings somebody up.");
        assert_eq!(named("office__call_tool"), "Rings somebody up.");
        assert_eq!(client.call_tool("office__call_tool", json!({"text": "ann"})).await.text(), "call_tool: ann");
        assert_eq!(call(&client, "book_room", json!({"text": "5"})).await.text(), "book_room: 5");
    }
    let servers = outside::api(&gateway, "servers").await.1;
    let row = servers["servers"].as_array().unwrap().iter().find(|row| row["name"] == "office").unwrap();
    assert_eq!(row["displaced_tools"], json!(["call_tool"]));
    let status = outside::api(&gateway, "status").await.1;
    let displaced = json!([{"server": "office", "name": "call_tool", "shown_as": "office__call_tool"}]);
    assert_eq!(status["displaced_tools"], displaced);
}

#[tokio::test]
async fn prefixed_names_do_not_clash() {
    let one = office().entry_tool(tool("call_tool", "Rings somebody up.")).stdio().await;
    let two = Server::builder("two").echo("echo").stdio().await;
    let gateway = exposing("both").server("one", &one).server("two", &two).serve().await;
    let client = gateway.client().connect().await;
    let names = client.names("tools").await;
    assert!(names.contains(&"one__call_tool".to_owned()) && names.contains(&"call_tool".to_owned()), "{names:?}");
    assert_eq!(call(&client, "one__call_tool", json!({"text": "ann"})).await.text(), "call_tool: ann");
}

// S2.7
#[tokio::test]
async fn a_single_server_keeps_its_identity_beside_the_built_ins() {
    let server = office().instructions("Be polite.").stdio().await;
    let gateway = exposing("search").server("office", &server).serve().await;
    let client = gateway.client().connect().await;
    let introduced = client.initialize_result();
    assert_eq!(
        (&introduced["serverInfo"]["name"], &introduced["instructions"]),
        (&json!("office"), &json!("Be polite."))
    );
    let prompts = Server::builder("p").prompt("p", |call| async move { call.ok_message("hi") });
    let only_prompts = prompts.capabilities(json!({"prompts": {}})).stdio().await;
    let gateway = exposing("search").server("p", &only_prompts).serve().await;
    let client = gateway.client().connect().await;
    assert!(client.initialize_result()["capabilities"]["tools"].is_object(), "the built-ins are tools");
}

#[tokio::test]
async fn how_long_a_list_is_fresh_is_up_to_those_who_are_in_it() {
    let build = |prompts: u64| {
        Server::builder("one")
            .modern_only()
            .echo("echo")
            .prompt("p", |call| async move { call.ok_message("hi") })
            .on_raw("prompts/list", move |call| {
                let list = json!({"prompts": [{"name": "p"}], "ttlMs": prompts, "cacheScope": "public"});
                let answer = call.ok(list);
                async move { answer }
            })
            .on_raw("tools/list", |call| {
                let tool = json!({"name": "echo", "inputSchema": {"type": "object"}});
                let answer = call.ok(json!({"tools": [tool], "ttlMs": 0, "cacheScope": "private"}));
                async move { answer }
            })
    };
    let server = build(60_000).stdio().await;
    for (expose, fresh, scope) in [("search", true, "public"), ("both", false, "private")] {
        let gateway = exposing(expose).server("one", &server).serve().await;
        let client = gateway.client().modern().connect().await;
        let list = async |kind: &str| client.request(&format!("{kind}/list"), json!({})).await.result();
        let (prompts, tools) = (list("prompts").await, list("tools").await);
        assert!(prompts["ttlMs"].as_u64().unwrap() > 0 && prompts["cacheScope"] == "public", "{prompts}");
        assert_eq!((tools["ttlMs"].as_u64().unwrap() > 0, &tools["cacheScope"]), (fresh, &json!(scope)));
    }
}
