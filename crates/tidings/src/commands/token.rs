//! `tidings token`: a fresh token, and the line of `[auth]` that lets it in.

use serde_json::json;
use tidings_downstream::auth::sha256;
use tidings_wire::hex;

use crate::failure::CommandFailure;
use crate::secret;

pub(super) fn run(name: &str, servers: &[String], admin: bool, json: bool) -> Result<(), CommandFailure> {
    let token = secret::fresh()?;
    let hash = hex(&sha256(&token));
    let servers = if servers.is_empty() { vec!["*".to_owned()] } else { servers.to_vec() };
    if json {
        println!("{:#}", json!({ "name": name, "token": token, "sha256": hash, "servers": servers, "admin": admin }));
        return Ok(());
    }
    println!("The token of {name}, which is shown only now. Clients send it as `Authorization: Bearer TOKEN`:\n");
    println!("  {token}\n");
    println!("Put this into the list `tokens` of [auth] in the configuration:\n");
    println!("  {}", line(name, &hash, &servers, admin));
    Ok(())
}

/// One element of `tokens`, in TOML.
fn line(name: &str, sha256: &str, servers: &[String], admin: bool) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let servers: Vec<String> = servers.iter().map(|server| quoted(server)).collect();
    let (name, servers) = (quoted(name), servers.join(", "));
    format!(r#"{{ name = {name}, sha256 = "{sha256}", servers = [{servers}], admin = {admin} }},"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    // issue 6.8
    #[test]
    fn the_line_is_what_the_configuration_reads() {
        let hash = hex(&sha256("secret"));
        let servers = ["notes".to_owned(), "team-*".to_owned()];
        let text = format!("[auth]\ntokens = [\n{}\n]\n", line(r#"a "b" \c"#, &hash, &servers, true));
        let directory = tidings_testkit::TempDir::new();
        let path = directory.write("tidings.toml", &text);
        let config = tidings_config::load(&path, &|_| None).expect("a configuration");
        let auth = config.auth.expect("a section");
        assert_eq!(auth.tokens.len(), 1);
        assert_eq!(auth.tokens[0].name, r#"a "b" \c"#);
        assert_eq!(auth.tokens[0].sha256, sha256("secret"));
        assert_eq!(auth.tokens[0].servers, servers);
        assert!(auth.tokens[0].admin);
    }
}
