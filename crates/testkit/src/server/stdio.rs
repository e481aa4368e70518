//! A server on stdio: the script runs here, the process is a relay to a Unix socket.

use std::path::Path;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use tidings_wire::{RawId, one_line};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::call::ScriptedCall;
use super::conn::{ChannelOut, ClientConnection, Outlet, StandaloneOutlet};
use super::core::ServerCore;
use super::process::ScriptedProcess;
use super::script;
use crate::received::ReceivedMessage;

/// Waits for processes, now.
pub(crate) fn listen(core: &Arc<ServerCore>, socket: &Path) {
    // A server that comes back finds the socket of its earlier life.
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap_or_else(|e| panic!("listening at {}: {e}", socket.display()));
    let life = core.life();
    let core = core.clone();
    life.clone().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            life.spawn(serve(core.clone(), stream));
        }
    });
}

async fn serve(core: Arc<ServerCore>, stream: UnixStream) {
    let (reader, writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut hello = String::new();
    if reader.read_line(&mut hello).await.is_err() {
        return;
    }
    let number = core.next_connection();
    core.processes.send_modify(|all| all.push(ScriptedProcess::from_hello(number, &hello)));
    let (outlet, outs) = mpsc::unbounded_channel();
    let conn = ClientConnection::new(number, None, StandaloneOutlet::Stdio(outlet.clone()));
    core.add_connection(conn.clone());
    let gone = CancellationToken::new();
    // Whichever ends first: the peer closed the pipe, or the script let the process exit.
    tokio::select! {
        () = read(&core, &conn, &outlet, &gone, reader) => {}
        () = write(writer, outs) => {}
    }
    gone.cancel();
    core.remove_connection(number);
    core.processes.send_modify(|all| all.iter_mut().filter(|p| p.connection == number).for_each(|p| p.alive = false));
}

async fn read(
    core: &Arc<ServerCore>,
    conn: &Arc<ClientConnection>,
    outlet: &Outlet,
    gone: &CancellationToken,
    mut reader: BufReader<OwnedReadHalf>,
) {
    let mut line = Vec::new();
    loop {
        core.wait_thawed().await;
        line.clear();
        if reader.read_until(b'\n', &mut line).await.unwrap_or(0) == 0 {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        // Frozen while it waited for this line.
        core.wait_thawed().await;
        handle(core, conn, outlet, gone, Bytes::copy_from_slice(&line));
    }
    if core.script.ignore_eof {
        std::future::pending().await
    }
}

fn handle(
    core: &Arc<ServerCore>,
    conn: &Arc<ClientConnection>,
    outlet: &Outlet,
    gone: &CancellationToken,
    line: Bytes,
) {
    let received = ReceivedMessage { connection: conn.number, ..ReceivedMessage::parse(line) };
    core.received.push(received.clone());
    let Some(_) = received.kind else {
        core.fault(format!("no message: {}", received.text()));
        return;
    };
    let Some(id) = received.id.clone().filter(|_| received.is_request()) else {
        script::take(core, conn, &received);
        return;
    };
    script::start(call(core, conn, outlet, gone, received, id));
}

fn call(
    core: &Arc<ServerCore>,
    conn: &Arc<ClientConnection>,
    outlet: &Outlet,
    gone: &CancellationToken,
    received: ReceivedMessage,
    id: RawId,
) -> ScriptedCall {
    let modern = core.script.modern && script::claims_modern(&received);
    ScriptedCall {
        core: core.clone(),
        conn: Some(conn.clone()),
        outlet: outlet.clone(),
        cancelled: gone.child_token(),
        modern,
        received,
        id,
    }
}

async fn write(mut writer: OwnedWriteHalf, mut outs: mpsc::UnboundedReceiver<ChannelOut>) {
    while let Some(out) = outs.recv().await {
        let frame = match &out {
            ChannelOut::Message(message) | ChannelOut::Last(message) => relay_frame(b'o', &one_line(message), b"\n"),
            ChannelOut::Stdout(bytes) => relay_frame(b'o', bytes, b""),
            ChannelOut::Stderr(bytes) => relay_frame(b'e', bytes, b""),
            ChannelOut::Exit(code) => relay_frame(b'x', &[*code], b""),
            ChannelOut::OpenStream | ChannelOut::CloseStream(_) | ChannelOut::Special(_) => continue,
        };
        if writer.write_all(&frame).await.is_err() {
            return;
        }
        if matches!(out, ChannelOut::Exit(_)) {
            return;
        }
    }
}

fn relay_frame(kind: u8, payload: &[u8], end: &[u8]) -> Bytes {
    let length = u32::try_from(payload.len() + end.len()).expect("a message of less than 4 GB");
    let mut frame = BytesMut::with_capacity(payload.len() + end.len() + 5);
    frame.put_u8(kind);
    frame.put_u32(length);
    frame.put_slice(payload);
    frame.put_slice(end);
    frame.freeze()
}
