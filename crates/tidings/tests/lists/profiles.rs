//! Clients with profiles, through the gateway: what they are shown, what they can call, and when they are told.

use serde_json::{Value, json};
use tidings_testkit::*;

/// What a tool says of what was changed of it.
const VIEW: &str = "dev.tidings/view";

/// A name that no client with a limit takes.
fn long() -> String {
    format!("{}_end", "n".repeat(116))
}

fn tool(name: &str, rest: &[(&str, Value)]) -> Value {
    let mut tool = json!({"name": name, "description": "A tool.", "inputSchema": {"type": "object"}});
    for (member, value) in rest {
        tool[*member] = value.clone();
    }
    tool
}

/// A server with everything that some client can not bear.
fn difficult() -> ServerBuilder {
    let either = json!({"type": "object", "anyOf": [
        {"properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": false},
        {"properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": false},
    ]});
    let referring = json!({"type": "object", "properties": {"at": {"$ref": "#/$defs/Place"}},
        "$defs": {"Place": {"type": "string"}}});
    Server::builder("one")
        .tool_def(tool(&long(), &[]), |call| async move { call.ok_text("long") })
        .tool_def(tool("either", &[("inputSchema", either)]), |call| async move { call.ok_text("either") })
        .tool_def(tool("refers", &[("inputSchema", referring)]), |call| async move { call.ok_text("refers") })
        .tool_def(
            tool("lists", &[("outputSchema", json!({"type": "array"}))]),
            |call| async move { call.ok_text("lists") },
        )
}

fn named<'t>(tools: &'t [Value], name: &str) -> &'t Value {
    tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("no {name} in {tools:?}"))
}

