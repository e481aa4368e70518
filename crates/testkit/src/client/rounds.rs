//! Requests that take several rounds (modern): the server asks for input, the client sends its request again with it.

use serde_json::{Map, Value};

use super::Client;
use super::exchange::Exchange;

/// More than any test needs.
const MOST: usize = 20;

impl Client {
    /// Sends a request until it is answered with anything but a question. `answer` is given each entry of `inputRequests`. Gives the
    /// last answer, and what was asked in each round.
    pub async fn rounds(
        &self,
        method: &str,
        params: &Value,
        answer: impl Fn(&Value) -> Value,
    ) -> (Exchange, Vec<Value>) {
        let mut asked = Vec::new();
        let mut reply = self.request(method, params.clone()).await;
        loop {
            let round = reply.response().result();
            if round["resultType"] != "input_required" {
                return (reply, asked);
            }
            assert!(asked.len() < MOST, "rounds have no end: {round}");
            asked.push(round["inputRequests"].clone());
            reply = self.request(method, retry_of(params, &round, answer_all(&round["inputRequests"], &answer))).await;
        }
    }
}

/// The answers to all entries of `inputRequests`.
pub fn answer_all(requests: &Value, answer: impl Fn(&Value) -> Value) -> Value {
    let requests = requests.as_object().into_iter().flatten();
    requests.map(|(key, request)| (key.clone(), answer(request))).collect::<Map<_, _>>().into()
}

/// The params of the request that answers a round.
pub fn retry_of(params: &Value, round: &Value, responses: Value) -> Value {
    assert_eq!(round["resultType"], "input_required", "{round}");
    let mut params = params.clone();
    params["requestState"] = round["requestState"].clone();
    params["inputResponses"] = responses;
    params
}
