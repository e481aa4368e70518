//! TOML files that are fine.

use std::path::Path;
use std::time::Duration;

use tidings_config::watch::{FileWatch, HttpWatch, WebhookWatch};
use tidings_config::{
    ApprovalSetting, ClientSettings, Config, ContainerNetwork, ContainerRuntime, ContainerSpec, ContainerVolume,
    EraSetting, ExposeSetting, HeldSetting, IsolationSetting, NamingSetting, NotifyFormat, RegistryToolsSetting,
    TransportConfig, UriMode, VolumeSource, WatchSource,
};

use super::{in_a_small_world, pair, stdio, toml};

const INTERFACE: &str = include_str!("../data/interface.toml");

#[test]
fn every_key_of_the_documented_example_is_accepted() {
    let config = toml(INTERFACE);
    let default = Config::default();
    assert_eq!(config.gateway, default.gateway, "the example shows the defaults");
    assert_eq!(config.notifications, default.notifications);
    assert!(config.warnings.is_empty());

    let names: Vec<_> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["memory", "search", "clock", "scripts"], "in the order of the file");
    let memory = TransportConfig::Stdio {
        command: "npx".into(),
        args: vec!["-y".into(), "@modelcontextprotocol/server-memory".into()],
        env: vec![pair("LOG", "1")],
        cwd: Some("/conf".into()),
    };
    assert_eq!(config.servers[0].transport, memory);
    let headers = vec![pair("Authorization", "Bearer hunter2")];
    assert_eq!(config.servers[1].transport, TransportConfig::Http { url: "https://example.com/mcp".into(), headers });
    let runtime = Some(ContainerRuntime::Podman);
    let clock = ContainerSpec { runtime, ..ContainerSpec::new("localhost/clock:1") };
    assert_eq!(config.servers[2].transport, TransportConfig::Container(Box::new(clock)));
    assert_eq!(
        config.servers[3].transport,
        TransportConfig::Project { dir: "/conf/my-scripts".into(), env: Vec::new() }
    );

    assert_eq!(config.watches[0].source, WatchSource::File(FileWatch { path: "/conf/settings.json".into() }));
    assert_eq!(config.watches.len(), 4);
    let auth = config.auth.as_ref().unwrap();
    assert_eq!((auth.tokens[0].name.as_str(), auth.tokens[0].sha256[0], auth.tokens[0].admin), ("laptop", 0x9f, false));
    assert!(auth.tokens[0].permits("anything"));
    assert_eq!(config.cluster.unwrap().nats, ["nats://localhost:4222"]);
}

// cluster
#[test]
fn a_replica_has_credentials_and_certificates_for_nats_and_shows_neither() {
    let creds = "-----BEGIN NATS USER JWT-----\nhead.body.mark\n------END NATS USER JWT------\n\n\
        -----BEGIN USER NKEY SEED-----\nSUAIO3FHUX5PNV2LQIIP7TZ3N4L7TX3W53MQGEIVYFIGA635OZCKEYHFLM\n------END USER NKEY SEED------\n";
    let cluster = "[cluster]\nsecret = \"0123456789abcdef0123456789abcdef\"\nreplica = \"one\"\n";
    let config = toml(&format!(
        "{cluster}nats = \"tls://h\"\ncredentials = \"\"\"\n{creds}\"\"\"\ntls = {{ ca = \"ca.pem\", cert = \"c.pem\", key = \"k.pem\" }}\n"
    ));
    let settings = config.cluster.unwrap();
    assert_eq!(settings.credentials.as_deref(), Some(creds));
    let tls = settings.tls.clone().unwrap();
    assert_eq!(tls.ca, Some("/conf/ca.pem".into()));
    assert_eq!(tls.certificate, Some(("/conf/c.pem".into(), "/conf/k.pem".into())));
    assert!(!format!("{settings:?}").contains("SUAIO"), "{settings:?}");

    let config = toml(&format!("{cluster}nats = [\"nats://anna:hunter2@h\", \"nats://i\"]\ntls = {{}}\n"));
    let settings = config.cluster.unwrap();
    assert_eq!(settings.tls, Some(Default::default()));
    assert!(!format!("{settings:?}").contains("hunter2"), "{settings:?}");
}

