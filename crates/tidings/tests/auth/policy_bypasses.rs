//! Ways around the rules of `[policy]` that lead past the lists: methods of a server's own, names of what went, views of others.

use serde_json::json;
use tidings_testkit::Server;

use crate::policies::{OPEN, RULES, crm, followers, ruled, with_other};
use crate::{auth, both_eras, error_about, hear, quick};

// identity 3: a method that only the server knows, by the name of something of it, where rules are about the server
#[tokio::test]
async fn a_method_of_a_servers_own_does_not_get_past_the_rules_by_a_name() {
    let crm = crm().on_raw("crm/own", |call| async move { call.ok(json!({})) }).stdio().await;
    let third = Server::builder("third").echo("echo").stdio().await;
    let (_other, gateway) = with_other(ruled(RULES).server("third", &third), &crm).await;
    let (by_name, by_uri) = (json!({"name": "crm__get_customer"}), json!({ "uri": OPEN }));
    for client in both_eras(&gateway, "ada").await {
        for params in [&by_name, &by_uri] {
            assert!(!client.request("crm/own", params.clone()).await.error().is_null(), "{params}");
        }
    }
    assert_eq!(crm.count("crm/own"), 0);
    for client in both_eras(&gateway, "dan").await {
        for params in [&by_name, &by_uri] {
            let answer = client.request("crm/own", params.clone()).await;
            assert!(answer.response().error().is_null(), "{params}: {answer:?}");
        }
    }
}

// identity 3: attack by a name that went: that it was there is told to those who could see it
#[tokio::test]
async fn a_tool_that_went_was_never_there_for_those_whom_rules_keep_things_from() {
    let crm = crm().stdio().await;
    let (_other, gateway) = with_other(ruled(RULES), &crm).await;
    let (adas, dans) = (both_eras(&gateway, "ada").await, followers(&gateway, "dan").await);
    crm.remove_tool("delete_customer");
    assert!(crm.list_changed("tools") > 0);
    let went = "crm__delete_customer";
    for (client, _) in &dans {
        hear(client, "tools", 1).await;
        let error = client.call_tool(went, json!({})).await.error().to_string();
        assert!(error.contains("removedAt"), "who could see it is told: {error}");
    }
    for client in &adas {
        let denied = client.call_tool(went, json!({})).await;
        let absent = client.call_tool("nobody__x", json!({})).await;
        assert_eq!(error_about(&denied, went), error_about(&absent, "nobody__x"), "{}", client.revision());
    }
}

// identity 3, issue 6.8: the servers of a token and the rules hold together
#[tokio::test]
async fn people_whom_the_same_rules_are_about_see_the_servers_of_their_own_tokens() {
    let crm = crm().stdio().await;
    let other = Server::builder("other").echo("echo").stdio().await;
    let tokens = auth(&[("all", &["*"], false), ("one", &["other"], false)]);
    let rule = "[[policy.rule]]\nwho = [\"*\"]\ndeny = [\"crm/delete_*\"]\n";
    let gateway = quick(&tokens).toml(rule).server("crm", &crm).server("other", &other).serve().await;
    // Both ways round: neither is given what was made for the other.
    for token in ["all", "one", "all"] {
        let expected: &[&str] = match token {
            "one" => &["other__echo"],
            _ => &["crm__get_customer", "crm__put_customer", "other__echo"],
        };
        for client in both_eras(&gateway, token).await {
            assert_eq!(client.names("tools").await, expected, "{token}");
            let answer = client.call_tool("crm__get_customer", json!({})).await;
            assert_eq!(answer.response().error().is_null(), token == "all", "{answer:?}");
        }
    }
}
