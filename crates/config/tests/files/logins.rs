//! `auth` of a server: what the gateway logs in with.

use tidings_config::{IsolationSetting, LoginGrant, LoginResource, LoginSetting};

use crate::toml;

fn auth(text: &str) -> LoginSetting {
    toml(&format!("[servers.crm]\nurl = \"https://crm.example/mcp\"\n{text}")).servers[0].auth.clone()
}

#[test]
fn a_server_is_logged_in_to_when_it_asks_unless_the_file_says_otherwise() {
    assert_eq!((auth(""), auth("auth = \"auto\"")), (LoginSetting::Auto, LoginSetting::Auto));
    assert_eq!(auth("auth = \"none\""), LoginSetting::Off);
    let LoginSetting::As(table) = auth(
        "[servers.crm.auth]\ngrant = \"client_credentials\"\nclient_id = \"c\"\nclient_secret = \"s\"\nresource = false\n\
         pkce = \"assumed\"\nscopes = [\"a\"]\n",
    ) else {
        panic!("it is a table")
    };
    assert_eq!((table.grant, &table.resource), (LoginGrant::ClientCredentials, &LoginResource::Omitted));
    assert_eq!((table.pkce_assumed, table.scopes.as_deref()), (true, Some(&["a".to_owned()][..])));
    assert!(!format!("{table:?}").contains("\"s\""), "no secret in debug output");
}

// identity 5
#[test]
fn a_login_of_each_person_gives_each_a_connection_of_their_own() {
    let server =
        |text: &str| toml(&format!("[servers.crm]\nurl = \"https://crm.example/mcp\"\n{text}")).servers[0].clone();
    let personal = server("auth = { for = \"principal\" }");
    let LoginSetting::As(login) = &personal.auth else { panic!("it is a table") };
    assert_eq!((login.is_personal, personal.isolation), (true, IsolationSetting::Principal));
    assert_eq!(server("auth = { for = \"shared\" }").isolation, IsolationSetting::Auto);
    assert_eq!(server("isolation = \"principal\"").isolation, IsolationSetting::Principal);
}

#[test]
fn what_can_not_work_is_refused_with_its_key() {
    for (text, key) in [
        ("command = \"x\"\nauth = \"none\"", "auth"),
        ("url = \"https://h/mcp\"\nauth = 3", "auth"),
        ("url = \"https://h/mcp\"\nauth = { grant = \"client_credentials\" }", "client_id"),
        ("url = \"https://h/mcp\"\nauth = { grant = \"jwt_bearer\", client_id = \"c\" }", "assertion"),
        ("url = \"https://h/mcp\"\nauth = { resource = 3 }", "resource"),
        ("url = \"https://h/mcp\"\nauth = { for = \"everybody\" }", "for"),
        (
            "url = \"https://h/mcp\"\nauth = { for = \"principal\", grant = \"client_credentials\", client_id = \"c\" }",
            "for",
        ),
        ("url = \"https://h/mcp\"\nisolation = \"session\"\nauth = { for = \"principal\" }", "isolation"),
        ("url = \"https://h/mcp\"\nisolation = \"person\"", "isolation"),
        ("url = \"https://h/mcp\"\nauth = { issuer = \"login\" }", "issuer"),
    ] {
        let errors = crate::faults("tidings.toml", &format!("[servers.crm]\n{text}\n"));
        assert!(errors.contains(key), "{text}: {errors}");
    }
}