// cluster
#[test]
fn servers_name_labels_of_replicas() {
    let config = toml(
        "[cluster]\nnats = \"nats://h\"\nsecret = \"0123456789abcdef0123456789abcdef\"\nreplica = \"one\"\nlabels = [\"zone=b\", \"gpu\", \"gpu\"]\n\
         [servers.a]\ncommand = \"a\"\nplacement = [\"gpu\"]\non_isolation = \"stop\"\n[servers.b]\ncommand = \"b\"\n",
    );
    assert_eq!(config.cluster.unwrap().labels, ["gpu", "zone=b"]);
    assert_eq!(config.servers[0].placement, ["gpu"]);
    assert!(config.servers[1].placement.is_empty());
    assert!(config.servers[0].stops_alone && !config.servers[1].stops_alone);
}

#[test]
fn a_url_may_be_said_to_speak_http_and_sse() {
    let config = toml(
        "[servers.a]\nurl = \"http://h/sse\"\ntype = \"sse\"\nheaders = { A = \"b\" }\n[servers.b]\nurl = \"http://h/mcp\"\ntype = \"http\"\n",
    );
    let headers = vec![pair("A", "b")];
    assert_eq!(config.servers[0].transport, TransportConfig::Sse { url: "http://h/sse".into(), headers });
    assert_eq!(config.servers[1].transport, TransportConfig::Http { url: "http://h/mcp".into(), headers: vec![] });
}

