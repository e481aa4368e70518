use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tidings_testkit::TempDir;

use super::*;
use crate::entry::PromptBody;
use crate::settings::GivenEnvironment;

/// A project in the making.
pub(crate) struct Project {
    dir: TempDir,
}

impl Project {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        self
    }

    /// There at once and whole: a script that is run while it is empty says that it registers nothing.
    pub(crate) fn script(&self, name: &str, text: &str) -> &Self {
        const UNFINISHED: &str = ".unfinished";
        self.write(UNFINISHED, text);
        std::fs::set_permissions(self.path(UNFINISHED), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::rename(self.path(UNFINISHED), self.path(name)).unwrap();
        self
    }

    /// Takes from others what whoever runs the tests gives them by default.
    pub(crate) fn safe(&self) -> &Self {
        for name in ["", "server.d", "server.d/policy.sh"] {
            let _ = std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o755));
        }
        self
    }

    pub(crate) fn open_to_others(&self, name: &str) {
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o777)).unwrap();
    }

    pub(crate) fn home(&self, variables: &[(&str, &str)]) -> ProjectHome {
        let environment = GivenEnvironment::new(variables.iter().map(|(name, value)| (name.into(), value.into())));
        ProjectHome::open(self.dir.path(), environment).unwrap()
    }

    fn survey(&self) -> ProjectSurvey {
        ProjectSurvey::of(&self.home(&[]))
    }

    fn contents(&self) -> ProjectContents {
        let survey = self.survey();
        assert!(
            survey.problems.iter().all(|p| p.fault.severity() == crate::ProblemSeverity::Warning),
            "{:?}",
            survey.problems
        );
        survey.contents.unwrap()
    }
}

