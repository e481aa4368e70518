//! With `[auth]` the tools are for admins; for all others they do not exist.

use ring::digest::{SHA256, digest};
use serde_json::json;
use tidings_testkit::{Client, Gateway, Tool};

use crate::{ListFollower, call, clock, launch, listed};

/// Two who may change the gateway, one of them with few servers of its own; one who uses all; and one who uses few.
const TOKENS: [(&str, &str, bool); 4] =
    [("boss", "*", true), ("deputy", "one", true), ("user", "*", false), ("guest", "one", false)];

fn auth() -> String {
    let token = |(name, servers, admin): (&str, &str, bool)| {
        let hash = digest(&SHA256, format!("token-{name}").as_bytes());
        let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{{ name = {name:?}, sha256 = \"{hash}\", servers = [{servers:?}], admin = {admin} }},\n")
    };
    format!("[auth]\ntokens = [\n{}]\n", TOKENS.map(token).concat())
}

async fn clients(gateway: &Gateway, token: &str) -> [Client; 2] {
    let header = format!("Bearer token-{token}");
    [
        gateway.client().header("authorization", &header).connect().await,
        gateway.client().modern().header("authorization", &header).connect().await,
    ]
}

// issue 6.2
#[tokio::test]
async fn only_admins_see_and_call_them() {
    let server = clock().stdio().await;
    let gateway = Gateway::builder().toml("[gateway]\nregistry_tools = true\nexpose = \"both\"").quick();
    let gateway = gateway.toml(&auth()).server("one", &server).server("two", &server).serve().await;
    for (token, _, admin) in TOKENS {
        for client in clients(&gateway, token).await {
            let names = client.names("tools").await;
            let count = names.iter().filter(|name| name.starts_with("mcp_registry_")).count();
            assert_eq!(count, if admin { 11 } else { 0 }, "{token}");
            for (name, arguments) in [
                ("mcp_registry_active", json!({})),
                ("mcp_registry_launch_stdio", json!({"command": "true", "prefix": "x"})),
            ] {
                let answer = client.call_tool(name, arguments.clone()).await;
                let nothing = client.call_tool("no_such_tool", arguments.clone()).await;
                if admin {
                    assert!(answer.response.as_ref().unwrap().error().is_null(), "{answer:?}");
                } else {
                    let expected = nothing.error().to_string().replace("no_such_tool", name);
                    assert_eq!(answer.error().to_string(), expected, "as a tool that is not there");
                }
                let through = json!({"name": name, "arguments": arguments});
                let through = client.call_tool("call_tool", through).await;
                assert_eq!(through.text().contains("there is no tool"), !admin, "{through:?}");
            }
            let found = client.call_tool("retrieve_tools", json!({"query": "mcp_registry_launch_stdio"})).await;
            assert_eq!(found.text().contains("mcp_registry_"), admin, "{token}");
        }
    }
}

// S4.1: what is told depends on rights, not on who asked
#[tokio::test]
async fn those_who_may_use_the_new_server_are_told_and_the_others_are_not() {
    let (server, other) = (clock().stdio().await, clock().stdio().await);
    let gateway = Gateway::builder().toml("[gateway]\nregistry_tools = true").quick().toml(&auth());
    let gateway = gateway.server("one", &server).server("two", &other).serve().await;
    let mut followers = Vec::new();
    for (token, servers, _) in TOKENS {
        for client in clients(&gateway, token).await {
            followers.push((ListFollower::begin(client).await, servers == "*"));
        }
    }
    let before: Vec<_> = followers.iter().map(|(follower, _)| follower.counts()).collect();
    // The deputy may add what it may not use.
    let deputy = &followers[2].0.client;
    let added = launch(deputy, "new", &other).await;
    assert_eq!(added["server"]["state"], "ready");
    for ((follower, sees), before) in followers.iter().zip(&before) {
        assert_eq!(listed(&follower.client, "tools").await.contains(&"new__now".to_owned()), *sees);
        if *sees {
            follower.heard_all(*before).await;
        }
    }
    call(deputy, "remove", json!({"entry_id": "new"})).await;
    for ((follower, sees), before) in followers.iter().zip(&before) {
        if *sees {
            follower.heard_all(before.map(|count| count + 1)).await;
        }
    }
    // What everybody may see is told next, and shows what was told before.
    server.put_tool(Tool::text_tool("later", "later"));
    server.list_changed("tools");
    for ((follower, sees), before) in followers.iter().zip(&before) {
        let seen = if *sees { 2 } else { 0 };
        follower.heard("tools", before[0] + seen + 1).await;
        assert_eq!(follower.counts(), [before[0] + seen + 1, before[1] + seen, before[2] + seen]);
    }
}
