//! The command line of a container. Values of variables never stand on it.

use std::path::Path;

use tidings_container_spec::{ContainerNetwork, ContainerSpec, VolumeSource};

/// Names the process that a container belongs to; its value is the id of a [`super::lease::LeaseFile`].
pub(super) const RUN_LABEL: &str = "dev.tidings.run";
/// Names the server, for people.
const SERVER_LABEL: &str = "dev.tidings.server";

/// What tells one container from all others.
pub(super) struct ContainerIdentity<'a> {
    pub(super) name: &'a str,
    pub(super) run: &'a str,
    pub(super) server: &'a str,
}

/// The arguments of the runtime.
pub(super) fn run(spec: &ContainerSpec, identity: &ContainerIdentity<'_>, env_file: Option<&Path>) -> Vec<String> {
    let mut line = CommandLine(spec.runtime_args.clone());
    // Pulled before, with a report of its progress. No log: what a server says is not for the disk.
    // Who stops it has been patient already.
    line.words(&["run", "--interactive", "--rm", "--pull=never", "--log-driver=none", "--stop-timeout=1"]);
    line.option("--name", identity.name);
    line.option("--label", format!("{RUN_LABEL}={}", identity.run));
    line.option("--label", format!("{SERVER_LABEL}={}", identity.server));
    line.words(&["--security-opt=no-new-privileges", "--cap-drop=all"]);
    if spec.read_only {
        // A server that writes temporary files must not fill the memory of the machine, where a tmpfs lives.
        line.words(&["--read-only", "--tmpfs=/tmp:rw,nosuid,nodev,size=256m"]);
    }
    match &spec.network {
        ContainerNetwork::None => line.words(&["--network=none"]),
        ContainerNetwork::Default => {}
        ContainerNetwork::Named(name) => line.option("--network", name),
    }
    if let Some(bytes) = spec.memory {
        line.option("--memory", bytes);
    }
    if let Some(thousandths) = spec.milli_cpus {
        line.option("--cpus", format!("{}.{:03}", thousandths / 1000, thousandths % 1000));
    }
    match spec.pids {
        Some(count) => line.option("--pids-limit", count),
        // Left out, it would be the runtime's own limit.
        None => line.words(&["--pids-limit=-1"]),
    }
    if let Some(user) = &spec.user {
        line.option("--user", user);
    }
    for mount in &spec.volumes {
        let source = match &mount.source {
            VolumeSource::Path(path) => path.display().to_string(),
            VolumeSource::Named(name) => name.clone(),
        };
        let options = mount.options.as_ref().map(|options| format!(":{options}")).unwrap_or_default();
        line.option("--volume", format!("{source}:{}{options}", mount.target));
    }
    if let Some(path) = env_file {
        line.option("--env-file", path.display());
    }
    // What the user adds comes last, so that it can take back an option of ours.
    let CommandLine(mut words) = line;
    words.extend(spec.run_args.iter().cloned());
    words.push(spec.image.clone());
    words.extend(spec.args.iter().cloned());
    words
}

struct CommandLine(Vec<String>);

impl CommandLine {
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(|word| (*word).to_owned()));
    }

    /// In one word, so that no value can be taken for an option.
    fn option(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push(format!("{name}={value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidings_container_spec::ContainerVolume;

    const IDENTITY: ContainerIdentity<'_> = ContainerIdentity { name: "tidings-clock-1", run: "ab12", server: "clock" };

    #[test]
    fn nothing_is_given_that_was_not_asked_for() {
        let words = run(&ContainerSpec::new("localhost/clock:1"), &IDENTITY, None);
        let expected = "run --interactive --rm --pull=never --log-driver=none --stop-timeout=1 --name=tidings-clock-1 \
                        --label=dev.tidings.run=ab12 --label=dev.tidings.server=clock \
                        --security-opt=no-new-privileges --cap-drop=all --read-only \
                        --tmpfs=/tmp:rw,nosuid,nodev,size=256m --network=none --memory=1073741824 --cpus=1.000 \
                        --pids-limit=256 localhost/clock:1";
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn what_was_asked_for_stands_in_its_place() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let spec = ContainerSpec {
            env: vec![("KEY".into(), "hunter2".into())],
            args: texts(&["--all", "x"]),
            network: ContainerNetwork::Named("backend".into()),
            memory: None,
            milli_cpus: Some(250),
            pids: None,
            read_only: false,
            volumes: vec![
                ContainerVolume {
                    source: VolumeSource::Path("/srv/data".into()),
                    target: "/data".into(),
                    options: Some("ro".into()),
                },
                ContainerVolume { source: VolumeSource::Named("notes".into()), target: "/notes".into(), options: None },
            ],
            user: Some("1000:1000".into()),
            runtime_args: texts(&["--runtime", "runc"]),
            run_args: texts(&["--ulimit", "nofile=1024:1024"]),
            ..ContainerSpec::new("i")
        };
        let words = run(&spec, &IDENTITY, Some(Path::new("/data/c/1.env"))).join(" ");
        assert!(words.starts_with("--runtime runc run --interactive "), "{words}");
        let end = "--network=backend --cpus=0.250 --pids-limit=-1 --user=1000:1000 --volume=/srv/data:/data:ro \
                   --volume=notes:/notes --env-file=/data/c/1.env --ulimit nofile=1024:1024 i --all x";
        assert!(words.ends_with(end), "{words}");
        assert!(!words.contains("--read-only") && !words.contains("--memory") && !words.contains("hunter2"));
    }
}
