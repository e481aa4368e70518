//! Prompts, completions and resources.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tidings_project::run::{ResourceReading, ScriptCaller};
use tidings_project::{ProjectCompletion, ProjectPrompt, PromptBody};

use tidings_testkit::TempDir;

use super::{World, answer};

async fn read(world: &World, uri: &str) -> Value {
    read_as(world, ResourceReading { uri: uri.into(), ..ResourceReading::default() }).await
}

async fn read_as(world: &World, reading: ResourceReading) -> Value {
    answer(world.runner.read_resource(17, reading, ScriptCaller::default())).await
}

#[tokio::test]
async fn files_are_read_inside_the_resources_folder_and_nowhere_else() {
    // S0.9
    let world = World::new();
    world.script("resources/a b.txt", "hello");
    world.dir.write("secret.txt", "no");
    let root = world.dir.path().canonicalize().unwrap();
    let uri = |path: &str| format!("file://{}/{path}", root.display());
    let good = read(&world, &uri("resources/a%20b.txt")).await;
    assert_eq!(
        good["result"]["contents"],
        json!([{"uri": uri("resources/a%20b.txt"), "mimeType": "text/plain", "text": "hello"}])
    );
    for (path, code) in [
        ("resources/absent.txt", -32002),
        ("secret.txt", -32603),
        ("resources/../secret.txt", -32603),
        ("resources/%2e%2e/secret.txt", -32603),
    ] {
        assert_eq!(read(&world, &uri(path)).await["error"]["code"], code, "{path}");
    }
    assert_eq!(read(&world, "file:///etc/passwd").await["error"]["code"], -32603);
    assert_eq!(read(&world, "nothing").await["error"]["code"], -32602);
}

#[tokio::test]
async fn the_projects_own_provider_wins_and_its_exit_code_says_what_is_wrong() {
    // S0.9
    let world = World::new();
    assert_eq!(read(&world, "echo://a%20b").await["result"]["contents"][0]["text"], "a b");
    world.script("providers/echo.sh", "#!/bin/sh\nprintf 'own: %s' \"$1\"\n");
    assert_eq!(read(&world, "echo://x;id").await["result"]["contents"][0]["text"], "own: echo://x;id");
    world.script("providers/odd.sh", "#!/bin/sh\necho 'not today' >&2\nexit ${1#odd://}\n");
    for (exit, code) in [(2, -32603), (3, -32002), (4, -32602), (5, -32603), (9, -32603)] {
        let reading = ResourceReading {
            uri: format!("odd://{exit}"),
            provider: Some("odd".into()),
            ..ResourceReading::default()
        };
        assert_eq!(read_as(&world, reading).await["error"]["code"], code, "{exit}");
    }
    let unknown =
        ResourceReading { uri: "x://y".into(), provider: Some("../../evil".into()), ..ResourceReading::default() };
    assert!(read_as(&world, unknown).await["error"]["message"].as_str().unwrap().contains("Unsupported"));
    world.assert_clean().await;
}

#[tokio::test]
async fn bytes_are_given_as_such_and_too_many_are_refused() {
    // S0.9
    let world = World::with(&[("MCPBASH_MAX_RESOURCE_BYTES", "1000")]);
    world.script("providers/raw.sh", "#!/bin/sh\nprintf '\\377\\000'\n");
    let raw = ResourceReading { uri: "raw://x".into(), provider: Some("raw".into()), ..ResourceReading::default() };
    assert_eq!(read_as(&world, raw.clone()).await["result"]["contents"][0]["blob"], "/wA=");
    world.script("providers/raw.sh", "#!/bin/sh\nhead -c 1000000000 /dev/zero\n");
    let message = read_as(&world, raw).await["error"]["message"].take();
    assert!(message.as_str().unwrap().contains("1000 bytes"), "{message}");
    world.assert_clean().await;
}

#[tokio::test]
async fn hosts_are_asked_only_if_they_are_named_and_public() {
    // S0.9
    let closed = World::new();
    let message = |answer: Value| answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    assert!(message(read(&closed, "https://example.com/").await).contains("MCPBASH_HTTPS_ALLOW_HOSTS"));
    assert!(message(read(&closed, "git+https://example.com/r#HEAD:a").await).contains("MCPBASH_ENABLE_GIT_PROVIDER"));
    let open = World::with(&[
        ("MCPBASH_HTTPS_ALLOW_ALL", "true"),
        ("MCPBASH_HTTPS_DENY_HOSTS", "bad.example"),
        ("MCPBASH_ENABLE_GIT_PROVIDER", "true"),
        ("MCPBASH_GIT_ALLOW_ALL", "true"),
    ]);
    assert!(message(read(&open, "https://bad.example/").await).contains("DENY"));
    for private in ["127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "localhost", "2130706433", "0x7f000001"] {
        for uri in [format!("https://{private}/"), format!("git+https://{private}/r#HEAD:a")] {
            let refusal = message(read(&open, &uri).await);
            let words = ["private", "neither the name", "can not be found"];
            assert!(words.iter().any(|word| refusal.contains(word)), "{uri}: {refusal}");
        }
    }
    assert!(message(read(&open, "https://user:pass@example.com/").await).contains("password"));
}

