//! How the download of an image goes, in words for whoever waits for its server.

use tidings_upstream::PullProgress;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// The next news of this server's image; waits for ever when there will be none.
pub(super) async fn next(pulls: &mut Receiver<PullProgress>, server: &str) -> String {
    loop {
        match pulls.recv().await {
            Ok(progress) if progress.server == server => return words(&progress),
            // Of another server, or too many at once: what is missed is news, and newer follow.
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

fn words(progress: &PullProgress) -> String {
    let PullProgress { image, line, layers, done, .. } = progress;
    match layers {
        0 => format!("Getting {image}: {line}"),
        _ => format!("Getting {image}, {done} of {layers} layers: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast;

    use super::*;

    #[tokio::test]
    async fn only_news_of_this_server_are_told_and_gaps_do_no_harm() {
        let sender = broadcast::Sender::new(2);
        let mut pulls = sender.subscribe();
        let tell = |server: &str, layers, done| {
            let (server, image, line) = (server.to_owned(), "i:1".to_owned(), "Copying".to_owned());
            sender.send(PullProgress { server, image, line, layers, done }).unwrap();
        };
        tell("other", 5, 5);
        tell("mine", 0, 0);
        assert_eq!(next(&mut pulls, "mine").await, "Getting i:1: Copying");
        (1..=5).for_each(|done| tell("mine", 5, done));
        assert_eq!(next(&mut pulls, "mine").await, "Getting i:1, 4 of 5 layers: Copying");
    }
}
