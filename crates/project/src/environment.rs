//! The environment of a script: what it inherits by the project's policy, and what it is given.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::{EnvironmentMode, GivenEnvironment, ProjectHome};

/// What every program needs, with what stands in for it.
const NEEDED: [(&str, &str); 4] =
    [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", ""), ("TMPDIR", "/tmp"), ("LANG", "C")];
/// What the protocol of scripts defines starts like this.
const PROTOCOL: [&str; 2] = ["MCP_", "MCPBASH_"];
/// What a provider needs to reach the world.
const PROXIES: [&str; 9] = [
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
];

pub(crate) type Variables = BTreeMap<OsString, OsString>;

/// What scripts find besides the project: the library for tools, and something that understands JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptKit {
    /// The folder with `tool-sdk.sh`.
    pub sdk: Option<PathBuf>,
    /// A program that takes the arguments of `jq`, for machines that have none. Its folder is searched for commands when
    /// there is no `jq` elsewhere.
    pub json: Option<PathBuf>,
}

/// The program that scripts use for JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonTool {
    name: String,
    bin: OsString,
    /// A folder to be added to the end of the search path.
    folder: Option<PathBuf>,
}

impl JsonTool {
    /// The one that is named, else `jq`, else `gojq`, else ours.
    pub(crate) fn find(environment: &GivenEnvironment, kit: &ScriptKit) -> Self {
        let text = |name: &str| environment.get(name).map(str::trim).filter(|text| !text.is_empty());
        let named = text("MCPBASH_JSON_TOOL");
        if let Some(bin) = text("MCPBASH_JSON_TOOL_BIN") {
            let stem = Path::new(bin).file_stem().and_then(OsStr::to_str).unwrap_or("jq");
            let name = named.unwrap_or(if stem == "gojq" { "gojq" } else { "jq" });
            return Self { name: name.into(), bin: bin.into(), folder: None };
        }
        let wanted: &[&str] = match named {
            // Chosen by the user: scripts then run in their minimal mode.
            Some("none") => return Self { name: "none".into(), bin: OsString::new(), folder: None },
            Some("jq") => &["jq"],
            Some("gojq") => &["gojq"],
            _ => &["jq", "gojq"],
        };
        for name in wanted {
            if let Some(bin) = in_path(environment, name) {
                return Self { name: (*name).into(), bin: bin.into(), folder: None };
            }
        }
        match &kit.json {
            Some(json) => Self { name: "jq".into(), bin: json.into(), folder: json.parent().map(Path::to_owned) },
            None => Self { name: "none".into(), bin: OsString::new(), folder: None },
        }
    }
}

/// A program by its name.
pub(crate) fn in_path(environment: &GivenEnvironment, name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = environment.raw("PATH").unwrap_or(OsStr::new(NEEDED[0].1));
    std::env::split_paths(path)
        .map(|folder| folder.join(name))
        .find(|file| file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0))
}

/// What a script, or a hook of the project, sees of the environment.
pub(crate) fn inherited(home: &ProjectHome, mode: &EnvironmentMode) -> Variables {
    let mut all = Variables::new();
    for (name, value) in home.environment.iter().filter(|(name, _)| passes(mode, name)) {
        all.insert(name.to_owned(), value.to_owned());
    }
    for (name, default) in NEEDED {
        let default = if name == "HOME" { home.root.as_os_str() } else { OsStr::new(default) };
        all.entry(name.into()).or_insert_with(|| default.to_owned());
    }
    all
}

/// What every script of the project has, however it is called.
pub(crate) fn base(home: &ProjectHome, mode: &EnvironmentMode, kit: &ScriptKit, json: &JsonTool) -> Variables {
    let mut all = inherited(home, mode);
    let folders = &home.folders;
    for (name, folder) in [
        ("MCPBASH_PROJECT_ROOT", &home.root),
        ("MCPBASH_TOOLS_DIR", &folders.tools),
        ("MCPBASH_RESOURCES_DIR", &folders.resources),
        ("MCPBASH_PROMPTS_DIR", &folders.prompts),
        ("MCPBASH_SERVER_DIR", &folders.server),
        ("MCPBASH_PROVIDERS_DIR", &folders.providers),
    ] {
        all.insert(name.into(), folder.into());
    }
    if let Some(sdk) = &kit.sdk {
        all.insert("MCP_SDK".into(), sdk.into());
    }
    let minimal = json.name == "none";
    all.insert("MCPBASH_MODE".into(), if minimal { "minimal" } else { "full" }.into());
    all.insert("MCPBASH_JSON_TOOL".into(), OsString::from(&json.name));
    all.insert("MCPBASH_JSON_TOOL_BIN".into(), json.bin.clone());
    // Last in the path, so that a `jq` of the machine wins.
    if let Some(folder) = &json.folder {
        let path = all.entry("PATH".into()).or_default();
        path.push(":");
        path.push(folder);
    }
    all
}

