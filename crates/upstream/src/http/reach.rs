//! Which addresses may be dialled.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;

/// How far names may lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkReach {
    /// Names may lead to any address.
    #[default]
    Anywhere,
    /// To addresses that everybody can reach.
    Public,
    /// Where the URL visibly leads: an address in it is used, unless it is one of those at which clouds hand out keys; a name leads
    /// to addresses that everybody can reach, but for `localhost`.
    Declared,
}

impl NetworkReach {
    /// Whether a name may lead into a private network.
    fn permits_private(self, name: &str) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Public => false,
            Self::Declared => is_localhost(name),
        }
    }

    /// Why an address that stands in a URL itself may not be dialled. The resolver is not asked about these.
    pub(super) fn objection(self, host: &str) -> Option<String> {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok()?.to_canonical();
        (self == Self::Declared && is_metadata(address)).then(|| {
            format!("{address} is where clouds hand out keys to machines; set `private = true` if that is meant")
        })
    }
}

/// Whether a name means this machine, whatever a resolver or a proxy would make of it.
pub(super) fn is_localhost(name: &str) -> bool {
    // It may be written with the dot of the root.
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Link-local addresses, and the one that a cloud has chosen among the private ones of the other kind.
fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254],
    }
}

/// The system's resolver, whose answers are checked.
#[derive(Clone)]
pub(super) struct CheckedResolver {
    system: GaiResolver,
    reach: NetworkReach,
}

impl CheckedResolver {
    pub(super) fn new(reach: NetworkReach) -> Self {
        Self { system: GaiResolver::new(), reach }
    }
}

impl Service<Name> for CheckedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.system.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let is_free = self.reach.permits_private(name.as_str());
        let answer = self.system.call(name);
        // What is dialled is this answer: nobody asks again, and gets another one.
        Box::pin(async move { checked(answer.await?.collect(), is_free) })
    }
}

/// All addresses, or none: a name that also leads inside is not trusted.
fn checked(addresses: Vec<SocketAddr>, is_free: bool) -> io::Result<std::vec::IntoIter<SocketAddr>> {
    match addresses.iter().find(|address| !is_public(address.ip())) {
        Some(private) if !is_free => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the name leads to the private address {}; set `private = true` if that is meant", private.ip()),
        )),
        _ => Ok(addresses.into_iter()),
    }
}

/// Whether an address belongs to the internet at large.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation();
    // 100.64.0.0/10, which providers use behind their own translation (RFC 6598).
    let shared = a == 100 && (64..128).contains(&b);
    // 198.18.0.0/15, for benchmarks (RFC 2544).
    let benchmark = a == 198 && (18..20).contains(&b);
    // 0.0.0.0/8 means this host, 240.0.0.0/4 is reserved, 192.0.0.0/24 is for protocol assignments.
    !(special || shared || benchmark || a == 0 || a >= 240 || (a, b, c) == (192, 0, 0))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let words = address.segments();
    let low = || {
        let [.., a, b, c, d] = address.octets();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match words {
        // Addresses of the other kind in disguise: mapped, translated, tunnelled.
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => low(),
        // 6to4 carries an IPv4 address in its second and third word.
        [0x2002, high, rest, ..] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), rest.to_be_bytes());
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        // Teredo, which tunnels to an address that can not be seen here, and documentation.
        [0x2001, 0 | 0xdb8, ..] => false,
        // Only 2000::/3 has been given out; so the translators of a single network (64:ff9b:1::/48, RFC 8215) are not public.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        let public =
            ["93.184.216.34", "8.8.8.8", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"];
        let private = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "::1",
            "64:ff9b:1:a00:1:100:808:808",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2001:db8::1",
            "2001::1",
        ];
        for text in public {
            assert!(text.parse().is_ok_and(is_public), "{text}");
        }
        for text in private {
            assert!(!text.parse().is_ok_and(is_public), "{text}");
        }
    }

    #[test]
    fn one_private_answer_spoils_all() {
        let addresses = || vec![SocketAddr::from(([8, 8, 8, 8], 80)), SocketAddr::from(([10, 0, 0, 1], 80))];
        let refused = checked(addresses(), false).map(drop).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|error| error.contains("10.0.0.1")));
        assert!(checked(addresses(), true).is_ok_and(|all| all.len() == 2));
    }

    // trust T11
    #[test]
    fn what_is_declared_leads_where_its_url_says_and_never_to_the_keys_of_a_cloud() {
        let declared = NetworkReach::Declared;
        for metadata in ["169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "[::ffff:169.254.169.254]"] {
            assert!(declared.objection(metadata).is_some(), "{metadata}");
            assert!(NetworkReach::Anywhere.objection(metadata).is_none(), "{metadata}");
        }
        for said in ["127.0.0.1", "10.0.0.1", "[::1]", "8.8.8.8", "example.com"] {
            assert!(declared.objection(said).is_none(), "{said}");
        }
        assert!(declared.permits_private("localhost") && declared.permits_private("a.LocalHost."));
        assert!(!declared.permits_private("localhost.example.com") && !declared.permits_private("127.1"));
    }
}
