//! An embeddings endpoint of the usual form (`POST …/embeddings`), as Ollama, vLLM and others serve it.
//!
//! One task sends the texts of tools, in batches, and keeps what comes back in the store. Searches never wait for that: they
//! go on with the vectors there are. Only the question of a search itself is sent while its caller waits, for a moment.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::Full;
use serde_json::{Value, json};
use tidings_search::{RemoteVectors, ToolIndex, WantedText};
use tidings_store::{VectorKey, VectorTable};
use tidings_sync::Lock;
use tidings_upstream::{HttpClient, LinkError, ShownUrl};
use tokio::sync::Notify;

use super::now;

/// How many texts go into one request.
const BATCH: usize = 64;
/// How long the endpoint may take for a batch; models on a processor are slow.
const BATCH_DEADLINE: Duration = Duration::from_secs(60);
/// How long a search waits for the vector of its question.
const QUESTION_DEADLINE: Duration = Duration::from_millis(800);
/// How long a question is not tried after a failure: a caller should not wait for an endpoint that is down.
const QUESTION_PAUSE: Duration = Duration::from_secs(5);
/// How many questions are remembered with their vector.
const QUESTIONS: usize = 256;
/// The largest answer: a batch of 8,192 numbers each, in digits.
const MAX_ANSWER: usize = 32 << 20;
/// Pauses between attempts grow from the first to the second.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// The endpoint that `[search] embeddings` names, as it is asked.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointSettings {
    /// The URL, with or without `/embeddings` at its end.
    pub url: String,
    /// The model to ask for.
    pub model: String,
    /// What to send as a bearer token.
    pub key: Option<String>,
}

/// The key is left out, because settings are printed in logs.
impl fmt::Debug for EndpointSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointSettings").field("url", &self.url).field("model", &self.model).finish_non_exhaustive()
    }
}

/// The endpoint and how it is.
pub(crate) struct EmbeddingsEndpoint {
    settings: EndpointSettings,
    client: HttpClient,
    table: VectorTable,
    wanted: Notify,
    state: Lock<EndpointState>,
}

impl fmt::Debug for EmbeddingsEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

#[derive(Default)]
struct EndpointState {
    /// Why the last request failed; nothing while the endpoint answers.
    problem: Option<(String, Instant)>,
    requests: u64,
    questions: VecDeque<(String, Vec<f32>)>,
}

impl EmbeddingsEndpoint {
    pub(super) fn new(settings: EndpointSettings, table: VectorTable) -> Result<Self, LinkError> {
        let client = HttpClient::new()?;
        Ok(Self { settings, client, table, wanted: Notify::new(), state: Lock::default() })
    }

    fn state(&self) -> MutexGuard<'_, EndpointState> {
        self.state.lock()
    }

    /// How it is, for people and programs. Never the key.
    pub(super) fn describe(&self, waiting: usize) -> Value {
        let state = self.state();
        json!({
            "url": ShownUrl::of(&self.settings.url).to_string(),
            "model": self.settings.model,
            "state": if state.problem.is_some() { "down" } else { "up" },
            "problem": state.problem.as_ref().map(|(problem, _)| problem),
            "waiting": waiting,
            "requests": state.requests,
        })
    }

    /// Vectors of texts, of length one, in the order of the texts.
    async fn request(&self, texts: &[&str], within: Duration) -> Result<Vec<Vec<f32>>, String> {
        let url = self.settings.url.trim_end_matches('/');
        let url = if url.ends_with("/embeddings") { url.to_owned() } else { format!("{url}/embeddings") };
        let mut request = Request::post(url).header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = &self.settings.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let body = json!({ "model": self.settings.model, "input": texts, "encoding_format": "float" }).to_string();
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
        // Also those that fail: it is how often somebody was asked.
        self.state().requests += 1;
        let answer = self.client.fetch(request, within, MAX_ANSWER).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        if !status.is_success() {
            let said = String::from_utf8_lossy(answer.body());
            return Err(format!("it answers {status}: {}", said.chars().take(200).collect::<String>()));
        }
        read_vectors(answer.body(), texts.len())
    }

    fn note(&self, outcome: Result<(), &String>) {
        let mut state = self.state();
        match outcome {
            Ok(()) => {
                if state.problem.take().is_some() {
                    tracing::info!(url = %ShownUrl::of(&self.settings.url), "the embeddings endpoint answers again");
                }
            }
            Err(problem) => {
                // Logged once when it begins to fail, not at every attempt.
                if state.problem.is_none() {
                    tracing::warn!(url = %ShownUrl::of(&self.settings.url), problem, "the embeddings endpoint fails; search goes on with what it has");
                }
                state.problem = Some((problem.clone(), Instant::now()));
            }
        }
    }

    fn key_of(&self, text: &str) -> VectorKey {
        let mut hasher = blake3::Hasher::new();
        for part in [self.settings.url.as_str(), self.settings.model.as_str(), text] {
            // The lengths keep parts apart: without them, two splits of the same letters would have one key.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        *hasher.finalize().as_bytes()
    }

    /// What the store has of these; the rest is asked for.
    async fn vectors(&self, texts: &[WantedText]) -> Result<Vec<Vec<f32>>, String> {
        let keys: Vec<VectorKey> = texts.iter().map(|text| self.key_of(&text.0)).collect();
        let (table, asked) = (self.table.clone(), keys.clone());
        let kept = tokio::task::spawn_blocking(move || table.read(&asked)).await;
        let mut vectors = match kept {
            Ok(Ok(kept)) => kept,
            Ok(Err(error)) => {
                tracing::warn!(%error, "kept vectors can not be read");
                vec![None; texts.len()]
            }
            // A store that can not be read costs a request, not the search.
            Err(_) => vec![None; texts.len()],
        };
        let missing: Vec<usize> = (0..texts.len()).filter(|at| vectors[*at].is_none()).collect();
        if !missing.is_empty() {
            let ask: Vec<&str> = missing.iter().map(|at| texts[*at].0.as_str()).collect();
            let outcome = self.request(&ask, BATCH_DEADLINE).await;
            // Before `?`: a failure has to be noted, or searches would go on waiting for an endpoint that is down.
            self.note(outcome.as_ref().map(|_| ()));
            let fresh = outcome?;
            let keep: Vec<(VectorKey, Vec<f32>)> =
                missing.iter().map(|at| keys[*at]).zip(fresh.iter().cloned()).collect();
            let (table, time) = (self.table.clone(), now());
            if let Ok(Err(error)) = tokio::task::spawn_blocking(move || table.keep(&keep, time)).await {
                tracing::warn!(%error, "vectors are not kept");
            }
            for (at, vector) in missing.into_iter().zip(fresh) {
                vectors[at] = Some(vector);
            }
        }
        // Every place is filled by now: a kept one, or `read_vectors` has made sure that there are as many as were
        // asked for.
        Ok(vectors.into_iter().flatten().collect())
    }
}

