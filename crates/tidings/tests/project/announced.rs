//! Changes on disk reach idle clients, each once; what is no change reaches nobody.

use std::time::{Duration, SystemTime};

use serde_json::json;
use tidings_testkit::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, eventually};

use crate::{KINDS, ListFollower, Project, told};

/// Each of them is told once of these, and of nothing else.
async fn all(followers: &mut [ListFollower], kinds: &[&'static str]) {
    for follower in followers {
        follower.expect(kinds).await;
    }
}

/// Each of them sees these tools.
async fn see(followers: &[ListFollower], names: &[&str]) {
    for follower in followers {
        assert_eq!(follower.client.names("tools").await, names);
    }
}

// S0.3, S0.10
#[tokio::test]
async fn an_idle_client_is_told_once_of_each_kind_that_changed() {
    let project = Project::new();
    let gateway = project.serve().await;
    let mut followers = project.followers(&gateway).await;
    project.tool("one");
    all(&mut followers, &["tools"]).await;
    see(&followers, &["one"]).await;
    project.write("prompts/p.txt", "Hello");
    all(&mut followers, &["prompts"]).await;
    project.write("resources/r.txt", "text");
    all(&mut followers, &["resources"]).await;
    project.write("resources/t.meta.json", r#"{"name": "t", "uriTemplate": "file:///{path}"}"#);
    all(&mut followers, &["resources"]).await;
    for follower in &followers {
        assert_eq!(follower.client.names("templates").await, ["file:///{path}"]);
    }
    // One save that matters to one field only.
    project.write("tools/one/tool.meta.json", r#"{"name": "one", "description": "Does more"}"#);
    all(&mut followers, &["tools"]).await;
    assert_eq!(followers[0].client.list("tools").await[0]["description"], "Does more");
    // The last one goes.
    project.remove("tools/one");
    all(&mut followers, &["tools"]).await;
    see(&followers, &[]).await;
    for folder in ["prompts", "resources"] {
        project.remove(folder);
        all(&mut followers, &[folder]).await;
    }
}

// S0.2, S0.10
#[tokio::test]
async fn a_touch_a_rewrite_and_a_script_that_does_something_else_tell_nobody() {
    let project = Project::new();
    project.tool("one").tool("two").write("prompts/p.txt", "Hello");
    let gateway = project.serve().await;
    let mut followers = project.followers(&gateway).await;
    for round in 0..2 {
        for name in ["tools/one/tool.sh", "tools/one/tool.meta.json"] {
            let file = std::fs::File::options().append(true).open(project.path(name)).unwrap();
            file.set_modified(SystemTime::now()).unwrap();
        }
        project.tool("one").write("tools/one/tool.sh", &format!("#!/bin/sh\necho {round}\n"));
        project.write("tools/one/notes.md", "for people").write("server.d/unknown", "to us");
        project.write("prompts/p.txt", &format!("Hello {round}"));
        see(&followers, &["one", "two"]).await;
        // Long enough for whatever might come of it.
        tokio::time::sleep(Duration::from_millis(300)).await;
        // The next change shows that there was nothing before it.
        project.write(&format!("prompts/p{round}.txt"), "Hello");
        all(&mut followers, &["prompts"]).await;
    }
}

// S0.1, S0.4, S0.5, S0.6
#[tokio::test]
async fn every_session_gets_its_own_triplet_and_the_silent_revision_none() {
    let project = Project::new();
    project.tool("one");
    let gateway = project.serve().await;
    let silent = [
        ListFollower::quietly(gateway.client().revision(V2025_03_26).connect().await).await,
        ListFollower::quietly(project.stdio().revision(V2025_03_26).connect().await).await,
    ];
    let mut loud = Vec::new();
    for revision in [V2024_11_05, V2025_06_18, V2025_11_25] {
        // The second finds everything warm.
        for _ in 0..2 {
            loud.push(ListFollower::begin(gateway.client().revision(revision).connect().await).await);
        }
        loud.push(ListFollower::begin(project.stdio().revision(revision).connect().await).await);
    }
    for follower in &loud {
        follower.client.list("tools").await;
        follower.client.list("tools").await;
        assert_eq!(told(&follower.client), KINDS.map(|kind| (kind, 1)).into());
    }
    project.tool("two");
    for follower in &mut loud {
        follower.expect(&["tools"]).await;
    }
    for follower in silent {
        assert!(!follower.client.initialize_result().to_string().contains("listChanged"));
        assert_eq!(follower.client.names("tools").await, ["one", "two"], "it sees what it is not told of");
        assert!(told(&follower.client).is_empty());
    }
}

// S0.8
#[tokio::test]
async fn a_half_written_file_and_a_bad_registration_change_nothing_until_they_are_whole() {
    let project = Project::new();
    project.tool("one").tool("two");
    let gateway = project.serve().await;
    let mut followers = project.followers(&gateway).await;
    project.write("tools/one/tool.meta.json", r#"{"name": "one", "descr"#);
    project.write(".registry/tools.json", "{\"items\": [");
    project.write("server.d/register.json", "{\"version\": 1,\n \"tools\": [");
    let fault = "server.d/register.json:2: is not JSON";
    gateway.stderr().wait_for("the place of the fault", |line| line.contains(fault)).await;
    see(&followers, &["one", "two"]).await;
    // Told by the registration that is whole again, and by nothing before.
    let registration = json!({"version": 1, "tools": [{"name": "own", "path": "two/tool.sh"}]});
    project.write("server.d/register.json", &registration.to_string());
    all(&mut followers, &["tools"]).await;
    see(&followers, &["own"]).await;
    project.tool("one");
    std::fs::remove_file(project.path("server.d/register.json")).unwrap();
    all(&mut followers, &["tools"]).await;
    see(&followers, &["one", "two"]).await;
}

// S0.7
#[tokio::test]
async fn a_hook_on_its_own_ttl_is_told_of_only_when_it_registers_something_else() {
    let project = Project::new();
    project.tool("one").write("wanted", "first");
    project.write(
        "server.d/register.sh",
        "#!/usr/bin/env bash\necho x >> runs\nmcp_register_tool \"{\\\"name\\\": \\\"$(cat wanted)\\\", \\\"path\\\": \\\"one/tool.sh\\\"}\"\n",
    );
    let hooked = || project.stdio().env("MCPBASH_ALLOW_PROJECT_HOOKS", "true").env("MCPBASH_REGISTER_TTL", "1");
    let gateway = project.serve_with("MCPBASH_ALLOW_PROJECT_HOOKS = \"true\", MCPBASH_REGISTER_TTL = \"1\"").await;
    let mut followers = vec![
        ListFollower::begin(hooked().connect().await).await,
        ListFollower::begin(hooked().modern().connect().await).await,
        ListFollower::begin(gateway.client().connect().await).await,
        ListFollower::begin(gateway.client().modern().connect().await).await,
    ];
    see(&followers, &["first"]).await;
    let runs = || std::fs::read_to_string(project.path("runs")).unwrap().lines().count();
    let before = runs();
    // Three processes run it.
    eventually("three more runs of the hook by each", || (runs() >= before + 9).then_some(())).await;
    for follower in &followers {
        assert_eq!(told(&follower.client), follower.told);
    }
    project.write("wanted", "second");
    all(&mut followers, &["tools"]).await;
    see(&followers, &["second"]).await;
}
