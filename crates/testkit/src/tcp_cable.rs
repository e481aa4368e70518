//! The way from one program to a server, as a TCP proxy on loopback: it can be pulled out, so that nothing arrives and nobody is told, or broken.
//!
//! It knows bytes alone; what breaks single HTTP requests is `fault_proxy.rs`.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const PIECE: usize = 64 << 10;

/// The cable. What it carries ends with it.
pub struct TcpCable {
    port: u16,
    state: Arc<watch::Sender<CableState>>,
    life: CancellationToken,
    _tasks: TaskTracker,
}

#[derive(Clone, Copy, Debug, Default)]
struct CableState {
    pulled: bool,
    /// Counts up when every connection is to be reset.
    broken: u64,
}

impl TcpCable {
    /// To a server on this machine, by its port; carries everything at first.
    pub async fn start(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap_or_else(|e| panic!("a port: {e}"));
        let port = listener.local_addr().unwrap_or_else(|e| panic!("a port: {e}")).port();
        let state = Arc::new(watch::Sender::new(CableState::default()));
        let (life, tasks) = (CancellationToken::new(), TaskTracker::new());
        let accepting = accept(listener, target, Arc::clone(&state), life.clone(), tasks.clone());
        tasks.spawn(life.clone().run_until_cancelled_owned(accepting));
        Self { port, state, life, _tasks: tasks }
    }

    /// Where it begins.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on nothing passes in either direction, also no end of a connection: for both sides the other one is silent.
    pub fn pull(&self) {
        self.state.send_modify(|state| state.pulled = true);
    }

    /// Carries again, first what was on its way.
    pub fn plug(&self) {
        self.state.send_modify(|state| state.pulled = false);
    }

    /// Breaks every connection off, with a reset where it began; new ones are carried.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.broken += 1);
    }
}

impl Drop for TcpCable {
    fn drop(&mut self) {
        self.life.cancel();
    }
}

async fn accept(
    listener: TcpListener,
    target: u16,
    state: Arc<watch::Sender<CableState>>,
    life: CancellationToken,
    tasks: TaskTracker,
) {
    while let Ok((mut near, _)) = listener.accept().await {
        let (watched, mut cuts) = (state.subscribe(), state.subscribe());
        let before = cuts.borrow_and_update().broken;
        let carrying = async move {
            let is_cut = tokio::select! {
                _ = join(&mut near, target, watched) => false,
                _ = cuts.wait_for(|state| state.broken != before) => true,
            };
            if is_cut {
                // With no linger time the kernel sends a reset where it would close in order.
                let _ = near.set_zero_linger();
            }
        };
        tasks.spawn(life.clone().run_until_cancelled_owned(carrying));
    }
}

/// Carries one connection in both directions until both have ended.
async fn join(near: &mut TcpStream, target: u16, mut state: watch::Receiver<CableState>) -> io::Result<()> {
    // As with a first packet that does not arrive, the server hears nothing of a connection that is made while the cable is out.
    carries(&mut state).await;
    let mut far = TcpStream::connect(("127.0.0.1", target)).await?;
    for end in [&*near, &far] {
        end.set_nodelay(true)?;
    }
    let (mut near_read, mut near_write) = near.split();
    let (mut far_read, mut far_write) = far.split();
    let out = carry(&mut near_read, &mut far_write, state.clone());
    let back = carry(&mut far_read, &mut near_write, state);
    tokio::try_join!(out, back).map(|_| ())
}

async fn carry(
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    mut state: watch::Receiver<CableState>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let length = from.read(&mut piece).await?;
        // Asked after the reading: the cable may have been pulled while nothing came.
        carries(&mut state).await;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&piece[..length]).await?;
    }
}

/// Waits while the cable is out.
async fn carries(state: &mut watch::Receiver<CableState>) {
    if state.wait_for(|state| !state.pulled).await.is_err() {
        // The cable is gone, and this ends with it.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    async fn pair() -> (TcpCable, TcpStream, TcpStream) {
        let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let cable = TcpCable::start(server.local_addr().unwrap().port()).await;
        let near = TcpStream::connect(("127.0.0.1", cable.port())).await.unwrap();
        let far = server.accept().await.unwrap().0;
        (cable, near, far)
    }

    #[tokio::test]
    async fn what_was_said_while_it_was_out_arrives_once_it_is_in_again() {
        let (cable, mut near, mut far) = pair().await;
        near.write_all(b"1").await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'1');
        cable.pull();
        near.write_all(b"2").await.unwrap();
        drop(near);
        // The byte had to pass a proxy in this very runtime: had it been carried, it would be here by now.
        let silent = tokio::time::timeout(std::time::Duration::from_millis(100), far.read_u8()).await;
        assert!(silent.is_err(), "{silent:?}");
        cable.plug();
        assert_eq!(far.read_u8().await.unwrap(), b'2');
        assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0, "and then the end");
    }

    #[tokio::test]
    async fn a_cut_breaks_what_is_open_and_the_next_connection_is_carried() {
        let (cable, mut near, mut far) = pair().await;
        cable.cut();
        assert_eq!(near.read_u8().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert!(far.read_u8().await.is_err());
        assert!(TcpStream::connect(("127.0.0.1", cable.port())).await.is_ok());
    }
}
