#![allow(clippy::needless_pass_by_value, reason = "values of json! are made where they are passed")]

use serde_json::{Value, json};

use super::*;
use crate::keys::{ExtraKeys, KeysError};

/// An item as a registry lists it.
fn item(server: Value) -> RegistryItem {
    let meta = json!({OFFICIAL: {
        "status": "active", "publishedAt": "2025-12-11T10:00:00Z", "updatedAt": "2025-12-11T10:00:00.5Z", "isLatest": true,
    }});
    RegistryItem::read(&json!({"server": server, "_meta": meta}).to_string()).expect("an item")
}

/// A release with one package, or with what else is given.
fn release(members: Value) -> RegistryItem {
    let mut server = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.acme/desk", "description": "Files tickets.", "version": "1.2.3",
        "repository": {"url": "https://github.com/acme/desk", "source": "github"},
    });
    for (name, value) in members.as_object().expect("an object") {
        server[name] = value.clone();
    }
    item(server)
}

fn package(kind: &str, identifier: &str, more: Value) -> Value {
    let mut package = json!({
        "registryType": kind, "identifier": identifier, "version": "1.2.3", "transport": {"type": "stdio"},
    });
    for (name, value) in more.as_object().expect("an object") {
        package[name] = value.clone();
    }
    json!({"packages": [package]})
}

fn keys(item: &RegistryItem, wishes: &ExtraKeys, resolved: ResolvedWay) -> Result<Value, KeysError> {
    let way = choose(&item.server, wishes.kind.as_deref())?;
    let inputs = InputSet::new("io.github.acme/desk", &wishes.environment);
    release_keys(&item.server, &way, wishes, &inputs, resolved)
}

fn wishes(inputs: &[(&str, &str)], args: &[&str]) -> ExtraKeys {
    ExtraKeys {
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        environment: inputs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        kind: None,
    }
}

/// The keys without those that every release has.
fn made(members: Value, wishes: &ExtraKeys) -> Result<Value, String> {
    let digest = Some(format!("sha256:{}", "a".repeat(64)));
    let mut keys = keys(&release(members), wishes, ResolvedWay { digest, bundle: None }).map_err(|e| e.to_string())?;
    let members = keys.as_object_mut().expect("an object");
    assert_eq!(members.remove("entry"), Some(json!("io.github.acme/desk")));
    let release = members.remove("release").expect("a release");
    assert_eq!(release["version"], "1.2.3");
    Ok(keys)
}

// reach 5
#[test]
fn every_kind_of_package_and_remote_becomes_keys() {
    let none = wishes(&[], &[]);
    let image = format!("docker.io/acme/desk@sha256:{}", "a".repeat(64));
    let table = [
        (package("npm", "@acme/desk", json!({})), json!({"command": "npx", "args": ["-y", "@acme/desk@1.2.3"]})),
        (package("pypi", "acme-desk", json!({})), json!({"command": "uvx", "args": ["acme-desk@1.2.3"]})),
        (package("nuget", "Acme.Desk", json!({})), json!({"command": "dnx", "args": ["Acme.Desk@1.2.3", "--yes"]})),
        (
            package("oci", "docker.io/acme/desk:1.2.3", json!({"version": null})),
            json!({"container": image, "network": true}),
        ),
        (
            json!({"remotes": [{"type": "streamable-http", "url": "https://desk.example/mcp"}]}),
            json!({"url": "https://desk.example/mcp"}),
        ),
        (
            json!({"remotes": [{"type": "sse", "url": "https://desk.example/sse"}]}),
            json!({"url": "https://desk.example/sse", "type": "sse"}),
        ),
        (
            package("npm", "@acme/desk", json!({"registryBaseUrl": "https://npm.acme.example/"})),
            json!({"command": "npx", "args": ["-y", "--registry", "https://npm.acme.example", "@acme/desk@1.2.3"]}),
        ),
        (
            package("npm", "@acme/desk", json!({"registryBaseUrl": "https://packages.npmjs.example/"})),
            json!({"command": "npx", "args": ["-y", "@acme/desk@1.2.3"]}),
        ),
    ];
    for (members, expected) in table {
        assert_eq!(made(members.clone(), &none), Ok(expected), "{members}");
    }
}

