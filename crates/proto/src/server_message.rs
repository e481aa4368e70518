//! What a server sends that is no answer, classified once: where the message is read. Everybody it is handed to asks
//! [`ServerMessage::subject`] and does not look at the method again.

use std::ops::Deref;

use tidings_wire::{Frame, FrameKind};

use crate::{Topic, notifications};

/// What a notification or request of a server is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSubject {
    /// Progress of the call that its token names.
    Progress,
    /// A log message, for clients that want its level.
    Log,
    /// Lists may differ from what they were.
    ListChanged(Topic),
    /// A followed resource changed.
    Updated,
    /// What a `subscriptions/listen` will be told of.
    Acknowledged,
    /// The server withdraws a question.
    Cancelled,
    /// The user has done what an elicitation by URL asked for.
    ElicitationComplete,
    /// A task is further than before.
    TaskStatus,
    /// A request that the gateway answers itself.
    Ping,
    /// Any other request: it is put to a client.
    Question,
    /// A notification that the gateway does not know.
    Other,
}

impl MessageSubject {
    fn of(frame: &Frame) -> Self {
        let method = frame.method();
        if frame.kind() == FrameKind::Request {
            return if method == "ping" { Self::Ping } else { Self::Question };
        }
        match &*method {
            notifications::PROGRESS => Self::Progress,
            notifications::MESSAGE => Self::Log,
            notifications::UPDATED => Self::Updated,
            notifications::ACKNOWLEDGED => Self::Acknowledged,
            notifications::CANCELLED => Self::Cancelled,
            notifications::ELICITATION_COMPLETE => Self::ElicitationComplete,
            notifications::TASK_STATUS | notifications::TASKS => Self::TaskStatus,
            other => Topic::announced_by(other).map_or(Self::Other, Self::ListChanged),
        }
    }

    /// Whether the sender waits for an answer.
    pub const fn is_request(self) -> bool {
        matches!(self, Self::Ping | Self::Question)
    }

    /// Whether it says that something of the server is another now.
    pub const fn is_change(self) -> bool {
        matches!(self, Self::ListChanged(_) | Self::Updated)
    }

    /// Whether it concerns the server as a whole, whoever has a call in flight.
    pub const fn is_about_the_server(self) -> bool {
        // A ping is about the link, whoever calls over it.
        matches!(self, Self::ListChanged(_) | Self::Updated | Self::Acknowledged | Self::TaskStatus | Self::Ping)
    }
}

/// A notification or request of a server, with what it is about. Reads as the [`Frame`] that it is.
#[derive(Clone, Debug)]
pub struct ServerMessage {
    subject: MessageSubject,
    frame: Frame,
}

impl ServerMessage {
    /// What it is about.
    pub const fn subject(&self) -> MessageSubject {
        self.subject
    }

    /// The message without its classification, for whoever passes it on as it is.
    pub fn into_frame(self) -> Frame {
        self.frame
    }
}

impl From<Frame> for ServerMessage {
    /// Classifies a message that is neither a result nor an error.
    fn from(frame: Frame) -> Self {
        debug_assert!(matches!(frame.kind(), FrameKind::Request | FrameKind::Notification));
        Self { subject: MessageSubject::of(&frame), frame }
    }
}

impl Deref for ServerMessage {
    type Target = Frame;

    fn deref(&self) -> &Frame {
        &self.frame
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use tidings_wire::FrameLimits;

    use super::*;

    fn subject(message: &str) -> MessageSubject {
        ServerMessage::from(Frame::parse(message.to_owned(), &FrameLimits::default()).unwrap()).subject()
    }

    #[test]
    fn a_message_is_classified_by_its_method_and_by_whether_it_wants_an_answer() {
        let notification = |method: &str| subject(&format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#));
        let request = |method: &str| subject(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#));
        for topic in Topic::ALL {
            assert_eq!(notification(topic.notification()), MessageSubject::ListChanged(topic));
        }
        assert_eq!(notification("notifications/progress"), MessageSubject::Progress);
        assert_eq!(notification("notifications/message"), MessageSubject::Log);
        assert_eq!(notification("notifications/resources/updated"), MessageSubject::Updated);
        assert_eq!(notification("notifications/subscriptions/acknowledged"), MessageSubject::Acknowledged);
        assert_eq!(notification("notifications/cancelled"), MessageSubject::Cancelled);
        assert_eq!(notification("notifications/elicitation/complete"), MessageSubject::ElicitationComplete);
        assert_eq!(notification("notifications/tasks/status"), MessageSubject::TaskStatus);
        assert_eq!(notification("notifications/tasks"), MessageSubject::TaskStatus);
        assert_eq!(notification("notifications/vendor/mood"), MessageSubject::Other);
        assert_eq!(notification("ping"), MessageSubject::Other, "without an id nobody waits for an answer");
        assert_eq!(request("ping"), MessageSubject::Ping);
        assert_eq!(request("sampling/createMessage"), MessageSubject::Question);
        assert_eq!(request("notifications/tools/list_changed"), MessageSubject::Question, "it has an id");
    }
}
