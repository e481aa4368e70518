//! `tidings token`: a fresh token, and the line of `[auth]` that lets it in.

use serde_json::json;
use tidings_identity::sha256;
use tidings_wire::hex;

use crate::failure::CommandFailure;
use crate::secret;

/// What a token is for.
pub(super) struct NewToken<'a> {
    pub(super) name: &'a str,
    pub(super) servers: &'a [String],
    pub(super) admin: bool,
    pub(super) groups: &'a [String],
    pub(super) expires: Option<&'a str>,
}

pub(super) fn run(request: &NewToken<'_>, json: bool) -> Result<(), CommandFailure> {
    let NewToken { name, servers, admin, groups, expires } = request;
    let is_moment = |text: &str| text.parse::<jiff::Timestamp>().is_ok() || text.parse::<jiff::civil::Date>().is_ok();
    if let Some(wrong) = expires.filter(|text| !is_moment(text)) {
        return Err(CommandFailure::Usage(format!(
            "--expires {wrong}: expected a day such as 2027-01-01, or a moment"
        )));
    }
    let token = secret::fresh()?;
    let hash = hex(&sha256(&token));
    let servers = if servers.is_empty() { vec!["*".to_owned()] } else { servers.to_vec() };
    if json {
        let mut shown = json!({ "name": name, "token": token, "sha256": hash, "servers": servers, "admin": admin });
        if !groups.is_empty() {
            shown["groups"] = json!(groups);
        }
        if let Some(expires) = expires {
            shown["expires"] = json!(expires);
        }
        println!("{shown:#}");
        return Ok(());
    }
    println!("The token of {name}, which is shown only now. Clients send it as `Authorization: Bearer TOKEN`:\n");
    println!("  {token}\n");
    println!(
        "Put this into the list `tokens` of [auth] in the configuration; a gateway that runs takes it up at once:\n"
    );
    println!("  {}", line(&NewToken { servers: &servers, ..*request }, &hash));
    Ok(())
}

/// One element of `tokens`, in TOML.
fn line(request: &NewToken<'_>, sha256: &str) -> String {
    let NewToken { name, servers, admin, groups, expires } = request;
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let list = |texts: &[String]| texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ");
    let (name, servers) = (quoted(name), list(servers));
    let mut line = format!(r#"{{ name = {name}, sha256 = "{sha256}", servers = [{servers}], admin = {admin}"#);
    if !groups.is_empty() {
        line.push_str(&format!(", groups = [{}]", list(groups)));
    }
    if let Some(expires) = expires {
        line.push_str(&format!(", expires = {}", quoted(expires)));
    }
    line + " },"
}

#[cfg(test)]
mod tests {
    use super::*;

    // issue 6.8
    #[test]
    fn the_line_is_what_the_configuration_reads() {
        let hash = hex(&sha256("secret"));
        let servers = ["notes".to_owned(), "team-*".to_owned()];
        let groups = ["dev".to_owned()];
        let name = r#"a "b" \c"#;
        let request = NewToken { name, servers: &servers, admin: true, groups: &groups, expires: Some("2027-01-01") };
        let text = format!("[auth]\ntokens = [\n{}\n]\n", line(&request, &hash));
        let directory = tidings_testkit::TempDir::new();
        let path = directory.write("tidings.toml", &text);
        let config = tidings_config::load(&path, &|_| None).expect("a configuration");
        let auth = config.auth.expect("a section");
        assert_eq!(auth.tokens.len(), 1);
        assert_eq!(auth.tokens[0].name, r#"a "b" \c"#);
        assert_eq!(auth.tokens[0].sha256, sha256("secret"));
        assert_eq!(auth.tokens[0].servers, servers);
        assert!(auth.tokens[0].admin && auth.tokens[0].expires.is_some());
        assert_eq!(auth.tokens[0].groups, groups);
    }
}
