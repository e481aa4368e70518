//! What a search gives.

use serde_json::{Value, json};
use tidings_testkit::{Server, Tool, within};

use crate::{call, clients, exposing, failure, found, names, office, office_servers, retrieve};

// S3.8
#[tokio::test]
async fn a_tool_is_found_by_what_it_does_and_can_be_called() {
    for server in office_servers().await {
        let other = Server::builder("other").echo("echo").stdio().await;
        let gateway = exposing("search").server("office", &server).server("other", &other).serve().await;
        for client in clients(&gateway).await {
            let tools = retrieve(&client, "tell a colleague something").await;
            assert_eq!(names(&tools)[0], "office__send_message");
            assert_eq!(tools[0]["server"], "office");
            let name = tools[0]["name"].as_str().unwrap();
            let arguments = json!({"text": "lunch?"});
            assert_eq!(call(&client, name, arguments.clone()).await.text(), "send_message: lunch?");
            assert_eq!(client.call_tool(name, arguments).await.text(), "send_message: lunch?", "by its name too");
        }
    }
}

// S3.8
#[tokio::test]
async fn spelling_does_not_matter() {
    let server = office().stdio().await;
    let gateway = exposing("both").server("office", &server).serve().await;
    let client = gateway.client().connect().await;
    for (query, wanted) in [
        ("send_message", "send_message"),
        ("sendMessage", "send_message"),
        ("SendMessages", "send_message"),
        ("create invoice", "createInvoice"),
        ("create_invoices", "createInvoice"),
        ("creat invioce", "createInvoice"),
        ("holiday", "list_holidays"),
        ("meeting rooms", "book_room"),
        ("resreve a romo", "book_room"),
        ("office__book_room", "book_room"),
        ("BILLING CUSTOMERS", "createInvoice"),
    ] {
        assert_eq!(found(&client, query).await.first().map(String::as_str), Some(wanted), "{query}");
    }
    assert!(found(&client, "xylophone").await.is_empty());
}

// S3.8
#[tokio::test]
async fn results_carry_the_definition_as_the_server_gave_it_in_a_stable_order() {
    let schema = r#"{ "type":"object", "properties":{"n":{"type":"number","maximum":9007199254740993.00,"default":5.0}}, "required":["n"] }"#;
    let output = r#"{"type":"object","properties":{"z":{},"a":{}}}"#;
    let definition = format!(
        r#"{{"annotations":{{"readOnlyHint":true}},"name":"weigh","title":"Weigh it","description":"Weighs \"things\"","inputSchema":{schema},"outputSchema":{output},"_meta":{{"x":1}}}}"#
    );
    let server = Server::builder("scale").tool_raw(&definition, |call| async move { call.ok_text("") }).stdio().await;
    let gateway = exposing("search").server("scale", &server).serve().await;
    for client in clients(&gateway).await {
        let answer = client.call_tool("retrieve_tools", json!({"query": "weigh"})).await;
        let raw = answer.result_raw();
        assert!(raw.contains(schema) && raw.contains(output), "{raw}");
        let tools = retrieve(&client, "weigh").await;
        assert!(tools[0]["score"].as_f64().unwrap() > 0.0);
        let mut shown = tools[0].clone();
        shown.as_object_mut().unwrap().remove("score");
        let mut expected: Value = serde_json::from_str(&definition).unwrap();
        expected.as_object_mut().unwrap().remove("_meta");
        expected["server"] = "scale".into();
        assert_eq!(shown, expected);
    }
    // Many that fit equally well.
    let tools = (0..70).rev().map(|n| Tool::text_tool(&format!("twin_{n:02}"), "x")).collect();
    server.set_tools(tools);
    server.list_changed("tools");
    let client = gateway.client().connect().await;
    within("the new tools", async { while found(&client, "twin").await.is_empty() {} }).await;
    let expected: Vec<String> = (0..5).map(|n| format!("twin_{n:02}")).collect();
    assert_eq!(found(&client, "twin").await, expected, "five are the default");
    for (limit, count) in [(json!(1), 1), (json!(7), 7), (json!(50), 50), (json!(1000), 50)] {
        let answer = client.call_tool("retrieve_tools", json!({"query": "twin", "limit": limit})).await;
        assert_eq!(answer.result()["structuredContent"]["tools"].as_array().unwrap().len(), count, "{limit}");
    }
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let server = office().stdio().await;
    let gateway = exposing("search").server("office", &server).serve().await;
    for client in clients(&gateway).await {
        for arguments in [json!({}), json!({"query": ""}), json!({"query": "  "}), json!({"query": 5})] {
            let answer = client.call_tool("retrieve_tools", arguments).await;
            assert!(failure(&answer).contains("`query`"), "{answer:?}");
        }
        let answer = client.call_tool("retrieve_tools", json!({"query": "a", "limit": 0})).await;
        assert!(failure(&answer).contains("`limit`"), "{answer:?}");
        let answer = client.call_tool("call_tool", json!({"arguments": {}})).await;
        assert!(failure(&answer).contains("`name`"), "{answer:?}");
        let answer = client.call_tool("call_tool", json!({"name": "book_room", "arguments": "{}"})).await;
        assert!(failure(&answer).contains("`arguments`"), "{answer:?}");
    }
}

#[tokio::test]
async fn older_clients_get_the_result_as_text() {
    let server = office().modern_only().stdio().await;
    let gateway = exposing("search").server("office", &server).serve().await;
    for revision in ["2024-11-05", "2025-03-26"] {
        let client = gateway.client().revision(revision).connect().await;
        let retrieve = &client.list("tools").await[0];
        assert_eq!((&retrieve["name"], retrieve.get("outputSchema")), (&json!("retrieve_tools"), None));
        let answer = client.call_tool("retrieve_tools", json!({"query": "room"})).await;
        assert_eq!(answer.result().get("structuredContent"), None);
        let said: Value = serde_json::from_str(&answer.text()).unwrap();
        assert_eq!(said["tools"][0]["name"], "book_room");
    }
}

// S3.8
#[tokio::test]
async fn the_result_is_what_the_output_schema_says() {
    let server = office().stdio().await;
    let gateway = exposing("both").server("office", &server).serve().await;
    let client = gateway.client().modern().connect().await;
    let listed = client.list("tools").await;
    let definition = listed.iter().find(|tool| tool["name"] == "retrieve_tools").unwrap();
    assert_eq!(definition["annotations"]["readOnlyHint"], true);
    let item = &definition["outputSchema"]["properties"]["tools"]["items"];
    let known = item["properties"].as_object().unwrap();
    let required = item["required"].as_array().unwrap();
    let tools = retrieve(&client, "office").await;
    assert_eq!(tools.len(), 4);
    for tool in tools {
        let tool = tool.as_object().unwrap();
        assert!(tool.keys().all(|key| known.contains_key(key)), "{tool:?}");
        assert!(required.iter().all(|key| tool.contains_key(key.as_str().unwrap())), "{tool:?}");
    }
}
