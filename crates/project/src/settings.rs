//! What the environment says about a project: limits, times and policies. Read once.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::time::Duration;

/// An environment that was handed in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenEnvironment(BTreeMap<OsString, OsString>);

impl GivenEnvironment {
    /// An environment of these variables and no others.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(variables.into_iter().collect())
    }

    /// A variable as text; one that is not UTF-8 counts as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.raw(name)?.to_str()
    }

    /// A variable as it is.
    pub fn raw(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// All variables.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

/// Limits, times and policies, by the variables of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectSettings {
    /// `MCPBASH_MAX_CONCURRENT_REQUESTS`: scripts at the same time.
    pub workers: usize,
    /// `MCPBASH_DEFAULT_TOOL_TIMEOUT`.
    pub tool_timeout: Duration,
    /// `MCPBASH_PROGRESS_EXTENDS_TIMEOUT`.
    pub progress_extends: bool,
    /// `MCPBASH_MAX_TIMEOUT_SECS`.
    pub max_timeout: Duration,
    /// `MCPBASH_DEFAULT_SUBSCRIBE_TIMEOUT`.
    pub subscribe_timeout: Duration,
    /// `MCPBASH_SHUTDOWN_TIMEOUT`: between asking a process to end and ending it.
    pub shutdown_timeout: Duration,
    /// `MCPBASH_MAX_TOOL_OUTPUT_SIZE`, in bytes.
    pub output_limit: usize,
    /// `MCPBASH_MAX_TOOL_STDERR_SIZE`.
    pub stderr_limit: usize,
    /// `MCPBASH_MAX_RESOURCE_BYTES`.
    pub resource_limit: usize,
    /// `MCPBASH_MAX_PROGRESS_PER_MIN`, for each request.
    pub progress_per_minute: u32,
    /// `MCPBASH_MAX_LOGS_PER_MIN`, for each request.
    pub logs_per_minute: u32,
    /// `MCPBASH_ENV_PAYLOAD_THRESHOLD`: longer arguments go through a file.
    pub payload_threshold: usize,
    /// `MCPBASH_RESOURCES_POLL_INTERVAL_SECS`: how often a followed resource is read; `None`: never.
    pub resource_poll: Option<Duration>,
    /// What of the environment tools see.
    pub tool_environment: EnvironmentMode,
    /// What of the environment providers and completions see.
    pub provider_environment: EnvironmentMode,
    /// Which tools may run.
    pub tools: ToolPolicy,
    /// `MCPBASH_ALLOW_PROJECT_HOOKS`: whether `register.sh` may run.
    pub hooks: bool,
    /// `MCPBASH_REGISTER_TTL`: how often it runs.
    pub register_ttl: Duration,
    /// The shortest of `MCP_TOOLS_TTL` and its kin: how often the folder is read where it can not be watched.
    pub scan_ttl: Duration,
    /// `TIDINGS_PROJECT_EVENTS`: off where the system's word of changes can not be relied on, as in some shared folders.
    pub events: bool,
    /// `MCPBASH_MAX_MANUAL_REGISTRY_BYTES`: of `register.json`, and of what `register.sh` prints.
    pub register_limit: usize,
    /// `MCPBASH_REGISTRY_MAX_BYTES`: of everything that is listed.
    pub registry_limit: usize,
}

/// What of the environment a script sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvironmentMode {
    /// `minimal` or `isolate`: what every program needs, and what the protocol defines.
    Minimal,
    /// `allowlist`: that, and these variables.
    Allowlist(BTreeSet<String>),
    /// `inherit`, with the variable that permits it: everything.
    Inherit,
}

/// Which tools may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolPolicy {
    /// Every tool may run.
    All,
    /// Only the tools with these names may run.
    Only(BTreeSet<String>),
}