// reach 5
#[test]
fn arguments_are_words_in_their_order_and_never_a_line() {
    let arguments = json!({
        "runtimeArguments": [{"type": "named", "name": "--quiet", "isRequired": true}],
        "packageArguments": [
            {"type": "positional", "valueHint": "mode", "value": "serve; rm -rf /"},
            {"type": "named", "name": "--port", "default": "80", "format": "number"},
            {"type": "named", "name": "--level", "choices": ["low", "high"]},
            {"type": "named", "name": "--verbose", "format": "boolean", "default": "true"},
            {"type": "named", "name": "--url", "value": "https://{host}/{path}", "variables": {
                "host": {"isRequired": true, "description": "Where."}, "path": {"default": "x ${env:HOME} y"}}},
            {"type": "positional", "valueHint": "folder", "isRepeated": true, "isRequired": true},
        ],
    });
    let given = wishes(&[("host", "h.example"), ("folder", "/a b\n/c"), ("level", "high")], &["last"]);
    let expected = json!({"command": "npx", "args": [
        "-y", "--quiet", "desk@1.2.3", "serve; rm -rf /", "--port", "80", "--level", "high", "--verbose",
        "--url", "https://h.example/x $${env:HOME} y", "/a b", "/c", "last",
    ]});
    assert_eq!(made(package("npm", "desk", arguments.clone()), &given), Ok(expected));

    let missing = made(package("npm", "desk", arguments.clone()), &wishes(&[], &[])).unwrap_err();
    assert!(missing.contains("host (Where.) and folder"), "{missing}");
    let wrong = |inputs: &[(&str, &str)]| {
        let all = [&[("host", "h"), ("folder", "f")], inputs].concat();
        made(package("npm", "desk", arguments.clone()), &wishes(&all, &[])).unwrap_err()
    };
    assert!(wrong(&[("level", "middle")]).contains("level of io.github.acme/desk is one of low, high"));
    assert!(wrong(&[("port", "eighty")]).contains("is a number"));
}

// reach 5
#[test]
fn secrets_are_references_and_nothing_is_taken_from_the_environment_unasked() {
    let variables = json!({"environmentVariables": [
        {"name": "DESK_KEY", "isRequired": true, "isSecret": true, "description": "The key."},
        {"name": "DESK_REGION", "default": "eu"},
        {"name": "HOME"},
        {"name": "DESK_URL", "value": "https://{region}.example", "variables": {"region": {"choices": ["eu", "us"], "default": "us"}}},
    ]});
    let members = package("npm", "desk", variables);
    // Somebody has to say that it may have a variable of the gateway. `HOME` is not required, and so not asked for.
    let lacks = made(members.clone(), &wishes(&[], &[])).unwrap_err();
    assert!(lacks.contains("needs DESK_KEY") && lacks.contains("as `${env:NAME}`"), "{lacks}");
    let expected = json!({"DESK_KEY": "${env:DESK_KEY}", "DESK_REGION": "eu", "DESK_URL": "https://us.example"});
    assert_eq!(made(members.clone(), &wishes(&[("DESK_KEY", "${env:DESK_KEY}")], &[])).unwrap()["env"], expected);
    let plain = made(members.clone(), &wishes(&[("DESK_KEY", "hush")], &[])).unwrap_err();
    assert!(plain.contains("DESK_KEY of io.github.acme/desk is a secret") && !plain.contains("hush"), "{plain}");
    let named = made(members, &wishes(&[("DESK_KEY", "${env:MINE}"), ("region", "eu")], &[])).unwrap();
    assert_eq!(
        (&named["env"]["DESK_KEY"], &named["env"]["DESK_URL"]),
        (&json!("${env:MINE}"), &json!("https://eu.example"))
    );

    let remote = json!({"remotes": [{
        "type": "streamable-http", "url": "https://{tenant}.example/mcp", "variables": {"tenant": {"isRequired": true}},
        "headers": [{"name": "Authorization", "value": "Bearer {token}", "variables": {"token": {"isRequired": true, "isSecret": true}}},
                    {"name": "X-Trace"}],
    }]});
    let made = made(remote.clone(), &wishes(&[("tenant", "acme"), ("token", "${env:DESK_TOKEN}")], &[])).unwrap();
    let headers = json!({"Authorization": "Bearer ${env:DESK_TOKEN}"});
    assert_eq!(made, json!({"url": "https://acme.example/mcp", "headers": headers}));
    let given = wishes(&[("tenant", "acme"), ("token", "${env:T}"), ("other", "x")], &[]);
    let unused = keys(&release(remote), &given, ResolvedWay::default()).unwrap_err();
    assert!(matches!(unused, KeysError::UnusedVariable { variable, .. } if variable == "other"));
}