// identity 2
#[test]
fn people_come_in_by_tokens_that_end_and_by_their_providers() {
    let config = toml(
        r#"[auth]
        tokens = [{ name = "a", sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", groups = ["dev"], expires = "1970-01-02" }]
        jwt = [{ issuer = "https://login.example/t", client_id = "gateway", client_secret = "hunter3" }, { issuer = "http://localhost:9000", audience = ["a", "b"], scopes = ["mcp"], groups = "realm.roles", admin = ["group:ops"], servers = ["crm"] }]
        introspection = { url = "https://login.example/ask", client_id = "c", client_secret = "hunter2", audience = "one" }
        certificates = [{ name = "*.ci.example", servers = ["crm"], groups = ["ci"] }]
        [vault]
        key = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        [gateway]
        tls = { cert = "c.pem", key = "/k.pem", client_ca = "ca.pem" }
        "#,
    );
    let vault = config.vault.unwrap();
    assert!(vault.0[0] == 0x9f && !format!("{vault:?}").contains("159"));
    let auth = config.auth.unwrap();
    let a_day = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(24 * 60 * 60);
    assert_eq!((&*auth.tokens[0].groups, auth.tokens[0].expires), (&["dev".to_owned()][..], Some(a_day)));
    let first = &auth.jwt[0].people;
    assert_eq!((first.audience.len(), &*first.groups, &*first.servers), (0, "groups", &["*".to_owned()][..]));
    let second = &auth.jwt[1].people;
    assert_eq!(
        (second.audience.len(), &*second.groups, &*second.admin),
        (2, "realm.roles", &["group:ops".to_owned()][..])
    );
    let browser = auth.jwt[0].browser.as_ref().unwrap();
    assert_eq!((&*browser.id, browser.secret.as_deref()), ("gateway", Some("hunter3")));
    assert!(auth.jwt[1].browser.is_none() && !format!("{auth:?}").contains("hunter3"));
    assert_eq!(auth.introspection.as_ref().unwrap().people.audience, ["one"]);
    assert!(!format!("{auth:?}").contains("hunter2"));
    assert_eq!((&*auth.certificates[0].name, auth.certificates[0].admin), ("*.ci.example", false));
    let tls = config.gateway.tls.unwrap();
    assert_eq!((tls.cert.as_path(), tls.key.as_path()), (Path::new("/conf/c.pem"), Path::new("/k.pem")));
    assert!(tls.client_ca.is_some() && !tls.client_cert_required);
}

#[test]
fn a_container_gets_what_is_asked_for_and_no_more() {
    let plain = toml("[servers.x]\ncontainer = \"i\"");
    assert_eq!(plain.servers[0].transport, TransportConfig::Container(Box::new(ContainerSpec::new("i"))));
    let text = r#"
        [servers.x]
        container = "ghcr.io/acme/files:2"
        args = ["--all"]
        env = { KEY = "${env:SEARCH_TOKEN}" }
        network = "backend"
        memory = "512m"
        cpus = "0.5"
        pids = 32
        read_only = false
        volumes = ["./data:/data:ro,z", "notes:/notes"]
        user = "1000:1000"
        runtime_args = ["--runtime", "runc"]
        run_args = ["--ulimit", "nofile=1024:1024"]

        [servers.y]
        container = "i"
        network = true
        memory = "unlimited"
        cpus = "unlimited"
        pids = "unlimited"
    "#;
    let config = toml(text);
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let volume = |source, target: &str, options: Option<&str>| ContainerVolume {
        source,
        target: target.to_owned(),
        options: options.map(str::to_owned),
    };
    let expected = ContainerSpec {
        args: texts(&["--all"]),
        env: vec![pair("KEY", "hunter2")],
        network: ContainerNetwork::Named("backend".into()),
        memory: Some(512 << 20),
        milli_cpus: Some(500),
        pids: Some(32),
        read_only: false,
        volumes: vec![
            volume(VolumeSource::Path("/conf/data".into()), "/data", Some("ro,z")),
            volume(VolumeSource::Named("notes".into()), "/notes", None),
        ],
        user: Some("1000:1000".into()),
        runtime_args: texts(&["--runtime", "runc"]),
        run_args: texts(&["--ulimit", "nofile=1024:1024"]),
        ..ContainerSpec::new("ghcr.io/acme/files:2")
    };
    assert_eq!(config.servers[0].transport, TransportConfig::Container(Box::new(expected)));
    let free = ContainerSpec {
        network: ContainerNetwork::Default,
        memory: None,
        milli_cpus: None,
        pids: None,
        ..ContainerSpec::new("i")
    };
    assert_eq!(config.servers[1].transport, TransportConfig::Container(Box::new(free)));
}

#[test]
fn webhooks_are_refused_where_nobody_can_post() {
    let shown: Vec<_> = toml(INTERFACE).unsuited_to_stdio().iter().map(|notice| notice.to_string()).collect();
    assert_eq!(shown.len(), 2);
    assert!(shown[0].starts_with("/conf/tidings.toml:51:1: watch.deploys.webhook: nobody can post"), "{}", shown[0]);
    assert!(
        shown[1].starts_with("/conf/tidings.toml:59:2: cluster: one client on stdio needs no cluster"),
        "{}",
        shown[1]
    );
}

#[test]
fn every_key_of_a_watch_is_read() {
    let config = toml(
        r#"
        [watch.docs]
        file = "./docs/"
        uri = "docs://all"
        name = "Documents"
        description = "All of them."
        mime_type = "text/markdown"
        quiet = "250ms"
        max_wait = "1s"
        placement = ["zone=b", "disk"]
        [watch.rows]
        postgres = "postgresql:///shop?host=/run/postgresql"
        query = "select 1"
        channel = "c"
        [watch.api]
        http = "http://api.intranet/now"
        headers = { Authorization = "Bearer hunter2" }
        private = true
        [watch.ci]
        webhook = "ci"
        secret = "hunter2"
        pointer = "/repository/name"
        "#,
    );
    let docs = &config.watches[0];
    let texts = [&docs.uri, &docs.name, &docs.description, &docs.mime_type].map(|text| text.as_deref().unwrap());
    assert_eq!(texts, ["docs://all", "Documents", "All of them.", "text/markdown"]);
    assert_eq!((docs.quiet, docs.max_wait), (Some(Duration::from_millis(250)), Some(Duration::from_secs(1))));
    assert_eq!(docs.placement, ["disk", "zone=b"]);
    assert_eq!(config.watches[1].uri(), "watch://rows");
    let expected = WatchSource::Http(HttpWatch {
        url: "http://api.intranet/now".into(),
        every: Duration::from_secs(30),
        headers: vec![pair("Authorization", "Bearer hunter2")],
        private: true,
    });
    assert_eq!(config.watches[2].source, expected);
    let pointer = Some("/repository/name".to_owned());
    let expected = WatchSource::Webhook(WebhookWatch { name: "ci".into(), secret: "hunter2".into(), pointer });
    assert_eq!(config.watches[3].source, expected);
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn secrets_stay_out_of_debug_output() {
    let shown = format!("{:?}", toml(INTERFACE));
    assert!(shown.contains("Authorization") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let config = toml("");
    assert_eq!(config.gateway, Config::default().gateway);
    assert!(config.servers.is_empty() && config.auth.is_none());
}

#[test]
fn the_starter_is_accepted_as_it_is_and_with_its_examples_uncommented() {
    toml(tidings_config::starter());
    let is_example = |line: &&str| line.starts_with("# [") || line.starts_with("# ") && line.contains(" = ");
    let uncomment = |line| if is_example(&line) { line[2..].to_owned() } else { line.to_owned() };
    let text: Vec<_> = tidings_config::starter().lines().map(uncomment).collect();
    let config = toml(&text.join("\n"));
    assert_eq!(config.servers.len(), 4);
    assert!(!config.servers[3].enabled);
}

#[test]
fn every_setting_of_a_server_is_read() {
    let config = toml(
        r#"
        [gateway]
        listen = "[::1]:0"
        names = "none"
        expose = "both"
        registry_tools = false
        start_wait = "${env:WAIT}"
        [servers.a]
        command = "./bin/run"
        enabled = true
        prefix = ""
        isolation = "session"
        uris = "transparent"
        era = "legacy"
        timeout = "2h"
        poll_interval = 0
        tools = { allow = ["read_*"], deny = ["read_all"] }
        approve = "changed"
        held = "old"
        "#,
    );
    let gateway = &config.gateway;
    assert_eq!(
        (gateway.names, gateway.expose, gateway.registry_tools),
        (NamingSetting::None, ExposeSetting::Both, RegistryToolsSetting::Off)
    );
    assert_eq!(gateway.start_wait, Duration::from_secs(7));
    let server = &config.servers[0];
    assert_eq!(server.transport, stdio("/conf/bin/run", &[]));
    assert_eq!((server.name_prefix(), server.uri_prefix()), (String::new(), String::new()));
    assert_eq!(
        (server.isolation, server.uris, server.era),
        (IsolationSetting::Session, UriMode::Transparent, EraSetting::Legacy)
    );
    assert_eq!(server.timeout, Some(Duration::from_secs(7200)));
    assert_eq!(server.max_timeout, server.timeout, "the gateway's maximum is below it");
    assert_eq!(server.poll_interval, Some(Duration::ZERO));
    assert!(server.tools.permits("read_file") && !server.tools.permits("read_all"));
    assert_eq!((server.approve, server.held), (ApprovalSetting::Changed, HeldSetting::Old));
}

#[test]
fn zero_quiet_times_are_allowed_and_long_ones_raise_their_maximum() {
    let config = toml("[notifications]\nlist_quiet = 0\nlist_max_wait = \"0\"\nresource_quiet = \"5s\"\n");
    assert_eq!(config.notifications.list_quiet, Duration::ZERO);
    assert_eq!(config.notifications.list_max_wait, Duration::ZERO);
    assert_eq!(config.notifications.resource_max_wait, Duration::from_secs(5));
}

#[test]
fn a_disabled_server_may_refer_to_what_is_not_there() {
    let config = toml("[servers.a]\nenabled = false\nurl = \"${env:NOT_THERE}\"\n");
    assert!(!config.servers[0].enabled);
}

#[test]
fn disabled_servers_do_not_clash() {
    let config = toml("[servers.a]\ncommand = \"x\"\n[servers.A]\ncommand = \"x\"\nenabled = false\n");
    assert_eq!(config.servers.len(), 2);
}

#[test]
fn an_entry_that_starts_tidings_is_skipped_with_a_warning() {
    let config =
        toml("[servers.me]\ncommand = \"/usr/bin/tidings\"\nargs = [\"stdio\"]\n[servers.x]\ncommand = \"x\"\n");
    assert_eq!(config.servers.len(), 1);
    let expected = "/conf/tidings.toml:1:10: servers.me: this entry starts Tidings itself and was skipped";
    assert_eq!(config.warnings[0].to_string(), expected);
}

#[test]
fn a_moved_line_is_not_a_changed_server() {
    let text = "[servers.a]\ncommand = \"x\"\n";
    assert_eq!(toml(text).servers, toml(&format!("\n\n{text}")).servers);
}

#[test]
fn one_server_is_read_from_json_with_the_same_keys_and_faults() {
    let read = |body| {
        in_a_small_world(|world| tidings_config::server_from_json("a b", &body, "/data".as_ref(), world))
            .map_err(|e| e.to_string())
    };
    let server = read(serde_json::json!({"command": "./x", "args": ["1"], "timeout": "5s"})).unwrap();
    assert_eq!(server.transport, stdio("/data/x", &["1"]));
    let error = read(serde_json::json!({"comand": "x"})).unwrap_err();
    let expected = "servers.\"a b\": needs one of the keys command, url, container, project\n\
                    servers.\"a b\".comand: unknown key; did you mean \"command\"?";
    assert_eq!(error, expected);
    assert_eq!(read(serde_json::json!(3)).unwrap_err(), "servers.\"a b\": expected a table, found an integer");
}

// reach 2
#[test]
fn every_key_of_a_client_is_read_and_none_is_needed() {
    let config = toml(
        "[clients.gemini-cli-mcp-client]\nas = \"gate\"\nname_budget = 51\npages = \"one\"\n\
         hears = [\"tools\", \"updated\"]\nexpose = \"search\"\nschema = [\"inline_refs\", \"object_output\"]\nhint = true\n\
         version = \"<1, >=0.5\"\n[clients.\"Visual Studio Code\"]\n",
    );
    let [gemini, code] = &config.clients[..] else { panic!("{:?}", config.clients) };
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let expected = ClientSettings {
        name: "gemini-cli-mcp-client".to_owned(),
        version: Some("<1, >=0.5".to_owned()),
        registered_as: Some("gate".to_owned()),
        name_budget: Some(51),
        follows_pages: Some(false),
        hears: words(&["tools", "updated"]),
        expose: Some(ExposeSetting::Search),
        schema: words(&["inline_refs", "object_output"]),
        hint: Some(true),
    };
    assert_eq!(gemini, &expected);
    assert_eq!(code, &ClientSettings { name: "Visual Studio Code".to_owned(), ..ClientSettings::default() });
}

// reach 3
#[test]
fn every_key_of_notify_is_read() {
    let config = toml(
        "[[notify]]\nname = \"ops\"\nurl = \"https://example.com/changes\"\n\
         secret = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\", \"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"]\n\
         servers = [\"git*\"]\nkinds = [\"tools\", \"resources\"]\nprivate = true\n\
         [[notify]]\nurl = \"https://hooks.slack.com/services/x\"\nformat = \"slack\"\n",
    );
    let [ops, slack] = &config.notify[..] else { panic!("{:?}", config.notify) };
    assert_eq!((ops.name.as_deref(), ops.secrets.len(), ops.private), (Some("ops"), 2, true));
    assert_eq!(ops.format, NotifyFormat::CloudEvents);
    assert!(ops.wants("github", "resource_templates") && !ops.wants("github", "prompts") && !ops.wants("a", "tools"));
    assert_eq!((slack.shown(), slack.format), ("https://hooks.slack.com".to_owned(), NotifyFormat::Slack));
    assert!(slack.wants("anything", "tools") && slack.secrets.is_empty() && !slack.private);
}

// reach 5
#[test]
fn registries_and_releases_are_read() {
    let config = toml(
        "[[registry]]\nname = \"official\"\nurl = \"https://registry.example/v0.1/\"\nheaders = { X = \"hush\" }\n\
         [[registry]]\nname = \"own\"\nurl = \"http://127.0.0.1:1\"\nrefresh = \"5m\"\n\
         [servers.x]\ncommand = \"npx\"\nentry = \"a/b\"\nrelease = { version = \"1\", kind = \"npm\", inputs = { A = \"b\" }, args = [\"c\"] }\n",
    );
    let [official, own] = &config.registries[..] else { panic!("two registries") };
    assert_eq!((official.url.as_str(), official.refresh.as_secs()), ("https://registry.example", 3600));
    assert_eq!((own.name.as_str(), own.refresh.as_secs()), ("own", 300));
    assert!(!format!("{official:?}").contains("hush"));
    let release = config.servers[0].release.as_ref().expect("a release");
    assert_eq!((release.version.as_str(), release.kind.as_str(), &release.digest), ("1", "npm", &None));
}

// reach 7
#[test]
fn every_key_of_telemetry_is_read_and_no_secret_shown() {
    let config = toml(
        "[telemetry]\notlp = \"https://me:hunter2@collector.example:4318/\"\nheaders = { x-api-key = \"hunter2\" }\n\
         service_name = \"house\"\n",
    );
    let telemetry = &config.telemetry;
    assert_eq!(telemetry.otlp.as_deref(), Some("https://me:hunter2@collector.example:4318"));
    assert_eq!(telemetry.headers, [pair("x-api-key", "hunter2")]);
    assert_eq!(telemetry.service_name.as_deref(), Some("house"));
    assert!(!format!("{telemetry:?}").contains("hunter2"));
    assert_eq!(toml("").telemetry, Config::default().telemetry);
}

// reach 7
#[test]
fn what_the_page_about_traces_shows_is_accepted() {
    let page = include_str!("../../../../docs/telemetry.md").replace("COLLECTOR_KEY", "SEARCH_TOKEN");
    let blocks: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        assert!(toml(block).telemetry.otlp.is_some(), "{block}");
    }
}
