//! The entry that leads a client to the gateway, in that client's words.

use serde_json::{Map, Value, json};

use crate::client::KnownClient;

/// How a client gets to the gateway.
#[derive(Debug, Clone, Copy)]
pub enum GatewayReach<'a> {
    /// The client connects to this URL by Streamable HTTP.
    Url(&'a str),
    /// By starting a program.
    Command {
        /// The program that the client starts.
        program: &'a str,
        /// Its arguments, each as one word.
        args: &'a [String],
    },
}

/// The token that the gateway asks for, as it is to stand in the client's file.
#[derive(Debug, Clone, Copy)]
pub struct TokenInFile<'a> {
    /// The variable that holds it.
    pub variable: &'a str,
    /// Its value, for clients that read no variables.
    pub value: Option<&'a str>,
}

/// How a client is told the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenWords {
    /// `${VAR}`
    Braces,
    /// `${env:VAR}`
    EnvBraces,
    /// `{env:VAR}`
    BareEnvBraces,
    /// `${input:ID}`: the client asks for it, and `inputs` says so.
    Input,
    /// `bearer_token_env_var`
    BearerVariable,
    /// `${VAR}`, with the variable named in `env_keys`.
    GooseKeys,
    /// The token itself stands in the file: this client can not read it from a variable.
    Literal,
}

/// The id of the question that VS Code asks for the token.
pub(crate) const INPUT_ID: &str = "tidings-token";

impl KnownClient {
    /// Whether the client can be given a URL.
    #[must_use]
    pub fn takes_urls(&self) -> bool {
        self.http.is_some()
    }

    /// Whether a token can be written without its value.
    #[must_use]
    pub fn refers_to_tokens(&self) -> bool {
        self.token != TokenWords::Literal
    }

    /// Whether the client asks for the token by itself, through a question of its file.
    #[must_use]
    pub fn asks_for_tokens(&self) -> bool {
        self.token == TokenWords::Input
    }

    /// The entry `name`. `None` when the client has no words for it: a URL it can not take, or a token without a value.
    #[must_use]
    pub fn entry(&self, name: &str, reach: &GatewayReach<'_>, token: Option<TokenInFile<'_>>) -> Option<Value> {
        match reach {
            GatewayReach::Command { program, args } => Some(named(self, name, (self.stdio)(program, args))),
            GatewayReach::Url(url) => {
                let headers = match token {
                    None => Value::Null,
                    Some(token) => self.headers(token)?,
                };
                let mut entry = named(self, name, (self.http?)(url, headers));
                match (token, self.token) {
                    (Some(token), TokenWords::BearerVariable) => {
                        entry["bearer_token_env_var"] = token.variable.into();
                    }
                    (Some(token), TokenWords::GooseKeys) => entry["env_keys"] = json!([token.variable]),
                    _ => {}
                }
                Some(entry)
            }
        }
    }

    fn headers(&self, token: TokenInFile<'_>) -> Option<Value> {
        let variable = token.variable;
        let spelled = match self.token {
            TokenWords::Braces | TokenWords::GooseKeys => format!("${{{variable}}}"),
            TokenWords::EnvBraces => format!("${{env:{variable}}}"),
            TokenWords::BareEnvBraces => format!("{{env:{variable}}}"),
            TokenWords::Input => format!("${{input:{INPUT_ID}}}"),
            // Codex has a key of its own for it, beside the headers.
            TokenWords::BearerVariable => return Some(Value::Null),
            // Without a value there is no entry: a client that reads no variables would send the words as they stand.
            TokenWords::Literal => token.value?.to_owned(),
        };
        Some(json!({"Authorization": format!("Bearer {spelled}")}))
    }
}

/// Goose repeats the name inside the entry.
fn named(client: &KnownClient, name: &str, mut entry: Value) -> Value {
    if client.id == "goose" {
        entry["name"] = name.into();
    }
    entry
}

pub(crate) fn headers_in(mut entry: Value, headers: Value) -> Value {
    if !headers.is_null() {
        entry["headers"] = headers;
    }
    entry
}

/// Seconds that Goose waits for an answer; the gateway has a deadline of its own.
const GOOSE_TIMEOUT: u32 = 300;

pub(crate) fn goose_http(url: &str, headers: Value) -> Value {
    let headers = if headers.is_null() { Value::Object(Map::new()) } else { headers };
    json!({
        "type": "streamable_http", "uri": url, "headers": headers, "enabled": true, "timeout": GOOSE_TIMEOUT,
        "description": "Tidings",
    })
}

pub(crate) fn goose_stdio(command: &str, args: &[String]) -> Value {
    json!({
        "type": "stdio", "cmd": command, "args": args, "envs": {}, "enabled": true, "timeout": GOOSE_TIMEOUT,
        "description": "Tidings",
    })
}