// reach 5
#[test]
fn what_docker_would_be_told_becomes_keys_or_is_refused() {
    let runtime = |arguments: Value| package("oci", "ghcr.io/acme/desk:1", json!({"runtimeArguments": arguments}));
    let mount = json!([
        {"type": "named", "name": "--mount", "value": "type=bind,src={from},dst=/data,ro", "variables": {"from": {"isRequired": true}}},
        {"type": "named", "name": "-e", "value": "A=b"},
        {"type": "named", "name": "--network", "value": "none"},
        {"type": "named", "name": "--rm", "isRequired": true},
    ]);
    let made_of = made(runtime(mount), &wishes(&[("from", "/srv")], &[])).unwrap();
    assert_eq!((&made_of["volumes"], &made_of["env"]), (&json!(["/srv:/data:ro"]), &json!({"A": "b"})));
    assert_eq!(made_of.get("network"), None);
    for (name, value) in
        [("--privileged", None), ("--network", Some("host")), ("--pid", Some("host")), ("--mount", Some("x"))]
    {
        let argument = json!([{"type": "named", "name": name, "value": value, "isRequired": true}]);
        let refused = made(runtime(argument), &wishes(&[], &[])).unwrap_err();
        assert!(refused.contains("would decide what is run"), "{name}: {refused}");
    }
}

// reach 5
#[test]
fn what_is_not_pinned_or_would_run_something_else_is_refused() {
    let none = wishes(&[], &[]);
    for (kind, identifier, version) in [
        ("npm", "desk", json!("latest")),
        ("npm", "desk", json!("^1.0.0")),
        ("npm", "desk", json!("1.2")),
        ("npm", "desk", Value::Null),
        ("npm", "--call=sh", json!("1.0.0")),
        ("npm", "../desk", json!("1.0.0")),
        ("npm", "https://evil.example/x.tgz", json!("1.0.0")),
        ("pypi", "desk==1 --index", json!("1.0")),
        ("pypi", "git+https://evil.example", json!("1.0")),
        ("nuget", "-x", json!("1.0")),
        ("oci", "acme/desk", Value::Null),
        ("oci", "acme/desk:latest", Value::Null),
        ("oci", "--privileged", Value::Null),
        ("mcpb", "https://h.example/x.mcpb", Value::Null),
        ("cargo", "desk", json!("1.0.0")),
    ] {
        let refused = made(package(kind, identifier, json!({"version": version})), &none);
        assert!(refused.is_err(), "{kind} {identifier} {version}: {refused:?}");
    }
    for arguments in [
        json!([{"type": "named", "name": "-c", "value": "sh"}]),
        json!([{"type": "named", "name": "-y", "value": "other-package"}]),
        json!([{"type": "positional", "value": "other-package"}]),
        json!([{"type": "named", "name": "--package", "value": "other"}]),
    ] {
        let refused = made(package("npm", "desk", json!({"runtimeArguments": arguments})), &none).unwrap_err();
        assert!(refused.contains("would decide what is run"), "{arguments}: {refused}");
    }
    let served =
        package("npm", "desk", json!({"transport": {"type": "streamable-http", "url": "http://localhost:1/"}}));
    assert!(made(served, &none).unwrap_err().contains("has to be started by hand"));
}

