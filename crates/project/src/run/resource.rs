//! Reading a resource through its provider.

use std::path::PathBuf;

use serde_json::{Value, json};
use tidings_proto::code;

use super::content::contents;
use super::outcome::ScriptFault;
use super::script::ScriptOutput;
use super::{ScriptCall, ScriptRunner};
use crate::policy::check_script;
use crate::{ProjectResource, ProjectTemplate, ui};

/// A resource to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceReading {
    /// The URI that the client named.
    pub uri: String,
    /// The provider, where it is named; else the scheme decides.
    pub provider: Option<String>,
    /// The file it stands for, where its URI does not say.
    pub path: Option<PathBuf>,
    /// What its content is, where that is known.
    pub mime_type: Option<String>,
    /// What a page for clients is made of, and what they are told of it.
    pub page: Option<Value>,
}

impl ResourceReading {
    /// How to read a resource of the list: by its own provider, path and type.
    pub fn listed(resource: &ProjectResource) -> Self {
        Self {
            uri: resource.uri.clone(),
            provider: Some(resource.provider.clone()).filter(|provider| !provider.is_empty()),
            path: resource.path.clone(),
            mime_type: resource.definition["mimeType"].as_str().map(str::to_owned),
            page: (resource.provider == ui::PROVIDER).then(|| resource.metadata.clone()),
        }
    }

    /// One that a template describes.
    pub fn described(uri: &str, template: &ProjectTemplate) -> Self {
        Self {
            uri: uri.to_owned(),
            provider: template.provider.clone(),
            path: None,
            mime_type: template.definition["mimeType"].as_str().map(str::to_owned),
            page: None,
        }
    }

    fn provider(&self) -> &str {
        if let Some(provider) = &self.provider {
            return provider;
        }
        match self.uri.split_once(':').map_or("", |(scheme, _)| scheme) {
            "git+https" => "git",
            "https" => "https",
            "echo" => "echo",
            _ => "file",
        }
    }
}

/// What a provider found.
pub(super) struct ProvidedContent {
    pub(super) bytes: Vec<u8>,
    pub(super) mime_type: Option<String>,
}

impl ScriptRunner {
    pub(super) async fn read(
        &self,
        reading: &ResourceReading,
        call: &mut ScriptCall<'_>,
    ) -> Result<Value, ScriptFault> {
        let provider = reading.provider();
        // The name becomes a part of a path.
        let own = is_name(provider).then(|| self.home.folders.providers.join(format!("{provider}.sh")));
        // A script of the project wins over the provider of that name that is built in.
        let found = match own.filter(|script| script.is_file()) {
            Some(script) => {
                check_script(&self.home, "Resource provider", provider)?;
                let within = self.home.settings.tool_timeout;
                let variables = self.provider_variables.clone();
                let ran = self.run_script(&script, &[reading.uri.as_str().into()], variables, within, call).await?;
                ProvidedContent { bytes: printed(&ran)?, mime_type: None }
            }
            None => match provider {
                "file" => self.read_file(reading)?,
                "echo" => self.read_echo(reading)?,
                "https" => self.read_https(reading, call).await?,
                "git" => self.read_git(reading, call).await?,
                ui::PROVIDER => self.read_page(reading)?,
                other => {
                    let path = self.home.folders.providers.display();
                    return Err(ScriptFault::internal(format!(
                        "Unsupported resource provider {other}: there is no {path}/{other}.sh"
                    )));
                }
            },
        };
        let limit = self.home.settings.resource_limit;
        if found.bytes.len() > limit {
            return Err(ScriptFault::internal(format!(
                "Resource content exceeds {limit} bytes (MCPBASH_MAX_RESOURCE_BYTES)"
            )));
        }
        let mime_type = reading.mime_type.as_deref().or(found.mime_type.as_deref());
        let mut content = contents(&reading.uri, &found.bytes, mime_type);
        if let Some(page) = &reading.page {
            content["_meta"] = json!({ "ui": page["ui"] });
        }
        Ok(json!({ "contents": [content] }))
    }
}

/// What a provider printed, or what its exit code means.
fn printed(ran: &ScriptOutput) -> Result<Vec<u8>, ScriptFault> {
    // The exit codes are a part of the protocol that providers are written for.
    Err(match ran.code {
        0 => return Ok(ran.stdout.to_vec()),
        2 => ScriptFault::internal("Resource outside allowed roots"),
        3 => ScriptFault::new(code::RESOURCE_NOT_FOUND, "Resource not found"),
        4 => ScriptFault::new(code::INVALID_PARAMS, ran.complaint("Invalid resource specification")),
        5 => ScriptFault::internal(ran.complaint("Resource fetch failed")),
        6 => ScriptFault::internal(ran.complaint("Resource exceeded size limit")),
        _ => ScriptFault::internal(ran.complaint("Resource provider failed")),
    })
}

/// Only what can be no path.
fn is_name(provider: &str) -> bool {
    !provider.is_empty() && provider.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_names_the_provider_where_nothing_else_does() {
        let provider =
            |uri: &str| ResourceReading { uri: uri.into(), ..ResourceReading::default() }.provider().to_owned();
        assert_eq!(provider("file:///a"), "file");
        assert_eq!(provider("git+https://h/r#HEAD:a"), "git");
        assert_eq!(provider("https://h/"), "https");
        assert_eq!(provider("echo://x"), "echo");
        assert_eq!(provider("other://x"), "file");
    }

    #[test]
    fn a_provider_is_no_path() {
        assert!(is_name("my-provider_2"));
        for bad in ["", "../x", "a/b", "a.b", "a b", "$(id)"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
