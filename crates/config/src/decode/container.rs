//! `[servers.X]` with `container`.

use crate::error::ConfigFault;
use crate::read::TableSection;
use crate::read::forms::variable_objection;
use crate::tree::ConfigValue;
use tidings_container_spec::{ContainerNetwork, ContainerRuntime, ContainerSpec, ContainerVolume, VolumeSource};

/// The keys that only containers have.
pub(super) const KEYS: &[&str] =
    &["runtime", "network", "memory", "cpus", "pids", "read_only", "volumes", "user", "runtime_args", "run_args"];

const UNLIMITED: &str = "unlimited";
/// Docker refuses less than this.
const LEAST_MEMORY: u64 = 6 << 20;
const MOST_PIDS: i64 = 1_000_000;
const MOST_CPUS: u32 = 4096;

pub(super) fn container(section: &mut TableSection<'_, '_>) -> Option<ContainerSpec> {
    let image = image(section);
    let runtimes = [("podman", ContainerRuntime::Podman), ("docker", ContainerRuntime::Docker)];
    let default = ContainerSpec::new(image.clone().unwrap_or_default());
    let config = ContainerSpec {
        runtime: section.choice("runtime", &runtimes),
        env: section.pairs("env", objection),
        args: section.texts("args").unwrap_or_default(),
        network: network(section).unwrap_or_default(),
        memory: memory(section).unwrap_or(default.memory),
        milli_cpus: cpus(section).unwrap_or(default.milli_cpus),
        pids: pids(section).unwrap_or(default.pids),
        read_only: section.boolean("read_only").unwrap_or(default.read_only),
        volumes: volumes(section),
        user: word(section, "user"),
        runtime_args: section.texts("runtime_args").unwrap_or_default(),
        run_args: section.texts("run_args").unwrap_or_default(),
        ..default
    };
    // The other keys are read even without an image, so that their faults are reported in the same run.
    image.map(|_| config)
}

/// A name that can not be taken for an option.
fn image(section: &mut TableSection<'_, '_>) -> Option<String> {
    let image = section.text("container")?;
    if !is_word(&image) && !section.reading.lenient.get() {
        section.fault("container", ConfigFault::BadImage);
        return None;
    }
    Some(image)
}

fn word(section: &mut TableSection<'_, '_>, key: &'static str) -> Option<String> {
    let text = section.text(key)?;
    if !is_word(&text) && !section.reading.lenient.get() {
        section.fault(key, ConfigFault::BadContainerWord);
        return None;
    }
    Some(text)
}