impl ToolPolicy {
    /// Whether a tool may run.
    pub fn permits(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

/// The longest output when nothing is said, in bytes.
const OUTPUT: usize = 10 << 20;
/// How long a time may be set to; more than a day is a slip of the pen.
const LONGEST: f64 = 86_400.0;

impl ProjectSettings {
    /// What this environment says; what it does not say, or says in no number, is as documented.
    pub fn read(environment: &GivenEnvironment) -> Self {
        let read = SettingsReading(environment);
        let output_limit = read.number("MCPBASH_MAX_TOOL_OUTPUT_SIZE", OUTPUT);
        let progress_per_minute = read.number("MCPBASH_MAX_PROGRESS_PER_MIN", 100);
        let ttls = ["MCP_TOOLS_TTL", "MCP_RESOURCES_TTL", "MCP_RESOURCES_TEMPLATES_TTL", "MCP_PROMPTS_TTL"]
            .map(|n| read.time(n, 5.0));
        let poll = read.time("MCPBASH_RESOURCES_POLL_INTERVAL_SECS", 2.0);
        Self {
            workers: read.number("MCPBASH_MAX_CONCURRENT_REQUESTS", 16).max(1),
            tool_timeout: read.time("MCPBASH_DEFAULT_TOOL_TIMEOUT", 30.0),
            progress_extends: read.flag("MCPBASH_PROGRESS_EXTENDS_TIMEOUT"),
            max_timeout: read.time("MCPBASH_MAX_TIMEOUT_SECS", 600.0),
            subscribe_timeout: read.time("MCPBASH_DEFAULT_SUBSCRIBE_TIMEOUT", 120.0),
            shutdown_timeout: read.time("MCPBASH_SHUTDOWN_TIMEOUT", 5.0),
            output_limit,
            // Limits that are not set follow the one for output.
            stderr_limit: read.number("MCPBASH_MAX_TOOL_STDERR_SIZE", output_limit),
            resource_limit: read.number("MCPBASH_MAX_RESOURCE_BYTES", output_limit),
            progress_per_minute,
            logs_per_minute: read.number("MCPBASH_MAX_LOGS_PER_MIN", progress_per_minute),
            payload_threshold: read.number("MCPBASH_ENV_PAYLOAD_THRESHOLD", 65_536),
            // Zero switches polling off.
            resource_poll: (!poll.is_zero()).then_some(poll),
            tool_environment: read.mode("MCPBASH_TOOL_ENV"),
            provider_environment: read.mode("MCPBASH_PROVIDER_ENV"),
            tools: read.policy(),
            hooks: read.flag("MCPBASH_ALLOW_PROJECT_HOOKS"),
            // A script that runs without a pause would take a core.
            register_ttl: read.time("MCPBASH_REGISTER_TTL", 5.0).max(Duration::from_secs(1)),
            scan_ttl: ttls.into_iter().min().unwrap_or_default().max(Duration::from_secs(1)),
            events: read
                .text("TIDINGS_PROJECT_EVENTS")
                .is_none_or(|text| !matches!(text, "off" | "false" | "0" | "no")),
            register_limit: read.number("MCPBASH_MAX_MANUAL_REGISTRY_BYTES", 1 << 20),
            registry_limit: read.number("MCPBASH_REGISTRY_MAX_BYTES", 100 << 20),
        }
    }
}

struct SettingsReading<'a>(&'a GivenEnvironment);

impl SettingsReading<'_> {
    fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> T {
        let Some(text) = self.text(name) else { return default };
        text.parse().unwrap_or_else(|_| {
            tracing::warn!("{name}={text}: not a whole number; the default holds");
            default
        })
    }

    fn time(&self, name: &str, default: f64) -> Duration {
        let seconds = match self.text(name).map(|text| (text, text.parse::<f64>())) {
            None => default,
            Some((_, Ok(seconds))) if (0.0..=LONGEST).contains(&seconds) => seconds,
            Some((text, _)) => {
                tracing::warn!("{name}={text}: not a number of seconds up to {LONGEST}; the default {default} holds");
                default
            }
        };
        Duration::from_secs_f64(seconds)
    }

    fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| matches!(text, "true" | "1" | "yes" | "on"))
    }

    fn words(&self, name: &str) -> BTreeSet<String> {
        let text = self.text(name).unwrap_or_default();
        text.split([',', ' ', '\t', '\n']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    fn mode(&self, stem: &str) -> EnvironmentMode {
        let mode = self.text(&format!("{stem}_MODE")).unwrap_or("minimal");
        match mode {
            "allowlist" => EnvironmentMode::Allowlist(self.words(&format!("{stem}_ALLOWLIST"))),
            // Two variables, so that nobody hands a whole environment to scripts by one slip.
            "inherit" if self.flag(&format!("{stem}_INHERIT_ALLOW")) => EnvironmentMode::Inherit,
            "minimal" | "isolate" => EnvironmentMode::Minimal,
            "inherit" => {
                tracing::warn!(
                    "{stem}_MODE=inherit needs {stem}_INHERIT_ALLOW=true; scripts see a minimal environment"
                );
                EnvironmentMode::Minimal
            }
            other => {
                tracing::warn!("{stem}_MODE={other}: not one of minimal, inherit, allowlist; minimal holds");
                EnvironmentMode::Minimal
            }
        }
    }

    /// Nothing may run unless something is said.
    fn policy(&self) -> ToolPolicy {
        let named = self.words("MCPBASH_TOOL_ALLOWLIST");
        let default = self.text("MCPBASH_TOOL_ALLOW_DEFAULT").unwrap_or("deny");
        // Whoever names tools means these; the default is for those who name none.
        if named.contains("*") || (named.is_empty() && matches!(default, "allow" | "all")) {
            return ToolPolicy::All;
        }
        ToolPolicy::Only(named)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(str::trim).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> ProjectSettings {
        ProjectSettings::read(&GivenEnvironment::new(variables.iter().map(|(name, value)| (name.into(), value.into()))))
    }

    #[test]
    fn defaults_are_those_documented() {
        // S0.9
        let settings = settings(&[]);
        assert_eq!(settings.workers, 16);
        assert_eq!(settings.tool_timeout, Duration::from_secs(30));
        assert_eq!(settings.max_timeout, Duration::from_secs(600));
        assert_eq!(settings.output_limit, 10 << 20);
        assert_eq!(settings.stderr_limit, 10 << 20);
        assert_eq!(settings.register_ttl, Duration::from_secs(5));
        assert_eq!(settings.scan_ttl, Duration::from_secs(5));
        assert_eq!(settings.tool_environment, EnvironmentMode::Minimal);
        assert_eq!(settings.tools, ToolPolicy::Only(BTreeSet::new()));
        assert!(!settings.hooks);
    }

    #[test]
    fn the_environment_sets_limits_and_policies() {
        // S0.9
        let settings = settings(&[
            ("MCPBASH_MAX_TOOL_OUTPUT_SIZE", "2048"),
            ("MCPBASH_TOOL_ALLOWLIST", "one, two three"),
            ("MCPBASH_TOOL_ENV_MODE", "allowlist"),
            ("MCPBASH_TOOL_ENV_ALLOWLIST", "HOME,PATH"),
            ("MCP_PROMPTS_TTL", "2"),
        ]);
        assert_eq!((settings.output_limit, settings.stderr_limit), (2048, 2048));
        assert_eq!(settings.tools, ToolPolicy::Only(["one", "two", "three"].map(String::from).into()));
        assert_eq!(settings.tool_environment, EnvironmentMode::Allowlist(["HOME", "PATH"].map(String::from).into()));
        assert_eq!(settings.scan_ttl, Duration::from_secs(2));
    }

    #[test]
    fn a_star_or_the_default_allow_every_tool() {
        assert_eq!(settings(&[("MCPBASH_TOOL_ALLOWLIST", "*")]).tools, ToolPolicy::All);
        assert_eq!(settings(&[("MCPBASH_TOOL_ALLOW_DEFAULT", "allow")]).tools, ToolPolicy::All);
    }

    #[test]
    fn inherit_needs_its_permission() {
        assert_eq!(settings(&[("MCPBASH_TOOL_ENV_MODE", "inherit")]).tool_environment, EnvironmentMode::Minimal);
        let both = settings(&[("MCPBASH_TOOL_ENV_MODE", "inherit"), ("MCPBASH_TOOL_ENV_INHERIT_ALLOW", "true")]);
        assert_eq!(both.tool_environment, EnvironmentMode::Inherit);
    }

    #[test]
    fn what_is_no_number_leaves_the_default() {
        let settings = settings(&[("MCPBASH_DEFAULT_TOOL_TIMEOUT", "soon"), ("MCPBASH_MAX_CONCURRENT_REQUESTS", "0")]);
        assert_eq!(settings.tool_timeout, Duration::from_secs(30));
        assert_eq!(settings.workers, 1);
    }
}
