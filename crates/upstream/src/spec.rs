//! What is to be connected to: plain values, which the room of each transport reads. Nothing here acts.

use std::path::PathBuf;

use tidings_container_spec::ContainerSpec;

use crate::credential::SharedCredential;
use crate::environment::InheritEnv;
use crate::http::NetworkReach;
use crate::stdio::sandbox::SandboxSpec;

/// A server, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// Its configured name, for logs and errors.
    pub name: String,
    /// How to reach it.
    pub transport: TransportSpec,
    /// Which era to speak.
    pub era: EraChoice,
}

impl ServerSpec {
    /// The same server as one person is let in to it. A server that knows no people apart is the same for all.
    pub async fn as_person(&self, person: &str) -> Self {
        let mut spec = self.clone();
        if let TransportSpec::Http(http) | TransportSpec::Sse(http) = &mut spec.transport
            && let Some(personal) = http.credential.as_ref().filter(|credential| credential.0.is_personal())
        {
            // Without an owner it is asked without a token, and never with that of another.
            http.credential = personal.0.of_person(person).await;
        }
        spec
    }

    /// The same server for a replica that does not run it, whose refusals say nothing about the login that all replicas share.
    pub fn past_owner(&self) -> Self {
        let mut spec = self.clone();
        if let TransportSpec::Http(http) | TransportSpec::Sse(http) = &mut spec.transport {
            http.credential = http.credential.as_ref().map(SharedCredential::past_owner);
        }
        spec
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportSpec {
    /// A child process that speaks over its standard input and output.
    Stdio(StdioSpec),
    /// A URL that speaks Streamable HTTP, in either era.
    Http(HttpSpec),
    /// A URL that opens the event stream of HTTP+SSE, as servers of the first revision do.
    Sse(HttpSpec),
    /// A child process in a container.
    Container(Box<ContainerSpec>),
}

/// A child process: what to start, where, and with which environment.
#[derive(Clone, PartialEq, Eq)]
pub struct StdioSpec {
    /// The program, looked for in `PATH`.
    pub program: String,
    /// Its arguments, each as one word: no shell takes them apart.
    pub args: Vec<String>,
    /// Added to the environment.
    pub env: Vec<(String, String)>,
    /// Its working directory; the gateway's when absent.
    pub cwd: Option<PathBuf>,
    /// What it sees of the gateway's own environment, besides what every program needs.
    pub inherit_env: InheritEnv,
    /// What it may do to this machine, where that is limited.
    pub sandbox: Option<Box<SandboxSpec>>,
}

/// An endpoint of Streamable HTTP or HTTP+SSE, and what to send with each request.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpSpec {
    /// The address of the MCP endpoint, such as `https://host/mcp`.
    pub url: String,
    /// Added to every request.
    pub headers: Vec<(String, String)>,
    /// How far its name may lead.
    pub reach: NetworkReach,
    /// Who has the token that it is sent, and gets another when it refuses one.
    pub credential: Option<SharedCredential>,
}

/// Which era to speak with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EraChoice {
    /// Whichever it answers: modern is tried first.
    #[default]
    Auto,
    /// The modern era, without trying the other.
    Modern,
    /// The legacy era, without a probe before it.
    Legacy,
}

impl std::fmt::Debug for StdioSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Names only: values are often keys.
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("StdioSpec")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &names)
            .finish()
    }
}

impl std::fmt::Debug for HttpSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Names only, for the same reason.
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpSpec").field("url", &self.url).field("headers", &names).finish()
    }
}
