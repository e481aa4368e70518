//! A connection that is driven by whoever waits for an answer on it.
//!
//! hyper splits a connection into a sender and a future that moves the bytes. The usual way gives that future a task of its own; then
//! every call wakes another task to have its request written, and is woken by it when the answer is there, often from one core to the
//! other. Here the call itself moves the bytes: an answer that arrives wakes the call and nobody else. What belongs here is only that;
//! which connections are kept, and for how long, is the business of the pool.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};

/// A connection, with what moves its bytes. Dropping it closes it.
pub(super) struct DrivenConnection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` when the connection is closed.
    driver: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// How long it may be unused and still be good.
    pub(super) kept_for: Duration,
    /// Whether the last answer said something about the end of the connection.
    pub(super) may_close: bool,
}

impl DrivenConnection {
    pub(super) async fn begin<S>(io: S, kept_for: Duration) -> Result<Self, hyper::Error>
    where
        S: Read + Write + Unpin + Send + 'static,
    {
        let (sender, connection) = handshake(io).await?;
        let driver = Box::pin(async move {
            // Whoever waits for an answer is told the reason by the sender.
            let _ = connection.await;
        });
        Ok(Self { sender, driver: Some(driver), kept_for, may_close: false })
    }

    /// Moves what can be moved now, and wakes nobody later. Says whether the connection is still open.
    pub(super) fn settle(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some()
    }

    /// Waits until it takes a request.
    pub(super) async fn ready(&mut self) -> Result<(), hyper::Error> {
        if self.sender.is_ready() {
            return Ok(());
        }
        poll_fn(|cx| self.poll_driven(cx, |sender, quiet| sender.poll_ready(quiet))).await
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        // On the stack: the future holds nothing but the place of the answer.
        let mut answer = std::pin::pin!(self.sender.try_send_request(request));
        let mut is_written = false;
        poll_fn(|cx| {
            if !std::mem::replace(&mut is_written, true) {
                // With the waker at once: the server can not have answered before it was asked.
                self.drive(cx);
                return answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            self.poll_driven(cx, |_, quiet| answer.as_mut().poll(quiet))
        })
        .await
    }

    /// Asks for something that only this connection can bring, moving its bytes in between.
    ///
    /// What is asked for is never given a waker, since nothing but the driver makes it ready, and the driver is given one only when
    /// there is nothing more to do: whatever the two have to tell each other would otherwise wake the task that is running already,
    /// and have it run once more for nothing.
    pub(super) fn poll_driven<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut wanted: impl FnMut(&mut SendRequest<Full<Bytes>>, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let quiet = &mut Context::from_waker(Waker::noop());
        if let Poll::Ready(ready) = wanted(&mut self.sender, quiet) {
            return Poll::Ready(ready);
        }
        self.drive(quiet);
        if let Poll::Ready(ready) = wanted(&mut self.sender, quiet) {
            return Poll::Ready(ready);
        }
        self.drive(cx);
        // Once more: the last of it may have come between the two.
        wanted(&mut self.sender, quiet)
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && driver.as_mut().poll(cx).is_ready()
        {
            self.driver = None;
        }
    }
}
