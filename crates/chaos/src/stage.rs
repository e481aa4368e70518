//! What goes wrong, one sort of fault at a time.

use std::time::Duration;

use tidings_testkit::{FaultProxy, FaultRates, ProxyFault, SplitMix};

use crate::crew::{CrewMember, MemberNature, address_of};

/// One sort of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultStage {
    /// One connection in a hundred is reset.
    Resets,
    /// Streams are cut every few hundred milliseconds, as balancers do.
    Cuts,
    Stalls,
    /// Balancers and frameworks answer in the place of the server.
    Statuses,
    /// A server dies and comes back without its sessions.
    Kills,
    /// Another release of another era takes a server's place.
    Eras,
    /// Standard error, log messages and signals without end.
    Floods,
}

impl FaultStage {
    pub(crate) const ALL: [Self; 7] =
        [Self::Resets, Self::Cuts, Self::Stalls, Self::Statuses, Self::Kills, Self::Eras, Self::Floods];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Resets => "resets",
            Self::Cuts => "cuts",
            Self::Stalls => "stalls",
            Self::Statuses => "statuses",
            Self::Kills => "kills",
            Self::Eras => "eras",
            Self::Floods => "floods",
        }
    }

    /// Whether every fault ends at most one call, so that the failed calls can be counted against the faults.
    pub(crate) fn is_counted(self) -> bool {
        matches!(self, Self::Resets | Self::Stalls | Self::Floods)
    }

    /// Makes the trouble for this long, and ends it.
    pub(crate) async fn run(self, members: &mut [CrewMember], random: &mut SplitMix, time: Duration) {
        for proxy in proxies(members) {
            proxy.set_rates(self.rates());
        }
        let end = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < end {
            self.strike(members, random).await;
            tokio::time::sleep(random.millis(150, 450)).await;
        }
        for proxy in proxies(members) {
            proxy.behave();
        }
    }

    fn rates(self) -> FaultRates {
        let each = |rate: u64, faults: &[ProxyFault]| FaultRates(faults.iter().map(|fault| (rate, *fault)).collect());
        match self {
            Self::Resets => each(5, &[ProxyFault::ResetUnread, ProxyFault::ResetAnswer]),
            Self::Cuts => each(10, &[ProxyFault::CutBody]),
            Self::Stalls => each(
                100,
                &[ProxyFault::Stall(Duration::from_millis(50)), ProxyFault::Stall(Duration::from_millis(400))],
            ),
            Self::Statuses => each(10, &[400, 404, 410, 429, 500, 502, 503].map(ProxyFault::Status)),
            Self::Kills | Self::Eras | Self::Floods => FaultRates::default(),
        }
    }

    async fn strike(self, members: &mut [CrewMember], random: &mut SplitMix) {
        let count = members.len() as u64;
        let chosen = usize::try_from(random.below(count)).unwrap_or_default();
        match self {
            Self::Cuts => proxies(members).for_each(FaultProxy::cut_streams),
            Self::Kills => {
                let member = &mut members[chosen];
                member.kill().await;
                tokio::time::sleep(random.millis(0, 600)).await;
                member.revive().await;
            }
            Self::Eras => {
                for member in members.iter() {
                    if let (MemberNature::Releases { old, new }, Some(proxy)) = (&member.nature, &member.proxy) {
                        let release = if random.chance(50) { old } else { new };
                        proxy.set_target(address_of(release));
                        // What was under way ends with the process that served it.
                        proxy.cut_streams();
                    }
                }
            }
            Self::Floods => {
                for member in members.iter() {
                    if let MemberNature::Scripted(server) = &member.nature {
                        flood(server);
                    }
                }
            }
            Self::Resets | Self::Stalls | Self::Statuses => {}
        }
    }
}

fn flood(server: &tidings_testkit::Server) {
    for number in 0..300 {
        if !server.is_http() {
            server.print_stderr(&format!("line {number} of a flood"));
        }
        server.list_changed("tools");
        let message = serde_json::json!({"level": "error", "data": format!("message {number} of a flood")});
        server.notify("notifications/message", message);
    }
}

fn proxies(members: &[CrewMember]) -> impl Iterator<Item = &FaultProxy> {
    members.iter().filter_map(|member| member.proxy.as_ref())
}
