//! What releases run, had from where it is published: digests of images, and bundles.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::bundle::{self, BUNDLE_BYTES, BundleFault, BundleManifest, manifest_keys};
use crate::catalogue::EntryRelease;
use crate::keys::{ExtraKeys, KeysError};
use crate::published::{InputSet, RegistryItem, ReleaseWay, ResolvedWay, choose, release_keys};
use crate::releases::InstalledRelease;
use crate::remote::{FetchRequest, RegistryFetcher};

/// How long fetching a bundle may take.
const BUNDLE_WITHIN: Duration = Duration::from_secs(5 * 60);

/// Where it comes from, and where it is kept.
pub(crate) struct ReleaseStock {
    fetcher: Arc<dyn RegistryFetcher>,
    bundles: PathBuf,
}

impl ReleaseStock {
    pub(crate) fn new(fetcher: Arc<dyn RegistryFetcher>, bundles: PathBuf) -> Self {
        Self { fetcher, bundles }
    }

    /// The keys of a server that runs a release.
    pub(crate) async fn keys(&self, id: &str, release: &EntryRelease, wishes: &ExtraKeys) -> Result<Value, KeysError> {
        let unfetched = |reason: String| KeysError::Unfetched { id: id.to_owned(), reason };
        let unreadable = || unfetched("what the registry says of it can not be read".to_owned());
        let item = RegistryItem::read(&release.item).ok_or_else(unreadable)?;
        let way = choose(&item.server, wishes.kind.as_deref())?;
        let mut resolved = ResolvedWay::default();
        let mut unpacked = None;
        match &way {
            // A digest that the publisher has given is not asked for: it would be the answer of the moment.
            ReleaseWay::Image { image, .. } if way.digest().is_none() => {
                let digest = self.fetcher.image_digest((*image).to_owned()).await;
                resolved.digest = Some(digest.map_err(|fault| unfetched(format!("{image}: {fault}")))?);
            }
            ReleaseWay::Bundle { url, sha256, .. } => {
                let bundle = self.bundle(url, sha256).await;
                unpacked = Some(bundle.map_err(|reason| unfetched(format!("{url}: {reason}")))?);
            }
            _ => {}
        }
        let inputs = InputSet::new(id, &wishes.environment);
        if let Some((folder, manifest)) = unpacked {
            let keys: Map<String, Value> = manifest_keys(&manifest, &folder, id, &inputs)?;
            resolved.bundle = Some(keys);
        }
        release_keys(&item.server, &way, wishes, &inputs, resolved)
    }

    /// The folder of a bundle and what its manifest says; fetched unless it is here.
    async fn bundle(&self, url: &str, sha256: &str) -> Result<(PathBuf, BundleManifest), String> {
        let folder = bundle::folder_of(&self.bundles, sha256);
        let is_here = folder.clone();
        let is_here = tokio::task::spawn_blocking(move || is_here.is_dir()).await.unwrap_or(false);
        let mut bytes = None;
        if !is_here {
            let request = FetchRequest {
                url: url.to_owned(),
                // No headers: the address is the publisher's, and must not be sent a key of the registry.
                headers: Vec::new(),
                within: BUNDLE_WITHIN,
                limit: BUNDLE_BYTES,
                // Homes of packages answer with a redirect, and the hash says whether it is the file.
                follows: true,
            };
            bytes = Some(self.fetcher.get(request).await.map_err(|fault| fault.to_string())?);
        }
        let (bundles, sha256) = (self.bundles.clone(), sha256.to_owned());
        let unpack = move || -> Result<(PathBuf, BundleManifest), BundleFault> {
            if let Some(bytes) = bytes {
                bundle::unpack(&bytes, &sha256, &bundles)?;
            }
            let manifest = bundle::manifest(&folder)?;
            Ok((folder, manifest))
        };
        let unpacked = tokio::task::spawn_blocking(unpack).await.map_err(|error| error.to_string())?;
        unpacked.map_err(|fault| fault.to_string())
    }

    /// The digest that the release has now, where one can be known.
    pub(crate) async fn digest_now(
        &self,
        release: &EntryRelease,
        installed: &InstalledRelease,
        kind: &str,
    ) -> Option<String> {
        let item = RegistryItem::read(&release.item)?;
        let way = choose(&item.server, Some(kind)).ok()?;
        match &way {
            // Asked only for what runs: the tag of another version is no news about this one.
            ReleaseWay::Image { image, .. } if way.digest().is_none() && release.version == installed.version => {
                self.fetcher.image_digest((*image).to_owned()).await.ok()
            }
            _ => way.digest(),
        }
    }
}