fn names(tools: &[Arc<ProjectTool>]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn shown(survey: &ProjectSurvey) -> Vec<String> {
    survey.all_problems().map(ToString::to_string).collect()
}

// S0.9
#[test]
fn a_tool_is_described_by_the_file_beside_it() {
    let project = Project::new();
    let metadata = json!({
        "name": "example-hello", "description": "Greets", "arguments": {"properties": {"who": {"type": "string"}}},
        "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}, "_meta": {"x": 1},
        "timeoutSecs": 5, "timeoutHint": "less", "progressExtendsTimeout": true, "maxTimeoutSecs": 60,
        "icons": [{"src": "./icon.svg"}, {"src": "https://example.com/i.png"}],
    });
    project.script("tools/hello/tool.sh", "#!/bin/sh\n").write("tools/hello/tool.meta.json", metadata.to_string());
    project
        .write("tools/hello/icon.svg", "<svg/>")
        .write("tools/hello/smoke.sh", "")
        .write("tools/hello/notes.txt", "");
    let contents = project.contents();
    assert_eq!(names(&contents.tools), ["example-hello"]);
    let tool = &contents.tools[0];
    assert_eq!(
        tool.definition,
        json!({
            "name": "example-hello", "description": "Greets",
            "inputSchema": {"type": "object", "properties": {"who": {"type": "string"}}},
            "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}, "_meta": {"x": 1},
            "icons": [
                {"src": "data:image/svg+xml;base64,PHN2Zy8+", "mimeType": "image/svg+xml"},
                {"src": "https://example.com/i.png"},
            ],
        })
    );
    assert_eq!(tool.timeouts.fixed, Some(Duration::from_secs(5)));
    assert_eq!(tool.timeouts.max, Some(Duration::from_secs(60)));
    assert_eq!((tool.timeouts.extends, tool.timeouts.hint.as_deref()), (Some(true), Some("less")));
    assert_eq!(tool.metadata["path"], "tools/hello/tool.sh");
    assert!(tool.script.is_absolute());
}

// S0.9
#[test]
fn what_counts_as_a_tool_and_what_it_is_called() {
    let project = Project::new();
    project.script("tools/direct.sh", "#!/usr/bin/env bash\n# @describe A test tool\necho ok\n");
    project.write("tools/library.sh", "# sourced by others\n");
    project.write("tools/a/by_extension.bash", "true\n").write("tools/a/by_shebang", "#!/usr/bin/env python3\n");
    project.write("tools/a/data.csv", "1,2\n").script("tools/deep/er/any", "true\n");
    project.script("tools/plain/tool.sh", "#!/bin/sh\n").script("tools/.hidden/x.sh", "").script("tools/a/.y.sh", "");
    project.script("tools/b/run.py", "#!/usr/bin/env python3\n# mcp:{\"name\":\"inline\",\"description\":\"D\",\"arguments\":{\"type\":\"object\"}}\n");
    project.write("tools/c/x.sh.meta.json", r#"{"name":"whole","description":"d"}"#);
    project.write("tools/c/x.meta.json", r#"{"name":"stem","description":"d"}"#).script("tools/c/x.sh", "");
    let contents = project.contents();
    assert_eq!(names(&contents.tools), ["any", "by_extension", "by_shebang", "direct", "inline", "plain", "whole"]);
    assert_eq!(contents.tool("direct").unwrap().definition["description"], "A test tool");
    assert_eq!(contents.tool("inline").unwrap().definition["inputSchema"], json!({"type": "object", "properties": {}}));
}

// S0.9
#[test]
fn resources_templates_and_prompts_are_found() {
    let project = Project::new();
    project.write("resources/a b.txt", "hello").write("resources/greeting.txt", "hi");
    project.write("resources/greeting.meta.json", r#"{"name":"greet","uri":"file://./resources/greeting.txt"}"#);
    project.write("resources/page.meta.json", r#"{"name":"page","uri":"https://example.com/","mimeType":"text/html"}"#);
    project.write("resources/files.meta.json", r#"{"name":"files","uriTemplate":"file:///{path}","title":"Files"}"#);
    project.script("providers/shop.sh", "").write("resources/shop.meta.json", r#"{"uri":"shop://orders"}"#);
    project.write("prompts/p.txt", "Hello {{name}}").script("prompts/made.sh", "#!/bin/sh\necho x\n");
    let schema =
        json!({"type": "object", "required": ["name"], "properties": {"name": {"description": "Who"}, "tone": {}}});
    project
        .write("prompts/p.meta.json", json!({"name": "prompt.p", "description": "P", "arguments": schema}).to_string());
    let contents = project.contents();
    let uri = format!("file://{}/resources/a%20b.txt", project.home(&[]).root.display());
    let resources: Vec<_> =
        contents.resources.iter().map(|r| (r.name.as_str(), r.uri.as_str(), r.provider.as_str())).collect();
    assert_eq!(
        resources,
        [
            ("a b", uri.as_str(), "file"),
            ("greet", "file://./resources/greeting.txt", "file"),
            ("page", "https://example.com/", "https"),
            ("shop", "shop://orders", "shop"),
        ]
    );
    let template = json!({"name": "files", "uriTemplate": "file:///{path}", "title": "Files"});
    assert_eq!(contents.templates[0].definition, template);
    assert_eq!(contents.prompts.len(), 2);
    assert!(matches!(contents.prompt("made").unwrap().body, PromptBody::Script(_)));
    let prompt = contents.prompt("prompt.p").unwrap();
    assert!(matches!(prompt.body, PromptBody::Template(_)));
    let arguments =
        json!([{"name": "name", "description": "Who", "required": true}, {"name": "tone", "required": false}]);
    assert_eq!(prompt.definition["arguments"], arguments);
}

// S0.9
#[test]
fn register_json_replaces_what_is_found_kind_by_kind() {
    let project = Project::new();
    project.script("tools/found/x.sh", "").write("prompts/p.txt", "x").script("tools/own.sh", "").script("c/s.sh", "");
    project.write("resources/kept.txt", "").write("resources/t.meta.json", r#"{"name":"t","uriTemplate":"a:{b}"}"#);
    project.write("resources/u.meta.json", r#"{"name":"u","uriTemplate":"old:{b}"}"#);
    let registration = json!({
        "version": 1, "_meta": {}, "resources": null, "prompts": [],
        "tools": [{"name": "manual.progress", "path": "own.sh", "description": "d", "timeoutSecs": 8}],
        "resourceTemplates": [{"name": "u", "uriTemplate": "new:{b}"}],
        "completions": [{"name": "c", "path": "c/s.sh", "timeoutSecs": 5}],
    });
    project.write("server.d/register.json", registration.to_string());
    let contents = project.contents();
    assert_eq!(names(&contents.tools), ["manual.progress"]);
    assert!(contents.prompts.is_empty());
    assert_eq!(contents.resources.len(), 1);
    let templates: Vec<_> = contents.templates.iter().map(|t| t.uri_template.as_str()).collect();
    assert_eq!(templates, ["a:{b}", "new:{b}"], "registered ones are put over those that are found");
    assert_eq!(contents.completion("c").unwrap().timeout, Some(Duration::from_secs(5)));
}

// S0.9
#[test]
fn a_bad_register_json_is_refused_as_a_whole_with_its_line() {
    let cases = [
        ("{\n\"tools\": []}", "server.d/register.json:1: `version` is not 1"),
        ("{\"version\": 1,\n\"tool\": []}", "server.d/register.json:2: the key \"tool\" is not known"),
        ("{\"version\": 1,\n\n\"tools\": {}}", "server.d/register.json:3: `tools` is not an array"),
        ("{\"version\": 1, \"tools\": [", "server.d/register.json:1: is not JSON: EOF"),
        ("\u{feff}{\"version\": 1}", "server.d/register.json: begins with a byte order mark"),
        ("[]", "server.d/register.json:1: the whole is not a JSON object"),
    ];
    for (text, expected) in cases {
        let project = Project::new();
        project.script("tools/found/x.sh", "").write("server.d/register.json", text);
        let problem = project.survey().contents.unwrap_err().to_string();
        assert!(problem.starts_with(expected), "{problem}");
    }
    let project = Project::new();
    project.write("server.d/register.json", vec![b' '; (1 << 20) + 1]);
    let problem = project.survey().contents.unwrap_err().to_string();
    assert!(problem.contains("at most 1048576 are read"), "{problem}");
}

#[test]
fn an_entry_that_is_wrong_does_not_harm_the_others() {
    let project = Project::new();
    project.script("tools/ok/ok.sh", "").script("tools/odd/x.sh", "").write("secret", "");
    project.write("tools/odd/x.meta.json", "{\n\"name\": \"a;rm -rf /\"}");
    project.script("tools/slow/slow.sh", "").write("tools/slow/slow.meta.json", "{\"timeoutSecs\":\n\"soon\"}");
    project.write("resources/both.meta.json", r#"{"name":"b","uri":"a:b","uriTemplate":"a:{b}"}"#);
    project.write("resources/none.meta.json", r#"{"name":"n","uriTemplate":"a:b"}"#);
    project.write("resources/who.meta.json", r#"{"name":"w","uri":"who:x","provider":"../../secret"}"#);
    let survey = project.survey();
    assert_eq!(names(&survey.contents.as_ref().unwrap().tools), ["ok", "slow"]);
    assert!(survey.contents.as_ref().unwrap().templates.is_empty());
    let problems = shown(&survey);
    for expected in [
        "tools/odd/x.meta.json:2: the name \"a;rm -rf /\" is not possible; use 1 to 128 of the characters",
        "tools/slow/slow.meta.json:1: `timeoutSecs` is not a whole number of seconds",
        "resources/both.meta.json:1: has both `uri` and `uriTemplate`",
        "resources/none.meta.json:1: the template \"a:b\" has no {variable}",
        "resources/who.meta.json:1: there is no provider \"../../secret\"",
    ] {
        assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{expected} in {problems:#?}");
    }
}

#[test]
fn nothing_leads_out_of_the_project() {
    let outside = TempDir::new();
    outside.write("x.sh", "#!/bin/sh\n");
    let project = Project::new();
    project.script("tools/a/a.sh", "").write("server.d/x", "");
    symlink(outside.path(), project.path("tools/away")).unwrap();
    symlink(outside.join("x.sh"), project.path("tools/a/link.sh")).unwrap();
    symlink(project.path("tools"), project.path("tools/a/loop")).unwrap();
    project
        .write("tools/a/a.meta.json", r#"{"name":"a","description":"d","icons":[{"src":"../../../../etc/passwd"}]}"#);
    let survey = project.survey();
    assert_eq!(names(&survey.contents.as_ref().unwrap().tools), ["a"]);
    assert!(survey.contents.as_ref().unwrap().tools[0].definition.get("icons").is_none());
    assert_eq!(shown(&survey).iter().filter(|p| p.contains("symbolic link")).count(), 3);
    for path in ["../../x.sh", "/etc/passwd", "away/x.sh", "nothing.sh"] {
        let entry = json!({"version": 1, "tools": [{"name": "t", "path": path}]});
        project.write("server.d/register.json", entry.to_string());
        let survey = project.survey();
        assert!(survey.contents.as_ref().unwrap().tools.is_empty(), "{path}");
        assert_eq!(survey.problems.len(), 1, "{:?}", survey.problems);
    }
}

#[test]
fn metadata_of_ten_megabytes_and_of_no_text_are_errors_with_their_place() {
    let project = Project::new();
    project.script("tools/big/big.sh", "").write("tools/big/big.meta.json", vec![b' '; 10 << 20]);
    project.script("tools/odd/odd.sh", "").write("tools/odd/odd.meta.json", b"{\"name\": \"\xff\"}");
    let survey = project.survey();
    let problems = shown(&survey);
    assert!(
        problems[0].starts_with("tools/big/big.meta.json: 10485760 bytes; at most 1048576 are read"),
        "{problems:?}"
    );
    assert!(problems[1].starts_with("tools/odd/odd.meta.json: is not UTF-8 text"), "{problems:?}");
    assert!(survey.contents.unwrap().tools.is_empty());
}

// S0.8
#[test]
fn a_file_that_is_half_written_counts_as_it_was() {
    let project = Project::new();
    project.script("tools/a/a.sh", "").write("tools/a/a.meta.json", r#"{"name":"one","description":"d"}"#);
    project.write("prompts/p.txt", "").write("prompts/p.meta.json", r#"{"name":"q"}"#);
    project.write("resources/t.meta.json", r#"{"name":"t","uriTemplate":"a:{b}"}"#);
    let home = project.home(&[]);
    let first = ProjectSurvey::of(&home);
    for name in ["tools/a/a.meta.json", "prompts/p.meta.json", "resources/t.meta.json"] {
        project.write(name, "{\"name\": \"two\", ");
    }
    let second = ProjectSurvey::after(Some(&first), &home, None);
    assert_eq!(second.contents.as_ref().unwrap(), first.contents.as_ref().unwrap());
    assert_eq!(second.problems.len(), 3 + first.problems.len());
    // Also when it stays so.
    let third = ProjectSurvey::after(Some(&second), &home, None);
    assert_eq!(third.contents.unwrap(), first.contents.unwrap());
    project.write("tools/a/a.meta.json", r#"{"name":"two","description":"d"}"#);
    let fourth = ProjectSurvey::after(Some(&second), &home, None);
    assert_eq!(names(&fourth.contents.unwrap().tools), ["two"]);
}

// S0.2
#[test]
fn times_of_files_and_their_order_make_no_difference() {
    let project = Project::new();
    project.script("tools/b/b.sh", "").script("tools/a/a.sh", "");
    let before = project.survey().contents.unwrap();
    std::fs::File::options()
        .append(true)
        .open(project.path("tools/b/b.sh"))
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    project.write("tools/a/readme.txt", "more");
    let after = project.survey().contents.unwrap();
    assert_eq!(before.digests(), after.digests());
}

#[test]
fn of_two_with_one_name_the_first_counts_and_the_other_is_reported() {
    let project = Project::new();
    for folder in ["a", "b"] {
        project.script(&format!("tools/{folder}/tool.sh"), "");
        project.write(&format!("tools/{folder}/tool.meta.json"), r#"{"name":"same","description":"d"}"#);
    }
    let survey = project.survey();
    let contents = survey.contents.as_ref().unwrap();
    assert_eq!(names(&contents.tools), ["same"]);
    assert!(contents.tools[0].script.ends_with(Path::new("tools/a/tool.sh")));
    assert_eq!(
        shown(&survey)[0].split(';').next().unwrap(),
        "tools/b/tool.sh: the name \"same\" is taken by another one"
    );
}

#[test]
fn a_list_that_is_too_long_altogether_is_refused() {
    let project = Project::new();
    project.script("tools/a/a.sh", "");
    let problem = ProjectSurvey::of(&project.home(&[("MCPBASH_REGISTRY_MAX_BYTES", "20")])).contents.unwrap_err();
    assert!(problem.to_string().contains("at most 20 are kept"), "{problem}");
}