// reach 2, reach 8.2
#[tokio::test]
async fn a_known_client_is_shown_what_it_can_bear_and_an_unknown_one_everything() {
    let server = difficult().stdio().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    let everybody = gateway.client().modern().connect().await.list("tools").await;
    assert_eq!(everybody.iter().filter(|tool| tool.get("_meta").is_some()).count(), 0);
    for builder in [gateway.client().modern(), gateway.client(), gateway.stdio().modern(), gateway.stdio()] {
        let client = builder.name("gemini-cli-mcp-client").connect().await;
        let tools = client.list("tools").await;
        assert_eq!(tools.len(), everybody.len(), "none is dropped");
        let cut = tools[0]["name"].as_str().unwrap();
        assert!(cut.len() == 51 && cut.starts_with("nnnn"), "{cut}");
        assert_eq!(tools[0]["_meta"][VIEW], json!({"fullName": long()}));
        assert_eq!(named(&tools, "either")["inputSchema"], named(&everybody, "either")["inputSchema"]);
        let refers = named(&tools, "refers");
        assert_eq!(refers["inputSchema"], json!({"type": "object", "properties": {"at": {"type": "string"}}}));
        assert_eq!(refers["_meta"][VIEW], json!({"inputSchema": ["inlined"]}));
        assert_eq!(named(&tools, "lists").get("outputSchema"), None);
        // By the name that it was shown, and by the whole one.
        for name in [cut, &long()] {
            assert_eq!(client.call_tool(name, json!({})).await.text(), "long");
        }
        let last = server.received().into_iter().rfind(|received| received.method == "tools/call").unwrap();
        assert_eq!(last.params()["name"], long().as_str(), "the server hears its own name");
    }
    let client = gateway.client().name("opencode").connect().await;
    let tools = client.list("tools").await;
    assert_eq!(tools[0]["name"].as_str().unwrap().len(), 56);
    let either = named(&tools, "either");
    assert_eq!(
        either["inputSchema"],
        json!({"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}})
    );
    assert!(either["description"].as_str().unwrap().starts_with("A tool.\n\nThe arguments must also fit"), "{either}");
    assert_eq!(client.call_tool("either", json!({"id": 1})).await.text(), "either");
    // Somebody else's short name is no name here.
    let other = gateway.client().connect().await;
    let cut = tools[0]["name"].as_str().unwrap();
    assert!(other.call_tool(cut, json!({})).await.error().to_string().contains("nnnn"));
}

// reach 2; invariant 2
#[tokio::test]
async fn a_client_is_told_exactly_when_what_it_sees_changed() {
    let schema = |unused: &str, used: &str| {
        json!({"type": "object", "properties": {"at": {"$ref": "#/$defs/Used"}},
            "$defs": {"Used": {"type": used}, "Unused": {"type": unused}}})
    };
    let refers = |unused: &str, used: &str| {
        let definition = tool("refers", &[("inputSchema", schema(unused, used))]);
        Tool::raw(&definition.to_string(), |call| async move { call.ok_text("") })
    };
    let server = Server::builder("one").entry_tool(refers("string", "string")).stdio().await;
    let gateway = Gateway::builder().quick().server("one", &server).serve().await;
    let follow = |builder: ClientBuilder| async move { ListFollower::begin(builder.connect().await).await };
    let mut known = [
        follow(gateway.client().name("gemini-cli-mcp-client")).await,
        follow(gateway.client().modern().name("gemini-cli-mcp-client")).await,
    ];
    let mut unknown = [follow(gateway.client()).await, follow(gateway.client().modern()).await];
    let quiet: Vec<[usize; 3]> = known.iter().map(ListFollower::counts).collect();
    // What is used nowhere is not in the view of those for whom definitions are put in their places.
    server.put_tool(refers("integer", "string"));
    server.list_changed("tools");
    for follower in &mut unknown {
        follower.expect(&["tools"]).await;
    }
    server.put_tool(refers("integer", "integer"));
    server.list_changed("tools");
    for follower in &mut unknown {
        follower.expect(&["tools"]).await;
    }
    for (follower, quiet) in known.iter_mut().zip(quiet) {
        // One notice, for the second change: `expect` fails if there was another.
        follower.expect(&["tools"]).await;
        assert_eq!(follower.counts()[0], quiet[0] + 1);
        let tools = follower.client.list("tools").await;
        assert_eq!(tools[0]["inputSchema"]["properties"], json!({"at": {"type": "integer"}}));
    }
}

// reach 2; S0.4
#[tokio::test]
async fn goose_hears_of_tools_though_its_revision_is_told_of_nothing() {
    let server = || Server::builder("one").echo("echo").prompt("p", |call| async move { call.ok_message("hi") });
    for (toml, hears) in [("", true), ("[clients.goose-cli]\nhears = []", false)] {
        let server = server().stdio().await;
        let gateway = Gateway::builder().toml(toml).quick().server("one", &server).serve().await;
        let client = gateway.client().revision(V2025_03_26).name("goose-cli").connect().await;
        let capabilities = client.initialize_result()["capabilities"].clone();
        assert_eq!(capabilities["tools"].get("listChanged").is_some(), hears, "{capabilities}");
        assert_eq!(capabilities["prompts"].get("listChanged"), None, "{capabilities}");
        let mut goose = ListFollower::quietly(client).await;
        let mut other = ListFollower::begin(gateway.client().connect().await).await;
        if hears {
            goose.expect(&["tools"]).await;
        }
        server.remove_prompt("p");
        server.list_changed("prompts");
        other.expect(&["prompts"]).await;
        server.put_tool(Tool::text_tool("new", "new"));
        server.list_changed("tools");
        other.expect(&["tools"]).await;
        if hears {
            goose.expect(&["tools"]).await;
        }
        // The end of the session: its stream has carried all it ever will.
        assert_eq!(goose.client.delete().await / 100, 2);
        assert_eq!(told(&goose.client).get("prompts"), None);
        assert_eq!(told(&goose.client).contains_key("tools"), hears);
    }
}

// reach 2
#[tokio::test]
async fn a_client_may_search_for_tools_that_others_are_listed() {
    let server = difficult().stdio().await;
    let toml = "[clients.codex-mcp-client]\nexpose = \"search\"\n[clients.both]\nexpose = \"both\"";
    let gateway = Gateway::builder().toml(toml).server("one", &server).serve().await;
    for era in [ClientEra::Legacy, ClientEra::Modern] {
        let connect = |name: &'static str| era.builder(&gateway).name(name).connect();
        let everybody = connect("nobody-knows-it").await.names("tools").await;
        assert_eq!(everybody, [long().as_str(), "either", "refers", "lists"], "others are not shown what finds tools");
        let codex = connect("codex-mcp-client").await;
        assert_eq!(codex.names("tools").await, ["retrieve_tools", "call_tool"]);
        assert_eq!(codex.call_tool("either", json!({"id": 1})).await.text(), "either", "it can be called all the same");
        let call = json!({"name": "lists", "arguments": {}});
        assert_eq!(codex.call_tool("call_tool", call).await.text(), "lists");
        let both = connect("both").await.names("tools").await;
        assert_eq!(both.len(), everybody.len() + 2);
    }
}

#[derive(Clone, Copy)]
enum ClientEra {
    Legacy,
    Modern,
}

impl ClientEra {
    fn builder(self, gateway: &Gateway) -> ClientBuilder {
        match self {
            Self::Legacy => gateway.client(),
            Self::Modern => gateway.client().modern(),
        }
    }
}

// reach 2
#[tokio::test]
async fn what_a_session_or_a_person_sees_over_links_of_their_own_is_shaped_too() {
    for isolation in ["session", "principal"] {
        let server = difficult().stdio().await;
        let keys = format!("isolation = \"{isolation}\"");
        let gateway = Gateway::builder().server_with("one", &server, &keys).serve().await;
        for client in [
            gateway.client().name("gemini-cli-mcp-client").connect().await,
            gateway.client().modern().name("gemini-cli-mcp-client").connect().await,
        ] {
            let tools = client.list("tools").await;
            let cut = tools[0]["name"].as_str().unwrap();
            assert_eq!(cut.len(), 51, "{isolation}");
            assert_eq!(client.call_tool(cut, json!({})).await.text(), "long", "{isolation}");
            assert_eq!(named(&tools, "refers")["_meta"][VIEW], json!({"inputSchema": ["inlined"]}));
        }
        let other = gateway.client().connect().await;
        assert_eq!(other.names("tools").await[0], long());
    }
}

// reach 2
#[tokio::test]
async fn the_configuration_overrides_what_is_known_of_a_client() {
    let server = difficult().stdio().await;
    let toml = "[gateway]\npage_size = 2\n[clients.gemini-cli-mcp-client]\nversion = \"<2\"\nas = \"a-longer-name\"\n\
                pages = \"follow\"\nschema = []\n[clients.mine]\nname_budget = 20\npages = \"one\"";
    let gateway = Gateway::builder().toml(toml).server("one", &server).serve().await;
    let gemini = gateway.client().name("gemini-cli-mcp-client").connect().await;
    let first = gemini.request("tools/list", json!({})).await.result();
    assert_eq!(first["tools"].as_array().unwrap().len(), 2);
    assert_eq!(first["tools"][0]["name"].as_str().unwrap().len(), 45, "6 bytes less than as tidings");
    assert!(first.get("nextCursor").is_some());
    let tools = gemini.list("tools").await;
    assert!(named(&tools, "refers")["inputSchema"].get("$defs").is_some());
    for builder in [gateway.client(), gateway.client().modern()] {
        let mine = builder.name("mine").connect().await;
        let all = mine.request("tools/list", json!({})).await.result();
        assert_eq!((all["tools"].as_array().unwrap().len(), all.get("nextCursor")), (4, None));
        assert_eq!(all["tools"][0]["name"].as_str().unwrap().len(), 20);
    }
}

// reach 2
#[tokio::test]
async fn commands_say_what_a_client_is_shown_and_why() {
    let server = difficult().stdio().await;
    let toml = "[clients.\"Visual Studio Code\"]\nname_budget = 30";
    let gateway = Gateway::builder().toml(toml).server("one", &server).serve().await;
    let config = gateway.config().to_str().unwrap().to_owned();
    // From the gateway that runs, and from one that is started for the command.
    for more in [&[][..], &["--config", &config]] {
        let run = async |args: &[&str]| {
            let output = gateway.command(&[args, more].concat()).await;
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let said = run(&["tools", "--as", "gemini"]).await;
        assert!(said.contains(&format!("  short for {}", long())), "{said}");
        assert!(said.contains("refers\n  input schema inlined\nlists\n  output schema dropped\n"), "{said}");
        let shown: Value =
            serde_json::from_str(&run(&["tools", "--as", "claude-code@2.1.100", "--json"]).await).unwrap();
        assert_eq!((&shown["client"], shown["tools"][0]["name"].as_str().unwrap().len()), (&json!("claude-code"), 50));
        let found: Value = serde_json::from_str(&run(&["doctor", "--json"]).await).unwrap();
        let about = |client: &str| {
            let findings = found["findings"].as_array().unwrap().iter();
            let of = findings.filter(|finding| finding["about"] == format!("client {client}"));
            of.map(|finding| finding["what"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let expected = "3 of 4 tools are shown in a form that it takes (`tidings tools --as \"gemini-cli-mcp-client\"`); \
                        it hears tools, prompts, resources";
        assert_eq!(about("gemini-cli-mcp-client"), [expected]);
        assert_eq!(about("Visual Studio Code").len(), 1);
        assert!(about("codex-mcp-client").is_empty(), "it is shown what everybody is");
    }
}

// reach 2
#[tokio::test]
async fn who_takes_fewer_tools_than_there_are_is_named_with_what_to_do() {
    let server = (0..130).fold(Server::builder("one"), |server, number| server.echo(&format!("tool{number}")));
    let server = server.stdio().await;
    let gateway = Gateway::builder().server("one", &server).serve().await;
    let output = gateway.command(&["doctor", "--json"]).await;
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings: Vec<&Value> = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["about"].as_str().unwrap().starts_with("client"))
        .collect();
    let [code] = findings[..] else { panic!("{findings:?}") };
    assert_eq!(code["what"], "takes 128 tools in a request, and there are 130");
    assert_eq!(code["remedy"], "let it search for them: [clients.\"Visual Studio Code\"] expose = \"search\"");
}
