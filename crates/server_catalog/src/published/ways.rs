//! The ways to run a release, each pinned to exactly what was published; and which of them is taken.

use super::{PublishedPackage, PublishedServer, PublishedTransport};
use crate::keys::KeysError;

/// One way, checked so far that it can be written down.
#[derive(Clone, Debug)]
pub(crate) enum ReleaseWay<'a> {
    Npm { package: &'a PublishedPackage, spec: String },
    Pypi { package: &'a PublishedPackage, spec: String },
    Nuget { package: &'a PublishedPackage, spec: String },
    Image { package: &'a PublishedPackage, image: &'a str },
    Bundle { package: &'a PublishedPackage, url: &'a str, sha256: &'a str },
    Remote { transport: &'a PublishedTransport, url: &'a str, is_sse: bool },
}

impl<'a> ReleaseWay<'a> {
    /// The word by which it is chosen, and kept.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Npm { .. } => "npm",
            Self::Pypi { .. } => "pypi",
            Self::Nuget { .. } => "nuget",
            Self::Image { .. } => "oci",
            Self::Bundle { .. } => "mcpb",
            Self::Remote { is_sse: false, .. } => "streamable-http",
            Self::Remote { is_sse: true, .. } => "sse",
        }
    }

    /// The package, where it is one.
    pub(crate) fn package(&self) -> Option<&'a PublishedPackage> {
        match self {
            Self::Npm { package, .. }
            | Self::Pypi { package, .. }
            | Self::Nuget { package, .. }
            | Self::Image { package, .. }
            | Self::Bundle { package, .. } => Some(package),
            Self::Remote { .. } => None,
        }
    }

    /// The digest that the publisher gives of what runs.
    pub(crate) fn digest(&self) -> Option<String> {
        match self {
            Self::Bundle { sha256, .. } => Some(format!("sha256:{}", sha256.to_ascii_lowercase())),
            Self::Image { image, .. } => image.split_once('@').map(|(_, digest)| digest.to_owned()),
            _ => None,
        }
    }
}

/// The way of this kind, or the first: packages in the order of their publisher, then what runs elsewhere.
pub(crate) fn choose<'a>(server: &'a PublishedServer, kind: Option<&str>) -> Result<ReleaseWay<'a>, KeysError> {
    let packages = server.packages.iter().map(package);
    let all = packages.chain(server.remotes.iter().map(remote));
    let mut reasons = Vec::new();
    for way in all {
        match way {
            Ok(way) if kind.is_none_or(|kind| kind == way.kind()) => return Ok(way),
            Ok(way) => reasons.push(format!("it has {}", way.kind())),
            Err(reason) => reasons.push(reason),
        }
    }
    if reasons.is_empty() {
        reasons.push("it names neither packages nor remotes".to_owned());
    }
    Err(KeysError::NoWay { id: server.name.clone(), kind: kind.map(str::to_owned), reasons })
}

fn package(package: &PublishedPackage) -> Result<ReleaseWay<'_>, String> {
    let (kind, identifier) = (package.registry_type.as_str(), package.identifier.as_str());
    // It would listen on a port of its own, which nobody starts and nobody stops here.
    if package.transport.kind != "stdio" {
        return Err(format!("{kind} {identifier} speaks {} and has to be started by hand", package.transport.kind));
    }
    let spec = |fits: fn(&str) -> bool, pinned: fn(&str) -> bool| {
        if !fits(identifier) {
            return Err(format!("{kind}: {identifier:?} is no name of a package"));
        }
        match package.version.as_deref() {
            Some(version) if pinned(version) => Ok(format!("{identifier}@{version}")),
            Some(version) => Err(format!("{kind} {identifier}: {version:?} is not one exact version")),
            None => Err(format!("{kind} {identifier} names no version")),
        }
    };
    match kind {
        "npm" => Ok(ReleaseWay::Npm { package, spec: spec(is_npm_name, is_semver)? }),
        "pypi" => Ok(ReleaseWay::Pypi { package, spec: spec(is_plain_name, is_exact)? }),
        "nuget" => Ok(ReleaseWay::Nuget { package, spec: spec(is_plain_name, is_exact)? }),
        "oci" if is_image(identifier) => Ok(ReleaseWay::Image { package, image: identifier }),
        "oci" => Err(format!("oci: {identifier:?} is no image with a tag or a digest")),
        "mcpb" => match package.file_sha256.as_deref() {
            // Before the hash is looked at: an address that must not be asked is no better with one.
            Some(_) if !identifier.starts_with("https://") && !is_loopback(identifier) => {
                Err(format!("mcpb {identifier:?} is not reached over https"))
            }
            Some(sha256) if is_sha256(sha256) => Ok(ReleaseWay::Bundle { package, url: identifier, sha256 }),
            Some(_) => Err(format!("mcpb {identifier}: fileSha256 is no SHA-256")),
            None => Err(format!("mcpb {identifier} has no fileSha256, so nobody can tell what it is")),
        },
        _ => Err(format!("{kind:?} is no kind of package that is known here")),
    }
}

fn remote(transport: &PublishedTransport) -> Result<ReleaseWay<'_>, String> {
    let url = transport.url.as_deref().unwrap_or_default();
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err(format!("{url:?} is no http address"));
    }
    match transport.kind.as_str() {
        "streamable-http" => Ok(ReleaseWay::Remote { transport, url, is_sse: false }),
        "sse" => Ok(ReleaseWay::Remote { transport, url, is_sse: true }),
        other => Err(format!("{other:?} is no transport that is known here")),
    }
}

/// Whether a word could be taken for an option, a path or an address by what runs the package.
fn is_plain_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

fn is_npm_name(name: &str) -> bool {
    match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, own)| is_plain_name(scope) && is_plain_name(own)),
        None => is_plain_name(name),
    }
}

/// For npm `1` and `1.2` are ranges: only three numbers are one version.
fn is_semver(version: &str) -> bool {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = core.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    numbers.len() == 3 && numbers.iter().all(is_number) && is_exact(version)
}

fn is_exact(version: &str) -> bool {
    let begins = version.starts_with(|c: char| c.is_ascii_digit());
    begins && version.chars().all(|c| c.is_ascii_alphanumeric() || "._-+!".contains(c))
}

/// A name with a tag or a digest. A name alone would be whatever is newest.
fn is_image(image: &str) -> bool {
    let allowed = image.chars().all(|c| c.is_ascii_alphanumeric() || "./:@_-".contains(c));
    let last = image.rsplit('/').next().unwrap_or_default();
    let begins = image.starts_with(|c: char| c.is_ascii_alphanumeric());
    let tag = last.split_once(':').map(|(_, tag)| tag).unwrap_or_default();
    allowed && begins && !tag.is_empty() && tag != "latest"
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Only this machine may do without https.
fn is_loopback(url: &str) -> bool {
    ["http://127.0.0.1:", "http://[::1]:", "http://localhost:"].iter().any(|start| url.starts_with(start))
}
