//! A modern server asks a legacy client: what it wants to know is put to the client, and the call is sent again with the answers.

use tidings_proto::refusal::RequestRefusal;
use tidings_wire::Frame;

use super::{Exchange, Reply};

impl Exchange {
    /// Takes an answer that asks the client for something, if the call can go on with it. `Some` is what becomes of the call in
    /// the place of that answer.
    #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "no answer is taken yet")]
    pub(super) fn input_required(&mut self, _frame: &Frame) -> Result<Option<Option<Reply>>, RequestRefusal> {
        Ok(None)
    }
}
