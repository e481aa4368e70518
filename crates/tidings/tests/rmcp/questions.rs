//! Servers that ask the client: requests on the way in the legacy era, rounds in the modern one.

use rmcp::model::{GetPromptRequestParams, ReadResourceRequestParams};
use serde_json::json;
use tidings_testkit::within;

use crate::visit::{ERAS, Era, SERVERS, TRANSPORTS, Visit};
use crate::{contents, prompt_text, text, tool};

// bridging B6, legacy servers; 35
#[tokio::test]
async fn a_legacy_server_gets_its_answers_from_the_client_of_the_call() {
    for (client, over) in ERAS.into_iter().flat_map(|client| TRANSPORTS.map(|over| (client, over))) {
        let mut visit = Visit::pay(client, over, Era::Legacy).await;
        for server in SERVERS {
            let result = within("an elicited result", visit.client.call_tool(tool(server, "ask", json!({})))).await;
            assert_eq!(text(&result.expect("a result")), format!("Ferris for {server}"));
            let questions = visit.seen.questions();
            assert!(questions.len() == 1 && questions[0].contains("Name?"), "{questions:?}");
            let result = within("a sampled result", visit.client.call_tool(tool(server, "think", json!({})))).await;
            assert_eq!(text(&result.expect("a result")), "Paris file:///home/ferris");
            assert_eq!(visit.seen.questions(), ["Capital of France?", "roots"]);
        }
        visit.leave().await;
    }
}

// bridging B6, modern servers
#[tokio::test]
async fn a_modern_server_gets_its_answers_in_rounds() {
    for (client, over) in ERAS.into_iter().flat_map(|client| TRANSPORTS.map(|over| (client, over))) {
        let mut visit = Visit::pay(client, over, Era::Modern).await;
        for server in SERVERS {
            let result =
                within("a result in three rounds", visit.client.call_tool(tool(server, "form", json!({})))).await;
            assert_eq!(text(&result.expect("a result")), "Ferris Paris file:///home/ferris");
            let questions = visit.seen.questions();
            assert_eq!(questions.iter().filter(|q| q.contains("Name?")).count(), 2, "{questions:?}");
            assert_eq!(questions.len(), 4, "{questions:?}");

            let params = GetPromptRequestParams::new(format!("{server}__form"));
            let prompt = within("a prompt in two rounds", visit.client.get_prompt(params)).await.expect("a prompt");
            assert_eq!(prompt_text(&prompt), format!("Greet Ferris for {server}"));

            let uri = format!("{server}+memo://form");
            let read = visit.client.read_resource(ReadResourceRequestParams::new(&uri));
            let resource = within("a resource in two rounds", read).await.expect("contents");
            assert_eq!(contents(&resource), (uri.as_str(), "Ferris"));
            assert_eq!(visit.seen.questions().len(), 2);
        }
        visit.leave().await;
    }
}
