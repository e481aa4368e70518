//! Which user of this machine is at the other end of a loopback connection. The kernel is asked about one socket, once per
//! connection. Where it can not be asked (not Linux, or a kernel without that module), everybody on this machine is taken for the user:
//! that is found out once, at the start, so that nobody can bring it about later.

use std::net::SocketAddr;
use std::sync::OnceLock;

use tokio::net::TcpStream;

/// One connection, and whose it is, once somebody wanted to know.
#[derive(Debug)]
pub(super) struct LoopbackPeer {
    /// Its other end and ours, unless it is gone already.
    ends: Option<(SocketAddr, SocketAddr)>,
    is_own: OnceLock<bool>,
}

impl LoopbackPeer {
    pub(super) fn of(stream: &TcpStream) -> Self {
        // Read at once: after the connection has broken, nobody can tell any more.
        Self { ends: stream.peer_addr().ok().zip(stream.local_addr().ok()), is_own: OnceLock::new() }
    }

    /// Whether it belongs to the gateway's own user, or to root, who could do anything anyway.
    pub(super) fn is_own(&self) -> bool {
        // Once per connection: the other end of a socket does not change its owner.
        *self.is_own.get_or_init(|| {
            let own = self.ends.is_some_and(|(peer, local)| belongs_to_us(peer, local));
            if !own {
                tracing::warn!("another user of this machine is refused; [auth] lets others in by tokens");
            }
            own
        })
    }
}

/// Finds out whether the kernel can be asked, and warns if it can not. To be called at the start.
#[cfg(not(target_os = "linux"))]
pub(super) fn try_kernel() {}

/// Finds out whether the kernel can be asked, and warns if it can not. To be called at the start.
#[cfg(target_os = "linux")]
pub(super) fn try_kernel() {
    can_be_asked();
}

/// Asks about a connection of our own, whose owner is known.
#[cfg(target_os = "linux")]
fn can_be_asked() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    let ask = || -> std::io::Result<Option<u32>> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let client = std::net::TcpStream::connect(listener.local_addr()?)?;
        socket_diagnosis::owner(client.local_addr()?, listener.local_addr()?)
    };
    *ANSWER.get_or_init(|| {
        let answer = ask();
        // An answer that is wrong about our own socket is as bad as none.
        let knows = matches!(answer, Ok(Some(uid)) if uid == rustix::process::geteuid().as_raw());
        if !knows {
            tracing::warn!(?answer, "the kernel does not say whose connections are: every user of this machine is let in; [auth] asks for tokens");
        }
        knows
    })
}

#[cfg(not(target_os = "linux"))]
fn belongs_to_us(_peer: SocketAddr, _local: SocketAddr) -> bool {
    true
}

#[cfg(target_os = "linux")]
fn belongs_to_us(peer: SocketAddr, local: SocketAddr) -> bool {
    if !can_be_asked() {
        return true;
    }
    let own = rustix::process::geteuid().as_raw();
    match socket_diagnosis::owner(peer, local) {
        Ok(Some(uid)) => uid == own || uid == 0,
        // The socket is gone, or is in a network that is not ours.
        Ok(None) => false,
        Err(error) => {
            // Others can bring errors about, by using up what sockets are made of: that must not let them in.
            tracing::warn!(%error, "the kernel does not say whose connection it is");
            false
        }
    }
}

/// `NETLINK_SOCK_DIAG`: one question about one TCP socket, and its answer, as the kernel lays them out.
#[cfg(target_os = "linux")]
mod socket_diagnosis {
    use std::io;
    use std::net::{IpAddr, SocketAddr};

    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

    const BY_FAMILY: u16 = 20;
    const ERROR: u16 = 2;
    const REQUEST: u16 = 1;
    const TCP: u8 = 6;
    const HEADER: usize = 16;
    /// Where the answer has the owner: after the header, four bytes, the names of the socket and three numbers.
    const UID: std::ops::Range<usize> = HEADER + 4 + 48 + 12..HEADER + 4 + 48 + 16;
    /// Behind the owner: the file of the socket.
    const INODE: std::ops::Range<usize> = UID.end..UID.end + 4;
    /// The state, and the names of the two ports.
    const STATE: usize = HEADER + 1;
    const PORTS: std::ops::Range<usize> = HEADER + 4..HEADER + 8;
    const TIME_WAIT: u8 = 6;
    const LISTENING: u8 = 10;
    /// "No such socket".
    const NOT_FOUND: i32 = -2;

