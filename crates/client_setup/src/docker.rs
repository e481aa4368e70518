//! The servers of a Docker MCP catalogue (`registry.NAME`) in the keys of `[servers.X]`.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::edit::{EditError, FileFormat, tree};
use crate::foreign::{ClientServer, FoundServers};

/// Reads a catalogue, in YAML or JSON. What can not be taken over is named, with the reason.
pub fn read_docker_catalogue(path: &Path, text: &str) -> Result<FoundServers, EditError> {
    let is_json = path.extension().is_some_and(|ending| ending == "json");
    let tree = tree(if is_json { FileFormat::Json } else { FileFormat::Yaml }, text)?;
    let registry = tree["registry"].as_object().ok_or_else(|| EditError::Unusual("it has no `registry`".to_owned()))?;
    let from = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut found = FoundServers::default();
    for (name, entry) in registry {
        let mut variables = Vec::new();
        match keys(entry, &mut variables) {
            Ok(keys) => {
                variables.sort();
                variables.dedup();
                if !variables.is_empty() {
                    found.notices.push(format!("{name}: set {} where the gateway runs", variables.join(", ")));
                }
                found.servers.push(ClientServer {
                    name: name.clone(),
                    keys,
                    from: from.clone(),
                    path: path.to_owned(),
                });
            }
            Err(reason) => found.notices.push(format!("{name} is left out: {reason}")),
        }
    }
    Ok(found)
}

fn keys(entry: &Value, variables: &mut Vec<String>) -> Result<Value, String> {
    if entry["type"] == "poci" {
        return Err("it is one container per call (poci), and no server".to_owned());
    }
    if entry["remote"].is_object() {
        return remote(&entry["remote"], &entry["secrets"], variables);
    }
    let image = entry["image"].as_str().filter(|image| !image.is_empty() && !image.contains("{{"));
    let image = image.ok_or("it names neither an image nor a remote")?;
    let mut keys = Map::new();
    keys.insert("container".into(), image.into());
    let mut list = |key: &str| -> Vec<String> {
        let texts = entry[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(|text| filled(text, variables)).collect()
    };
    let (command, volumes) = (list("command"), list("volumes"));
    if !command.is_empty() {
        keys.insert("args".into(), command.into());
    }
    if !volumes.is_empty() {
        keys.insert("volumes".into(), volumes.into());
    }
    let mut env = Map::new();
    for pair in entry["env"].as_array().into_iter().flatten() {
        let (Some(name), value) = (pair["name"].as_str(), &pair["value"]) else { continue };
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        env.insert(name.to_owned(), filled(&value, variables).into());
    }
    for name in secrets(&entry["secrets"]) {
        variables.push(name.clone());
        env.insert(name.clone(), format!("${{env:{name}}}").into());
    }
    if !env.is_empty() {
        keys.insert("env".into(), env.into());
    }
    // A container has no network here unless it is asked for; there it is the other way round.
    if entry["disableNetwork"] != true {
        keys.insert("network".into(), true.into());
    }
    Ok(keys.into())
}

fn remote(remote: &Value, declared: &Value, variables: &mut Vec<String>) -> Result<Value, String> {
    let url = remote["url"].as_str().filter(|url| url.starts_with("https://") || url.starts_with("http://"));
    let mut keys = json!({ "url": filled(url.ok_or("its remote has no address")?, variables) });
    let transport = remote["transport_type"].as_str().or_else(|| remote["transport"].as_str());
    if transport == Some("sse") {
        keys["type"] = "sse".into();
    }
    let mut headers = Map::new();
    for (name, value) in remote["headers"].as_object().into_iter().flatten() {
        let mut value = filled(value.as_str().unwrap_or_default(), variables);
        for secret in secrets(declared) {
            // `$${` is how `filled` keeps a reference of somebody else's from meaning one of ours.
            for spelled in [format!("$${{{secret}}}"), format!("${secret}")] {
                if value.contains(&spelled) {
                    variables.push(secret.clone());
                    value = value.replace(&spelled, &format!("${{env:{secret}}}"));
                }
            }
        }
        headers.insert(name.clone(), value.into());
    }
    if !headers.is_empty() {
        keys["headers"] = headers.into();
    }
    Ok(keys)
}

/// The variables that secrets are handed over in.
fn secrets(secrets: &Value) -> Vec<String> {
    secrets.as_array().into_iter().flatten().filter_map(|secret| secret["env"].as_str()).map(str::to_owned).collect()
}

/// A text with `${env:NAME}` in the places of `{{name|filter…}}`. Everything else in it refers to nothing.
fn filled(text: &str, variables: &mut Vec<String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inner, after)) = after.split_once("}}") else { break };
        out.push_str(&before.replace("${", "$${"));
        let mut parts = inner.split('|').map(str::trim);
        let name: String = parts.next().unwrap_or_default().chars().map(variable_letter).collect();
        let reference = format!("${{env:{name}}}");
        // A path that is mounted where it is.
        let is_volume = parts.any(|filter| filter == "volume");
        out.push_str(&if is_volume { format!("{reference}:{reference}") } else { reference });
        variables.push(name);
        rest = after;
    }
    out + &rest.replace("${", "$${")
}