// trust T11
#[tokio::test]
async fn a_repository_that_does_not_end_is_stopped_while_it_comes() {
    let tools = TempDir::new();
    // A git whose server sends without end: what it writes is counted by the system, as with the real one.
    let endless =
        "#!/bin/sh\nfor word; do [ \"$word\" != fetch ] || exec dd if=/dev/zero of=pack bs=1024 count=4096; done\n";
    let git = tools.write("git", endless);
    std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.path().display(), std::env::var("PATH").unwrap());
    let variables = [
        ("MCPBASH_ENABLE_GIT_PROVIDER", "true"),
        ("MCPBASH_GIT_ALLOW_ALL", "true"),
        ("MCPBASH_GIT_MAX_KB", "64"),
        ("PATH", &path),
    ];
    let world = World::with(&variables);
    let kept = world.temporary.path().to_owned();
    let largest = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&largest);
    let watching = tokio::spawn(async move {
        loop {
            seen.fetch_max(bytes_in(&kept), Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let refusal = read(&world, "git+https://8.8.8.8/r#HEAD:a").await;
    watching.abort();
    assert!(refusal["error"]["message"].as_str().unwrap().contains("exceeds 64 KB"), "{refusal}");
    let largest = largest.load(Ordering::Relaxed);
    assert!(largest <= 128 * 1024, "{largest} bytes were written");
    world.assert_clean().await;
}

/// The bytes of all files below a folder, as far as they can be seen.
fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => bytes_in(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

#[tokio::test]
async fn a_prompt_is_a_template_or_what_a_script_prints() {
    // S0.9
    let world = World::new();
    let template = world.script("prompts/hi.txt", "Hello {{name}}");
    let mut prompt = ProjectPrompt {
        name: "hi".into(),
        body: PromptBody::Template(template),
        role: "user".into(),
        definition: json!({"name": "hi", "description": "Greets", "arguments": [{"name": "name", "required": true}]}),
        metadata: Value::Null,
    };
    let get = |prompt: &ProjectPrompt, params: Value| {
        answer(world.runner.get_prompt(17, Arc::new(prompt.clone()), params, ScriptCaller::default()))
    };
    let named = json!({"arguments": {"name": "Ann"}});
    let message = |text: &str| json!({"description": "Greets", "messages": [{"role": "user", "content": {"type": "text", "text": text}}]});
    assert_eq!(get(&prompt, named.clone()).await["result"], message("Hello Ann"));
    assert_eq!(get(&prompt, json!({})).await["error"]["code"], -32602);
    let script = world.script("prompts/hi.sh", "#!/bin/sh\nprintf '%s' \"$MCP_PROMPT_ARGS_JSON\"\n");
    prompt.body = PromptBody::Script(script);
    assert_eq!(get(&prompt, named.clone()).await["result"], message(r#"{"name":"Ann"}"#));
    prompt.body = PromptBody::Script(world.script("prompts/bad.sh", "#!/bin/sh\necho no >&2; exit 1\n"));
    assert_eq!(get(&prompt, named).await["error"]["message"], "no");
}

#[tokio::test]
async fn a_completion_is_asked_with_limit_and_offset_and_pages_on() {
    // S0.9
    let world = World::new();
    let body = "#!/bin/sh\nprintf '[\"%s\",\"%s\",\"%s\"]' \"$MCP_COMPLETION_NAME\" \"$MCP_COMPLETION_LIMIT\" \"$MCP_COMPLETION_OFFSET\"\n";
    let script = world.script("completions/it.sh", body);
    let completion = Arc::new(ProjectCompletion { name: "it".into(), script, timeout: None, metadata: Value::Null });
    let ask =
        |params: Value| answer(world.runner.complete(17, Arc::clone(&completion), params, ScriptCaller::default()));
    assert_eq!(ask(json!({})).await["result"]["completion"], json!({"values": ["it", "5", "0"], "hasMore": false}));
    assert_eq!(ask(json!({"limit": 1000})).await["result"]["completion"]["values"][1], "100");
    let first = ask(json!({"limit": 2})).await["result"]["completion"].take();
    assert_eq!((&first["values"], &first["hasMore"]), (&json!(["it", "2"]), &json!(true)));
    let second = ask(json!({"limit": 3, "cursor": first["nextCursor"]})).await["result"]["completion"].take();
    assert_eq!(second["values"], json!(["it", "3", "2"]));
    assert_eq!(ask(json!({"cursor": "nonsense"})).await["error"]["code"], -32602);
}

#[tokio::test]
async fn a_completion_that_takes_too_long_is_ended() {
    let world = World::new();
    let script = world.script("completions/slow.sh", "#!/bin/sh\nsleep 60\n");
    let timeout = Some(std::time::Duration::from_millis(200));
    let completion = ProjectCompletion { name: "slow".into(), script, timeout, metadata: Value::Null };
    let late = answer(world.runner.complete(17, Arc::new(completion), json!({}), ScriptCaller::default())).await;
    assert!(late["error"]["message"].as_str().unwrap().contains("slow.sh: no answer within 0.2 s"), "{late}");
    world.assert_clean().await;
}

#[tokio::test]
async fn a_file_in_a_repository_is_fetched_without_checking_anything_out() {
    // S0.9
    let bin = tidings_testkit::TempDir::new();
    let notes = bin.join("notes");
    let fake = format!(
        "#!/bin/sh\necho \"$GIT_ALLOW_PROTOCOL $*\" >> {}\ncase \"$*\" in *absent*) exit 128;; *cat-file*) printf content;; esac\n",
        notes.display()
    );
    let git = bin.write("git", fake);
    std::fs::set_permissions(&git, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
    let world = World::with(&[
        ("PATH", &path),
        ("MCPBASH_ENABLE_GIT_PROVIDER", "true"),
        ("MCPBASH_GIT_ALLOW_HOSTS", "8.8.8.8"),
    ]);
    let found = read(&world, "git+https://8.8.8.8/r.git#main:docs/a.md").await;
    assert_eq!(found["result"]["contents"][0]["text"], "content", "{found}");
    assert_eq!(read(&world, "git+https://8.8.8.8/r.git#main:absent").await["error"]["code"], -32002);
    assert_eq!(read(&world, "git+https://8.8.4.4/r.git#main:a").await["error"]["code"], -32602);
    let said = std::fs::read_to_string(notes).unwrap();
    let settings = "https -c http.followRedirects=false -c http.curloptResolve=8.8.8.8:443:8.8.8.8 ";
    assert!(said.contains(settings), "{said}");
    assert!(said.contains(" fetch --quiet --depth=1 --no-tags -- https://8.8.8.8/r.git main\n"), "{said}");
    assert!(said.contains("https cat-file blob FETCH_HEAD:docs/a.md\n"), "{said}");
    world.assert_clean().await;
}

// trust T4
#[tokio::test]
async fn the_list_of_what_may_run_is_for_every_kind_of_script() {
    let world = World::with(&[("MCPBASH_TOOL_ALLOWLIST", "named")]);
    let mark = world.dir.join("ran");
    let body = format!("#!/bin/sh\necho x >> '{}'\necho '[]'\n", mark.display());
    let outcomes = async |name: &str| {
        let script = world.script(&format!("prompts/{name}.sh"), &body);
        let prompt = ProjectPrompt {
            name: name.into(),
            body: PromptBody::Script(script.clone()),
            role: "user".into(),
            definition: json!({ "name": name }),
            metadata: Value::Null,
        };
        let caller = ScriptCaller::default;
        let prompt = answer(world.runner.get_prompt(17, Arc::new(prompt), json!({}), caller())).await;
        let completion = ProjectCompletion { name: name.into(), script, timeout: None, metadata: Value::Null };
        let completion = answer(world.runner.complete(17, Arc::new(completion), json!({}), caller())).await;
        world.script(&format!("providers/{name}.sh"), &body);
        let provider = Some(name.to_owned());
        let reading = ResourceReading { uri: format!("{name}://x"), provider, ..ResourceReading::default() };
        [prompt, completion, read_as(&world, reading).await]
    };
    for refused in outcomes("other").await {
        let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
        assert!(message.contains("'other' blocked by policy"), "{message}");
    }
    assert!(!mark.exists(), "nothing ran");
    for done in outcomes("named").await {
        assert!(done["result"].is_object(), "{done}");
    }
    assert_eq!(std::fs::read_to_string(&mark).unwrap().lines().count(), 3);
}
