//! A legacy server asks a modern client: the call waits at its server, and the client comes back with the answers.

use tidings_proto::ServerMessage;

use super::Exchange;

impl Exchange {
    /// Keeps a question of the server for the client of a call that can be parked.
    #[allow(clippy::unused_self, reason = "no question is kept yet")]
    pub(super) fn keeps_question(&mut self, _message: &ServerMessage) -> bool {
        false
    }
}
