//! Questions that a script puts into a file, and the answer in another: form and URL elicitation.

use std::io;

use serde_json::{Value, json};

use super::ScriptCaller;
use super::folder::CallFolder;

/// Where a script puts its question.
pub(crate) const REQUEST: &str = "elicit.request";
/// Where it finds the answer.
pub(crate) const RESPONSE: &str = "elicit.response";
/// A longer question is not read.
const LONGEST: u64 = 1 << 20;

/// What a question becomes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ElicitOutcome {
    /// The parameters of `elicitation/create`.
    Ask(Value),
    /// This is the answer, since nobody can be asked.
    Answer(Value),
}

/// What a question of a script becomes, by what its caller can be asked.
pub(crate) fn read(question: &Value, caller: &ScriptCaller) -> ElicitOutcome {
    let url = question["mode"] == "url";
    if !(if url { caller.url } else { caller.form }) {
        // The client can not be asked in this way; to the script that is a no.
        return ElicitOutcome::Answer(answer("decline"));
    }
    let Some(message) = question["message"].as_str() else { return ElicitOutcome::Answer(answer("error")) };
    if url {
        let address = question["url"].as_str();
        let Some(address) = address else { return ElicitOutcome::Answer(answer("error")) };
        // The same for the same address, so that a question asked again is known to be the same.
        let id = blake3::hash(address.as_bytes()).to_hex();
        return ElicitOutcome::Ask(
            json!({ "mode": "url", "message": message, "url": address, "elicitationId": &id.as_str()[..16] }),
        );
    }
    let schema = match &question["schema"] {
        Value::Object(schema) => Value::Object(schema.clone()),
        _ => json!({ "type": "object", "properties": {} }),
    };
    ElicitOutcome::Ask(json!({ "mode": "form", "message": message, "requestedSchema": schema }))
}

/// The answer as scripts read it.
pub(crate) fn answered(answered: Result<Value, Value>) -> Value {
    match answered {
        Ok(result) => {
            let action = result["action"].as_str().filter(|action| matches!(*action, "accept" | "decline" | "cancel"));
            json!({ "action": action.unwrap_or("error"), "content": result["content"] })
        }
        Err(_) => answer("error"),
    }
}

fn answer(action: &str) -> Value {
    json!({ "action": action, "content": null })
}

/// Looks for questions in the folder of a call.
pub(crate) struct QuestionWatch {
    watch: FolderNotifier,
}

impl QuestionWatch {
    pub(crate) fn new(folder: &CallFolder) -> io::Result<Self> {
        Ok(Self { watch: FolderNotifier::new(folder)? })
    }

    /// Waits for a question and takes it. May be dropped and called again.
    pub(crate) async fn next(&mut self, folder: &CallFolder) -> Value {
        loop {
            // The watch was set before the script began, so a question that comes after this look rings.
            if let Some(question) = take(folder) {
                return question;
            }
            self.watch.changed().await;
        }
    }
}

fn take(folder: &CallFolder) -> Option<Value> {
    use std::io::Read as _;
    let path = folder.join(REQUEST);
    // A script can put anything there: a pipe would be waited for.
    if !path.symlink_metadata().ok()?.is_file() {
        let _ = std::fs::remove_file(&path);
        return None;
    }
    let mut text = Vec::new();
    std::fs::File::open(&path).ok()?.take(LONGEST).read_to_end(&mut text).ok()?;
    let question = serde_json::from_slice(&text).ok();
    // One that is still being written is looked at again when it is closed.
    if question.is_some() {
        let _ = std::fs::remove_file(&path);
    }
    question
}

/// Read like a pipe, which is all that is needed of it.
#[cfg(target_os = "linux")]
struct FolderNotifier(tokio::net::unix::pipe::Receiver);

#[cfg(target_os = "linux")]
impl FolderNotifier {
    fn new(folder: &CallFolder) -> io::Result<Self> {
        use rustix::fs::inotify;
        let fd = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        // Not when it is made: a file that is just being written is no question yet.
        inotify::add_watch(&fd, folder.path(), inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::CLOSE_WRITE)?;
        tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked(fd).map(Self)
    }

    async fn changed(&mut self) {
        use tokio::io::AsyncReadExt as _;
        // What exactly happened does not matter: the folder is looked at.
        let mut events = [0; 4 << 10];
        if !matches!(self.0.read(&mut events).await, Ok(1..)) {
            // The watch is broken; the script runs into its own time limit.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(target_os = "linux"))]
struct FolderNotifier;

#[cfg(not(target_os = "linux"))]
impl FolderNotifier {
    fn new(_folder: &CallFolder) -> io::Result<Self> {
        Ok(Self)
    }

    async fn changed(&mut self) {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABLE: ScriptCaller = ScriptCaller { key: 1, form: true, url: false, roots: false, comes_back: false };

    #[test]
    fn a_form_is_asked_and_an_address_declined_by_those_who_have_no_browser() {
        let question = json!({"message": "Sure?", "schema": {"type": "object", "properties": {"ok": {"type": "boolean"}}}, "mode": "form"});
        let ElicitOutcome::Ask(params) = read(&question, &ABLE) else { panic!("not asked") };
        assert_eq!((&params["message"], &params["requestedSchema"]), (&question["message"], &question["schema"]));
        let url = json!({"message": "Log in", "url": "https://example.com", "mode": "url"});
        assert_eq!(read(&url, &ABLE), ElicitOutcome::Answer(json!({"action": "decline", "content": null})));
        let able = ScriptCaller { url: true, ..ABLE };
        assert!(matches!(read(&url, &able), ElicitOutcome::Ask(params) if params["url"] == "https://example.com"));
    }

    #[test]
    fn answers_have_an_action_and_a_content() {
        assert_eq!(
            answered(Ok(json!({"action": "accept", "content": {"a": 1}}))),
            json!({"action": "accept", "content": {"a": 1}})
        );
        assert_eq!(answered(Ok(json!({"action": "decline"}))), json!({"action": "decline", "content": null}));
        assert_eq!(answered(Err(json!({"code": -1}))), json!({"action": "error", "content": null}));
    }
}
