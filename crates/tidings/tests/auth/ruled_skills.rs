//! Skills where rules keep something of their server from somebody: what a server says of its skills is its own, and nothing could be taken
//! out of it, so there are none of it for them.

use serde_json::{Value, json};
use tidings_testkit::{Client, Server, ServerBuilder};

use crate::policies::ruled;
use crate::{auth, both_eras, error_about, quick};

const GIT: &str = "skill://git/SKILL.md";
const SECRET: &str = "skill://git/secret/rules.md";
const FOLDER: &str = "skill://git/secret";
/// Keeps one file of the skill from support, and nothing else.
const RULE: &str = "[[policy.rule]]\nwho = [\"group:support\"]\ndeny = [\"crm/skill://git/secret/*\"]\n";

/// A server with a skill that names a file, which a rule may be about.
fn skilled(name: &'static str) -> ServerBuilder {
    let entry = move || {
        let files =
            json!([{"uri": GIT, "digest": "sha256:00", "size": 5}, {"uri": SECRET, "digest": "sha256:01", "size": 7}]);
        json!({"uri": GIT, "frontmatter": {"name": "git", "description": name}, "resources": files})
    };
    Server::builder(name)
        .capabilities(json!({"tools": {}, "resources": {}, "extensions": {"io.modelcontextprotocol/skills": {"directoryRead": true}}}))
        .echo("echo")
        .resource(GIT, "git")
        .resource(SECRET, "psst")
        .on_raw("skills/list", move |call| async move { call.ok(json!({"skills": [entry()], "ttlMs": 0, "cacheScope": "private"})) })
        .on_raw("skills/get", move |call| async move { call.ok(json!({"skill": entry(), "ttlMs": 0, "cacheScope": "private"})) })
        .on_raw("resources/directory/read", |call| async move { call.ok(json!({"resources": [{"uri": SECRET, "name": "rules.md"}]})) })
}

/// Everything that a client is told of skills, page by page from a cursor on.
async fn listed(client: &Client, cursor: Option<&str>) -> String {
    let (mut all, mut cursor) = (String::new(), cursor.map(str::to_owned));
    for _ in 0..10 {
        let params = cursor.as_ref().map_or(json!({}), |cursor| json!({ "cursor": cursor }));
        let page = client.request("skills/list", params).await.result();
        all += &page["skills"].to_string();
        match page["nextCursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return all,
        }
    }
    panic!("it comes to no end: {all}");
}

/// How often the server was asked anything about skills.
fn asked(server: &Server) -> usize {
    ["skills/list", "skills/get", "resources/directory/read"].iter().map(|method| server.count(method)).sum()
}

async fn refused_like_what_is_not_there(client: &Client, method: &str, uri: &str) {
    let denied = client.request(method, json!({ "uri": uri })).await;
    let absent = client.request(method, json!({"uri": "nobody+skill://x/SKILL.md"})).await;
    let (denied, absent) = (error_about(&denied, uri), error_about(&absent, "nobody+skill://x/SKILL.md"));
    assert!(denied.contains("-32602") || denied.contains("code"), "{denied}");
    assert_eq!(denied, absent, "{method} {uri} {}", client.revision());
}

// identity 3: a denied item does not exist, also by way of a skill that names it; ADR 54, 67
#[tokio::test]
async fn no_skill_comes_from_a_server_of_which_rules_keep_something() {
    for is_modern in [false, true] {
        let (crm, other) = (skilled("crm"), skilled("other"));
        let crm = if is_modern { crm.modern_only().http().await } else { crm.stdio().await };
        let other = other.stdio().await;
        let gateway = ruled(RULE).server("crm", &crm).server("other", &other).serve().await;
        let at = |uri: &str| format!("crm+{uri}");
        let mut cursors = Vec::new();
        for dan in both_eras(&gateway, "dan").await {
            let all = listed(&dan, None).await;
            assert!(all.contains(&at(SECRET)) && all.contains(&format!("other+{GIT}")), "{all}");
            assert!(
                dan.request("skills/get", json!({"uri": at(GIT)})).await.result().to_string().contains(&at(SECRET))
            );
            assert!(
                dan.request("resources/directory/read", json!({"uri": at(FOLDER)})).await.result()["resources"]
                    .is_array()
            );
            let first = dan.request("skills/list", json!({})).await.result();
            cursors.push(first["nextCursor"].as_str().unwrap().to_owned());
        }
        let before = asked(&crm);
        for (ada, cursor) in both_eras(&gateway, "ada").await.iter().zip(&cursors) {
            for from in [None, Some(cursor.as_str())] {
                let all = listed(ada, from).await;
                assert!(!all.contains("crm") && all.contains(&format!("other+{GIT}")), "{all}");
            }
            refused_like_what_is_not_there(ada, "skills/get", &at(GIT)).await;
            refused_like_what_is_not_there(ada, "skills/get", &at(SECRET)).await;
            refused_like_what_is_not_there(ada, "resources/directory/read", &at(FOLDER)).await;
            refused_like_what_is_not_there(ada, "resources/directory/read", &at("skill://git")).await;
            // What is not kept from her can be read as ever.
            assert!(ada.request("resources/read", json!({"uri": at(GIT)})).await.response().error().is_null());
        }
        assert_eq!(asked(&crm), before, "the server hears nothing of it");
    }
}

// identity 3: a server that is alone answers for everything, but not past the rules
#[tokio::test]
async fn a_server_that_is_alone_has_no_skills_for_those_whom_rules_keep_something_of_it_from() {
    let crm = skilled("crm").stdio().await;
    let gateway = ruled(RULE).server("crm", &crm).serve().await;
    for dan in both_eras(&gateway, "dan").await {
        assert!(listed(&dan, None).await.contains(SECRET));
    }
    let before = asked(&crm);
    for ada in both_eras(&gateway, "ada").await {
        for (method, params) in [
            ("skills/list", json!({})),
            ("skills/get", json!({"uri": GIT})),
            ("resources/directory/read", json!({"uri": FOLDER})),
        ] {
            let answer = ada.request(method, params).await;
            assert!(
                answer.response().error() != Value::Null || answer.result()["skills"] == json!([]),
                "{method}: {answer:?}"
            );
        }
    }
    assert_eq!(asked(&crm), before, "the server hears nothing of it");
}

// issue 6.8: the servers of a token hold for skills, too
#[tokio::test]
async fn no_skill_comes_from_a_server_that_a_token_may_not_use() {
    let (crm, other) = (skilled("crm").stdio().await, skilled("other").stdio().await);
    let tokens = auth(&[("all", &["*"], false), ("one", &["other"], false)]);
    let gateway = quick(&tokens).server("crm", &crm).server("other", &other).serve().await;
    for client in both_eras(&gateway, "all").await {
        assert!(listed(&client, None).await.contains("crm+"));
    }
    let before = asked(&crm);
    for client in both_eras(&gateway, "one").await {
        let all = listed(&client, None).await;
        assert!(!all.contains("crm") && all.contains(GIT), "{all}");
        refused_like_what_is_not_there(&client, "skills/get", &format!("crm+{GIT}")).await;
    }
    assert_eq!(asked(&crm), before);
}
