//! Which client has which profile.

use std::borrow::Cow;

use tidings_hub::client_profile::{
    ClientProfile, ClientProfiles, HeardNotices, PageReading, ProfileOverride, SchemaRules, ToolExposure,
};
use tidings_hub::ledger::{Topic, Topics};

fn of<'p>(profiles: &'p ClientProfiles, name: &str, version: Option<&str>) -> Option<&'p ClientProfile> {
    profiles.of(name, || version.map(|version| Cow::Owned(version.to_owned()))).map(|profile| &**profile)
}

fn budget(profile: &ClientProfile) -> Option<usize> {
    profile.shape.as_ref().and_then(|shape| shape.name_budget)
}

// reach 2
#[test]
fn a_client_that_nobody_knows_has_no_profile() {
    let profiles = ClientProfiles::new(&[]);
    for name in ["", "mcp", "Claude-Code", "claude-code ", "inspector"] {
        assert_eq!(of(&profiles, name, Some("1.0")), None, "{name}");
    }
    assert!(!profiles.search());
}

// reach 2
#[test]
fn what_is_known_of_each_client_is_what_was_found_out() {
    let profiles = ClientProfiles::new(&[]);
    let lists = |topics: &[Topic]| {
        let mut lists = Topics::default();
        topics.iter().for_each(|topic| lists.insert(*topic));
        lists
    };
    let (tools, all, none) = (lists(&[Topic::Tools]), Topics::ALL, Topics::default());
    let (follow, one) = (PageReading::Follow, PageReading::One);
    let tools_and_resources = lists(&[Topic::Tools, Topic::Resources]);
    for (name, version, names, pages, hears) in [
        ("claude-code", "2.1.325", Some(114), follow, tools_and_resources),
        ("claude-code", "2.1.143", Some(50), one, tools_and_resources),
        ("codex-mcp-client", "0.166.0", None, one, none),
        ("gemini-cli-mcp-client", "0.61.0", Some(51), one, all),
        ("opencode", "1.18.33", Some(56), follow, tools),
        ("Visual Studio Code", "1.120.0", Some(46), follow, all),
        ("Zed", "0.250", Some(64), one, tools),
        ("goose-cli", "1.30.0", Some(55), follow, tools),
        ("goose-desktop", "1.30.0", Some(55), follow, tools),
        ("Cline", "3", None, one, all),
        ("@cline/core", "3", None, one, none),
        ("claude-ai", "0.1.0", None, one, none),
        ("cursor-vscode", "1.0.0", Some(52), one, tools),
        ("github-copilot-developer", "1.0.0", None, one, tools),
    ] {
        let profile = of(&profiles, name, Some(version)).unwrap();
        assert_eq!((budget(profile), profile.pages, profile.hears.lists), (names, pages, hears), "{name} {version}");
    }
    let rules = |name| of(&profiles, name, Some("99")).unwrap().shape.as_ref().map(|shape| shape.schema);
    let plain_top = SchemaRules { no_top_combinators: true, ..SchemaRules::default() };
    let plain = SchemaRules { inline_refs: true, object_output: true, ..SchemaRules::default() };
    assert_eq!(rules("claude-code"), Some(plain_top));
    assert_eq!(rules("opencode"), Some(plain_top));
    assert_eq!(rules("gemini-cli-mcp-client"), Some(plain));
    assert_eq!(rules("codex-mcp-client"), None, "its view is everybody's");
    // A version that is not said is as good as an old one.
    assert_eq!(of(&profiles, "claude-code", None).unwrap().pages, PageReading::One);
}

// reach 2
#[test]
fn each_key_overrides_what_is_known_and_the_rest_stays() {
    let client = "gemini-cli-mcp-client".to_owned();
    let over = ProfileOverride { client: client.clone(), ..ProfileOverride::default() };
    let with = |over: ProfileOverride| of(&ClientProfiles::new(&[over]), &client, Some("0.61.0")).unwrap().clone();
    let known = of(&ClientProfiles::new(&[]), &client, None).unwrap().clone();
    assert_eq!(with(over.clone()), known, "nothing was said");
    let longer = with(ProfileOverride { registered_as: Some("my-gateway".into()), ..over.clone() });
    assert_eq!(budget(&longer), Some(48), "the name of the gateway has ten bytes, and not seven");
    let said = with(ProfileOverride { name_budget: Some(40), registered_as: Some("x".into()), ..over.clone() });
    assert_eq!(budget(&said), Some(40));
    assert_eq!(said.hears, known.hears);
    let follows = with(ProfileOverride { pages: Some(PageReading::Follow), ..over.clone() });
    assert_eq!((follows.pages, budget(&follows)), (PageReading::Follow, Some(51)));
    let deaf = with(ProfileOverride { hears: Some(HeardNotices::default()), ..over.clone() });
    assert_eq!(deaf.hears.words().count(), 0);
    let lax = with(ProfileOverride { schema: Some(SchemaRules::default()), ..over.clone() });
    assert!(lax.shape.unwrap().schema.is_empty());
    let searching = ProfileOverride { expose: Some(ToolExposure::Search), ..over };
    assert!(ClientProfiles::new(std::slice::from_ref(&searching)).search());
    assert_eq!(with(searching).shape.unwrap().expose, Some(ToolExposure::Search));
}

// reach 2
#[test]
fn a_version_narrows_whom_an_override_is_for() {
    let over = ProfileOverride {
        client: "claude-code".into(),
        version: "<2.1.200".parse().unwrap(),
        name_budget: Some(20),
        ..ProfileOverride::default()
    };
    let profiles = ClientProfiles::new(&[over]);
    let at = |version| of(&profiles, "claude-code", Some(version)).unwrap();
    // The two rows of what is known stay apart below the bound.
    assert_eq!((budget(at("2.1.199")), at("2.1.199").pages), (Some(20), PageReading::Follow));
    assert_eq!((budget(at("2.1.100")), at("2.1.100").pages), (Some(20), PageReading::One));
    assert_eq!(budget(at("2.1.200")), Some(114));
}

// reach 2
#[test]
fn a_client_that_only_the_configuration_knows_has_what_it_says_and_nothing_else() {
    let over = ProfileOverride { client: "mine".into(), pages: Some(PageReading::One), ..ProfileOverride::default() };
    let profiles = ClientProfiles::new(&[over]);
    let mine = of(&profiles, "mine", None).unwrap();
    assert_eq!((mine.pages, &mine.shape, mine.hears), (PageReading::One, &None, HeardNotices::default()));
}