    /// The user of the socket whose own end is `source` and whose other end is `destination`.
    pub(super) fn owner(source: SocketAddr, destination: SocketAddr) -> io::Result<Option<u32>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG))?;
        send(&socket, &question(source, destination), SendFlags::empty())?;
        let mut answer = [0; 512];
        // The kernel has answered by the time the question is sent.
        let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
        read(answer.get(..length).unwrap_or_default(), source.port(), destination.port())
    }

    fn question(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
        // A listener on `::` sees IPv4 clients as mapped addresses, which the kernel knows as IPv4.
        let (from, to) = (source.ip().to_canonical(), destination.ip().to_canonical());
        let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let mut body = vec![u8::try_from(family.as_raw()).unwrap_or_default(), TCP, 0, 0];
        // In any state.
        body.extend(u32::MAX.to_ne_bytes());
        body.extend(source.port().to_be_bytes());
        body.extend(destination.port().to_be_bytes());
        body.extend(padded(from));
        body.extend(padded(to));
        // Any interface; no cookie.
        body.extend(0_u32.to_ne_bytes());
        body.extend([0xff; 8]);
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend(u32::try_from(HEADER + body.len()).unwrap_or_default().to_ne_bytes());
        message.extend(BY_FAMILY.to_ne_bytes());
        message.extend(REQUEST.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        message
    }

    fn padded(address: IpAddr) -> [u8; 16] {
        match address {
            IpAddr::V6(address) => address.octets(),
            IpAddr::V4(address) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&address.octets());
                bytes
            }
        }
    }

    fn read(answer: &[u8], source: u16, destination: u16) -> io::Result<Option<u32>> {
        let number =
            |at: std::ops::Range<usize>| answer.get(at).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
        let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
        match kind {
            Some(BY_FAMILY) => {
                let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
                let uid = number(UID).ok_or_else(short)?;
                let inode = number(INODE).ok_or_else(short)?;
                let state = *answer.get(STATE).ok_or_else(short)?;
                let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
                // A socket that its process has closed belongs to nobody, and the kernel says 0 for it, which would be root; where there
                // is no such connection, it may answer for a listener on that port.
                let is_held = inode != 0 && !matches!(state, TIME_WAIT | LISTENING);
                Ok((is_held && answer.get(PORTS) == Some(&ports[..])).then_some(uid))
            }
            Some(ERROR) => match number(HEADER..HEADER + 4).map(u32::cast_signed) {
                Some(NOT_FOUND) => Ok(None),
                Some(code) => Err(io::Error::from_raw_os_error(-code)),
                None => Err(io::ErrorKind::UnexpectedEof.into()),
            },
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        // trust T5
        #[tokio::test]
        async fn the_kernel_says_whose_a_connection_is() {
            for host in ["127.0.0.1:0", "[::1]:0"] {
                let Ok(listener) = std::net::TcpListener::bind(host) else { continue };
                let local = listener.local_addr().expect("an address");
                let client = std::net::TcpStream::connect(local).expect("a connection");
                let peer = client.local_addr().expect("an address");
                let own = rustix::process::geteuid().as_raw();
                assert_eq!(owner(peer, local).expect("an answer"), Some(own), "{host}");
                let nobody = SocketAddr::new(peer.ip(), peer.port() ^ 1);
                assert_eq!(owner(nobody, local).expect("an answer"), None, "there is no such connection");
                let (accepted, _) = listener.accept().expect("the connection");
                drop(client);
                assert_eq!(owner(peer, local).expect("an answer"), None, "whoever hung up is nobody, and not root");
                drop(accepted);
            }
        }
    }
}