impl RemoteVectors for EmbeddingsEndpoint {
    fn wanted(&self) {
        self.wanted.notify_one();
    }

    fn question(&self, text: String) -> Pin<Box<dyn Future<Output = Option<Vec<f32>>> + Send + '_>> {
        Box::pin(async move {
            {
                let state = self.state();
                if let Some((_, vector)) = state.questions.iter().find(|(known, _)| *known == text) {
                    return Some(vector.clone());
                }
                // Not asked, and not an error: the search goes on by words.
                if state.problem.as_ref().is_some_and(|(_, since)| since.elapsed() < QUESTION_PAUSE) {
                    return None;
                }
            }
            // The lock is let go before this: an endpoint that is slow must not hold up other searches.
            let outcome = self.request(&[&text], QUESTION_DEADLINE).await;
            self.note(outcome.as_ref().map(|_| ()));
            let vector = outcome.ok()?.pop()?;
            // Taken again after the wait: another may have put the same question there, and two rows do no harm.
            let mut state = self.state();
            if state.questions.len() == QUESTIONS {
                state.questions.pop_front();
            }
            state.questions.push_back((text, vector.clone()));
            Some(vector)
        })
    }
}

/// Fetches what the index wants until it is gone.
pub(super) async fn fetch_wanted(endpoint: Arc<EmbeddingsEndpoint>, index: Weak<ToolIndex>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let Some(current) = index.upgrade() else { return };
        let texts = current.wanted_texts(BATCH);
        // Or the index would live as long as the endpoint takes to answer.
        drop(current);
        if texts.is_empty() {
            // `notify_one` keeps a permit, so texts that came since the look above end this wait at once.
            endpoint.wanted.notified().await;
            continue;
        }
        match endpoint.vectors(&texts).await {
            Ok(vectors) => {
                pause = FIRST_PAUSE;
                let Some(current) = index.upgrade() else { return };
                texts.iter().zip(&vectors).for_each(|(text, vector)| current.place(text, vector));
            }
            Err(_) => {
                // Said once, by `note`; the texts stay wanted, and are asked for again.
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
        }
    }
}

/// Reads `{"data": [{"index": 0, "embedding": […]}, …]}`.
fn read_vectors(body: &[u8], expected: usize) -> Result<Vec<Vec<f32>>, String> {
    let answer: Value = serde_json::from_slice(body).map_err(|_| "its answer is no JSON")?;
    let data = answer["data"].as_array().ok_or("its answer has no `data`")?;
    let mut vectors = vec![None; expected];
    for (at, item) in data.iter().enumerate() {
        // Endpoints may answer in another order; without an index the order of the answer counts.
        // An index beyond the list is dropped with its vector; a place that stays empty by that fails below.
        let at = item["index"].as_u64().map_or(at, |index| index as usize);
        let numbers =
            item["embedding"].as_array().map(|numbers| numbers.iter().filter_map(Value::as_f64).map(|x| x as f32));
        if let (Some(place), Some(numbers)) = (vectors.get_mut(at), numbers) {
            *place = tidings_search::unit_vector(numbers.collect());
        }
    }
    vectors.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| format!("its answer has no {expected} vectors"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_in_the_order_of_their_index() {
        let body = br#"{"data":[{"index":1,"embedding":[0,2]},{"index":0,"embedding":[3,4]}]}"#;
        assert_eq!(read_vectors(body, 2), Ok(vec![vec![0.6, 0.8], vec![0.0, 1.0]]));
        for wrong in [&b"{}"[..], b"no", br#"{"data":[{"index":0,"embedding":[1]}]}"#] {
            assert!(read_vectors(wrong, 2).is_err());
        }
    }
}
