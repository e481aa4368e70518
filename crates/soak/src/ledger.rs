//! Whether what the gateway counts of its clients (`GET /clients`) is what they received.
//!
//! A notice is counted when the transport takes it and received a moment later, so both are asked until they agree. They differ by what
//! was counted before a client opened its stream, which is found after each time in which streams were dropped, and must stay as it is.

use std::time::Duration;

use serde_json::Value;
use tidings_testkit::Gateway;
use tokio::time::Instant;

use crate::crowd::SoakCrowd;
use crate::failure::SoakFailure;
use crate::follower::FollowerHandle;

/// How long the two may take to agree.
const PATIENCE: Duration = Duration::from_secs(45);
const AGAIN: Duration = Duration::from_millis(20);

/// What is known of one follower.
#[derive(Clone, Copy, Debug, Default)]
struct Agreement {
    /// By how much more the gateway counts than the follower received.
    ahead: Option<i64>,
    /// Whether that was seen before. The first time, a notice may have been under way.
    is_certain: bool,
}

/// By follower, in their order.
#[derive(Debug, Default)]
pub(crate) struct LedgerCheck {
    agreements: Vec<Agreement>,
    /// How often a follower and the gateway agreed, and on how many notices.
    pub(crate) agreed: u64,
    pub(crate) notices: u64,
}

impl LedgerCheck {
    /// Streams will be dropped: what is written to one that is gone counts as told, and nobody receives it.
    pub(crate) fn forget(&mut self) {
        self.agreements.clear();
    }

    /// Waits until the gateway counts for each follower what it received, and knows that its list is the present one.
    pub(crate) async fn check(&mut self, gateway: &Gateway, crowd: &SoakCrowd) -> Result<(), SoakFailure> {
        self.agreements.resize(crowd.followers.len(), Agreement::default());
        let end = Instant::now() + PATIENCE;
        loop {
            let (_, counted) = gateway.api("GET", "/clients", Value::Null).await;
            let clients = counted["clients"].as_array().map(Vec::as_slice).unwrap_or_default();
            let all = crowd.followers.iter().zip(&mut self.agreements).filter(|(follower, _)| follower.is_counted);
            let found = all.map(|(follower, agreement)| agree(clients, follower, agreement));
            // All of them: each look may learn something.
            let found: Vec<Result<u64, Disagreement>> = found.collect();
            if let Some(Disagreement::Final(failure)) =
                found.iter().find_map(|one| one.as_ref().err().filter(|d| d.is_final()))
            {
                return Err(failure.clone().into());
            }
            match found.iter().find_map(|one| one.as_ref().err()) {
                None => {
                    self.agreements.iter_mut().for_each(|agreement| agreement.is_certain = true);
                    self.agreed += found.len() as u64;
                    self.notices = found.iter().filter_map(|one| one.as_ref().ok()).sum();
                    return Ok(());
                }
                Some(Disagreement::Final(text) | Disagreement::NotYet(text)) if Instant::now() >= end => {
                    return Err(text.clone().into());
                }
                Some(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }
}

/// Who, and how.
#[derive(Clone, Debug)]
pub(crate) struct LedgerFault {
    pub(crate) client: String,
    pub(crate) what: String,
}

impl From<LedgerFault> for SoakFailure {
    fn from(fault: LedgerFault) -> Self {
        Self::LedgerDiffers { client: fault.client, what: fault.what }
    }
}

enum Disagreement {
    /// It may be under way.
    NotYet(LedgerFault),
    /// Nothing can mend it.
    Final(LedgerFault),
}

impl Disagreement {
    fn is_final(&self) -> bool {
        matches!(self, Self::Final(_))
    }
}

fn agree(clients: &[Value], follower: &FollowerHandle, agreement: &mut Agreement) -> Result<u64, Disagreement> {
    let fault = |what: String| LedgerFault { client: follower.name.clone(), what };
    let mut own = clients.iter().filter(|client| client["name"] == follower.called);
    let (Some(client), None) = (own.next(), own.next()) else {
        return Err(Disagreement::NotYet(fault("it is not among the clients exactly once".to_owned())));
    };
    let counted = client["notices"].as_u64().unwrap_or_default();
    let received: u64 = follower.seen().notices.iter().sum();
    let ahead = counted as i64 - received as i64;
    match agreement.ahead {
        Some(known) if ahead > known => {
            let text = format!("{counted} notices are counted, and it received {received}; it was {known} before");
            return Err(Disagreement::NotYet(fault(text)));
        }
        Some(known) if ahead < known && agreement.is_certain => {
            let text = format!("it received {received} notices, and {counted} are counted; it was {known} before");
            return Err(Disagreement::Final(fault(text)));
        }
        _ => agreement.ahead = Some(ahead),
    }
    let state = client["state"].as_str().unwrap_or_default();
    let wanted = if follower.silent { "silent" } else { "heard" };
    if state != wanted {
        return Err(Disagreement::NotYet(fault(format!(
            "it is said to be {state} and is {wanted}: {}",
            client["reason"]
        ))));
    }
    Ok(counted)
}
