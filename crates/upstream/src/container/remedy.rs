//! What a runtime says when it fails, with what to do about it.

/// Signs in its words, and the remedy. The first that fits counts.
const REMEDIES: &[(&[&str], &str)] = &[
    (
        &["docker daemon", "docker.sock"],
        "start Docker and let this user use it, or install podman, which needs no daemon",
    ),
    (&["short-name"], "write the whole name of the image, such as docker.io/library/NAME:TAG"),
    (&["http response to https"], "tell the runtime that this registry has no TLS (registries.conf: insecure = true)"),
    (
        &["unauthorized", "authentication required", "requested access to the resource is denied"],
        "log in to the registry first (podman login or docker login), and check the name of the image",
    ),
    (
        &["manifest unknown", "image not known", "no such image", "repository name not known"],
        "check the name of the image",
    ),
    (
        &["rlimit", "nofile"],
        "this machine allows less; lower it: run_args = [\"--ulimit\", \"nofile=1024:1024\", \"--ulimit\", \"nproc=1000:1000\"]",
    ),
    (&["cgroup", "controller"], "this machine can not hold that limit; set memory, cpus or pids to \"unlimited\""),
    (
        &["subuid", "subgid", "newuidmap"],
        "give this user subordinate ids: see `man subuid` and `podman system migrate`",
    ),
    (
        &["default oci runtime", "oci runtime", "crun", "runc"],
        "see whether `podman info` works for this user; another runtime is chosen by runtime_args = [\"--runtime\", \"runc\"]",
    ),
    (
        &["connection refused", "no such host", "i/o timeout", "network is unreachable"],
        "check the name of the registry and the network",
    ),
];

/// For a command that the image does not have, which runtimes report as a fault of their own.
const NOT_IN_IMAGE: &[&str] = &["not found", "no such file or directory"];

/// The words, and what helps.
pub(super) fn with_remedy(words: &str) -> String {
    match of_runtime(words) {
        Some(remedy) => format!("{words}; {remedy}"),
        None => words.to_owned(),
    }
}

/// What helps a runtime that failed.
pub(super) fn of_runtime(words: &str) -> Option<&'static str> {
    let lower = words.to_ascii_lowercase();
    if lower.contains("exec") && NOT_IN_IMAGE.iter().any(|sign| lower.contains(sign)) {
        return Some("the image has no such command; check `args` and the image");
    }
    let fits = |signs: &&[&str]| signs.iter().any(|sign| lower.contains(sign));
    REMEDIES.iter().find(|(signs, _)| fits(signs)).map(|(_, remedy)| *remedy)
}

/// What helps a server that ended in its bounds, if that was the reason.
pub(super) fn of_server(words: &str) -> Option<&'static str> {
    let lower = words.to_ascii_lowercase();
    if lower.contains("read-only file system") || lower.contains("erofs") {
        return Some("it wants to write: give it a volume (volumes = [\"./data:/data\"]), or set read_only = false");
    }
    let offline = ["eai_again", "enetunreach", "temporary failure in name resolution", "network is unreachable"];
    if offline.iter().any(|sign| lower.contains(sign)) {
        return Some("it wants a network: set network = true");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As podman 4.3, podman 5 and docker 28 say it.
    #[test]
    fn known_words_get_a_remedy() {
        let table = [
            ("Error: localhost/none:1: image not known", "check the name"),
            ("Error: short-name \"x\" did not resolve to an alias", "whole name"),
            ("http: server gave HTTP response to HTTPS client", "no TLS"),
            ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "start Docker"),
            ("runc create failed: error setting rlimit type 7: operation not permitted", "--ulimit"),
            ("the requested cgroup controller `cpu` is not available: OCI runtime error", "unlimited"),
            ("exec: \"/nope\": stat /nope: no such file or directory", "no such command"),
            ("default OCI runtime \"nope\" not found", "podman info"),
            ("dial tcp 127.0.0.1:1: connect: connection refused", "the network"),
        ];
        for (words, part) in table {
            let shown = with_remedy(words);
            assert!(shown.starts_with(words) && shown.contains(part), "{shown}");
        }
        assert_eq!(with_remedy("something else"), "something else");
        assert!(of_server("OSError: [Errno 30] Read-only file system: '/x'").is_some_and(|r| r.contains("read_only")));
        assert!(of_server("getaddrinfo EAI_AGAIN example.com").is_some_and(|r| r.contains("network = true")));
        assert_eq!(of_server("panic"), None);
    }
}
