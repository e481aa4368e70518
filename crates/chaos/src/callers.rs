//! Clients of both eras that call all the time, and what became of their calls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tidings_testkit::{Client, Exchange, Gateway};
use tokio::task::JoinSet;

use crate::crew::CrewMember;
use crate::failure::ChaosFailure;

const CLIENTS: usize = 20;
/// Between two calls of a client: enough load to meet every fault, and little enough to keep all that was received.
const PAUSE: Duration = Duration::from_millis(60);
/// A call that nothing breaks is answered in milliseconds; this is for machines under load.
const LONGEST: Duration = Duration::from_secs(20);

/// What became of the calls of a stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallOutcomes {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    /// How often each error was seen.
    pub(crate) errors: BTreeMap<String, u64>,
    wrong: Option<(String, String)>,
}

/// Where a call goes, in what a task may hold.
type Target = Arc<dyn Fn(&str) -> (String, Value) + Send + Sync>;

pub(crate) struct SteadyCallers {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
    outcomes: Arc<Mutex<CallOutcomes>>,
}

impl SteadyCallers {
    /// Each client goes round the servers, beginning at another one.
    pub(crate) async fn begin(gateway: &Gateway, members: &[CrewMember]) -> Self {
        let targets: Vec<Target> = members.iter().map(target_of).collect();
        let (stop, outcomes) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(CallOutcomes::default())));
        let tokens = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for number in 0..CLIENTS {
            let client = gateway.client();
            let client = if number % 2 == 0 { client.modern() } else { client };
            let client = client.connect().await;
            let (targets, stop, outcomes) = (targets.clone(), Arc::clone(&stop), Arc::clone(&outcomes));
            let tokens = Arc::clone(&tokens);
            tasks.spawn(async move {
                // Each begins with another server, so that one that is down does not stop all of them at once.
                for target in targets.iter().cycle().skip(number) {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    // Unique over all clients, so that an answer to another call and a call that ran twice are seen.
                    let token = format!("t{}", tokens.fetch_add(1, Ordering::SeqCst));
                    let (tool, arguments) = target(&token);
                    let answer = client.call_tool(&tool, arguments).await;
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).note(&token, &answer);
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        Self { tasks, stop, outcomes }
    }

    /// What happened since the last time somebody asked.
    pub(crate) fn take(&self) -> Result<CallOutcomes, ChaosFailure> {
        let outcomes = std::mem::take(&mut *self.outcomes.lock().unwrap_or_else(PoisonError::into_inner));
        match outcomes.wrong {
            Some((token, answer)) => Err(ChaosFailure::WrongAnswer { token, answer }),
            None => Ok(outcomes),
        }
    }

    /// Every client ends after the call that it is in. One that does not was never answered.
    pub(crate) async fn end(mut self) -> Result<(), ChaosFailure> {
        self.stop.store(true, Ordering::SeqCst);
        let all = async {
            while let Some(ended) = self.tasks.join_next().await {
                ended.map_err(|error| ChaosFailure::Hung { client: error.to_string() })?;
            }
            Ok(())
        };
        let hung = || Err(ChaosFailure::Hung { client: "a caller".to_owned() });
        tokio::time::timeout(LONGEST, all).await.unwrap_or_else(|_| hung())
    }
}

impl CallOutcomes {
    pub(crate) fn calls(&self) -> u64 {
        self.succeeded + self.failed
    }

    fn note(&mut self, token: &str, answer: &Exchange) {
        match text_of(answer) {
            Ok(text) if text.contains(token) => self.succeeded += 1,
            // The answer to somebody else's call is worse than none.
            Ok(text) => self.wrong = Some((token.to_owned(), text)),
            Err(error) => {
                self.failed += 1;
                *self.errors.entry(error).or_default() += 1;
            }
        }
    }
}

fn target_of(member: &CrewMember) -> Target {
    // Asked once, with a word to replace: the tasks outlive the borrow of the member.
    let (tool, arguments) = member.call("TOKEN");
    Arc::new(move |token| {
        let text = arguments.to_string().replace("TOKEN", token);
        (tool.clone(), serde_json::from_str(&text).unwrap_or_default())
    })
}

/// One call by somebody who makes no others.
pub(crate) async fn try_once(client: &Client, member: &CrewMember, token: &str) -> Result<String, String> {
    let (tool, arguments) = member.call(token);
    text_of(&client.call_tool(&tool, arguments).await)
}

fn text_of(answer: &Exchange) -> Result<String, String> {
    let Some(response) = &answer.response else { return Err(format!("no answer: {:?}", answer.failure)) };
    let message: Value = serde_json::from_str(response.text()).unwrap_or_default();
    let result = &message["result"];
    let text = result["content"][0]["text"].as_str().map(str::to_owned);
    match text {
        Some(text) if result["isError"] != true => Ok(text),
        Some(text) => Err(text),
        None => Err(message["error"]["message"].as_str().unwrap_or_else(|| response.text()).to_owned()),
    }
}