// reach 5
#[test]
fn the_kind_can_be_chosen_and_is_kept_for_the_next_release() {
    let both = json!({
        "packages": [package("npm", "desk", json!({}))["packages"][0], package("pypi", "desk", json!({}))["packages"][0]],
        "remotes": [{"type": "streamable-http", "url": "https://desk.example/mcp"}],
    });
    let made = |kind: Option<&str>| {
        let wishes = ExtraKeys { kind: kind.map(str::to_owned), ..wishes(&[("A", "b")], &["x"]) };
        keys(&release(both.clone()), &wishes, ResolvedWay::default())
    };
    assert_eq!(made(None).unwrap()["command"], "npx");
    let pypi = made(Some("pypi")).unwrap();
    let kept = json!({"version": "1.2.3", "kind": "pypi", "inputs": {"A": "b"}, "args": ["x"]});
    assert_eq!((&pypi["command"], &pypi["release"]), (&json!("uvx"), &kept));
    assert!(made(Some("oci")).unwrap_err().to_string().contains("can not be run here as oci: it has npm"));
}

// reach 5
#[test]
fn items_of_any_registry_are_read_and_others_are_not() {
    let plain = |server: Value| RegistryItem::read(&json!({"server": server}).to_string());
    let fine = plain(json!({"name": "a.b/c", "version": "1"})).expect("an item");
    assert!(fine.state.is_latest && fine.state.status == ReleaseStatus::Active);
    for server in [
        json!({"name": "no-namespace", "version": "1"}),
        json!({"name": "a/b c", "version": "1"}),
        json!({"name": "a/../b", "version": "1"}),
        json!({"name": "a/b", "version": ""}),
        json!({"name": "a/b", "version": 3}),
        json!({"name": "a/b", "version": "1", "packages": {}}),
    ] {
        assert!(plain(server.clone()).is_none(), "{server}");
    }
    let deprecated = item(json!({"name": "a/b", "version": "1"}));
    let state = ReleaseState { status: ReleaseStatus::Deprecated, message: Some("use a/c".into()), ..deprecated.state };
    let entry = super::entry(&release(package("npm", "desk", json!({}))).server, &state).expect("an entry");
    assert!(entry.docs.expect("docs").contains("**deprecated**: use a/c"));
    assert_eq!(entry.tags, ["version 1.2.3"]);
}

// reach 5: whatever a publisher writes is text, however it is put together
#[test]
fn what_a_publisher_writes_never_refers_to_the_gateways_own_secrets() {
    let remote = |header: Value| json!({"remotes": [{"type": "streamable-http", "url": "https://desk.example/mcp", "headers": [header]}]});
    let braces = json!({"default": "{file:/etc/passwd}"});
    for (header, expected) in [
        (json!({"name": "X", "value": "${env:SECRET}"}), "$${env:SECRET}"),
        (json!({"name": "X", "value": "a $${env:SECRET} b"}), "a $$${env:SECRET} b"),
        (json!({"name": "X", "value": "${v}", "variables": {"v": braces}}), "$${file:/etc/passwd}"),
        (json!({"name": "X", "value": "${v}{env:SECRET}", "variables": {"v": {"default": ""}}}), "$${env:SECRET}"),
        (json!({"name": "X", "value": "{v}{env:SECRET}", "variables": {"v": {"default": "$"}}}), "$${env:SECRET}"),
    ] {
        let made = made(remote(header.clone()), &wishes(&[], &[])).unwrap();
        assert_eq!(made["headers"]["X"], expected, "{header}");
    }
    // What somebody gave refers to what they say.
    let given = json!({"name": "X", "value": "Bearer {v}", "variables": {"v": {"isSecret": true}}});
    let made = made(remote(given), &wishes(&[("v", "${env:MINE}")], &[])).unwrap();
    assert_eq!(made["headers"]["X"], "Bearer ${env:MINE}");
}