fn variable_letter(c: char) -> char {
    if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const CATALOGUE: &str = r#"
version: 2
name: docker-mcp
registry:
  brave:
    description: Searches.
    type: server
    image: mcp/brave-search@sha256:aa
    secrets:
      - name: brave.api_key
        env: BRAVE_API_KEY
    env:
      - name: BRAVE_MODE
        value: '{{brave.mode}}'
      - name: BRAVE_SHELL
        value: '${HOME}'
    command:
      - --transport
      - stdio
  files:
    type: server
    image: mcp/filesystem@sha256:bb
    command:
      - '{{filesystem.paths|volume-target|into}}'
    volumes:
      - '{{filesystem.paths|volume|into}}'
    disableNetwork: true
  hosted:
    type: remote
    remote:
      url: https://hosted.example/sse
      transport_type: sse
      headers:
        Authorization: Bearer ${HOSTED_TOKEN}
    secrets:
      - name: hosted.token
        env: HOSTED_TOKEN
  once:
    type: poci
    image: mcp/once
  empty:
    type: server
"#;

    // reach 5
    #[test]
    fn a_docker_catalogue_becomes_servers_without_secrets() {
        let found = read_docker_catalogue(Path::new("docker-mcp.yaml"), CATALOGUE).unwrap();
        let of = |name: &str| found.servers.iter().find(|server| server.name == name).map(|server| server.keys.clone());
        let brave = json!({
            "container": "mcp/brave-search@sha256:aa", "args": ["--transport", "stdio"], "network": true,
            "env": {"BRAVE_MODE": "${env:BRAVE_MODE}", "BRAVE_SHELL": "$${HOME}", "BRAVE_API_KEY": "${env:BRAVE_API_KEY}"},
        });
        assert_eq!(of("brave"), Some(brave));
        let paths = "${env:FILESYSTEM_PATHS}:${env:FILESYSTEM_PATHS}";
        let args = ["${env:FILESYSTEM_PATHS}"];
        let files = json!({"container": "mcp/filesystem@sha256:bb", "args": args, "volumes": [paths]});
        assert_eq!(of("files"), Some(files));
        let hosted = json!({
            "url": "https://hosted.example/sse", "type": "sse", "headers": {"Authorization": "Bearer ${env:HOSTED_TOKEN}"},
        });
        assert_eq!(of("hosted"), Some(hosted));
        assert_eq!((of("once"), of("empty")), (None, None));
        let notices = found.notices.join("\n");
        for part in [
            "once is left out: it is one container per call (poci)",
            "empty is left out",
            "brave: set BRAVE_API_KEY, BRAVE_MODE where",
        ] {
            assert!(notices.contains(part), "{part} in {notices}");
        }
        assert!(read_docker_catalogue(Path::new("x.yaml"), "a: 1\n").is_err());
    }
}
