//! Where else the gateway listens: more addresses, and sockets in the file system.

use std::path::Path;

use tidings_config::ListenTarget;
use tidings_downstream::http::EndpointListener;
use tokio::net::TcpListener;

use crate::failure::CommandFailure;

/// Listens where the configuration says.
pub(super) async fn open(target: &ListenTarget) -> Result<EndpointListener, CommandFailure> {
    let failed = |place: String, error: std::io::Error| CommandFailure::Failed(format!("listen: {place}: {error}"));
    match target {
        ListenTarget::Address(address) => {
            let listener = TcpListener::bind((address.host.as_str(), address.port)).await;
            listener.map(EndpointListener::Tcp).map_err(|error| failed(address.to_string(), error))
        }
        ListenTarget::Socket(path) => socket(path).map_err(|error| failed(format!("unix:{}", path.display()), error)),
    }
}

/// The socket of the data directory, which is always there. The gateway serves without it, too.
pub(super) fn own_socket(path: &Path) -> Option<EndpointListener> {
    // A path may be too long for a socket, and some file systems have none.
    socket(path).inspect_err(|error| tracing::debug!(%error, path = %path.display(), "no socket of its own")).ok()
}

#[cfg(unix)]
fn socket(path: &Path) -> std::io::Result<EndpointListener> {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
    // A gateway that was killed leaves it behind. Nothing else is removed.
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let listener = tokio::net::UnixListener::bind(path)?;
    // For people who look; who connects is asked of the kernel.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(EndpointListener::Unix(listener))
}

#[cfg(not(unix))]
fn socket(_path: &Path) -> std::io::Result<EndpointListener> {
    Err(std::io::ErrorKind::Unsupported.into())
}