fn is_word(text: &str) -> bool {
    // It becomes an argument of the runtime, which would take it for an option.
    !text.starts_with('-') && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Files of variables have one line for each, and `#` begins a comment.
fn objection(name: &str, value: &str) -> Option<ConfigFault> {
    // Variables are handed over in a file, where these would be a comment, two words, or a pattern of our own
    // variables.
    if name.starts_with('#') || name.contains(char::is_whitespace) || name.ends_with('*') {
        return Some(ConfigFault::BadContainerVariable);
    }
    if value.contains(['\n', '\r', '\0']) {
        return Some(ConfigFault::BadContainerValue);
    }
    variable_objection(name, value)
}

fn network(section: &mut TableSection<'_, '_>) -> Option<ContainerNetwork> {
    match &section.entry("network")?.node.value {
        ConfigValue::Boolean(true) => Some(ContainerNetwork::Default),
        ConfigValue::Boolean(false) => Some(ContainerNetwork::None),
        ConfigValue::Text(_) => word(section, "network").map(|name| match name.as_str() {
            // The runtimes' own word for no network.
            "none" => ContainerNetwork::None,
            _ => ContainerNetwork::Named(name),
        }),
        other => {
            let fault =
                ConfigFault::WrongType { expected: "true, false or the name of a network", found: other.kind() };
            section.fault("network", fault);
            None
        }
    }
}

/// `Some(None)` is "unlimited".
fn memory(section: &mut TableSection<'_, '_>) -> Option<Option<u64>> {
    let text = section.text("memory")?;
    if text == UNLIMITED {
        return Some(None);
    }
    let bytes = parse_bytes(&text).filter(|bytes| *bytes >= LEAST_MEMORY);
    if bytes.is_none() {
        section.fault("memory", ConfigFault::BadMemory);
    }
    bytes.map(Some)
}

/// A number of bytes with an optional unit.
fn parse_bytes(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match &lower[digits.len()..] {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    // `checked`: a number that is too large is a mistake and no other, smaller limit.
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// A whole number, or a text: numbers that are not whole have no place in the tree.
fn cpus(section: &mut TableSection<'_, '_>) -> Option<Option<u32>> {
    let thousandths = match &section.entry("cpus")?.node.value {
        ConfigValue::Integer(whole) => u32::try_from(*whole).ok().and_then(|whole| whole.checked_mul(1000)),
        ConfigValue::Text(_) => {
            let text = section.text("cpus")?;
            if text == UNLIMITED {
                return Some(None);
            }
            parse_thousandths(&text)
        }
        _ => None,
    };
    // Docker refuses less than a hundredth of a processor.
    let thousandths = thousandths.filter(|count| (10..=MOST_CPUS * 1000).contains(count));
    if thousandths.is_none() {
        section.fault("cpus", ConfigFault::BadCpus);
    }
    thousandths.map(Some)
}

/// Processors as they are written, in thousandths: `1.5` is 1500. `None` for what is no such number.
fn parse_thousandths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let only_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // More digits than thousandths would be cut without a word.
    if !only_digits(whole) || !only_digits(part) || part.len() > 3 {
        return None;
    }
    // `.5` is 500 thousandths, not 5.
    let part: u32 = format!("{part:0<3}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(part)
}

fn pids(section: &mut TableSection<'_, '_>) -> Option<Option<u32>> {
    if let ConfigValue::Text(_) = &section.entry("pids")?.node.value {
        return section.choice("pids", &[(UNLIMITED, None)]);
    }
    section.integer("pids", 1, MOST_PIDS).and_then(|count| u32::try_from(count).ok()).map(Some)
}

fn volumes(section: &mut TableSection<'_, '_>) -> Vec<ContainerVolume> {
    let written = section.texts("volumes").unwrap_or_default();
    let read: Vec<Option<ContainerVolume>> = written.iter().map(|text| volume(section, text)).collect();
    if read.contains(&None) && !section.reading.lenient.get() {
        section.fault("volumes", ConfigFault::BadVolume);
    }
    read.into_iter().flatten().collect()
}

/// `SOURCE:TARGET[:OPTIONS]`; a source with a `/` or a `.` at its beginning is a path.
fn volume(section: &TableSection<'_, '_>, text: &str) -> Option<ContainerVolume> {
    let mut parts = text.split(':');
    let (source, target, options) = (parts.next()?, parts.next()?, parts.next());
    if parts.next().is_some() || !target.starts_with('/') || text.contains(char::is_control) {
        return None;
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let source = if source.contains('/') || source == "." {
        let path = section.reading.expander.path(source);
        // It would be cut there.
        if path.as_os_str().as_encoded_bytes().contains(&b':') {
            return None;
        }
        VolumeSource::Path(path)
    } else if source.starts_with(|c: char| c.is_ascii_alphanumeric()) && source.chars().all(is_name) {
        // It begins as a name does: a `-` in front would be an option of the runtime.
        VolumeSource::Named(source.to_owned())
    } else {
        return None;
    };
    let is_option =
        |option: &str| !option.is_empty() && option.chars().all(|c| c.is_ascii_alphanumeric() || "_-=.".contains(c));
    // Options go to the runtime as they are, so only what can not be a path or another volume.
    if options.is_some_and(|options| !options.split(',').all(is_option)) {
        return None;
    }
    Some(ContainerVolume { source, target: target.to_owned(), options: options.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_their_unit() {
        let table = [
            ("512m", Some(512 << 20)),
            ("2G", Some(2 << 30)),
            ("1GiB", Some(1 << 30)),
            ("1048576", Some(1 << 20)),
            ("64kb", Some(64 << 10)),
            ("", None),
            ("m", None),
            ("1.5g", None),
            ("-1g", None),
            ("5t", None),
            ("99999999999g", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn parts_of_processors_are_read_in_thousandths() {
        let table = [
            ("1", Some(1000)),
            ("0.5", Some(500)),
            ("1.25", Some(1250)),
            ("0.001", Some(1)),
            (".5", None),
            ("1.", None),
            ("1.2345", None),
            ("+1", None),
            ("1e3", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_thousandths(text), expected, "{text}");
        }
    }
}