/// The same for providers, which also see how to reach the world.
pub(crate) fn for_providers(home: &ProjectHome, kit: &ScriptKit, json: &JsonTool) -> Variables {
    let mut all = base(home, &home.settings.provider_environment, kit, json);
    for name in PROXIES {
        if let Some(value) = home.environment.raw(name) {
            all.entry(name.into()).or_insert_with(|| value.to_owned());
        }
    }
    let roots = OsString::from("MCP_RESOURCES_ROOTS");
    all.entry(roots).or_insert_with(|| home.folders.resources.clone().into());
    all
}

fn passes(mode: &EnvironmentMode, name: &OsStr) -> bool {
    // A name that is no UTF-8 can stand in no list.
    let Some(text) = name.to_str() else { return *mode == EnvironmentMode::Inherit };
    // What the scripts' own protocol defines passes in every mode: the project is configured by it.
    let given = NEEDED.iter().any(|(needed, _)| *needed == text) || PROTOCOL.iter().any(|stem| text.starts_with(stem));
    match mode {
        EnvironmentMode::Minimal => given,
        EnvironmentMode::Allowlist(names) => given || names.contains(text),
        EnvironmentMode::Inherit => true,
    }
}

#[cfg(test)]
mod tests {
    use tidings_testkit::TempDir;

    use super::*;

    fn home(dir: &TempDir, variables: &[(&str, &str)]) -> ProjectHome {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        ProjectHome::open(dir.path(), GivenEnvironment::new(variables)).unwrap()
    }

    fn seen(home: &ProjectHome) -> Variables {
        base(
            home,
            &home.settings.tool_environment,
            &ScriptKit::default(),
            &JsonTool::find(&home.environment, &ScriptKit::default()),
        )
    }

    fn value<'a>(variables: &'a Variables, name: &str) -> Option<&'a str> {
        variables.get(OsStr::new(name)).and_then(|value| value.to_str())
    }

    #[test]
    fn by_default_a_script_sees_no_secrets() {
        // S0.9
        let dir = TempDir::new();
        let seen = seen(&home(&dir, &[("PATH", "/bin"), ("AWS_SECRET", "x"), ("MCP_CUSTOM", "y"), ("FOO", "z")]));
        assert_eq!((value(&seen, "AWS_SECRET"), value(&seen, "FOO")), (None, None));
        assert_eq!((value(&seen, "MCP_CUSTOM"), value(&seen, "PATH")), (Some("y"), Some("/bin")));
        assert_eq!((value(&seen, "TMPDIR"), value(&seen, "LANG")), (Some("/tmp"), Some("C")));
        assert_eq!(value(&seen, "HOME"), dir.path().canonicalize().unwrap().to_str());
    }

    #[test]
    fn a_list_or_the_permission_to_inherit_show_more() {
        // S0.9
        let dir = TempDir::new();
        let listed =
            [("FOO", "1"), ("BAR", "2"), ("MCPBASH_TOOL_ENV_MODE", "allowlist"), ("MCPBASH_TOOL_ENV_ALLOWLIST", "FOO")];
        let seen_listed = seen(&home(&dir, &listed));
        assert_eq!((value(&seen_listed, "FOO"), value(&seen_listed, "BAR")), (Some("1"), None));
        let all = [("BAR", "2"), ("MCPBASH_TOOL_ENV_MODE", "inherit"), ("MCPBASH_TOOL_ENV_INHERIT_ALLOW", "true")];
        assert_eq!(value(&seen(&home(&dir, &all)), "BAR"), Some("2"));
    }

    #[test]
    fn where_there_is_no_jq_ours_is_found_under_that_name() {
        let dir = TempDir::new();
        let ours = dir.write("jq", "");
        let kit = ScriptKit { sdk: None, json: Some(ours.clone()) };
        let empty = TempDir::new();
        let home = home(&dir, &[("PATH", empty.path().to_str().unwrap())]);
        let json = JsonTool::find(&home.environment, &kit);
        let seen = base(&home, &EnvironmentMode::Minimal, &kit, &json);
        assert_eq!(value(&seen, "MCPBASH_JSON_TOOL"), Some("jq"));
        assert_eq!(value(&seen, "MCPBASH_JSON_TOOL_BIN"), ours.to_str());
        assert!(value(&seen, "PATH").unwrap().ends_with(dir.path().to_str().unwrap()));
        let none = GivenEnvironment::new([("MCPBASH_JSON_TOOL".into(), "none".into())]);
        assert_eq!(JsonTool::find(&none, &kit).name, "none");
    }
}
